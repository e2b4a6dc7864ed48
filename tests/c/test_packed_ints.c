/* test_packed_ints.c: packed lists of numbers: round trips, literal bytes, malformed lists, decimals. */
#include "format/rs_packed_ints.h"
#include "rs_make.h"

#include <float.h>
#include <math.h>

enum { MAX_NUMBERS = 5000 };

static rs_error err;

/* ---- Packing and unpacking ---- */

/* Returns the node that `aux` compiles to. */
static rs_node node_of(const uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE]) {
    rs_node node = {0};
    node.kind = RS_FMT_NODE_NUMBERS;
    node.base = rs_load_u64(aux);
    node.number_kind = aux[RS_FMT_NUMBERS_KIND];
    node.scale = aux[RS_FMT_NUMBERS_SCALE];
    node.stride = aux[RS_FMT_NUMBERS_STRIDE];
    node.head_width = aux[RS_FMT_NUMBERS_HEAD_WIDTH];
    node.max_width = aux[RS_FMT_NUMBERS_MAX_WIDTH];
    node.divisor = rs_schema_divisor(node.scale);
    return node;
}

static rs_node node_with(int64_t base, unsigned stride, unsigned head_width, unsigned max_width) {
    uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE] = {0};
    rs_store_u64(aux, (uint64_t)base);
    aux[RS_FMT_NUMBERS_STRIDE] = (uint8_t)stride, aux[RS_FMT_NUMBERS_HEAD_WIDTH] = (uint8_t)head_width;
    aux[RS_FMT_NUMBERS_MAX_WIDTH] = (uint8_t)max_width;
    return node_of(aux);
}

/* Returns whether a list is read back, step by step, from exactly its bytes. */
static bool reads_back(const rs_node *node, const rs_buffer *bytes, const int64_t *numbers, uint64_t n) {
    uint8_t *exact = make_exact(bytes->data, bytes->size_bytes);
    rs_slice in = rs_slice_of(exact, bytes->size_bytes);
    rs_packed_ints list;
    const int64_t *part;
    uint64_t at = 0;
    unsigned count;
    bool ok = CHECK(rs_packed_ints_take(node, n, &in, &list)) && CHECK(in.ptr == in.end);
    while (ok && (count = rs_packed_ints_next(&list, &part)) != 0) {
        ok = CHECK(count <= 16 && count <= n - at) && CHECK(memcmp(part, numbers + at, count * sizeof *part) == 0);
        at += count;
    }
    ok = ok && CHECK_U64(at, n) && CHECK(rs_packed_ints_next(&list, &part) == 0);
    free(exact);
    return ok;
}

/* Measures lists of one set, packs each as planned and reads it back. The sizes must match the plan. */
static void round_trip(const int64_t *const *lists, const uint64_t *lengths, size_t n_lists, unsigned stride) {
    static rs_packed_ints_sizes sizes;
    uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE];
    int64_t base = INT64_MAX;
    uint64_t size = 0;
    memset(&sizes, 0, sizeof sizes);
    sizes.stride = stride;
    for (size_t i = 0; i < n_lists; i++) {
        for (uint64_t k = 0; k < lengths[i]; k++) base = lists[i][k] < base ? lists[i][k] : base;
    }
    for (size_t i = 0; i < n_lists; i++) rs_packed_ints_measure(&sizes, lists[i], lengths[i], base);
    rs_packed_ints_aux(&sizes, RS_FMT_NUMBERS_INTS, 0, base, aux);
    CHECK(aux[RS_FMT_NUMBERS_STRIDE] == stride && rs_load_u16(aux + 14) == 0 && aux[13] == 0);
    rs_node node = node_of(aux);
    for (size_t i = 0; i < n_lists; i++) {
        rs_buffer bytes = {0};
        if (lengths[i] == 0) continue;
        if (CHECK_OK(rs_packed_ints_append(&node, lists[i], lengths[i], &bytes, &err), &err) &&
            !reads_back(&node, &bytes, lists[i], lengths[i])) {
            (void)fprintf(stderr, "    stride %u, list %zu of %llu\n", stride, i, (unsigned long long)lengths[i]);
        }
        size += bytes.size_bytes;
        rs_buffer_clear(&bytes);
    }
    CHECK_U64(size, rs_packed_ints_size(&sizes));
}

static uint64_t random_bits(unsigned bits) {
    uint64_t value = (uint64_t)make_random(UINT64_C(1) << 53) << 32 ^ (uint64_t)make_random(UINT64_C(1) << 53);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* Tests every stride with every width, partial chunks, and lists shorter than the stride. */
TEST(test_round_trips) {
    static int64_t numbers[4][MAX_NUMBERS];
    const int64_t *lists[4] = {numbers[0], numbers[1], numbers[2], numbers[3]};
    uint64_t lengths[4];
    for (unsigned stride = 0; stride <= 16; stride++) {
        for (unsigned width = 0; width <= 64; width++) {
            uint64_t base = random_bits(64);
            for (size_t k = 0; k < 4; k++) {
                lengths[k] = make_random(3) == 0 ? make_random(300) : make_random(30);
                for (uint64_t i = 0; i < lengths[k]; i++) numbers[k][i] = (int64_t)(base + random_bits(width));
                /* Chunks of other widths within one list. */
                for (uint64_t i = 0; i < lengths[k] && make_random(2) == 0; i++)
                    numbers[k][i] = (int64_t)(base + random_bits(width / 2));
            }
            round_trip(lists, lengths, 4, stride);
        }
    }
}

TEST(test_lengths) {
    static int64_t numbers[MAX_NUMBERS];
    const int64_t *lists[1] = {numbers};
    uint64_t n;
    for (unsigned i = 0; i < MAX_NUMBERS; i++) numbers[i] = (int64_t)(i * i) - 40;
    for (unsigned stride = 0; stride <= 16; stride++) {
        for (n = 0; n <= 50; n++) round_trip(lists, &n, 1, stride);
        n = MAX_NUMBERS;
        round_trip(lists, &n, 1, stride);
    }
}

TEST(test_extremes) {
    static const int64_t numbers[] = {INT64_MIN, INT64_MAX,     0,         -1,       INT64_MIN, INT64_MIN, INT64_MAX,
                                      1,         INT64_MIN + 1, INT64_MAX, INT64_MIN};
    const int64_t *lists[2] = {numbers, numbers + 3};
    uint64_t lengths[2] = {11, 8};
    for (unsigned stride = 0; stride <= 16; stride++) round_trip(lists, lengths, 2, stride);
}

/* Fields of full width wrap around: base + field is taken modulo 2^64. */
TEST(test_wrapping) {
    static const int64_t numbers[] = {INT64_MIN, 5, INT64_MAX, -3, 0, 0, 1, 2, 3};
    for (unsigned stride = 0; stride <= 16; stride++) {
        rs_node node = node_with(INT64_MAX, stride, 64, 64);
        rs_buffer bytes = {0};
        CHECK_OK(rs_packed_ints_append(&node, numbers, 9, &bytes, &err), &err);
        (void)reads_back(&node, &bytes, numbers, 9);
        rs_buffer_clear(&bytes);
    }
}

TEST(test_misfits) {
    static const int64_t numbers[] = {0, 4, 9, 1};
    rs_buffer bytes = {0};
    rs_node node = node_with(0, 0, 0, 4);
    CHECK_OK(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), &err);
    node.max_width = 3;
    CHECK_CODE(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), RS_E_ARG_RANGE, &err);
    node = node_with(1, 0, 0, 63);
    CHECK_CODE(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), RS_E_ARG_RANGE, &err);
    node = node_with(0, 4, 3, 64);
    CHECK_CODE(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), RS_E_ARG_RANGE, &err);
    node.head_width = 4;
    CHECK_OK(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), &err);
    node = node_with(0, 1, 1, 4); /* a difference of -8 is 15, one of 8 is 16 */
    CHECK_OK(rs_packed_ints_append(&node, numbers, 4, &bytes, &err), &err);
    CHECK_U64(bytes.size_bytes, 9); /* only the lists that fit were appended */
    CHECK_CODE(rs_packed_ints_append(&node, (const int64_t[]){0, 8}, 2, &bytes, &err), RS_E_ARG_RANGE, &err);
    CHECK_U64(bytes.size_bytes, 9);
    rs_buffer_clear(&bytes);
}

/* ---- Literal bytes ---- */

static const struct {
    const char *what;
    int64_t base;
    unsigned stride, head_width, max_width;
    uint64_t n;
    uint8_t bytes[20];
    size_t size;
    int64_t numbers[10];
} literals[] = {
    {"stride 0", 10, 0, 0, 3, 3, {3, 0xD0, 0x01}, 3, {10, 12, 17}},
    {"stride 1", 0, 1, 8, 2, 3, {100, 2, 6}, 3, {100, 101, 100}},
    {"a width of 6 stored as 1", 0, 0, 0, 20, 2, {1, 0x05, 0x03}, 3, {5, 12}},
    {"of no bits", 7, 0, 0, 64, 10, {0}, 1, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7}},
    {"two chunks", 0, 0, 0, 1, 9, {0x11, 0xAA, 1}, 3, {0, 1, 0, 1, 0, 1, 0, 1, 1}},
    {"shorter than the stride", 0, 16, 1, 0, 2, {3}, 1, {1, 1}},
    {"base that wraps", INT64_MAX, 0, 0, 64, 1, {1, 1, 0, 0, 0, 0, 0, 0}, 8, {INT64_MIN}},
    {"zigzag of the least", 0, 2, 4, 64, 3, {0x10, 15, 255, 255, 255, 255, 255, 255, 255, 255}, 10, {0, 1, INT64_MIN}},
};

TEST(test_literals) {
    EACH_NAMED (i, literals) {
        rs_node node = node_with(literals[i].base, literals[i].stride, literals[i].head_width, literals[i].max_width);
        rs_buffer bytes = {0}, packed = {0};
        make_bytes(&bytes, literals[i].bytes, literals[i].size);
        (void)reads_back(&node, &bytes, literals[i].numbers, literals[i].n);
        CHECK_OK(rs_packed_ints_append(&node, literals[i].numbers, literals[i].n, &packed, &err), &err);
        CHECK(packed.size_bytes == bytes.size_bytes && memcmp(packed.data, bytes.data, bytes.size_bytes) == 0);
        for (size_t cut = 0; cut < literals[i].size; cut++) {
            uint8_t *exact = make_exact(literals[i].bytes, cut);
            rs_slice in = rs_slice_of(exact, cut);
            rs_packed_ints list;
            CHECK(!rs_packed_ints_take(&node, literals[i].n, &in, &list));
            CHECK(list.n == literals[i].n && in.ptr == exact); /* cut, not malformed; nothing was taken */
            free(exact);
        }
        rs_buffer_clear(&bytes), rs_buffer_clear(&packed);
    }
}

/* A chunk wider than max_width is malformed at every position. If max_width <= 15, widths are stored unchanged. */
TEST(test_widths_too_wide) {
    uint8_t bytes[200] = {0};
    for (unsigned max_width = 0; max_width <= 64; max_width++) {
        rs_node node = node_with(0, 0, 0, max_width);
        unsigned base = max_width > 15 ? max_width - 15 : 0;
        for (unsigned x = 0; x < 16; x++) {
            for (unsigned chunk = 0; chunk < 3; chunk++) {
                rs_slice in = rs_slice_of(bytes, sizeof bytes);
                rs_packed_ints list;
                bool fits = x == 0 || x + base <= max_width;
                memset(bytes, 0, sizeof bytes);
                bytes[chunk / 2] = (uint8_t)(x << chunk % 2 * 4);
                CHECK(rs_packed_ints_take(&node, 20, &in, &list) == fits);
                CHECK(list.n == (fits ? 20u : 0u));
            }
        }
    }
}

/* The sizes of lists that are too long for the bytes must not wrap. */
TEST(test_huge_counts) {
    uint8_t *bytes = make_exact("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8);
    for (unsigned shift = 8; shift < 64; shift++) {
        for (unsigned stride = 0; stride <= 16; stride += 8) {
            for (unsigned width = 0; width <= 64; width += 16) {
                rs_node node = node_with(0, stride, width, width);
                rs_slice in = rs_slice_of(bytes, 8);
                rs_packed_ints list;
                CHECK(!rs_packed_ints_take(&node, UINT64_C(1) << shift, &in, &list));
                CHECK(!rs_packed_ints_take(&node, UINT64_MAX >> (63 - shift), &in, &list));
                CHECK(in.ptr == bytes);
            }
        }
    }
    free(bytes);
}

/* The bytes may change after they were checked. With any bytes, nothing beyond the list is read. */
TEST(test_bytes_that_change) {
    static int64_t numbers[100];
    unsigned i;
    for (i = 0; i < 100; i++) numbers[i] = (int64_t)(i * i * i);
    for (unsigned stride = 0; stride <= 16; stride += 4) {
        rs_node node = node_with(0, stride, 20, 64);
        rs_buffer bytes = {0};
        rs_packed_ints list;
        const int64_t *part;
        uint64_t n_read = 0;
        CHECK_OK(rs_packed_ints_append(&node, numbers, 100, &bytes, &err), &err);
        uint8_t *exact = make_exact(bytes.data, bytes.size_bytes);
        rs_slice in = rs_slice_of(exact, bytes.size_bytes);
        CHECK(rs_packed_ints_take(&node, 100, &in, &list));
        memset(exact, 0xFF, bytes.size_bytes);
        while ((i = rs_packed_ints_next(&list, &part)) != 0) n_read += i;
        CHECK_U64(n_read, 100);
        free(exact), rs_buffer_clear(&bytes);
    }
}

/* ---- Decimals ---- */

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

TEST(test_scales) {
    static const struct {
        double value;
        unsigned scale; /* 16 if the float is not a decimal */
        int64_t m;
    } cases[] = {
        {0.0, 0, 0},
        {1.0, 0, 1},
        {-1.0, 0, -1},
        {0.1, 1, 1},
        {0.3, 1, 3},
        {0.1 + 0.2, 16, 0},
        {1.23, 2, 123},
        {-45.67, 2, -4567},
        {1e15, 0, INT64_C(1000000000000000)},
        {9007199254740992.0, 0, INT64_C(9007199254740992)},
        {-9007199254740992.0, 0, INT64_C(-9007199254740992)},
        {9007199254740994.0, 16, 0},
        {1e308, 16, 0},
        {-1e308, 16, 0},
        {4503599627370497.0, 0, INT64_C(4503599627370497)},
        {-4503599627370499.0, 0, INT64_C(-4503599627370499)},
        {9007199254740991.0, 0, INT64_C(9007199254740991)},
        {450359962737049.7, 1, INT64_C(4503599627370497)},
        {1e-15, 15, 1},
        {1e-16, 16, 0},
        {-0.0, 16, 0},
        {HUGE_VAL, 16, 0},
        {-HUGE_VAL, 16, 0},
        {DBL_MIN, 16, 0},
        {4.9406564584124654e-324, 16, 0},
        {0.123456789012345, 15, INT64_C(123456789012345)},
        {3.141592653589793, 15, INT64_C(3141592653589793)},
        {0.5, 1, 5},
        {1.0 / 3.0, 16, 0},
    };
    int64_t m;
    unsigned scale;
    double power = 1.0; /* exact up to 10^22 */
    EACH (i, cases) {
        scale = 0;
        bool found = rs_packed_ints_find_scale(cases[i].value, &scale);
        CHECK(found == (cases[i].scale <= 15));
        if (found) {
            CHECK_U64(scale, cases[i].scale);
            CHECK(rs_packed_ints_from_float(cases[i].value, scale, &m) && m == cases[i].m);
        }
    }
    scale = 0;
    CHECK(!rs_packed_ints_find_scale(NAN, &scale) && !rs_packed_ints_from_float(NAN, 0, &m));
    scale = 3; /* the search starts at this scale */
    CHECK(rs_packed_ints_find_scale(0.5, &scale) && scale == 3);
    for (unsigned s = 0; s <= 22; s++, power *= 10.0)
        CHECK(rs_schema_divisor(s) == power && !rs_packed_ints_from_float(HUGE_VAL, s, &m));
    CHECK(rs_schema_divisor(23) == 1.0);
}

/* A decimal of up to 15 digits, read into a float, gives its integer back at its scale. */
TEST(test_decimals_of_15_digits) {
    char text[40];
    for (int i = 0; i < 20000; i++) {
        unsigned scale = (unsigned)make_random(16), digits = 1 + (unsigned)make_random(15);
        int64_t expected = (int64_t)random_bits(49) % (int64_t)rs_schema_divisor(digits), m = 0;
        if (make_random(2) == 0) expected = -expected;
        (void)snprintf(text, sizeof text, "%llde-%u", (long long)expected, scale);
        double value = strtod(text, NULL);
        if (!CHECK(rs_packed_ints_from_float(value, scale, &m)) || !CHECK(m == expected))
            (void)fprintf(stderr, "    %s\n", text);
    }
}

/* Many floats at once give the same integers as each alone, up to the first float that has no integer. */
TEST(test_many_floats) {
    static const double odd[] = {NAN,    HUGE_VAL,           -0.0,  1.0 / 3.0,          9007199254740994.0,
                                 1e-300, 4503599627370495.5, -1e20, 2251799813685249.0, -2251799813685250.0};
    uint8_t any[40 * 9];
    int64_t found[40], m;
    uint64_t n, i, first;
    unsigned scale;
    for (unsigned round = 0; round < 20000; round++) {
        n = make_random(41), scale = (unsigned)make_random(6);
        for (i = 0; i < n; i++) {
            double value = (double)((int64_t)make_random(2000000) - 1000000) / rs_schema_divisor(scale);
            if (make_random(50) == 0) value = odd[make_random(sizeof odd / sizeof odd[0])];
            any[9 * i] = 0x08;
            rs_store_f64(any + 9 * i + 1, value);
        }
        first = rs_packed_ints_from_floats(any, n, scale, found);
        for (i = 0; i < n && rs_packed_ints_from_float(rs_load_f64(any + 9 * i + 1), scale, &m) && i < first; i++) {
            if (!CHECK(found[i] == m)) return;
        }
        if (!CHECK_U64(first, i)) return;
    }
}

static rs_node decimal_of(int64_t base, unsigned scale, unsigned correction) {
    rs_node node = {0};
    node.kind = RS_FMT_NODE_DECIMAL;
    node.base = (uint64_t)base, node.scale = (uint8_t)scale, node.correction = (uint8_t)correction;
    node.divisor = rs_schema_divisor(scale);
    return node;
}

TEST(test_decimal_values) {
    rs_node node = decimal_of(5, 1, 0);
    CHECK(rs_packed_ints_decimal(&node, 0) == 0.5 && rs_packed_ints_decimal(&node, 7) == 1.2);
    node = decimal_of(INT64_MAX, 0, 0);
    CHECK(rs_packed_ints_decimal(&node, 1) == -9223372036854775808.0 &&
          rs_packed_ints_decimal(&node, 0) == 9223372036854775808.0);
    node = decimal_of(-1, 0, 0);
    CHECK(rs_packed_ints_decimal(&node, 1) == 0.0 && !signbit(rs_packed_ints_decimal(&node, 1)));
    CHECK(rs_packed_ints_decimal(&node, UINT64_MAX) == -2.0);
    node = decimal_of(1, 22, 0);
    CHECK(rs_packed_ints_decimal(&node, 0) == 1e-22);
    node = decimal_of(3, 1, 2);
    CHECK(rs_packed_ints_decimal(&node, 2) == 0.3 && bits_of(rs_packed_ints_decimal(&node, 3)) == bits_of(0.1 + 0.2));
    CHECK(rs_packed_ints_decimal(&node, 6) == 0.4 && bits_of(rs_packed_ints_decimal(&node, 0)) == bits_of(0.3) - 2);
    for (unsigned c = 1; c <= 32; c++) {
        node = decimal_of(0, 0, c);
        CHECK_U64(bits_of(rs_packed_ints_decimal(&node, 0)), 0 - (UINT64_C(1) << (c - 1)));
        CHECK_U64(bits_of(rs_packed_ints_decimal(&node, (UINT64_C(1) << c) - 1)), (UINT64_C(1) << (c - 1)) - 1);
        CHECK(rs_packed_ints_decimal(&node, UINT64_C(3) << c | UINT64_C(1) << (c - 1)) == 3.0);
    }
}
