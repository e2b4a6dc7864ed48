/* test_cell.c: cells of numbers of every kind and width against the functions that read one value at a time. */
#include "read/rs_decode.h"
#include "columns/rs_cell.h"
#include "rs_make.h"

enum { N_BYTES = 64 };

static uint8_t bytes[N_BYTES];

static void randomise(void) {
    for (size_t i = 0; i < N_BYTES; i++) bytes[i] = (uint8_t)make_random(256);
}

static rs_node node_of(unsigned kind, unsigned bits, unsigned size_bytes) {
    rs_node node = {0};
    node.kind = (uint8_t)kind, node.bits = (uint8_t)bits, node.size_bytes = size_bytes, node.fixed = true;
    node.base = kind == RS_FMT_NODE_INT || kind == RS_FMT_NODE_DECIMAL ? UINT64_MAX - 5 : 0;
    node.divisor = 100;
    return node;
}

static uint64_t expected(const rs_node *node, uint64_t bit_off, const uint8_t *body) {
    const uint64_t stored = rs_load_bits_unchecked(bytes, N_BYTES, bit_off, node->bits);
    uint64_t out;
    if (node->kind == RS_FMT_NODE_INT) return (uint64_t)rs_decode_int_unchecked(node, body, stored);
    if (node->kind == RS_FMT_NODE_BOOL) return stored;
    double value =
        node->kind == RS_FMT_NODE_FLOAT ? rs_load_f64(body) : rs_decode_decimal_unchecked(node, body, stored);
    memcpy(&out, &value, 8);
    return out;
}

static void check_one(const rs_node *node, uint64_t bit_off, uint64_t body_off) {
    uint64_t out = 0;
    rs_cell cell;
    rs_cell_set(&cell, node, bit_off, body_off, 20);
    REQUIRE(cell.kind != RS_CELL_NONE && cell.count == 0 && cell.least == 20);
    CHECK(cell.reach * 8 >= cell.bit + (node->size_bytes != 0 ? node->size_bytes * 8 : node->bits));
    CHECK(cell.type == (node->kind == RS_FMT_NODE_INT    ? RS_CELL_OF_INT
                        : node->kind == RS_FMT_NODE_BOOL ? RS_CELL_OF_BOOL
                                                         : RS_CELL_OF_FLOAT));
    CHECK(rs_cell_load_unchecked(&cell, bytes, 1, (uint8_t *)&out) ==
          (uint8_t *)&out + (node->kind == RS_FMT_NODE_BOOL ? 1 : 8));
    CHECK_U64(out, expected(node, bit_off, bytes + body_off));
}

TEST(test_every_width) {
    static const unsigned sizes[] = {1, 2, 4, 8};
    for (unsigned off = 0; off < 64; off++) {
        randomise();
        for (unsigned bits = 0; bits <= 57; bits++) {
            rs_node integer = node_of(RS_FMT_NODE_INT, bits, 0), decimal = node_of(RS_FMT_NODE_DECIMAL, bits, 0);
            check_one(&integer, off, 9), check_one(&decimal, off, 9);
            decimal.correction = 3;
            check_one(&decimal, off, 9);
        }
        for (unsigned i = 0; i < 4; i++) {
            const rs_node integer = node_of(RS_FMT_NODE_INT, 0, sizes[i]);
            const rs_node decimal = node_of(RS_FMT_NODE_DECIMAL, 0, sizes[i]);
            check_one(&integer, 3, off / 2), check_one(&decimal, 3, off / 2);
        }
        {
            const rs_node flag = node_of(RS_FMT_NODE_BOOL, 1, 0), real = node_of(RS_FMT_NODE_FLOAT, 0, 8);
            check_one(&flag, off, 9), check_one(&real, 3, off / 2);
        }
    }
}

static void check_list(const rs_node *child, uint32_t count, uint64_t body_off) {
    const uint64_t bodies = body_off + ((uint64_t)count * child->bits + 7) / 8;
    uint64_t out[8];
    rs_node list = node_of(RS_FMT_NODE_LIST, 0, 0);
    rs_cell cell;
    list.count = count, list.children = child;
    rs_cell_set(&cell, &list, 0, body_off, 20);
    REQUIRE(cell.kind != RS_CELL_NONE && cell.count == count);
    REQUIRE(cell.reach <= N_BYTES);
    CHECK(rs_cell_load_unchecked(&cell, bytes, count, (uint8_t *)out) == (uint8_t *)(out + count));
    for (uint64_t k = 0; k < count; k++) {
        CHECK_U64(out[k], expected(child, body_off * 8 + k * child->bits, bytes + bodies + k * child->size_bytes));
    }
}

TEST(test_lists) {
    randomise();
    for (unsigned bits = 1; bits <= 40; bits++) {
        const rs_node integer = node_of(RS_FMT_NODE_INT, bits, 0), decimal = node_of(RS_FMT_NODE_DECIMAL, bits, 0);
        for (unsigned i = 0; i < 9; i++) check_list(&integer, 1 + i % 8, i), check_list(&decimal, 1 + i % 8, i);
    }
    for (unsigned i = 0; i < 9; i++) {
        const rs_node narrow = node_of(RS_FMT_NODE_INT, 0, 2), real = node_of(RS_FMT_NODE_FLOAT, 0, 8);
        check_list(&narrow, 1 + i % 8, i), check_list(&real, 1 + i % 5, i);
    }
}

/* Sets the cell of a const of these bytes. Checks its type and, unless the type is 0, its number. */
static void check_const(const void *aux, size_t size, unsigned type, uint64_t number) {
    uint64_t out = 0;
    rs_node node = node_of(RS_FMT_NODE_CONST, 0, 0);
    rs_cell cell;
    node.aux = (const uint8_t *)aux, node.aux_size_bytes = (uint32_t)size;
    rs_cell_set(&cell, &node, 0, 0, 0);
    CHECK_U64(cell.type, type);
    CHECK((cell.kind == RS_CELL_NONE) == (type == 0));
    if (type == 0) return;
    (void)rs_cell_load_unchecked(&cell, bytes, 1, (uint8_t *)&out);
    CHECK_U64(out, number);
}

TEST(test_consts) {
    rs_buffer raw = {0};
    double half = 0.5;
    uint64_t half_bits;
    randomise();
    memcpy(&half_bits, &half, 8);
    make_int(&raw, 3), check_const(raw.data, raw.size_bytes, RS_CELL_OF_INT, 3);
    raw.size_bytes = 0, make_int(&raw, -70000), check_const(raw.data, raw.size_bytes, RS_CELL_OF_INT, (uint64_t)-70000);
    for (size_t n = 0; n < raw.size_bytes; n++) check_const(raw.data, n, 0, 0); /* cut off */
    raw.size_bytes = 0, make_float(&raw, half), check_const(raw.data, raw.size_bytes, RS_CELL_OF_FLOAT, half_bits);
    for (size_t n = 0; n < raw.size_bytes; n++) check_const(raw.data, n, 0, 0);
    raw.size_bytes = 0, make_str(&raw, "text"), check_const(raw.data, raw.size_bytes, 0, 0);
    raw.size_bytes = 0, make_tag(&raw, 0), check_const(raw.data, raw.size_bytes, 0, 0);
    rs_buffer_clear(&raw);
}

TEST(test_other_nodes) {
    rs_node wide = node_of(RS_FMT_NODE_INT, 58, 0), text = node_of(RS_FMT_NODE_STR, 0, 0);
    rs_node list = node_of(RS_FMT_NODE_LIST, 0, 0), coded = node_of(RS_FMT_NODE_DICT_CODED, 10, 0);
    rs_cell cell;
    rs_cell_set(&cell, &wide, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE);
    rs_cell_set(&cell, &text, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE && cell.type == 0);
    list.children = &text, list.count = 2;
    rs_cell_set(&cell, &list, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE);
    list.children = &wide;
    rs_cell_set(&cell, &list, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE);
    list.children = &coded;
    rs_cell_set(&cell, &list, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE);
    wide = node_of(RS_FMT_NODE_INT, 8, 0), list.children = &wide, list.count = 0;
    rs_cell_set(&cell, &list, 0, 8, 8), CHECK(cell.kind == RS_CELL_NONE);
    randomise();
    rs_cell_set(&cell, &coded, 13, 8, 8);
    CHECK(cell.kind == RS_CELL_CODED && cell.type == 0 && cell.node == &coded);
    CHECK_U64(rs_cell_stored_unchecked(&cell, bytes, cell.bit), rs_load_bits_unchecked(bytes, N_BYTES, 13, 10));
}
