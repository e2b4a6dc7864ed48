/* fuzz_verify.c: the deep check of a damaged segment. If it accepts the segment, each record read must be valid. */
#include "mutator.h"
#include "readers.h"

/* Writes the limits lowered by fuzz_open into the header, with a valid checksum. */
static void lower_limits(uint8_t *data, const rs_store *store) {
    rs_store_u64(data + RS_FMT_H_MAX_VALUES, store->header.max_values);
    rs_store_u64(data + RS_FMT_H_MAX_BYTES, store->header.max_bytes);
    const uint32_t crc_at = rs_header_size(&store->header) - 4;
    rs_store_u32(data + crc_at, rs_crc32c(0, data, crc_at));
}

static void verify(uint8_t *data, size_t size) {
    const rs_slice bytes = rs_slice_of(data, size);
    rs_store store;
    rs_record record;
    if (!fuzz_open(&store, bytes)) return;
    lower_limits(data, &store);
    bool small = fuzz_is_small(&store);
    rs_store_close(&store);
    if (!small || rs_verify_segment(bytes, NULL, NULL, NULL) != RS_OK) return;
    FUZZ_MUST(fuzz_open(&store, bytes));
    for (uint64_t k = 0; k < fuzz_records(&store); k++) {
        FUZZ_MUST(rs_store_find(&store, fuzz_record(&store, k), &record, NULL) == RS_OK);
        rs_cursor cursor = rs_store_cursor(&store, &record);
        FUZZ_MUST(rs_check_record(&cursor, record.tree, NULL, NULL) == RS_OK);
    }
    fuzz_read_records(&store);
    rs_store_close(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    verify(copy, size);
    free(copy);
    return 0;
}

FUZZ_MUTATED
