/* test_run_write.c: arrays and lists written as items of every dtype, up to the first item that does not fit. */
#include "columns/rs_run.h"

#include "base/rs_half.h"
#include "rs_make.h"

enum { N = 300, CODES = 14 }; /* N exceeds the number of items converted at once */

static rs_error err;
static uint8_t items[16 * N], out[16 * N];
static rs_buffer scratch;

static unsigned bytes_of(unsigned code) {
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16};
    return code == RS_RUN_BFLOAT16 ? 2 : sizes[code];
}

/* Returns number i of an array of `code`, which holds it exactly. */
static double number(unsigned code, uint64_t i) {
    const double whole = (double)(i % 100);
    if (code == 1) return (double)(i % 2);
    if (code >= 2 && code <= 5) return whole - 50;
    if (code >= 6 && code <= 9) return whole;
    return (whole - 50) / 4;
}

static void store_item(unsigned code, double value, uint8_t *to) {
    const float narrow = (float)value;
    const uint64_t whole = (uint64_t)(int64_t)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (code <= 9) memcpy(to, &whole, bytes_of(code));
    else if (code == 10) rs_store_u16(to, rs_half_round(value));
    else if (code == 11) memcpy(to, &narrow, 4);
    else if (code == 12) rs_store_f64(to, value);
    else if (code == RS_RUN_BFLOAT16) rs_store_u16(to, (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16));
    else if (code == 13) memcpy(to, &narrow, 4), memset(to + 4, 0, 4);
    else rs_store_f64(to, value), rs_store_f64(to + 8, 0);
}

static void swap(uint8_t *p, unsigned size) {
    for (unsigned i = 0; i < size / 2; i++) {
        const uint8_t kept = p[i];
        p[i] = p[size - 1 - i], p[size - 1 - i] = kept;
    }
}

/* Puts number i in place k of an array of `code`. */
static void put_item(unsigned code, bool big, uint64_t k, uint64_t i) {
    const unsigned size = bytes_of(code), part = code == 13 || code == 14 ? size / 2 : size;
    uint8_t *to = items + k * size;
    store_item(code, number(code, i), to);
    if (big) swap(to, part);
    if (big && part != size) swap(to + part, part);
}

static rs_run run_of(unsigned code, bool big) {
    const rs_run run = {items, NULL, N, (uint64_t)N * bytes_of(code), RS_RUN_ITEMS, (uint8_t)code, 0, big};
    return run;
}

/* Returns the code of the items of a dtype. */
static unsigned code_of(unsigned dtype) {
    static const uint8_t codes[RS_DTYPES] = {
        [RS_DTYPE_BOOL] = 1,       [RS_DTYPE_INT8] = 2,        [RS_DTYPE_INT16] = 3,
        [RS_DTYPE_INT32] = 4,      [RS_DTYPE_INT64] = 5,       [RS_DTYPE_UINT8] = 6,
        [RS_DTYPE_UINT16] = 7,     [RS_DTYPE_UINT32] = 8,      [RS_DTYPE_UINT64] = 9,
        [RS_DTYPE_FLOAT16] = 10,   [RS_DTYPE_FLOAT32] = 11,    [RS_DTYPE_FLOAT64] = 12,
        [RS_DTYPE_COMPLEX64] = 13, [RS_DTYPE_COMPLEX128] = 14, [RS_DTYPE_BFLOAT16] = RS_RUN_BFLOAT16};
    return codes[dtype];
}

static bool holds(unsigned dtype, unsigned code, double value) {
    int64_t low, high;
    if (code == 13 || code == 14) return dtype == RS_DTYPE_COMPLEX64 || dtype == RS_DTYPE_COMPLEX128;
    if (!rs_dtype_range(dtype, &low, &high)) return true;
    return value == (double)(int64_t)value && value >= (double)low && value <= (double)high;
}

static void check_pair(unsigned code, bool big, unsigned dtype) {
    const rs_run run = run_of(code, big);
    const unsigned size = rs_dtype_bytes(dtype);
    uint64_t written = 0, expected = N;
    uint8_t item[16];
    for (uint64_t i = 0; i < N; i++) put_item(code, big, i, i);
    for (uint64_t i = N; i-- > 0;) expected = holds(dtype, code, number(code, i)) ? expected : i;
    memset(out, 0xA5, sizeof out);
    CHECK_OK(rs_run_write(&run, N, dtype, NULL, &scratch, out, &written, &err), &err);
    CHECK_U64(written, expected);
    for (uint64_t i = 0; i < expected; i++) {
        store_item(code_of(dtype), number(code, i), item);
        if (CHECK(memcmp(out + i * size, item, size) == 0)) continue;
        (void)fprintf(stderr, "    item %u of code %u as %s\n", (unsigned)i, code, rs_dtype_name(dtype));
        return;
    }
}

TEST(test_every_pair) {
    for (unsigned code = 1; code <= CODES + 1; code++) {
        for (unsigned dtype = 0; dtype < RS_DTYPES; dtype++) {
            for (unsigned big = 0; big < 2; big++) check_pair(code > CODES ? RS_RUN_BFLOAT16 : code, big == 1, dtype);
        }
    }
}

/* The largest and smallest numbers of each dtype of integers, and their neighbours out of range. */
TEST(test_ends_of_ranges) {
    static const uint64_t numbers[] = {0,          127,        128,        255,       256,
                                       32767,      32768,      65535,      65536,     2147483647,
                                       2147483648, 4294967295, 4294967296, INT64_MAX, (uint64_t)1 << 63,
                                       UINT64_MAX};
    for (unsigned dtype = RS_DTYPE_BOOL; dtype <= RS_DTYPE_UINT64; dtype++) {
        int64_t low, high;
        CHECK(rs_dtype_range(dtype, &low, &high));
        for (unsigned k = 0; k < 2 * sizeof numbers / sizeof numbers[0]; k++) {
            const uint64_t bits = k % 2 == 0 ? numbers[k / 2] : 0 - numbers[k / 2];
            for (unsigned is_signed = 0; is_signed < 2; is_signed++) {
                const rs_run run = {items, NULL, 1, 8, RS_RUN_ITEMS, is_signed ? 5 : 9, 0, false};
                const bool fits = is_signed ? (int64_t)bits >= low && (int64_t)bits <= high
                                            : dtype == RS_DTYPE_UINT64 || bits <= (uint64_t)high;
                uint64_t written = 2;
                rs_store_u64(items, bits);
                CHECK_OK(rs_run_write(&run, 1, dtype, NULL, &scratch, out, &written, &err), &err);
                if (!CHECK(written == fits)) {
                    (void)fprintf(stderr, "    %llx as %s\n", (unsigned long long)bits, rs_dtype_name(dtype));
                }
                if (fits) CHECK(memcmp(out, &bits, rs_dtype_bytes(dtype)) == 0);
            }
        }
    }
}

/* Item (a, b, c) is at a + 2 (b + 3 c) in Fortran order, at (3 a + b) 50 + c in C order. */
TEST(test_fortran) {
    static const rs_run_shape shape = {3, true, 300, {2, 3, 50}};
    uint64_t written = 0;
    uint8_t item[16];
    for (unsigned code = 1; code <= CODES; code++) {
        for (unsigned big = 0; big < 2; big++) {
            const rs_run run = run_of(code, big == 1);
            const unsigned dtype = code >= 13 ? RS_DTYPE_COMPLEX64 : RS_DTYPE_FLOAT64, size = rs_dtype_bytes(dtype);
            for (uint64_t a = 0; a < 2; a++) {
                for (uint64_t b = 0; b < 3; b++) {
                    for (uint64_t c = 0; c < 50; c++)
                        put_item(code, big == 1, a + 2 * (b + 3 * c), (3 * a + b) * 50 + c);
                }
            }
            CHECK_OK(rs_run_write_fortran(&run, &shape, dtype, &scratch, out, &written, &err), &err);
            CHECK_U64(written, N);
            for (uint64_t a = 0; a < N; a++) {
                store_item(code_of(dtype), number(code, a), item);
                if (!CHECK(memcmp(out + a * size, item, size) == 0)) break;
            }
        }
    }
}

/* ---- Lists ---- */

/* The elements of a list: their node, base and scale. */
typedef struct list_elements {
    make_node node;
    int64_t base;
    unsigned scale;
} list_elements;

static double element(const list_elements *l, uint64_t i) {
    const unsigned w = l->node.param;
    const uint64_t stored = w == 0 ? 0 : i % 90 % (w >= 7 ? 90 : 1u << w);
    double value = (double)(l->base + (int64_t)stored);
    if (l->node.kind == FLOAT) return (double)i / 4 - 9;
    if (l->node.kind == BOOL) return i % 3 == 0;
    for (unsigned k = 0; k < l->scale; k++) value /= 10;
    return value;
}

/* Writes the bit group and the bodies of N elements, and returns their size. */
static size_t store_elements(const list_elements *l, const rs_node *node) {
    const size_t group = ((size_t)N * node->bits + 7) / 8;
    memset(items, 0, sizeof items);
    for (uint64_t i = 0; i < N; i++) {
        const unsigned w = l->node.param;
        const uint64_t stored = w == 0 ? 0 : i % 90 % (w >= 7 ? 90 : 1u << w);
        if (node->kind == RS_FMT_NODE_FLOAT) rs_store_f64(items + 8 * i, element(l, i));
        else if (node->kind == RS_FMT_NODE_BOOL) rs_store_bits(items, i, 1, i % 3 == 0);
        else if (node->size_bytes == 0) rs_store_bits(items, i * node->bits, node->bits, stored);
        else memcpy(items + group + i * node->size_bytes, &stored, (size_t)node->size_bytes);
    }
    return group + N * (size_t)node->size_bytes;
}

static void check_list(const list_elements *l) {
    make_node nodes[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, l->node};
    const bool is_decimal = l->node.kind == DECIMAL;
    uint8_t aux[16] = {0}, item[16];
    rs_buffer bytes = {0};
    rs_tree tree;
    uint64_t written, i, expected;
    rs_store_u64(aux, (uint64_t)l->base), aux[8] = (uint8_t)l->scale;
    nodes[1].aux_size = is_decimal ? 10 : l->node.kind == INT ? 8 : 0;
    make_tree(&bytes, nodes, 2, aux, sizeof aux);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    for (unsigned dtype = 0; dtype < RS_DTYPES; dtype++) {
        const size_t size = store_elements(l, &tree.nodes[1]);
        uint8_t *exact = make_exact(items, size);
        const rs_run run = {exact, &tree.nodes[1], N, size, RS_RUN_LIST, 0, 0, false};
        for (i = expected = N; i-- > 0;) expected = holds(dtype, 0, element(l, i)) ? expected : i;
        CHECK_OK(rs_run_write(&run, N, dtype, NULL, &scratch, out, &written, &err), &err);
        CHECK_U64(written, expected);
        for (i = 0; i < expected; i++) {
            store_item(code_of(dtype), element(l, i), item);
            if (CHECK(memcmp(out + i * rs_dtype_bytes(dtype), item, rs_dtype_bytes(dtype)) == 0)) continue;
            (void)fprintf(stderr, "    kind %u, %u bits, element %u\n", l->node.kind, l->node.param, (unsigned)i);
            break;
        }
        free(exact);
    }
    rs_tree_clear(&tree);
    rs_buffer_clear(&bytes);
}

TEST(test_lists) {
    static const uint8_t widths[] = {1, 3, 7, 8, 13, 16, 32, 33, 64};
    static const int64_t bases[] = {0, -7, 100, -200, 40000};
    list_elements l = {{BOOL, 0, 0, 0, 0, 0, 0, 0}, 0, 0};
    check_list(&l);
    l.node.kind = FLOAT;
    check_list(&l);
    for (unsigned w = 0; w < sizeof widths; w++) {
        for (unsigned b = 0; b < sizeof bases / sizeof bases[0]; b++) {
            l.node.param = widths[w], l.base = bases[b];
            l.node.kind = INT, l.scale = 0;
            check_list(&l);
            l.node.kind = DECIMAL, l.scale = 1;
            check_list(&l);
        }
    }
}
