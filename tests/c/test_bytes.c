/* test_bytes.c: the primitives of rs_bytes.h: bounds, varints, bit fields at every offset and width. */
#include "base/rs_bytes.h"
#include "rs_make.h"

TEST(test_varint_literals) {
    static const struct {
        uint64_t value;
        unsigned size;
        uint8_t bytes[10];
    } cases[] = {
        {0, 1, {0}},
        {127, 1, {0x7F}},
        {128, 2, {0x80, 0x01}},
        {300, 2, {0xAC, 0x02}},
        {16383, 2, {0xFF, 0x7F}},
        {16384, 3, {0x80, 0x80, 0x01}},
        {UINT64_C(1) << 63, 10, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
        {UINT64_MAX, 10, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}},
    };
    EACH (i, cases) {
        uint8_t bytes[10];
        CHECK_U64(rs_put_varint(bytes, cases[i].value), cases[i].size);
        CHECK(memcmp(bytes, cases[i].bytes, cases[i].size) == 0);
        CHECK_U64(rs_varint_size(cases[i].value), cases[i].size);
    }
}

TEST(test_varint_round_trip) {
    for (unsigned shift = 0; shift < 64; shift++) {
        uint64_t values[3];
        values[0] = UINT64_C(1) << shift, values[1] = values[0] - 1,
        values[2] = values[0] | make_random(UINT64_C(1) << 53);
        for (uint64_t i = 0; i < 3; i++) {
            uint8_t bytes[10];
            unsigned n = rs_put_varint(bytes, values[i]);
            for (unsigned cut = 0; cut <= n; cut++) {
                uint8_t *exact = make_exact(bytes, cut);
                rs_slice in = rs_slice_of(exact, cut);
                uint64_t got = 0;
                CHECK(rs_take_varint(&in, &got) == (cut == n));
                if (cut == n) CHECK(got == values[i] && in.ptr == in.end);
                free(exact);
            }
        }
    }
}

static bool take(const uint8_t *bytes, size_t n, uint64_t *out) {
    uint8_t *exact = make_exact(bytes, n);
    rs_slice in = rs_slice_of(exact, n);
    bool ok = rs_take_varint(&in, out);
    free(exact);
    return ok;
}

/* Padded forms of at most 10 bytes are read. Longer forms and values from 2^64 on are not. */
TEST(test_varint_padded_and_overlong) {
    static const uint8_t padded[] = {0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    static const uint8_t too_large[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02};
    static const uint8_t too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    uint64_t value = 0;
    CHECK(take(padded, sizeof padded, &value) && value == 5);
    CHECK(!take(too_large, sizeof too_large, &value));
    CHECK(!take(too_long, sizeof too_long, &value));
    CHECK(!take(too_long, 10, &value));
}

TEST(test_take) {
    uint8_t bytes[4] = {1, 2, 3, 4};
    const uint8_t *p = NULL;
    rs_slice in = rs_slice_of(bytes, 4);
    CHECK(!rs_take(&in, 5, &p) && !rs_take(&in, UINT64_MAX, &p) && in.ptr == bytes && p == NULL);
    CHECK(rs_take(&in, 3, &p) && p == bytes && rs_slice_left(&in) == 1);
    CHECK(rs_take(&in, 1, &p) && rs_take(&in, 0, &p) && !rs_take(&in, 1, &p));
}

TEST(test_loads) {
    static const uint8_t bytes[9] = {0,    0x11, 0x22, 0x33, 0x44,
                                     0x55, 0x66, 0x77, 0x88}; /* from 1: nothing is aligned */
    CHECK_U64(rs_load_u16(bytes + 1), 0x2211);
    CHECK_U64(rs_load_u32(bytes + 1), 0x44332211);
    CHECK_U64(rs_load_u64(bytes + 1), UINT64_C(0x8877665544332211));
    CHECK_U64(rs_load_uint_unchecked(bytes + 1, 1), 0x11);
    CHECK_U64(rs_load_uint_unchecked(bytes + 1, 2), 0x2211);
    CHECK_U64(rs_load_uint_unchecked(bytes + 1, 4), 0x44332211);
    CHECK_U64(rs_load_uint_unchecked(bytes + 1, 8), UINT64_C(0x8877665544332211));
}

/* Short copies, comparisons and loads take several paths by size. At each size, each byte counts. */
TEST(test_short_runs) {
    uint8_t bytes[80];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i + 1);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint8_t *from = make_exact(bytes, n), *to = make_exact(bytes, n);
        uint64_t expected = 0;
        memset(to, 0, n);
        rs_copy_few(to, from, n);
        CHECK(memcmp(to, bytes, n) == 0);
        CHECK(rs_equal_few(from, to, n));
        for (size_t i = 0; i < n; i++) {
            to[i] ^= 0x80;
            CHECK(!rs_equal_few(from, to, n));
            to[i] ^= 0x80;
            expected |= i < 8 ? (uint64_t)bytes[i] << 8 * i : 0;
        }
        if (n < 8) CHECK_U64(rs_load_few_unchecked(from, n), expected);
        free(from);
        free(to);
    }
    CHECK(rs_equal_few(NULL, NULL, 0));
}

/* Checks a field that ends its group. */
static void check_field(unsigned offset, unsigned width) {
    size_t size = (offset + width + 7) / 8;
    uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    uint64_t value = (make_random(UINT64_C(1) << 53) * UINT64_C(0x10001) ^ UINT64_MAX << 60) & mask;
    uint8_t *group = make_exact("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", size);
    rs_store_bits(group, offset, width, value);
    CHECK_U64(rs_load_bits_unchecked(group, size, offset, width), value);
    for (uint64_t k = 0; k < offset + width; k++) { /* bit k of a group is bit k mod 8 of byte k div 8 */
        unsigned bit = k < offset ? 0 : (unsigned)(value >> (k - offset)) & 1;
        CHECK((unsigned)(group[k / 8] >> k % 8 & 1) == bit);
    }
    for (uint64_t k = 0; k < size; k++) group[k] = (uint8_t)~group[k];
    CHECK_U64(rs_load_bits_unchecked(group, size, offset, width), ~value & mask);
    free(group);
}

TEST(test_bits_everywhere) {
    for (unsigned offset = 0; offset < 80; offset++) {
        for (unsigned width = 0; width <= 64; width++) check_field(offset, width);
    }
}

/* Adjacent fields of one width do not change each other. */
TEST(test_bits_side_by_side) {
    for (unsigned width = 1; width <= 64; width++) {
        uint64_t values[20];
        size_t size = (20 * width + 7) / 8;
        uint8_t *group = (uint8_t *)calloc(1, size);
        if (group == NULL) abort();
        for (unsigned i = 0; i < 20; i++) {
            values[i] = make_random(width > 53 ? UINT64_C(1) << 53 : UINT64_C(1) << width);
            rs_store_bits(group, i * width, width, values[i]);
        }
        for (unsigned i = 0; i < 20; i++) CHECK_U64(rs_load_bits_unchecked(group, size, i * width, width), values[i]);
        free(group);
    }
}

TEST(test_arithmetic) {
    uint64_t out;
    CHECK(!rs_add_overflows(UINT64_MAX, 0, &out) && rs_add_overflows(UINT64_MAX, 1, &out));
    CHECK(!rs_mul_overflows(UINT64_MAX, 1, &out) && rs_mul_overflows(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    CHECK(!rs_mul_overflows(0, UINT64_MAX, &out) && !rs_mul_overflows(UINT64_MAX, 0, &out) && out == 0);
    CHECK(rs_align_up(0, 64) == 0 && rs_align_up(1, 64) == 64 && rs_align_up(64, 64) == 64);
}

TEST(test_bit_numbers) {
    CHECK_U64(rs_bit_width(0), 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t one = UINT64_C(1) << bit;
        CHECK(rs_bit_width(one) == bit + 1 && rs_bit_width(one - 1) == bit);
        CHECK(rs_lowest_bit(one) == bit && rs_lowest_bit(UINT64_MAX << bit) == bit);
    }
}
