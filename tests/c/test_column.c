/* test_column.c: columns of numbers at one offset in many rows, in every stored form; mixed types. */
#include "columns/rs_column.h"
#include "rs_make.h"

static rs_error err;

static rs_node node_of(uint8_t kind, uint8_t bits, uint64_t size_bytes, uint64_t base) {
    rs_node node = {0};
    node.kind = kind, node.bits = bits, node.size_bytes = size_bytes, node.base = base, node.fixed = true;
    return node;
}

static rs_cursor cursor(uint64_t values) {
    rs_cursor c = {0};
    c.budget.values = values, c.budget.bytes = 100, c.budget.depth = 3, c.shared = false;
    return c;
}

enum { ROWS = 5, STRIDE = 11 };
static uint8_t bytes[ROWS * STRIDE];

static rs_column_rows rows_over(uint8_t *data, uint64_t bit_off, uint64_t body_off) {
    rs_column_rows rows = {data, STRIDE, NULL, ROWS, STRIDE, bit_off, body_off, NULL, 0, 0};
    return rows;
}

/* Reads the node from all rows, forwards, backwards and by pointers, and compares with the plain reader. */
static void check_ints(rs_node node, uint64_t bit_off, uint64_t body_off) {
    const rs_cursor c = cursor(0);
    uint8_t *exact = make_exact(bytes, sizeof bytes);
    rs_column_rows rows = rows_over(exact, bit_off, body_off);
    rs_slice records[ROWS];
    rs_column column = {{0}, 0, false};
    bool taken;
    for (unsigned k = 0; k < ROWS; k++) records[k] = rs_slice_of(exact + (k * 3 % ROWS) * STRIDE, STRIDE);
    CHECK_OK(rs_column_take_rows(&column, &c, &node, &rows, &taken, &err), &err);
    rows.base = exact + (ROWS - 1) * STRIDE, rows.stride_bytes = -STRIDE;
    CHECK_OK(rs_column_take_rows(&column, &c, &node, &rows, &taken, &err), &err);
    rows.base = NULL, rows.records = records;
    CHECK_OK(rs_column_take_rows(&column, &c, &node, &rows, &taken, &err), &err);
    CHECK(taken);
    CHECK_U64(column.seen, RS_COLUMN_INT);
    CHECK_U64(column.values.size_bytes, 3 * ROWS * 8);
    for (unsigned way = 0; way < 3; way++) {
        for (unsigned k = 0; k < ROWS; k++) {
            const uint8_t *row = exact + (way == 0 ? k : way == 1 ? ROWS - 1 - k : k * 3 % ROWS) * STRIDE;
            uint64_t bits = rs_load_bits_unchecked(row, STRIDE, bit_off, node.bits);
            CHECK_U64(rs_load_u64(column.values.data + 8 * (way * ROWS + k)),
                      rs_decode_int_unchecked(&node, row + body_off, bits));
        }
    }
    rs_column_clear(&column);
    free(exact);
}

TEST(test_ints) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)make_random(256);
    for (size_t i = 1; i <= 8; i *= 2)
        check_ints(node_of(INT, 0, i, 0), 0, STRIDE - i), check_ints(node_of(INT, 0, i, UINT64_MAX - 5), 0, 1);
    for (unsigned bits = 0; bits <= 64; bits++) {
        for (unsigned off = 0; off + bits <= STRIDE * 8; off += 5)
            check_ints(node_of(INT, (uint8_t)bits, 0, 77), off, 0);
    }
}

static double float_at(const rs_column *column, size_t i) { return rs_load_f64(column->values.data + 8 * i); }

TEST(test_kinds_that_meet) {
    static const uint8_t seven[] = {0x97}, text[] = {0x09, 1, 'a'};
    const rs_cursor c = cursor(0);
    rs_node flag = node_of(BOOL, 1, 0, 0), number = node_of(INT, 0, 1, 0), real = node_of(FLOAT, 0, 8, 0),
            constant = node_of(CONST, 0, 0, 0);
    rs_node other = node_of(STR, 0, 0, 0);
    rs_column_rows rows = rows_over(bytes, 4, 0);
    rs_column column = {{0}, 0, false};
    bool taken;
    double half = 0.5;
    unsigned k;
    memset(bytes, 0, sizeof bytes);
    for (k = 0; k < ROWS; k++) bytes[k * STRIDE] = (uint8_t)(0x10 * (k & 1)), memcpy(bytes + k * STRIDE + 3, &half, 8);
    CHECK_OK(rs_column_take_rows(&column, &c, &flag, &rows, &taken, &err), &err);
    CHECK_U64(column.values.size_bytes, ROWS);
    CHECK_U64(rs_column_item_bytes(&column), 1);
    CHECK(column.values.data[1] == 1 && column.values.data[2] == 0);
    CHECK_OK(rs_column_reserve(&column, 1, &err), &err);
    rs_column_put_unchecked(&column, RS_COLUMN_BOOL, 1);
    CHECK_OK(rs_column_take_rows(&column, &c, &number, &rows, &taken, &err), &err);
    CHECK_U64(column.values.size_bytes, 8 * (2 * ROWS + 1));
    CHECK_U64(rs_load_u64(column.values.data + 8), 1);
    CHECK_U64(rs_load_u64(column.values.data + 8 * (ROWS + 2)), 0x10);
    CHECK_OK(rs_column_take_rows(&column, &c, &flag, &rows, &taken, &err), &err);
    constant.aux = seven, constant.aux_size_bytes = 1;
    CHECK_OK(rs_column_take_rows(&column, &c, &constant, &rows, &taken, &err), &err);
    CHECK(taken);
    CHECK_U64(rs_load_u64(column.values.data + 8 * (4 * ROWS)), 7);
    rows.body_off = 3;
    CHECK_OK(rs_column_take_rows(&column, &c, &real, &rows, &taken, &err), &err);
    CHECK_U64(column.seen, RS_COLUMN_BOOL | RS_COLUMN_INT | RS_COLUMN_FLOAT);
    CHECK(float_at(&column, 1) == 1.0 && float_at(&column, ROWS + 2) == 16.0 && float_at(&column, 4 * ROWS + 1) == 0.5);
    rows.body_off = 0;
    CHECK_OK(rs_column_take_rows(&column, &c, &number, &rows, &taken, &err), &err);
    CHECK_OK(rs_column_take_rows(&column, &c, &flag, &rows, &taken, &err), &err);
    CHECK(float_at(&column, 5 * ROWS + 2) == 16.0 && float_at(&column, 6 * ROWS + 2) == 1.0);
    k = (unsigned)column.values.size_bytes;
    CHECK_OK(rs_column_take_rows(&column, &c, &other, &rows, &taken, &err), &err);
    CHECK(!taken);
    constant.aux = text, constant.aux_size_bytes = 3;
    CHECK_OK(rs_column_take_rows(&column, &c, &constant, &rows, &taken, &err), &err);
    CHECK(!taken && column.values.size_bytes == k);
    rs_column_clear(&column);
}

TEST(test_lists) {
    rs_node int3 = node_of(INT, 3, 0, 10), int16 = node_of(INT, 0, 2, 0), real = node_of(FLOAT, 0, 8, 0),
            text = node_of(STR, 0, 0, 0);
    rs_node list = node_of(LIST, 0, 0, 0);
    rs_cursor c = cursor(5);
    rs_column_rows rows = rows_over(bytes, 0, 1);
    rs_column column = {{0}, 0, false};
    bool taken;
    memset(bytes, 0, sizeof bytes);
    for (unsigned k = 0; k < ROWS; k++) bytes[k * STRIDE + 1] = 0x88, bytes[k * STRIDE + 2] = (uint8_t)k;
    list.children = &int3, list.count = 5;
    CHECK_OK(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), &err);
    CHECK(taken);
    CHECK_U64(column.values.size_bytes, 8 * 5 * ROWS);
    CHECK_U64(rs_load_u64(column.values.data), 10);
    CHECK_U64(rs_load_u64(column.values.data + 8), 11);
    CHECK_U64(rs_load_u64(column.values.data + 16), 12);
    CHECK_U64(rs_load_u64(column.values.data + 8 * 7), 10 + (0x188 >> 6) % 8);
    list.children = &int16, list.count = 2;
    CHECK_OK(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), &err);
    CHECK_U64(rs_load_u64(column.values.data + 8 * (5 * ROWS + 2)), 0x188);
    list.children = &real, list.count = 1;
    CHECK_OK(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), &err);
    CHECK(float_at(&column, 0) == 10.0);
    list.count = 6;
    CHECK_CODE(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), RS_E_FMT_LIMIT, &err);
    rs_node places[2] = {int3, int3}, row = node_of(TUPLE, 6, 0, 0); /* its bits are at bit 3 of byte 1 */
    places[1].bit_off = 3, row.children = places, row.n_children = 2, rows.bit_off = 11;
    rs_column_empty(&column);
    CHECK_OK(rs_column_take_lists(&column, &c, &row, &rows, &taken, &err), &err);
    CHECK(taken);
    CHECK_U64(column.values.size_bytes, 8 * 2 * ROWS);
    CHECK_U64(rs_load_u64(column.values.data), 11);
    CHECK_U64(rs_load_u64(column.values.data + 8), 12);
    CHECK_U64(rs_load_u64(column.values.data + 8 * 3), 10 + (0x188 >> 6) % 8);
    places[1] = real;
    CHECK_OK(rs_column_take_lists(&column, &c, &row, &rows, &taken, &err), &err);
    CHECK(!taken);
    c = cursor(UINT64_MAX), list.count = UINT32_MAX, rows.n = UINT64_MAX / 2, list.children = &int3;
    CHECK_CODE(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), RS_E_MEM, &err);
    list.children = &text;
    CHECK_OK(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), &err);
    CHECK(!taken);
    CHECK_OK(rs_column_take_lists(&column, &c, &text, &rows, &taken, &err), &err);
    CHECK(!taken);
    rs_column_clear(&column);
}

static rs_node decimal_of(uint8_t bits, uint64_t size_bytes, uint64_t base, unsigned scale, unsigned correction) {
    rs_node node = node_of(RS_FMT_NODE_DECIMAL, bits, size_bytes, base);
    node.scale = (uint8_t)scale, node.correction = (uint8_t)correction, node.divisor = rs_schema_divisor(scale);
    return node;
}

/* Compares rows and lists of decimals with the reader of a single decimal. */
static void check_decimals(rs_node node, uint64_t bit_off, uint64_t body_off) {
    rs_node list = node_of(LIST, 0, 0, 0);
    rs_cursor c = cursor(5);
    rs_column_rows rows = rows_over(bytes, bit_off, body_off);
    rs_column column = {{0}, 0, false};
    bool taken;
    CHECK_OK(rs_column_take_rows(&column, &c, &node, &rows, &taken, &err), &err);
    CHECK(taken && column.seen == RS_COLUMN_FLOAT && column.values.size_bytes == ROWS * 8);
    for (uint64_t k = 0; k < ROWS; k++) {
        const uint8_t *row = bytes + k * STRIDE;
        double one =
            rs_decode_decimal_unchecked(&node, row + body_off, rs_load_bits_unchecked(row, STRIDE, bit_off, node.bits));
        CHECK(memcmp(column.values.data + 8 * k, &one, 8) == 0);
    }
    list.children = &node, list.count = 2, rows.body_off = 0;
    CHECK_OK(rs_column_take_lists(&column, &c, &list, &rows, &taken, &err), &err);
    CHECK(taken && column.values.size_bytes == ROWS * 24);
    for (uint64_t k = 0; k < 2 * ROWS; k++) {
        const uint8_t *row = bytes + k / 2 * STRIDE, *bodies = row + (2 * node.bits + 7) / 8;
        uint64_t bits = rs_load_bits_unchecked(row, STRIDE, k % 2 * node.bits, node.bits);
        double one = rs_decode_decimal_unchecked(&node, bodies + k % 2 * node.size_bytes, bits);
        CHECK(memcmp(column.values.data + 8 * (ROWS + k), &one, 8) == 0);
    }
    rs_column_clear(&column);
}

TEST(test_decimals) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)make_random(256);
    check_decimals(decimal_of(0, 2, 5, 2, 0), 0, 3);
    check_decimals(decimal_of(0, 4, 0 - (uint64_t)9, 3, 0), 0, 1);
    check_decimals(decimal_of(0, 4, 7, 1, 3), 0, 6);
    check_decimals(decimal_of(17, 0, 100, 5, 0), 11, 0);
    check_decimals(decimal_of(33, 0, 100, 2, 11), 7, 0);
}

/* Packed numbers are appended to numbers of any form. */
TEST(test_packed) {
    /* FORMAT.md: n, a head of 8 bits, a width, differences of 2 bits: 100, 101, 100. */
    static const uint8_t ints[] = {3, 0x64, 2, 6};
    static const int64_t expected[] = {100, 101, 100};
    for (unsigned first = 0; first < 4; first++) {
        for (unsigned floats = 0; floats < 2; floats++) {
            rs_node node = node_of(RS_FMT_NODE_NUMBERS, 0, 0, 0);
            uint8_t *exact = make_exact(ints, sizeof ints);
            rs_place place = {NULL, NULL, 0};
            rs_column column = {{0}, 0, false};
            rs_cursor c = cursor(3);
            uint64_t n = 0;
            bool taken = false;
            node.fixed = false, node.stride = 1, node.head_width = 8, node.max_width = 2;
            node.number_kind = (uint8_t)floats, node.scale = (uint8_t)floats, node.divisor = rs_schema_divisor(floats);
            place.node = &node;
            c.in = rs_slice_of(exact, sizeof ints);
            CHECK_OK(rs_column_reserve(&column, 1, &err), &err);
            if (first != 0) rs_column_put_unchecked(&column, 1u << (first - 1), 0);
            CHECK_OK(rs_column_take_list(&column, &c, &place, &n, &taken, &err), &err);
            CHECK(taken && n == 3 && c.in.ptr == c.in.end);
            CHECK_U64(column.values.size_bytes, 8 * (3 + (first != 0)));
            for (unsigned k = 0; k < 3; k++) {
                const uint8_t *at = column.values.data + 8 * (k + (first != 0));
                if (floats != 0) CHECK(rs_load_f64(at) == (double)expected[k] / 10);
                else if (first == 3) CHECK(rs_load_f64(at) == (double)expected[k]);
                else CHECK(rs_load_u64(at) == (uint64_t)expected[k]);
            }
            c = cursor(2), c.in = rs_slice_of(exact, sizeof ints);
            CHECK_CODE(rs_column_take_list(&column, &c, &place, &n, &taken, &err), RS_E_FMT_LIMIT, &err);
            c = cursor(3), c.in = rs_slice_of(exact, sizeof ints - 1);
            CHECK_CODE(rs_column_take_list(&column, &c, &place, &n, &taken, &err), RS_E_FMT_TRUNCATED, &err);
            rs_column_clear(&column);
            free(exact);
        }
    }
}
