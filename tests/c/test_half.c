/* test_half.c: all half floats as doubles and back, against values worked out by hand and by ldexp. */
#include "base/rs_half.h"

#include <math.h>

#include "rs_test.h"

static uint64_t bits_of(double value) {
    uint8_t bytes[8];
    rs_store_f64(bytes, value);
    return rs_load_u64(bytes);
}

TEST(test_literals) {
    CHECK(rs_half_to_double(0x3C00) == 1.0 && rs_half_to_double(0xC000) == -2.0);
    CHECK(rs_half_to_double(0x7BFF) == 65504.0 && rs_half_to_double(0x0001) == 1.0 / 16777216.0);
    CHECK(rs_half_to_double(0x03FF) == 1023.0 / 16777216.0 && rs_half_to_double(0x0400) == 1.0 / 16384.0);
    CHECK(rs_half_to_double(0x3555) == 0.333251953125);
    CHECK(bits_of(rs_half_to_double(0x8000)) == UINT64_C(1) << 63);
    CHECK(bits_of(rs_half_to_double(0x7C00)) == UINT64_C(0x7FF) << 52);
    CHECK(bits_of(rs_half_to_double(0xFC00)) == UINT64_C(0xFFF) << 52);
    CHECK(bits_of(rs_half_to_double(0xFE01)) == (UINT64_C(0xFFF8) << 48 | UINT64_C(1) << 42));
}

TEST(test_all) {
    uint32_t wrong = 0;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        const int exponent = half >> 10 & 31;
        const double value = rs_half_to_double((uint16_t)half);
        const double size = exponent == 0 ? ldexp(half & 1023, -24) : ldexp(1024 + (half & 1023), exponent - 25);
        if (exponent < 31) wrong += value != (half >> 15 != 0 ? -size : size);
        wrong += rs_half_of_double_unchecked(value) != half;
    }
    CHECK_U64(wrong, 0);
}
