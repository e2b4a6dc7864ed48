/* fuzz_saved.c: the saved indexes of a damaged segment. */
#include "mutator.h"
#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rs_store store;
    if (!fuzz_open(&store, rs_slice_of(data, size))) return 0;
    fuzz_read_saved(&store);
    rs_store_close(&store);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    return fuzz_mutate_segment(data, size, max_size, seed);
}
