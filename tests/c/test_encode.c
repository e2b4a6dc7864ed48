/* test_encode.c: raw values and handmade trees in, literal bytes of FORMAT.md out; values that do not fit. */
#include "write/rs_encode.h"
#include "rs_make.h"

static rs_error err;
static make_block block;
static rs_buffer encoded;

/* Encodes the record made so far and drops it. */
static rs_status encode(const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_buffer bytes = {0};
    rs_tree tree;
    make_record_end(&block);
    make_tree(&bytes, nodes, n, aux, aux_size);
    encoded.size_bytes = 0;
    rs_status status = make_compiled(&bytes, &tree, &err);
    if (CHECK_OK(status, &err)) {
        uint8_t *exact = make_exact(block.raw.data, block.raw.size_bytes);
        const rs_slice raw = rs_slice_of(exact, block.raw.size_bytes);
        rs_places_part places = {0};
        block.scan.next = 0;
        if (tree.n_placed == 0) {
            status = rs_encode_record(&tree, raw, &block.scan, &encoded, &err);
        } else if (CHECK_OK(rs_places_part_begin(&places, &tree, &err), &err)) {
            status = rs_encode_placed_record(&tree, raw, &block.scan, &places, &encoded, &err);
        }
        if (status == RS_OK) CHECK_U64(block.scan.next, block.scan.n_key_sets);
        rs_places_part_clear(&places);
        free(exact);
        rs_tree_clear(&tree);
    }
    rs_buffer_clear(&bytes);
    make_block_clear(&block);
    return status;
}

static bool encoded_is(const void *bytes, size_t n) {
    return encoded.size_bytes == n && (n == 0 || memcmp(encoded.data, bytes, n) == 0);
}
#define CHECK_ENCODED(...) \
    do { \
        const uint8_t wanted_[] = {__VA_ARGS__}; \
        CHECK(encoded_is(wanted_, sizeof wanted_)); \
    } while (0)

static const uint8_t base_0[8] = {0}, base_minus_2[8] = {0xFE, 255, 255, 255, 255, 255, 255, 255};

TEST(test_int) {
    make_node node = {INT, 3, 0, 0, 0, 0, 8, 0};
    make_int(&block.raw, 5);
    CHECK_OK(encode(&node, 1, base_minus_2, 8), &err);
    CHECK_ENCODED(7);
    make_int(&block.raw, 6);
    CHECK_CODE(encode(&node, 1, base_minus_2, 8), RS_E_ARG_RANGE, &err);
    make_int(&block.raw, -3);
    CHECK_CODE(encode(&node, 1, base_minus_2, 8), RS_E_ARG_RANGE, &err);
    node.param = 0; /* only the base: no bytes at all */
    make_int(&block.raw, -2);
    CHECK_OK(encode(&node, 1, base_minus_2, 8), &err);
    CHECK_U64(encoded.size_bytes, 0);
    node.param = 16;
    make_int(&block.raw, 0x1234);
    CHECK_OK(encode(&node, 1, base_0, 8), &err);
    CHECK_ENCODED(0x34, 0x12);
    node.param = 20;
    make_int(&block.raw, 0x54321);
    CHECK_OK(encode(&node, 1, base_0, 8), &err);
    CHECK_ENCODED(0x21, 0x43, 0x05);
    node.param = 64;
    make_int(&block.raw, INT64_MIN);
    CHECK_OK(encode(&node, 1, base_minus_2, 8), &err);
    CHECK_ENCODED(2, 0, 0, 0, 0, 0, 0, 0x80);
    make_float(&block.raw, 1);
    CHECK_CODE(encode(&node, 1, base_0, 8), RS_E_ARG_RANGE, &err);
}

/* A correction of 2 bits holds floats up to two units in the last place below the decimal, and one above. */
TEST(test_decimal) {
    static const uint8_t aux[10] = {3, 0, 0, 0, 0, 0, 0, 0, 1, 2};
    static const make_node node = {DECIMAL, 8, 0, 0, 0, 0, 10, 0};
    make_float(&block.raw, 0.3);
    CHECK_OK(encode(&node, 1, aux, 10), &err);
    CHECK_ENCODED(2);
    make_float(&block.raw, 0.1 + 0.2);
    CHECK_OK(encode(&node, 1, aux, 10), &err);
    CHECK_ENCODED(3);
    make_float(&block.raw, 0.3 + 1e-15);
    CHECK_CODE(encode(&node, 1, aux, 10), RS_E_ARG_RANGE, &err);
}

TEST(test_leaves) {
    static const make_node number = {FLOAT, 0, 0, 0, 0, 0, 0, 0}, flag = {BOOL, 0, 0, 0, 0, 0, 0, 0};
    static const make_node bytes = {BYTES, 0, 0, 0, 0, 0, 0, 0}, any = {ANY, 0, 0, 0, 0, 0, 0, 0};
    static const make_node constant = {CONST, 0, 0, 0, 0, 0, 3, 0};
    make_float(&block.raw, 1);
    CHECK_OK(encode(&number, 1, NULL, 0), &err);
    CHECK_ENCODED(0, 0, 0, 0, 0, 0, 0xF0, 0x3F);
    make_tag(&block.raw, 2);
    CHECK_OK(encode(&flag, 1, NULL, 0), &err);
    CHECK_ENCODED(1);
    make_tag(&block.raw, 0);
    CHECK_CODE(encode(&flag, 1, NULL, 0), RS_E_ARG_RANGE, &err);
    make_units(&block.raw, 0x0C, 2, 1, 9);
    CHECK_OK(encode(&bytes, 1, NULL, 0), &err);
    CHECK_ENCODED(2, 9, 9);
    make_str(&block.raw, "x");
    CHECK_OK(encode(&any, 1, NULL, 0), &err);
    CHECK_ENCODED(0x09, 1, 'x');
    make_str(&block.raw, "x");
    CHECK_OK(encode(&constant, 1, "\x09\1x", 3), &err);
    CHECK_U64(encoded.size_bytes, 0);
    make_str(&block.raw, "y");
    CHECK_CODE(encode(&constant, 1, "\x09\1x", 3), RS_E_ARG_RANGE, &err);
}

TEST(test_str) {
    make_node node = {STR, 1, 0, 0, 0, 0, 0, 0};
    make_str(&block.raw, "hi");
    CHECK_OK(encode(&node, 1, NULL, 0), &err);
    CHECK_ENCODED(2, 'h', 'i');
    make_units(&block.raw, 0x0A, 1, 2, 'z');
    CHECK_CODE(encode(&node, 1, NULL, 0), RS_E_ARG_RANGE, &err);
    node.param = 2;
    make_units(&block.raw, 0x0A, 1, 2, 'z');
    CHECK_OK(encode(&node, 1, NULL, 0), &err);
    CHECK_ENCODED(1, 'z', 0);
    node.param = 0;
    make_str(&block.raw, "hi");
    CHECK_OK(encode(&node, 1, NULL, 0), &err);
    CHECK_ENCODED(8, 'h', 'i');
    make_units(&block.raw, 0x0B, 1, 4, 'z');
    CHECK_OK(encode(&node, 1, NULL, 0), &err);
    CHECK_ENCODED(6, 'z', 0, 0, 0);
}

static void make_ints(unsigned tag, unsigned n) {
    make_head(&block.raw, tag, n);
    for (unsigned i = 0; i < n; i++) make_int(&block.raw, i);
}

TEST(test_list) {
    make_node nodes[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {INT, 3, 0, 0, 0, 0, 8, 0}};
    make_ints(0x0D, 4);
    CHECK_OK(encode(nodes, 2, base_0, 8), &err);
    CHECK_ENCODED(4, 0x88, 0x06); /* 000 001 010 011 from the lowest bit up: 0b011'010'001'000 */
    make_ints(0x0D, 0);
    CHECK_OK(encode(nodes, 2, base_0, 8), &err);
    CHECK_ENCODED(0);
    make_ints(0x0E, 4);
    CHECK_CODE(encode(nodes, 2, base_0, 8), RS_E_ARG_RANGE, &err);
    nodes[0].param = 1, nodes[0].flags = 1, nodes[0].count = 4; /* a tuple, its length in the tree */
    make_ints(0x0E, 4);
    CHECK_OK(encode(nodes, 2, base_0, 8), &err);
    CHECK_ENCODED(0x88, 0x06);
    make_ints(0x0E, 3);
    CHECK_CODE(encode(nodes, 2, base_0, 8), RS_E_ARG_RANGE, &err);
    nodes[0].param = 0, nodes[0].flags = 0, nodes[0].count = 0, nodes[1].param = 8;
    make_ints(0x0D, 3);
    CHECK_OK(encode(nodes, 2, base_0, 8), &err);
    CHECK_ENCODED(3, 0, 1, 2);
}

/* (bool, str, int3, float) is stored as the bits of all, the bodies of the fixed children, then the bodies of the
 * others. */
TEST(test_tuple) {
    static const make_node nodes[] = {{TUPLE, 1, 0, 4, 1, 0, 0, 0},
                                      {BOOL, 0, 0, 0, 0, 0, 0, 0},
                                      {STR, 1, 0, 0, 0, 0, 0, 0},
                                      {INT, 3, 0, 0, 0, 0, 8, 0},
                                      {FLOAT, 0, 0, 0, 0, 0, 0, 0}};
    for (unsigned n = 3; n <= 4; n++) {
        make_head(&block.raw, 0x0E, n);
        make_tag(&block.raw, 2), make_str(&block.raw, "s"), make_int(&block.raw, 5);
        if (n == 4) make_float(&block.raw, -2);
        CHECK_CODE(encode(nodes, 5, base_0, 8), n == 4 ? RS_OK : RS_E_ARG_RANGE, &err);
        if (n == 4) CHECK_ENCODED(0x0B, 0, 0, 0, 0, 0, 0, 0, 0xC0, 1, 's');
    }
}

TEST(test_struct) {
    static const make_node nodes[] = {
        {STRUCT, 0, 0, 2, 1, 8, 6, 0}, {BYTES, 0, 0, 0, 0, 0, 0, 0}, {INT, 8, 0, 0, 0, 0, 8, 0}};
    static const char aux[] = "\0\0\0\0\0\0\0\0\x09\1a\x09\1b";
    make_head(&block.raw, 0x0F, 2);
    make_str(&block.raw, "a"), make_units(&block.raw, 0x0C, 1, 1, 7), make_str(&block.raw, "b"),
        make_int(&block.raw, 3);
    CHECK_OK(encode(nodes, 3, aux, 14), &err);
    CHECK_ENCODED(3, 1, 7);
    make_head(&block.raw, 0x0F, 2); /* the other order of keys is another shape */
    make_str(&block.raw, "b"), make_int(&block.raw, 3), make_str(&block.raw, "a"),
        make_units(&block.raw, 0x0C, 1, 1, 7);
    CHECK_CODE(encode(nodes, 3, aux, 14), RS_E_ARG_RANGE, &err);
    make_head(&block.raw, 0x0D, 0);
    CHECK_CODE(encode(nodes, 3, aux, 14), RS_E_ARG_RANGE, &err);
}

/* A list of union(int3, str1, None) is stored as two bits for each element, then the value of each element alone. */
TEST(test_union) {
    static const make_node nodes[] = {{LIST, 0, 0, 1, 1, 0, 0, 0},
                                      {UNION, 0, 0, 3, 2, 0, 0, 0},
                                      {INT, 3, 0, 0, 0, 0, 8, 0},
                                      {STR, 1, 0, 0, 0, 0, 0, 0},
                                      {CONST, 0, 0, 0, 0, 0, 1, 0}};
    make_head(&block.raw, 0x0D, 3);
    make_tag(&block.raw, 0), make_str(&block.raw, "u"), make_int(&block.raw, 6);
    CHECK_OK(encode(nodes, 5, base_0, 8), &err);
    CHECK_ENCODED(3, 0x06, 1, 'u', 6);
    make_head(&block.raw, 0x0D, 1), make_int(&block.raw, 8);
    CHECK_CODE(encode(nodes, 5, base_0, 8), RS_E_ARG_RANGE, &err);
}

/* A union is fixed if all its children are fixed and take the same number of bytes alone. Its bodies are adjacent. */
TEST(test_fixed_union) {
    static const make_node nodes[] = {{LIST, 0, 1, 1, 1, 0, 0, 3},
                                      {UNION, 0, 0, 2, 2, 0, 0, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {BOOL, 0, 0, 0, 0, 0, 0, 0}};
    make_head(&block.raw, 0x0D, 3);
    make_int(&block.raw, 9), make_tag(&block.raw, 2), make_int(&block.raw, 7);
    CHECK_OK(encode(nodes, 4, base_0, 8), &err);
    CHECK_ENCODED(0x02, 9, 1, 7);
}

TEST(test_array) {
    make_node node = {NDARRAY, 0, 0, 0, 0, 0, 2, 0};
    make_array(&block.raw, 2, 0);
    CHECK_OK(encode(&node, 1, "\0\3\1\2", 4), &err);
    CHECK_ENCODED(1, 2, 0, 0, 0, 0);
    node.flags = 1, node.aux_size = 4;
    make_array(&block.raw, 2, 0);
    CHECK_OK(encode(&node, 1, "\0\3\1\2", 4), &err);
    CHECK_ENCODED(0, 0, 0, 0);
    make_array(&block.raw, 3, 0);
    CHECK_CODE(encode(&node, 1, "\0\3\1\2", 4), RS_E_ARG_RANGE, &err);
    node.aux_size = 5;
    make_array(&block.raw, 512, 640); /* outside: only the position is left */
    CHECK_OK(encode(&node, 1, "\0\3\1\x80\4", 5), &err);
    CHECK_ENCODED(10);
}

/* The tree has the tag, the code and EXTRA; the record has only the payload's bits and body. */
TEST(test_ext) {
    static const make_node nodes[] = {
        {LIST, 0, 0, 1, 1, 0, 0, 0}, {EXT, 13, 0, 1, 2, 8, 1, 0}, {INT, 3, 0, 0, 0, 0, 8, 0}};
    static const make_node text[] = {{EXT, 22, 0, 1, 1, 0, 3, 0}, {STR, 1, 0, 0, 0, 0, 0, 0}};
    static const make_node either[] = {{UNION, 0, 0, 3, 1, 0, 0, 0}, {EXT, 22, 0, 1, 4, 0, 3, 0},
                                       {EXT, 22, 0, 1, 5, 3, 3, 0},  {ANY, 0, 0, 0, 0, 0, 0, 0},
                                       {STR, 1, 0, 0, 0, 0, 0, 0},   {STR, 1, 0, 0, 0, 0, 0, 0}};
    static const char aux[] = "\0\0\0\0\0\0\0\0\0";
    make_head(&block.raw, 0x0D, 4);
    for (unsigned i = 0; i < 4; i++) make_ext(&block.raw, 13, NULL), make_int(&block.raw, i);
    CHECK_OK(encode(nodes, 3, aux, 9), &err);
    CHECK_ENCODED(4, 0x88, 0x06);
    make_head(&block.raw, 0x0D, 1), make_ext(&block.raw, 14, NULL), make_int(&block.raw, 1);
    CHECK_CODE(encode(nodes, 3, aux, 9), RS_E_ARG_RANGE, &err);
    make_head(&block.raw, 0x0D, 1), make_int(&block.raw, 1);
    CHECK_CODE(encode(nodes, 3, aux, 9), RS_E_ARG_RANGE, &err);
    make_bytes(&block.raw, "\x11\x16\x09\1p\x09\1x", 8);
    CHECK_OK(encode(text, 2, "\x09\1p", 3), &err);
    CHECK_ENCODED(1, 'x');
    make_bytes(&block.raw, "\x11\x16\x09\1q\x09\1x", 8);
    CHECK_CODE(encode(text, 2, "\x09\1p", 3), RS_E_ARG_RANGE, &err);
    for (unsigned i = 0; i < 3; i++) { /* the child is chosen by EXTRA */
        make_bytes(&block.raw,
                   i == 0   ? "\x11\x16\x09\1p\x09\1x"
                   : i == 1 ? "\x11\x16\x09\1q\x09\1x"
                            : "\x11\x16\x09\1r\x09\1x",
                   8);
        CHECK_OK(encode(either, 6, "\x09\1p\x09\1q", 6), &err);
        CHECK(encoded.data[0] == i && encoded.size_bytes == (i < 2 ? 3 : 9));
    }
}

/* A list of many small values does not fit a tree of large fixed elements: it is refused before memory is allocated for
 * them. */
TEST(test_no_room_for_misfits) {
    static const make_node nodes[] = {
        {LIST, 0, 0, 1, 1, 0, 0, 0}, {LIST, 0, 1, 1, 2, 0, 0, 1000000}, {FLOAT, 0, 0, 0, 0, 0, 0, 0}};
    make_ints(0x0D, 100000);
    CHECK_CODE(encode(nodes, 3, NULL, 0), RS_E_ARG_LIMIT, &err);
    CHECK(encoded.capacity_bytes < 1 << 20);
}

/* The child of a rising node may be digits. No value can be encoded under it here, neither the text nor its number. */
TEST(test_rising_digits) {
    static const make_node nodes[] = {{RISING, 0, 0, 1, 1, 0, 0, 0}, {DIGITS, 0, 0, 0, 0, 0, 8, 0}};
    make_str(&block.raw, "5");
    CHECK_CODE(encode(nodes, 2, base_0, 8), RS_E_ARG_RANGE, &err);
    make_int(&block.raw, 5);
    CHECK_CODE(encode(nodes, 2, base_0, 8), RS_E_ARG_RANGE, &err);
    make_float(&block.raw, 5);
    CHECK_CODE(encode(nodes, 2, base_0, 8), RS_E_ARG_RANGE, &err);
}

/* Without a dictionary a value has no number. */
TEST(test_no_dictionary) {
    static const make_node nodes[] = {
        {UNION, 0, 0, 2, 1, 0, 0, 0}, {DICT_CODED, 3, 0, 0, 0, 0, 4, 5}, {ANY, 0, 0, 0, 0, 0, 0, 0}};
    make_str(&block.raw, "x");
    CHECK_CODE(encode(&nodes[1], 1, "\0\0\0\0", 4), RS_E_ARG_RANGE, &err);
    make_str(&block.raw, "x");
    CHECK_OK(encode(nodes, 3, "\0\0\0\0", 4), &err);
    CHECK_ENCODED(1, 9, 1, 'x');
}
