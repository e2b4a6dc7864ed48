/* test_dtype.c: numbers as items of every dtype: under, at and over the limits of each, steps, and rounding. */
#include "columns/rs_dtype.h"

#include "base/rs_half.h"

#include <math.h>

#include "rs_test.h"

static uint8_t item[RS_DTYPE_MOST_BYTES];

static bool puts_int(unsigned dtype, int64_t value) {
    return rs_dtype_put_ints(dtype, &value, 1, item, RS_DTYPE_MOST_BYTES) == 1;
}
static bool puts_float(unsigned dtype, double value) {
    return rs_dtype_put_floats(dtype, &value, 1, item, RS_DTYPE_MOST_BYTES) == 1;
}
static bool puts_uint(unsigned dtype, uint64_t value) {
    return rs_dtype_put_uints(dtype, &value, 1, item, RS_DTYPE_MOST_BYTES) == 1;
}

TEST(test_limits) {
    int64_t low, high;
    for (unsigned dtype = 0; dtype < RS_DTYPES; dtype++) {
        CHECK(rs_dtype_name(dtype) != NULL && rs_dtype_bytes(dtype) >= 1 && rs_dtype_bytes(dtype) <= 16);
        if (!rs_dtype_range(dtype, &low, &high)) {
            CHECK(puts_int(dtype, INT64_MIN) && puts_uint(dtype, UINT64_MAX) && puts_float(dtype, 0.5));
            CHECK(puts_float(dtype, (double)NAN) && puts_float(dtype, 1e300));
            continue;
        }
        CHECK(puts_int(dtype, low) && puts_int(dtype, high) && puts_float(dtype, 1.0) && puts_uint(dtype, 1));
        CHECK(low == INT64_MIN || !puts_int(dtype, low - 1));
        CHECK(high == INT64_MAX || !puts_int(dtype, high + 1));
        CHECK(!puts_float(dtype, 0.5) && !puts_float(dtype, (double)NAN) && !puts_float(dtype, (double)INFINITY));
        CHECK(!puts_float(dtype, -1e300) && !puts_float(dtype, 18446744073709551616.0));
        CHECK(puts_uint(dtype, UINT64_MAX) == (dtype == RS_DTYPE_UINT64));
        CHECK(puts_float(dtype, 9223372036854775808.0) == (dtype == RS_DTYPE_UINT64));
        CHECK(puts_float(dtype, -9223372036854775808.0) == (dtype == RS_DTYPE_INT64));
    }
    CHECK(rs_dtype_name(RS_DTYPES) == NULL);
}

TEST(test_items) {
    const double pair[] = {1.5, -2.0};
    CHECK(puts_int(RS_DTYPE_INT16, -2) && rs_load_u16(item) == 0xFFFE);
    CHECK(puts_uint(RS_DTYPE_UINT64, UINT64_MAX) && rs_load_u64(item) == UINT64_MAX);
    CHECK(puts_float(RS_DTYPE_FLOAT16, 1.0) && rs_load_u16(item) == 0x3C00);
    CHECK(puts_float(RS_DTYPE_BFLOAT16, 1.00390625) && rs_load_u16(item) == 0x3F80); /* half way: to even */
    CHECK(puts_float(RS_DTYPE_BFLOAT16, 1.01171875) && rs_load_u16(item) == 0x3F82);
    CHECK(puts_float(RS_DTYPE_BFLOAT16, (double)NAN) && rs_load_u16(item) == 0x7FC0);
    CHECK(puts_float(RS_DTYPE_COMPLEX128, 2.5) && rs_load_f64(item) == 2.5 && rs_load_f64(item + 8) == 0);
    CHECK(rs_dtype_put_complex(RS_DTYPE_COMPLEX128, pair, 1, item, 16) == 1 && rs_load_f64(item + 8) == -2.0);
    CHECK(rs_dtype_put_complex(RS_DTYPE_FLOAT64, pair, 1, item, 16) == 0);
    CHECK(rs_dtype_put_int(RS_DTYPE_INT64, -5, item) && rs_load_u64(item) == (uint64_t)-5);
    CHECK(rs_dtype_put_int(RS_DTYPE_UINT8, 255, item) && !rs_dtype_put_int(RS_DTYPE_UINT8, 256, item));
    CHECK(rs_dtype_put_float(RS_DTYPE_FLOAT64, 0.1, item) && rs_load_f64(item) == 0.1);
    CHECK(!rs_dtype_put_float(RS_DTYPE_BOOL, 2.0, item));
}

/* Finds the first of many numbers that does not fit, also if the items are apart. */
TEST(test_many) {
    static int64_t ints[300];
    static uint64_t uints[300];
    static double floats[300];
    static uint8_t to[300 * 24];
    for (unsigned i = 0; i < 300; i++) ints[i] = i % 100, uints[i] = i % 100, floats[i] = i % 100;
    for (unsigned at = 0; at < 300; at += 37) {
        ints[at] = 200, uints[at] = UINT64_C(1) << 63, floats[at] = 1.25;
        CHECK_U64(rs_dtype_put_ints(RS_DTYPE_INT8, ints, 300, to, 1), at);
        CHECK_U64(rs_dtype_put_ints(RS_DTYPE_INT8, ints, 300, to, 24), at);
        CHECK_U64(rs_dtype_put_uints(RS_DTYPE_INT64, uints, 300, to, 24), at);
        CHECK_U64(rs_dtype_put_floats(RS_DTYPE_INT32, floats, 300, to, 4), at);
        for (unsigned i = 0; i < at; i++) CHECK(rs_load_u32(to + 4 * i) == i % 100);
        ints[at] = at % 100, uints[at] = at % 100, floats[at] = at % 100;
    }
    CHECK_U64(rs_dtype_put_uints(RS_DTYPE_FLOAT32, uints, 300, to, 24), 300);
    for (unsigned i = 0; i < 300; i++) {
        float item32;
        memcpy(&item32, to + 24 * i, 4);
        CHECK(item32 == (float)(i % 100));
    }
}

TEST(test_repeat) {
    static const uint8_t pattern[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static uint8_t to[16 * 40 + 1];
    for (unsigned size = 1; size <= 16; size *= 2) {
        for (unsigned n = 0; n < 40; n++) {
            memset(to, 0xEE, sizeof to);
            rs_dtype_repeat(pattern, size, n, to);
            for (unsigned i = 0; i < n * size; i++) CHECK(to[i] == pattern[i % size]);
            CHECK(to[n * size] == 0xEE);
        }
    }
}

/* Half floats: a double between two of them is rounded to the nearer one, halfway to the even one. */
TEST(test_half) {
    uint32_t wrong = 0;
    for (uint32_t half = 0; half < 0x7BFF; half++) {
        const double low = rs_half_to_double((uint16_t)half), high = rs_half_to_double((uint16_t)(half + 1));
        const double middle = (low + high) / 2;
        const uint16_t even = (uint16_t)(half % 2 == 0 ? half : half + 1);
        wrong += rs_half_round(low) != half || rs_half_round(middle) != even;
        wrong += rs_half_round(nextafter(middle, low)) != half || rs_half_round(nextafter(middle, high)) != half + 1;
        wrong += rs_half_round(-middle) != (even | 0x8000);
    }
    CHECK_U64(wrong, 0);
    CHECK(rs_half_round(65519.99) == 0x7BFF && rs_half_round(65520.0) == 0x7C00 && rs_half_round(1e300) == 0x7C00);
    CHECK(rs_half_round(-(double)INFINITY) == 0xFC00 && (rs_half_round((double)NAN) & 0x7FFF) > 0x7C00);
    CHECK(rs_half_round(1e-300) == 0 && rs_half_round(-0.0) == 0x8000);
}
