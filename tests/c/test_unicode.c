/* test_unicode.c: UTF-8 from a plain encoder is checked and widened, for every code point. */
#include "base/rs_unicode.h"
#include "rs_make.h"

/* Writes a code point as UTF-8 and returns the number of bytes. */
static unsigned encode(uint32_t c, uint8_t out[4]) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6), out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12), out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18), out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F)), out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

/* Measures a copy of exactly n bytes. */
static unsigned measure(const uint8_t *bytes, size_t n, uint64_t *n_points) {
    uint8_t *exact = make_exact(bytes, n);
    unsigned unit = rs_unicode_measure(exact, n, n_points);
    free(exact);
    return unit;
}

TEST(test_every_code_point) {
    uint32_t wrong = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t bytes[24], unit_bytes[4 * 24] = {0};
        uint64_t n_points = 0;
        const unsigned size = encode(c, bytes + 9), expected = c < 0x100 ? 1 : c < 0x10000 ? 2 : 4;
        uint32_t back = 0;
        memset(bytes, 'a', 9);
        memset(bytes + 9 + size, 'b', 11);
        unsigned unit = rs_unicode_measure(bytes, 20 + size, &n_points);
        if (c >= 0xD800 && c < 0xE000) {
            wrong += unit != 0;
            continue;
        }
        wrong += unit != expected || n_points != 21;
        if (unit != expected) continue;
        rs_unicode_widen_unchecked(bytes, 20 + size, unit, unit_bytes);
        memcpy(&back, unit_bytes + 9 * unit, unit);
        wrong += back != c || unit_bytes[0] != 'a' || unit_bytes[20 * unit] != 'b' || unit_bytes[10 * unit] != 'b';
    }
    CHECK_U64(wrong, 0);
}

/* Compares runs of up to four bytes with the table of RFC 3629: any byte above 0x7F, any byte, 0x80 and 0xBF. */
TEST(test_first_two_bytes) {
    uint32_t wrong = 0;
    uint64_t n_points;
    for (uint32_t lead = 0x80; lead < 0x100; lead++) {
        for (uint32_t second = 0; second < 0x100; second++) {
            const uint8_t bytes[] = {(uint8_t)lead, (uint8_t)second, 0x80, 0xBF};
            const bool follows = second >= 0x80 && second < 0xC0;
            const bool two = lead >= 0xC2 && lead < 0xE0 && follows;
            const bool three = lead >= 0xE0 && lead < 0xF0 && follows && !(lead == 0xE0 && second < 0xA0) &&
                               !(lead == 0xED && second >= 0xA0);
            const bool four = lead >= 0xF0 && lead < 0xF5 && follows && !(lead == 0xF0 && second < 0x90) &&
                              !(lead == 0xF4 && second >= 0x90);
            wrong += (measure(bytes, 2, &n_points) != 0) != two;
            wrong += (measure(bytes, 3, &n_points) != 0) != three;
            wrong += (measure(bytes, 4, &n_points) != 0) != four;
            wrong += measure(bytes, 1, &n_points) != 0;
        }
    }
    CHECK_U64(wrong, 0);
}

TEST(test_ascii) {
    uint8_t bytes[40];
    size_t wrong = 0;
    memset(bytes, 0x7F, sizeof bytes);
    CHECK(rs_unicode_is_ascii(NULL, 0));
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint8_t *exact = make_exact(bytes, n);
        wrong += !rs_unicode_is_ascii(exact, n);
        for (size_t at = 0; at < n; at++) {
            exact[at] = 0x80;
            wrong += rs_unicode_is_ascii(exact, n);
            exact[at] = 0;
        }
        free(exact);
    }
    CHECK_U64(wrong, 0);
}

TEST(test_nothing) {
    uint64_t n_points = 9;
    CHECK_U64(rs_unicode_measure(NULL, 0, &n_points), 1);
    CHECK_U64(n_points, 0);
    rs_unicode_widen_unchecked(NULL, 0, 4, NULL);
}
