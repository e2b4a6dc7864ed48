/* fuzz_decode.c: records of a damaged segment, read again after bytes change under the open store. */
#include "mutator.h"
#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    uint64_t random = fuzz_seed(data, size);
    rs_store store;
    if (fuzz_open(&store, rs_slice_of(copy, size))) {
        fuzz_read_records(&store);
        fuzz_read_sizes(&store);
        for (uint64_t n = 1 + fuzz_below(&random, 6); n > 0; n--) {
            /* At least half of the changes are after the header, which is most of a small segment. */
            const uint64_t from = fuzz_below(&random, 2) == 0 ? 0 : RS_FMT_HEADER_SIZE;
            if (from < size) copy[from + fuzz_below(&random, size - from)] = (uint8_t)fuzz_random(&random);
        }
        fuzz_read_records(&store);
        fuzz_read_keys(&store, random);
        rs_store_close(&store);
    }
    free(copy);
    return 0;
}

FUZZ_MUTATED
