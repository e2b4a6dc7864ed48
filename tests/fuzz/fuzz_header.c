/* fuzz_header.c: header and directory of a damaged segment, and opening its stores and its mapping. */
#include "mutator.h"
#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const rs_slice bytes = rs_slice_of(data, size);
    rs_header header;
    rs_directory directory;
    rs_store values, keys;
    rs_mapping mapping;
    if (size > FUZZ_INPUT) return 0;
    if (rs_header_read(bytes, NULL, &header, NULL) == RS_OK) {
        fuzz_any(rs_directory_read(bytes, &header, 0, &directory, NULL));
        if (header.content == RS_FMT_CONTENT_MAPPING) fuzz_any(rs_directory_read(bytes, &header, 1, &directory, NULL));
    }
    if (rs_store_open(&values, bytes, NULL, NULL) != RS_OK) return 0;
    if (rs_store_open_keys(&keys, &values, NULL) == RS_OK) rs_store_close(&keys);
    if (rs_mapping_open(&mapping, &values, NULL) == RS_OK) rs_mapping_close(&mapping);
    rs_store_close(&values);
    return 0;
}

FUZZ_MUTATED
