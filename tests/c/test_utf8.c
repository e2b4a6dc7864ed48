/* test_utf8.c: code units of every class to UTF-8, refused units, and UTF-8 to rows of bytes and of code points. */
#include "read/rs_utf8.h"
#include "rs_make.h"

static rs_error err;

static void check_units(const void *units, uint64_t n, unsigned unit, const char *utf8) {
    uint8_t *exact = make_exact(units, (size_t)(n * unit));
    rs_buffer out = {0};
    bool taken = false;
    make_bytes(&out, "<", 1);
    CHECK_OK(rs_utf8_append(&out, exact, n, unit, &taken, &err), &err);
    CHECK(taken == (utf8 != NULL));
    CHECK_U64(out.size_bytes, 1 + (utf8 == NULL ? 0 : strlen(utf8)));
    CHECK(utf8 == NULL || memcmp(out.data + 1, utf8, strlen(utf8)) == 0);
    rs_buffer_clear(&out);
    free(exact);
}

TEST(test_units) {
    static const uint16_t two[] = {'a', 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF}, low[] = {'a', 0xDC80},
                          high[] = {0xDBFF};
    static const uint32_t four[] = {'a', 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF},
                          above[] = {0x110000}, surrogate[] = {0xD800};
    rs_buffer out = {0};
    bool taken;
    check_units("", 0, 1, "");
    check_units("abcdefghijk", 11, 1, "abcdefghijk");
    check_units("caf\xE9\x80\xFF", 6, 1, "caf\xC3\xA9\xC2\x80\xC3\xBF");
    check_units(two, 8, 2, "a\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF");
    check_units(
        four, 10, 4,
        "a\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
    check_units(low, 2, 2, NULL);
    check_units(high, 1, 2, NULL);
    check_units(surrogate, 1, 4, NULL);
    CHECK_CODE(rs_utf8_append(&out, (const uint8_t *)above, 1, 4, &taken, &err), RS_E_FMT_VALUE, &err);
    CHECK_CODE(rs_utf8_append(&out, (const uint8_t *)four, UINT64_MAX / 2, 4, &taken, &err), RS_E_MEM, &err);
    rs_buffer_clear(&out);
}

/* Appends the `any` value in these bytes to `out` with rs_utf8_take. */
static rs_status take(const char *bytes, size_t n, rs_buffer *out, bool *taken) {
    uint8_t *exact = make_exact(bytes, n);
    rs_cursor cursor = {0};
    rs_place place = {NULL, NULL, 0};
    cursor.in = rs_slice_of(exact, n);
    rs_status status = rs_utf8_take(out, &cursor, &place, taken, &err);
    free(exact);
    return status;
}

TEST(test_any) {
    rs_buffer out = {0};
    bool taken = true;
    CHECK_OK(take("\x09\x02hi", 4, &out, &taken), &err);
    CHECK(taken);
    CHECK_OK(take("\x0A\x01\xE9\x00", 4, &out, &taken), &err);
    CHECK(taken && out.size_bytes == 4 && memcmp(out.data, "hi\xC3\xA9", 4) == 0);
    CHECK_OK(take("\x0C\x02hi", 4, &out, &taken), &err);
    CHECK(!taken);
    CHECK_OK(take("\x91", 1, &out, &taken), &err);
    CHECK(!taken && out.size_bytes == 4);
    CHECK_CODE(take("\x09\x03hi", 4, &out, &taken), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(take("\x0B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11, &out, &taken), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(take("", 0, &out, &taken), RS_E_FMT_TRUNCATED, &err);
    rs_buffer_clear(&out);
}

TEST(test_rows) {
    static const char text[] = "a\xC3\xA9\xE4\xB8\x96\xF0\x9F\x98\x80z";
    static const int64_t offsets[] = {0, 1, 1, 6, 11};
    static const uint32_t wide[] = {'a', 0, 0, 0, 0xE9, 0x4E16, 0x1F600, 'z'};
    uint8_t *data = make_exact(text, 11);
    uint8_t *padded = (uint8_t *)malloc(20);
    uint32_t *points = (uint32_t *)malloc(8 * sizeof *points);
    if (padded == NULL || points == NULL) abort();
    rs_utf8_pad_unchecked(data, offsets, 4, 5, padded);
    CHECK(memcmp(padded, "a\0\0\0\0\0\0\0\0\0\xC3\xA9\xE4\xB8\x96\xF0\x9F\x98\x80z", 20) == 0);
    CHECK_U64(rs_utf8_longest(data, offsets, 4), 2);
    CHECK_U64(rs_utf8_longest(data, offsets, 2), 1);
    CHECK_U64(rs_utf8_longest(data, offsets, 0), 0);
    rs_utf8_widen_unchecked(data, offsets, 4, 2, points);
    CHECK(memcmp(points, wide, sizeof wide) == 0);
    free(data), free(padded), free(points);
}
