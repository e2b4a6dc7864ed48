/* fuzz_json.c: the bounds of the elements of a JSON text must be the same in one scan and piece by piece. */
#include "fuzz.h"

enum { PIECE = 37 };

/* Scans in pieces; the ends count from the start of the text. */
static rs_status scan(const uint8_t *data, size_t size, size_t piece, bool object, rs_buffer *ends) {
    rs_json_bounds bounds;
    size_t at = 0, consumed = 0;
    rs_json_bounds_begin(&bounds, object);
    while (at < size && bounds.depth > 0) {
        const size_t n = size - at < piece ? size - at : piece, before = ends->size_bytes;
        RS_TRY(rs_json_bounds_run(&bounds, data + at, n, ends, &consumed, NULL));
        FUZZ_MUST(consumed <= n && (consumed == n || bounds.depth == 0));
        for (size_t k = before; k < ends->size_bytes; k += 8) {
            FUZZ_MUST(rs_load_u64(ends->data + k) < n);
            rs_store_u64(ends->data + k, rs_load_u64(ends->data + k) + at);
        }
        at += consumed;
    }
    return RS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rs_buffer whole = {0}, pieces = {0};
    if (size == 0 || size > FUZZ_INPUT) return 0;
    bool object = (data[0] & 1) != 0;
    (void)rs_json_has_long_int(data, size);
    rs_status status = scan(data + 1, size - 1, size, object, &whole);
    FUZZ_MUST(scan(data + 1, size - 1, 1 + data[0] % PIECE, object, &pieces) == status);
    if (status == RS_OK) {
        FUZZ_MUST(whole.size_bytes == pieces.size_bytes);
        FUZZ_MUST(whole.size_bytes == 0 || memcmp(whole.data, pieces.data, whole.size_bytes) == 0);
    }
    rs_buffer_clear(&whole);
    rs_buffer_clear(&pieces);
    return 0;
}

FUZZ_PLAIN
