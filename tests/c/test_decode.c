/* test_decode.c: the check of encoded records: literal bytes of node kinds that need no tables or places; rules 20 to
 * 23; damage. */
#include "read/rs_decode.h"
#include "rs_make.h"
#include "verify/rs_check.h"

static rs_error err;
static rs_budget budget; /* set before a check, which spends from it */

static rs_status check_tree(const rs_tree *tree, const void *bytes, size_t n) {
    uint8_t *exact = make_exact(bytes, n), *arrays = make_exact("", 0);
    rs_cursor cursor;
    cursor.in = rs_slice_of(exact, n);
    cursor.arrays = arrays, cursor.arrays_size = 2048; /* its bytes are never read */
    cursor.budget = budget, cursor.shared = false;
    rs_status status = rs_check_record(&cursor, tree, NULL, &err);
    if (status == RS_OK) CHECK_U64(cursor.budget.depth, budget.depth);
    budget.values = cursor.budget.values, budget.bytes = cursor.budget.bytes;
    free(exact), free(arrays);
    return status;
}

static void set_budget(uint64_t values, uint64_t bytes, uint32_t depth) {
    budget.values = values, budget.bytes = bytes, budget.depth = depth;
}

/* ---- Literal records ---- */

#define LEAF(kind, param) {kind, param, 0, 0, 0, 0, 0, 0}
#define INT_NODE(width) {INT, width, 0, 0, 0, 0, 8, 0}
static const struct {
    const char *what;
    rs_status code;
    make_node nodes[5];
    uint32_t n_nodes;
    uint8_t aux[16];
    uint32_t aux_size;
    uint8_t bytes[16];
    size_t n;
    /* clang-format off */
} cases[] = {
    {"any", RS_OK, {LEAF(ANY, 0)}, 1, {0}, 0, {0x09, 1, 'x'}, 3},
    {"any of a later tag", RS_E_FMT_VERSION, {LEAF(ANY, 0)}, 1, {0}, 0, {0x12}, 1},
    {"any and more", RS_E_FMT_TRAILING, {LEAF(ANY, 0)}, 1, {0}, 0, {0x00, 0x00}, 2},
    {"const", RS_OK, {{CONST, 0, 0, 0, 0, 0, 1, 0}}, 1, {0x90}, 1, {0}, 0},
    {"const and more", RS_E_FMT_TRAILING, {{CONST, 0, 0, 0, 0, 0, 1, 0}}, 1, {0x90}, 1, {0}, 1},
    {"int of no bits", RS_OK, {INT_NODE(0)}, 1, {0}, 8, {0}, 0},
    {"int of 3 bits, unused ones ignored", RS_OK, {INT_NODE(3)}, 1, {0}, 8, {0xFF}, 1},
    {"int of 9 bits", RS_OK, {INT_NODE(9)}, 1, {0}, 8, {0xFF, 1}, 2},
    {"int of 32", RS_OK, {INT_NODE(32)}, 1, {0}, 8, {1, 2, 3, 4}, 4},
    {"int of 32 and more", RS_E_FMT_TRAILING, {INT_NODE(32)}, 1, {0}, 8, {1, 2, 3, 4, 5}, 5},
    {"float", RS_OK, {LEAF(FLOAT, 0)}, 1, {0}, 0, {0}, 8},
    {"bool", RS_OK, {LEAF(BOOL, 0)}, 1, {0}, 0, {1}, 1},
    {"str1", RS_OK, {LEAF(STR, 1)}, 1, {0}, 0, {2, 0xE9, 'x'}, 3},
    {"str2", RS_OK, {LEAF(STR, 2)}, 1, {0}, 0, {1, 0x00, 0xD8}, 3},
    {"str4", RS_OK, {LEAF(STR, 4)}, 1, {0}, 0, {1, 0xFF, 0xFF, 0x10, 0}, 5},
    {"str4 of a bad code point", RS_E_FMT_VALUE, {LEAF(STR, 4)}, 1, {0}, 0, {1, 0, 0, 0x11, 0}, 5},
    {"str0", RS_OK, {LEAF(STR, 0)}, 1, {0}, 0, {5, 'x', 0}, 3},
    {"str0 of k 3", RS_E_FMT_VALUE, {LEAF(STR, 0)}, 1, {0}, 0, {7, 0, 0, 0, 0, 0, 0, 0, 0}, 9},
    {"str0 of a bad code point", RS_E_FMT_VALUE, {LEAF(STR, 0)}, 1, {0}, 0, {6, 0, 0, 0x11, 0}, 5},
    {"str2 whose size wraps", RS_E_FMT_TRUNCATED, {LEAF(STR, 2)}, 1, {0}, 0, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 10},
    {"bytes", RS_OK, {LEAF(BYTES, 0)}, 1, {0}, 0, {2, 1, 2}, 3},
    {"bytes beyond", RS_E_FMT_TRUNCATED, {LEAF(BYTES, 0)}, 1, {0}, 0, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 10},
    {"list of bits", RS_OK, {{LIST, 0, 0, 1, 1, 0, 0, 0}, INT_NODE(3)}, 2, {0}, 8, {4, 0x88, 6}, 3},
    {"list of strings", RS_OK, {{LIST, 0, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)}, 2, {0}, 0, {2, 1, 'a', 0}, 4},
    {"list of a fixed count", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, 2}, LEAF(STR, 1)}, 2, {0}, 0, {1, 'a', 0}, 3},
    {"tuple", RS_OK, {{TUPLE, 1, 0, 3, 1, 0, 0, 0}, LEAF(BOOL, 0), LEAF(STR, 1), INT_NODE(16)}, 4, {0}, 8, {1, 7, 7, 0}, 4},
    {"struct", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 3, 0}, LEAF(FLOAT, 0)}, 2, {9, 1, 'a'}, 3, {0}, 8},
    {"union", RS_OK, {{UNION, 0, 0, 3, 1, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0), INT_NODE(16)}, 4, {0}, 8, {2, 1, 2}, 3},
    {"union number beyond", RS_E_FMT_VALUE, {{UNION, 0, 0, 3, 1, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0), INT_NODE(16)}, 4, {0}, 8, {3, 1, 2}, 3},
    {"fixed union", RS_OK, {{UNION, 0, 0, 3, 1, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0), INT_NODE(8)}, 4, {0}, 8, {2, 9}, 2},
    {"fixed union number beyond", RS_E_FMT_VALUE, {{UNION, 0, 0, 3, 1, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0), INT_NODE(8)}, 4, {0}, 8, {3, 9}, 2},
    {"fixed union in a list, number beyond",
     RS_E_FMT_VALUE,
     {{LIST, 0, 0, 1, 1, 0, 0, 0}, {UNION, 0, 0, 3, 2, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0), INT_NODE(8)},
     5,
     {0},
     8,
     {2, 0x0C, 1, 1},
     4},
    {"fixed union in a tuple, number beyond",
     RS_E_FMT_VALUE,
     {{TUPLE, 0, 0, 1, 1, 0, 0, 0}, {UNION, 0, 0, 3, 2, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0), INT_NODE(8)},
     5,
     {0},
     8,
     {3, 1},
     2},
    {"array", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2, {1, 1, 7, 7}, 4},
    {"array of fixed shape", RS_OK, {{NDARRAY, 0, 1, 0, 0, 0, 4, 0}}, 1, {0, 3, 1, 2}, 4, {7, 7, 7, 7}, 4},
    {"scalar", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {2, 5}, 2, {0}, 8},
    {"array outside", RS_OK, {{NDARRAY, 0, 1, 0, 0, 0, 5, 0}}, 1, {0, 3, 1, 0x80, 4}, 5, {16}, 1},
    {"array outside, beyond", RS_E_FMT_VALUE, {{NDARRAY, 0, 1, 0, 0, 0, 5, 0}}, 1, {0, 3, 1, 0x80, 4}, 5, {17}, 1},
    {"ext of bits", RS_OK, {{EXT, 13, 0, 1, 1, 8, 1, 0}, INT_NODE(3)}, 2, {0, 0, 0, 0, 0, 0, 0, 0, 0}, 9, {0xFF}, 1},
    {"ext of a str", RS_OK, {{EXT, 22, 0, 1, 1, 0, 3, 0}, LEAF(STR, 1)}, 2, {9, 1, 'p'}, 3, {1, 'x'}, 2},
    {"ext of any", RS_OK, {{EXT, 4, 0, 1, 1, 0, 1, 0}, LEAF(ANY, 0)}, 2, {0}, 1, {0x0E, 1, 0x11, 7, 0, 0}, 6},
    {"ext of any that is an ext", RS_E_FMT_VALUE, {{EXT, 4, 0, 1, 1, 0, 1, 0}, LEAF(ANY, 0)}, 2, {0}, 1, {0x11, 7, 0, 0}, 4},
    {"ext of a union", RS_OK, {{EXT, 4, 0, 1, 1, 0, 1, 0}, {UNION, 0, 0, 2, 2, 0, 0, 0}, LEAF(STR, 1), LEAF(ANY, 0)}, 4, {0}, 1, {1, 0x90}, 2},
    {"ext of a union of an any that is an ext",
     RS_E_FMT_VALUE,
     {{EXT, 4, 0, 1, 1, 0, 1, 0}, {UNION, 0, 0, 2, 2, 0, 0, 0}, LEAF(STR, 1), LEAF(ANY, 0)},
     4,
     {0},
     1,
     {1, 0x11, 7, 0, 0},
     5},
    {"ext of a union, number beyond", RS_E_FMT_VALUE, {{EXT, 4, 0, 1, 1, 0, 1, 0}, {UNION, 0, 0, 3, 2, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0), INT_NODE(1)}, 5, {0}, 9, {3, 1}, 2},
    {"list of ext of bits", RS_OK, {{LIST, 0, 0, 1, 1, 0, 0, 0}, {EXT, 13, 0, 1, 2, 8, 1, 0}, INT_NODE(3)}, 3, {0}, 9, {4, 0x88, 6}, 3},
    {"tuple of ext", RS_OK, {{TUPLE, 1, 0, 2, 1, 0, 0, 0}, {EXT, 13, 0, 1, 3, 0, 1, 0}, LEAF(STR, 1), LEAF(BOOL, 0)}, 4, {0}, 1, {1, 0}, 2},
    {"struct array", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 10, 0}}, 1, {2, 20, 2, 0, 1, 1, 'a', 0, 3, 0}, 10, {7, 7}, 2},
    {"decimal of 9 bits", RS_OK, {{DECIMAL, 9, 0, 0, 0, 0, 10, 0}}, 1, {0}, 10, {0xFF, 1}, 2},
    {"decimal of 16 bits", RS_OK, {{DECIMAL, 16, 0, 0, 0, 0, 10, 0}}, 1, {0}, 10, {1, 2}, 2},
    {"numbers", RS_OK, {{NUMBERS, 0, 0, 0, 0, 0, 16, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 16, {3, 3, 0xD0, 1}, 4},
    {"numbers of a fixed count", RS_OK, {{NUMBERS, 1, 1, 0, 0, 0, 16, 3}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 2}, 16, {100, 2, 6}, 3},
    {"no numbers", RS_OK, {{NUMBERS, 0, 0, 0, 0, 0, 16, 0}}, 1, {0}, 16, {0}, 1},
    {"numbers too wide", RS_E_FMT_VALUE, {{NUMBERS, 0, 0, 0, 0, 0, 16, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 16, {3, 4, 0, 0}, 4},
    {"numbers and more", RS_E_FMT_TRAILING, {{NUMBERS, 0, 0, 0, 0, 0, 16, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 16, {3, 3, 0xD0, 1, 0}, 5},
    {"numbers in a list", RS_OK, {{LIST, 0, 0, 1, 1, 0, 0, 0}, {NUMBERS, 0, 0, 0, 0, 0, 16, 0}}, 2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 16, {2, 0, 1, 3, 7}, 5},
    {"digits of bits", RS_OK, {{DIGITS, 9, 0, 0, 0, 0, 8, 20}}, 1, {0}, 8, {0xFF, 1}, 2},
    {"digits of a body", RS_OK, {{DIGITS, 32, 0, 0, 0, 0, 8, 0}}, 1, {0}, 8, {1, 2, 3, 4}, 4},
    {"hex", RS_OK, {{HEX, 0, 0, 0, 0, 0, 0, 5}}, 1, {0}, 0, {0x12, 0x34, 0x50}, 3},
    {"fixed concat", RS_OK, {{CONCAT, 0, 0, 3, 1, 0, 0, 0}, {HEX, 0, 0, 0, 0, 0, 0, 2}, {SAME, 0, 0, 0, 0, 0, 0, 0}, {DIGITS, 3, 0, 0, 0, 0, 8, 0}}, 4, {0}, 8, {5, 0xAB}, 2},
    {"concat", RS_OK, {{CONCAT, 0, 0, 2, 1, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 2)}, 3, {0}, 0, {1, 'a', 1, 0xAC, 0x20}, 5},
    {"concat of a bad code point", RS_E_FMT_VALUE, {{CONCAT, 0, 0, 1, 1, 0, 0, 0}, LEAF(STR, 4)}, 2, {0}, 0, {1, 0, 0, 0x11, 0}, 5},
    {"optional with a value", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)}, 2, {0}, 0, {1, 1, 'a'}, 3},
    {"optional without a value", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)}, 2, {0}, 0, {0xFE}, 1},
    {"optional without a value, and more", RS_E_FMT_TRAILING, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)}, 2, {0}, 0, {0, 0}, 2},
    {"optional of bits", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, INT_NODE(63)}, 2, {0}, 8, {255, 255, 255, 255, 255, 255, 255, 255}, 8},
    {"map", RS_OK, {{MAP, 0, 0, 2, 1, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0)}, 3, {0}, 0, {2, 1, 'a', 0, 1}, 5},
    {"map of maps",
     RS_OK,
     {{MAP, 0, 0, 2, 1, 0, 0, 0}, LEAF(BOOL, 0), {MAP, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(FLOAT, 0)},
     5,
     {0},
     0,
     {2, 1, 0, 1, 1, 'k', 0, 0, 0, 0, 0, 0, 0, 0},
     14},
    {"map of more entries than bytes", RS_E_FMT_TRUNCATED, {{MAP, 0, 0, 2, 1, 0, 0, 0}, LEAF(BOOL, 0), LEAF(FLOAT, 0)}, 3, {0}, 0, {3, 7, 0}, 3},
    {"map of endless entries", RS_E_FMT_LIMIT, {{MAP, 0, 0, 2, 1, 0, 0, 0}, LEAF(BOOL, 0), LEAF(FLOAT, 0)}, 3, {0}, 0, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 10},
    {"optional of a body", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, INT_NODE(16)}, 2, {0}, 8, {1, 2, 3}, 3},
    {"optional of a union, number beyond",
     RS_E_FMT_VALUE,
     {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, {UNION, 0, 0, 3, 2, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0), LEAF(BOOL, 0)},
     5,
     {0},
     0,
     {7, 0},
     2},
    {"absent optional of a union, number beyond", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, {UNION, 0, 0, 3, 2, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0), LEAF(BOOL, 0)}, 5, {0}, 0, {6}, 1},
    {"list of optionals", RS_OK, {{LIST, 0, 0, 1, 1, 0, 0, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, LEAF(STR, 1)}, 3, {0}, 0, {3, 5, 1, 'a', 0}, 5},
    {"keys that may be missing",
     RS_OK,
     {{STRUCT, 0, 0, 2, 1, 0, 2, 0},
      {OPTIONAL, 0, 0, 1, 3, 0, 0, 0},
      {OPTIONAL, 0, 0, 1, 4, 0, 0, 0},
      LEAF(FLOAT, 0),
      LEAF(STR, 1)},
     5,
     {0x91, 0x92},
     2,
     {2, 1, 'a'},
     3},
    {"ext of an optional any that is an ext", RS_E_FMT_VALUE, {{EXT, 4, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, LEAF(ANY, 0)}, 3, {0}, 1, {1, 0x11, 7, 0, 0}, 5},
    {"array of 65 dimensions", RS_E_FMT_VALUE, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2, {65}, 1},
};
/* clang-format on */

TEST(test_literals) {
    EACH_NAMED (i, cases) {
        rs_buffer bytes = {0};
        rs_tree tree;
        uint8_t record[16];
        make_tree(&bytes, cases[i].nodes, cases[i].n_nodes, cases[i].aux, cases[i].aux_size);
        CHECK_OK(make_compiled(&bytes, &tree, &err), &err);
        rs_buffer_clear(&bytes);
        if (tree.nodes == NULL) continue;
        set_budget(100, 100, 10);
        CHECK_CODE(check_tree(&tree, cases[i].bytes, cases[i].n), cases[i].code, &err);
        for (size_t cut = 0; cases[i].code == RS_OK && cut < cases[i].n; cut++) {
            set_budget(100, 100, 10);
            CHECK_CODE(check_tree(&tree, cases[i].bytes, cut), RS_E_FMT_TRUNCATED, &err);
        }
        memcpy(record, cases[i].bytes, sizeof record);
        for (size_t k = 0; k < 256 * cases[i].n; k++) { /* any changed byte gives a status, never a crash */
            record[k / 256] = (uint8_t)k;
            set_budget(100, 100, 10);
            (void)check_tree(&tree, record, cases[i].n);
            record[k / 256] = cases[i].bytes[k / 256];
        }
        rs_tree_clear(&tree);
    }
}

/* ---- Rule 23 ---- */

static rs_status check_limits(uint64_t values, uint64_t max_bytes, uint32_t depth, const make_node *nodes,
                              uint32_t n_nodes, const void *aux, uint32_t aux_size, const void *bytes, size_t n) {
    rs_buffer tree_bytes = {0};
    rs_tree tree;
    set_budget(values, max_bytes, depth);
    make_tree(&tree_bytes, nodes, n_nodes, aux, aux_size);
    rs_status status = make_compiled(&tree_bytes, &tree, &err);
    if (CHECK_OK(status, &err)) {
        status = check_tree(&tree, bytes, n);
        rs_tree_clear(&tree);
    }
    rs_buffer_clear(&tree_bytes);
    return status;
}

TEST(test_limits) {
    static const make_node nothing[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {CONST, 0, 0, 0, 0, 0, 1, 0}};
    static const make_node fixed[] = {{LIST, 0, 1, 1, 1, 0, 0, UINT32_MAX}, {CONST, 0, 0, 0, 0, 0, 1, 0}};
    static const make_node lists[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {CONST, 0, 0, 0, 0, 0, 4, 0}};
    static const make_node nested[] = {
        {LIST, 0, 0, 1, 1, 0, 0, 0}, {TUPLE, 0, 0, 2, 2, 0, 0, 0}, LEAF(BOOL, 0), LEAF(BOOL, 0)};
    static const make_node sets[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {CONST, 0, 0, 0, 0, 0, 7, 0}};
    static const uint8_t set[] = {0x11, 3, 0x00, 0x0D, 2, 0x90, 0x91};
    static const uint8_t none[] = {0x00}, three[] = {3}, huge[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    static const uint8_t pair[] = {0x0D, 2, 0x90, 0x91}, rows[] = {3, 0, 0, 0};
    CHECK_OK(check_limits(3, 0, 1, nothing, 2, none, 1, three, 1), &err);
    CHECK_U64(budget.values, 0);
    CHECK_CODE(check_limits(2, 0, 1, nothing, 2, none, 1, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(1000, 0, 1, nothing, 2, none, 1, huge, 10), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(1000, 0, 1, fixed, 2, none, 1, NULL, 0), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(3, 0, 0, nothing, 2, none, 1, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(9, 12, 2, lists, 2, pair, 4, three, 1),
             &err); /* elements and bytes of a const count each time */
    CHECK(budget.values == 0 && budget.bytes == 0);
    CHECK_CODE(check_limits(9, 11, 2, lists, 2, pair, 4, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(8, 12, 2, lists, 2, pair, 4, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(9, 12, 1, lists, 2, pair, 4, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(6, 21, 2, sets, 2, set, 7, three, 1), RS_E_FMT_LIMIT, &err); /* a set of two */
    CHECK_OK(check_limits(9, 21, 2, sets, 2, set, 7, three, 1), &err);
    CHECK(budget.values == 0 && budget.bytes == 0);
    CHECK_CODE(check_limits(9, 20, 2, sets, 2, set, 7, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(9, 0, 2, nested, 4, NULL, 0, rows, 4), &err); /* rows in fixed bodies */
    CHECK_U64(budget.values, 0);
    CHECK_CODE(check_limits(8, 0, 2, nested, 4, NULL, 0, rows, 4), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(9, 0, 1, nested, 4, NULL, 0, rows, 4), RS_E_FMT_LIMIT, &err);
}

/* If a node takes the rest of the record, truncating the record only shortens the node. */
TEST(test_rest) {
    static const make_node str[] = {{STR, 2, 2, 0, 0, 0, 0, 0}}, bytes[] = {{BYTES, 0, 2, 0, 0, 0, 0, 0}};
    static const make_node row[] = {{TUPLE, 1, 0, 3, 1, 0, 0, 0},
                                    LEAF(STR, 1),
                                    {OPTIONAL, 1, 0, 1, 4, 0, 0, 0},
                                    LEAF(FLOAT, 0),
                                    {BYTES, 0, 2, 0, 0, 0, 0, 0}};
    static const uint8_t record[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a', 7, 7},
                         absent[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a', 7};
    for (size_t n = 0; n <= 8; n++) {
        CHECK_CODE(check_limits(10, 0, 1, str, 1, NULL, 0, "abcdefgh", n), n % 2 == 0 ? RS_OK : RS_E_FMT_VALUE, &err);
        CHECK_OK(check_limits(10, 0, 1, bytes, 1, NULL, 0, "abcdefgh", n), &err);
    }
    for (size_t n = 0; n <= sizeof record; n++) {
        CHECK_CODE(check_limits(10, 0, 1, row, 5, NULL, 0, record, n), n >= 11 ? RS_OK : RS_E_FMT_TRUNCATED, &err);
    }
    CHECK_CODE(check_limits(10, 0, 1, row, 5, NULL, 0, absent, 12), RS_E_FMT_TRAILING, &err);
    CHECK_OK(check_limits(10, 0, 1, row, 5, NULL, 0, absent, 11), &err);
}

/* Packed numbers count like the elements of a list, keys if present, texts by their units. */
TEST(test_limits_of_packed) {
    static const make_node numbers[] = {{NUMBERS, 0, 0, 0, 0, 0, 16, 0}},
                           fixed[] = {{NUMBERS, 0, 1, 0, 0, 0, 16, UINT32_MAX}};
    static const make_node partial[] = {{STRUCT, 0, 0, 2, 1, 0, 2, 0},
                                        {OPTIONAL, 0, 0, 1, 3, 0, 0, 0},
                                        {OPTIONAL, 0, 0, 1, 4, 0, 0, 0},
                                        LEAF(BOOL, 0),
                                        LEAF(BOOL, 0)};
    static const make_node list[] = {
        {LIST, 0, 0, 1, 1, 0, 0, 0}, {STRUCT, 0, 0, 1, 2, 0, 1, 0}, {OPTIONAL, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1)};
    static const make_node texts[] = {{LIST, 0, 0, 1, 1, 0, 0, 0},
                                      {CONCAT, 0, 0, 2, 2, 0, 0, 0},
                                      {CONST, 0, 0, 0, 0, 0, 4, 0},
                                      {SAME, 0, 0, 0, 0, 0, 0, 0}};
    static const make_node digits[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {DIGITS, 0, 0, 0, 0, 0, 8, 4}},
                           hex[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {HEX, 0, 0, 0, 0, 0, 0, 2}};
    static const uint8_t zeros[16] = {0}, keys[] = {0x91, 0x92}, three[] = {3, 0, 0, 0};
    CHECK_OK(check_limits(3, 0, 1, numbers, 1, zeros, 16, three, 2), &err);
    CHECK_U64(budget.values, 0);
    CHECK_CODE(check_limits(2, 0, 1, numbers, 1, zeros, 16, three, 2), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(3, 0, 0, numbers, 1, zeros, 16, three, 2), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(1000, 0, 1, fixed, 1, zeros, 16, zeros, 16), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(check_limits(UINT32_MAX, 0, 1, fixed, 1, zeros, 16, zeros, 16), RS_E_FMT_TRUNCATED, &err);
    CHECK_OK(check_limits(1, 0, 1, partial, 5, keys, 2, "\4", 1), &err); /* the second key alone */
    CHECK_U64(budget.values, 0);
    CHECK_CODE(check_limits(1, 0, 1, partial, 5, keys, 2, "\5", 1), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(3 + 1, 0, 2, list, 4, keys, 1, "\3\0\1\1x\0", 6), &err); /* only one has the key */
    CHECK_U64(budget.values, 0);
    CHECK_CODE(check_limits(3, 0, 2, list, 4, keys, 1, "\3\0\1\1x\0", 6), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(9, 12, 1, texts, 4, "\x09\2ab", 4, three, 1), &err);
    CHECK_U64(budget.bytes, 0);
    CHECK_CODE(check_limits(9, 11, 1, texts, 4, "\x09\2ab", 4, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(9, 12, 1, digits, 2, zeros, 8, three, 1), &err);
    CHECK_U64(budget.bytes, 0);
    CHECK_CODE(check_limits(9, 11, 1, digits, 2, zeros, 8, three, 1), RS_E_FMT_LIMIT, &err);
    CHECK_OK(check_limits(9, 6, 1, hex, 2, NULL, 0, three, 4), &err);
    CHECK_CODE(check_limits(9, 5, 1, hex, 2, NULL, 0, three, 4), RS_E_FMT_LIMIT, &err);
}

/* The limit of values allows the count, but the bytes of the elements are missing, or their number wraps around. */
TEST(test_sizes_that_wrap) {
    static const make_node bits[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, INT_NODE(63)};
    static const make_node bodies[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, LEAF(FLOAT, 0)};
    static const uint8_t base[8] = {0};
    uint8_t count[10];
    for (unsigned shift = 4; shift < 64; shift++) {
        size_t n = rs_put_varint(count, UINT64_C(1) << shift);
        CHECK_CODE(check_limits(UINT64_MAX, 0, 1, bits, 2, base, 8, count, n), RS_E_FMT_TRUNCATED, &err);
        CHECK_CODE(check_limits(UINT64_MAX, 0, 1, bodies, 2, NULL, 0, count, n), RS_E_FMT_TRUNCATED, &err);
    }
}

/* The result is in the same class of widths as the widest unit. */
TEST(test_widest) {
    uint8_t units[64];
    uint32_t widest;
    for (uint32_t n = 1; n < 16; n++) {
        for (uint32_t at = 0; at < n; at++) {
            memset(units, 0, sizeof units), units[at] = 0xE9;
            widest = rs_decode_widest_unchecked(units, n, 1);
            CHECK(widest >= 0xE9 && widest <= 0xFF);
            memset(units, 0, sizeof units), rs_store_u16(units + 2 * at, 0x20AC);
            widest = rs_decode_widest_unchecked(units, n, 2);
            CHECK(widest >= 0x20AC && widest <= 0xFFFF);
            memset(units, 0, sizeof units), rs_store_u32(units + 4 * at, 0x1F600);
            CHECK_U64(rs_decode_widest_unchecked(units, n, 4), 0x1F600);
        }
        memset(units, 0x7F, sizeof units);
        CHECK(rs_decode_widest_unchecked(units, n, 1) < 0x80);
    }
    CHECK_U64(rs_decode_widest_unchecked(units, 0, 1), 0);
}
