/* test_any_put.c: any values as a writer makes them: ints of every size, Decimals as Python writes them. */
#include "write/rs_any_put.h"
#include "rs_make.h"

static void check_int(int64_t value) {
    uint8_t out[RS_PUT_INT_ROOM];
    rs_buffer expected = {0};
    size_t n = (size_t)(rs_put_int(out, value) - out);
    make_int(&expected, value);
    CHECK(n == expected.size_bytes && memcmp(out, expected.data, n) == 0);
    rs_buffer_clear(&expected);
}

TEST(test_ints) {
    for (int64_t power = 1; power > 0 && power < INT64_MAX / 2; power *= 2) {
        for (int64_t step = -2; step <= 2; step++) check_int(power + step), check_int(-power + step);
    }
    for (int64_t step = -300; step <= 300; step++) check_int(step);
    check_int(INT64_MAX), check_int(INT64_MIN);
}

static void check_wide(int64_t high, uint64_t low, const void *expected, size_t size) {
    uint8_t out[RS_PUT_WIDE_ROOM + 1];
    memset(out, 0xCC, sizeof out);
    CHECK_U64(rs_put_wide(out, high, low) - out, size);
    CHECK(memcmp(out, expected, size) == 0 && out[size] == 0xCC);
}

TEST(test_ints_of_more_than_64_bits) {
    check_wide(0, 5, "\x95", 1);
    check_wide(-1, (uint64_t)-5, "\x8B", 1);
    check_wide(0, INT64_MAX, "\x06\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 9);
    check_wide(-1, (uint64_t)INT64_MIN, "\x06\0\0\0\0\0\0\0\x80", 9);
    check_wide(0, UINT64_C(1) << 63, "\x07\x09\0\0\0\0\0\0\0\x80\0", 11);
    check_wide(0, UINT64_MAX, "\x07\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0", 11);
    check_wide(-1, INT64_MAX, "\x07\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\xFF", 11);
    check_wide(1, 0, "\x07\x09\0\0\0\0\0\0\0\0\x01", 11);
    check_wide(0x80, 0, "\x07\x0A\0\0\0\0\0\0\0\0\x80\0", 12);
    check_wide(INT64_MAX, UINT64_MAX, "\x07\x10\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 18);
    check_wide(INT64_MIN, 0, "\x07\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", 18);
}

static void check_decimal(const uint64_t *words, unsigned n, int32_t scale, const char *text) {
    uint8_t out[RS_PUT_DECIMAL_ROOM], *end = rs_put_decimal(out, words, n, scale);
    CHECK(out[0] == 0x11 && out[1] == 19 && out[2] == 0 && out[3] == 0x09 && out[4] == strlen(text));
    if (!CHECK((size_t)(end - out) == 5 + strlen(text) && memcmp(out + 5, text, strlen(text)) == 0)) {
        (void)fprintf(stderr, "    got %.*s, expected %s\n", (int)(end - out - 5), (const char *)out + 5, text);
    }
}

/* Python's decimal module gives these texts. */
TEST(test_decimals) {
    static const struct {
        int64_t value;
        int32_t scale;
        const char *text;
    } rows[] = {
        {0, 0, "0"},
        {0, 2, "0.00"},
        {0, 6, "0.000000"},
        {0, 7, "0E-7"},
        {0, -3, "0E+3"},
        {1, 6, "0.000001"},
        {1, 7, "1E-7"},
        {-1, 7, "-1E-7"},
        {12, 7, "0.0000012"},
        {12, 8, "1.2E-7"},
        {150, 2, "1.50"},
        {-150, 2, "-1.50"},
        {5, 1, "0.5"},
        {123456789, 9, "0.123456789"},
        {100, -3, "1.00E+5"},
        {7, -1, "7E+1"},
        {10, 1, "1.0"},
        {1000000000, 0, "1000000000"},
        {999999999, 0, "999999999"},
        {INT64_MAX, 0, "9223372036854775807"},
        {INT64_MIN, 3, "-9223372036854775.808"},
        {1, INT32_MAX, "1E-2147483647"},
        {12, INT32_MIN, "1.2E+2147483649"},
    };
    static const uint64_t max_words[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, INT64_MAX},
                          min_words[4] = {0, 0, 0, UINT64_C(1) << 63};
    EACH (i, rows) {
        const uint64_t sign = rows[i].value < 0 ? UINT64_MAX : 0;
        const uint64_t words[4] = {(uint64_t)rows[i].value, sign, sign, sign};
        check_decimal(words, 1, rows[i].scale, rows[i].text);
        check_decimal(words, 2, rows[i].scale, rows[i].text);
        check_decimal(words, 4, rows[i].scale, rows[i].text);
    }
    check_decimal(max_words, 4, 0, "57896044618658097711785492504343953926634992332820282019728792003956564819967");
    check_decimal(min_words, 4, 40, "-5789604461865809771178549250434395392.6634992332820282019728792003956564819968");
    check_decimal(min_words, 4, 100,
                  "-5.7896044618658097711785492504343953926634992332820282019728792003956564819968E-24");
}
