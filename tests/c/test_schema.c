/* test_schema.c: rules 17 to 19 of FORMAT.md, each broken alone; limits under, at and over; what compiling computes. */
#include "rs_schema.h"
#include "rs_make.h"

enum { ANY = 1, CONST, INT, FLOAT, BOOL, STR, BYTES, LIST, TUPLE, STRUCT, UNION, NDARRAY, EXT };

static rs_error err;

static rs_status compile_with(rs_tree *tree, const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_buffer bytes = {0};
    rs_status status;
    make_tree(&bytes, nodes, n, aux, aux_size);
    status = make_compiled(&bytes, tree, &err);
    rs_buffer_clear(&bytes);
    return status;
}

static rs_status compile(const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_tree tree;
    rs_status status = compile_with(&tree, nodes, n, aux, aux_size);
    if (status == RS_OK) rs_tree_clear(&tree);
    return status;
}

/* ---- One root, up to two children ---- */

#define AUX_BASE {0, 0, 0, 0, 0, 0, 0, 0}
static const struct {
    const char *what;
    rs_status code;
    make_node nodes[3];
    uint32_t n;
    uint8_t aux[16];
    uint32_t aux_size;
} cases[] = {
    {"any", RS_OK, {{ANY, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"kind 0", RS_E_FMT_TREE, {{0, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"kind 23", RS_E_FMT_VERSION, {{23, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"kind 255", RS_E_FMT_VERSION, {{255, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"any with param", RS_E_FMT_TREE, {{ANY, 1, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"any with flag", RS_E_FMT_TREE, {{ANY, 0, 1, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"any with count", RS_E_FMT_TREE, {{ANY, 0, 0, 0, 0, 0, 0, 1}}, 1, {0}, 0},
    {"any with aux", RS_E_FMT_TREE, {{ANY, 0, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"any with child", RS_E_FMT_TREE, {{ANY, 0, 0, 1, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"leaf with first child", RS_E_FMT_TREE, {{ANY, 0, 0, 0, 1, 0, 0, 0}}, 1, {0}, 0},
    {"float with param", RS_E_FMT_TREE, {{FLOAT, 8, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"bool with aux", RS_E_FMT_TREE, {{BOOL, 0, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"bytes with flag", RS_E_FMT_TREE, {{BYTES, 0, 1, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"int 64", RS_OK, {{INT, 64, 0, 0, 0, 0, 8, 0}}, 1, AUX_BASE, 8},
    {"int 65", RS_E_FMT_TREE, {{INT, 65, 0, 0, 0, 0, 8, 0}}, 1, AUX_BASE, 8},
    {"int base of 7 bytes", RS_E_FMT_TREE, {{INT, 1, 0, 0, 0, 0, 7, 0}}, 1, AUX_BASE, 7},
    {"int base of 9 bytes", RS_E_FMT_TREE, {{INT, 1, 0, 0, 0, 0, 9, 0}}, 1, AUX_BASE, 9},
    {"aux size out of range", RS_E_FMT_TREE, {{INT, 1, 0, 0, 0, 0, 8, 0}}, 1, AUX_BASE, 7},
    {"aux offset out of range", RS_E_FMT_TREE, {{INT, 1, 0, 0, 0, 1, 8, 0}}, 1, AUX_BASE, 8},
    {"aux offset that wraps", RS_E_FMT_TREE, {{INT, 1, 0, 0, 0, UINT32_MAX - 3, 8, 0}}, 1, AUX_BASE, 8},
    {"aux size that wraps", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 4, UINT32_MAX - 3, 0}}, 1, AUX_BASE, 8},
    {"str 0", RS_OK, {{STR, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"str 4", RS_OK, {{STR, 4, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"str 3", RS_E_FMT_TREE, {{STR, 3, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"str 8", RS_E_FMT_TREE, {{STR, 8, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"const None", RS_OK, {{CONST, 0, 0, 0, 0, 0, 1, 0}}, 1, {0x00}, 1},
    {"const of nothing", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"const and more", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 2, 0}}, 1, {0x00, 0x00}, 2},
    {"const cut off", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 2, 0}}, 1, {0x04, 0x00}, 2},
    {"const of a later tag", RS_E_FMT_VERSION, {{CONST, 0, 0, 0, 0, 0, 1, 0}}, 1, {0x12}, 1},
    {"const of a bad code point", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 6, 0}}, 1, {0x0B, 1, 0, 0, 0x11, 0}, 6},
    {"const dict with a list as key", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 5, 0}}, 1, {0x0F, 1, 0x0D, 0, 0}, 5},
    {"const array inside", RS_OK, {{CONST, 0, 0, 0, 0, 0, 7, 0}}, 1, {0x10, 0, 2, 1, 2, 7, 8}, 7},
    {"const array outside", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 7, 0}}, 1, {0x10, 0, 2, 1, 0x80, 0x08, 0}, 7},
    {"const with count", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 1, 1}}, 1, {0x00}, 1},
    {"list", RS_OK, {{LIST, 1, 0, 1, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list of param 2", RS_E_FMT_TREE, {{LIST, 2, 0, 1, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list of flag 2", RS_E_FMT_TREE, {{LIST, 0, 2, 1, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list of flag 3", RS_E_FMT_TREE, {{LIST, 0, 3, 1, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list with a count of no flag", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 1, 0, 0, 3}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list of no child", RS_E_FMT_TREE, {{LIST, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"list of two children", RS_E_FMT_TREE, {{LIST, 0, 0, 2, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"list with aux", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 1, 0, 1, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"empty tuple", RS_OK, {{TUPLE, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"tuple of param 2", RS_E_FMT_TREE, {{TUPLE, 2, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"tuple with flag", RS_E_FMT_TREE, {{TUPLE, 0, 1, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"tuple with aux", RS_E_FMT_TREE, {{TUPLE, 0, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"empty struct", RS_OK, {{STRUCT, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"struct", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 3, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x09, 1, 'a'}, 3},
    {"struct of param 1", RS_E_FMT_TREE, {{STRUCT, 1, 0, 1, 1, 0, 3, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x09, 1, 'a'}, 3},
    {"struct of too few keys", RS_E_FMT_TREE, {{STRUCT, 0, 0, 2, 1, 0, 3, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0x09, 1, 'a'}, 3},
    {"struct of too many keys", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 4, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x09, 1, 'a', 0x90}, 4},
    {"struct of a cut key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x09, 1, 'a'}, 3},
    {"struct with a list as key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0D, 0}, 2},
    {"struct with a dict as key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0F, 0}, 2},
    {"struct with an array as key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 5, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x10, 0, 2, 1, 0}, 5},
    {"struct with a numpy scalar as key", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 4, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x10, 2, 2, 7}, 4},
    {"union", RS_OK, {{UNION, 0, 0, 2, 1, 0, 0, 0}, {STR, 1, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"union of one", RS_E_FMT_TREE, {{UNION, 0, 0, 1, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"union of none", RS_E_FMT_TREE, {{UNION, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"union of param 1", RS_E_FMT_TREE, {{UNION, 1, 0, 2, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"union with aux", RS_E_FMT_TREE, {{UNION, 0, 0, 2, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"array", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {1, 0x83}, 2},
    {"array with shape", RS_OK, {{NDARRAY, 0, 1, 0, 0, 0, 4, 0}}, 1, {0, 3, 1, 7}, 4},
    {"array of flag 2", RS_E_FMT_TREE, {{NDARRAY, 0, 2, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2},
    {"array without dtype", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"array without its shape", RS_E_FMT_TREE, {{NDARRAY, 0, 1, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2},
    {"array with a shape of no flag", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 4, 0}}, 1, {0, 3, 1, 7}, 4},
    {"scalar with a shape", RS_E_FMT_TREE, {{NDARRAY, 0, 1, 0, 0, 0, 4, 0}}, 1, {2, 3, 1, 7}, 4},
    {"array of dtype 0", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 0}, 2},
    {"array of a later dtype", RS_E_FMT_VERSION, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 23}, 2},
    {"array of a later flag", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {4, 3}, 2},
    {"ext", RS_OK, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 30", RS_OK, {{EXT, 30, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 31", RS_E_FMT_VERSION, {{EXT, 31, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 0", RS_E_FMT_VERSION, {{EXT, 0, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of no child", RS_E_FMT_TREE, {{EXT, 7, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"ext of two children", RS_E_FMT_TREE, {{EXT, 7, 0, 2, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"ext with flag", RS_E_FMT_TREE, {{EXT, 7, 1, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext with count", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 1}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext without EXTRA", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"EXTRA and more", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0, 0}, 2},
    {"EXTRA cut off", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {9, 1, 'x'}, 3},
    {"EXTRA of a dict", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0F, 0}, 2},
    {"EXTRA of a class", RS_OK, {{EXT, 24, 0, 1, 1, 0, 10, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0E, 3, 9, 1, 'm', 9, 1, 'P', 0x0E, 0}, 10},
    {"ext of ext", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {EXT, 7, 0, 1, 2, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"ext of a const of ext", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {CONST, 0, 0, 0, 0, 1, 4, 0}}, 2, {0, 0x11, 7, 0, 0}, 5},
    {"const of ext", RS_OK, {{CONST, 0, 0, 0, 0, 0, 4, 0}}, 1, {0x11, 7, 0, 0}, 4},
    {"const of a later ext", RS_E_FMT_VERSION, {{CONST, 0, 0, 0, 0, 0, 4, 0}}, 1, {0x11, 31, 0, 0}, 4},
    {"struct with a set as key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 5, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x11, 3, 0, 0x0D, 0}, 5},
    {"struct with a date as key", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 4, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x11, 13, 0, 0x91}, 4},
    {"array of a struct", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 10, 0}}, 1, {0, 20, 2, 0, 1, 1, 'a', 0, 3, 0}, 10},
    {"array of a struct too small", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 10, 0}}, 1, {0, 20, 1, 0, 1, 1, 'a', 0, 3, 0}, 10},
    {"node without a parent", RS_E_FMT_TREE, {{ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"its own child", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 0, 0, 0, 0}}, 1, {0}, 0},
    {"child skipped", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 2, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"child beyond the end", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 1, 0, 0, 0}}, 1, {0}, 0},
    {"children beyond the end", RS_E_FMT_TREE, {{TUPLE, 0, 0, UINT32_MAX, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"a child of two", RS_E_FMT_TREE, {{TUPLE, 0, 0, 2, 1, 0, 0, 0}, {LIST, 0, 0, 1, 2, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"fixed body of 2^31 - 8", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, 268435455}, {FLOAT, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"fixed body of 2^31", RS_E_FMT_TREE, {{LIST, 0, 1, 1, 1, 0, 0, 268435456}, {FLOAT, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"huge count of bits", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, UINT32_MAX}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"huge count of nothing", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, UINT32_MAX}, {CONST, 0, 0, 0, 0, 0, 1, 0}}, 2, {0}, 1},
};

static void test_every_rule(void) {
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!CHECK_CODE(compile(cases[i].nodes, cases[i].n, cases[i].aux, cases[i].aux_size), cases[i].code, &err)) {
            (void)fprintf(stderr, "    case: %s\n", cases[i].what);
        }
    }
}

/* ---- Head and size (rule 17) ---- */

static void test_sizes(void) {
    static const make_node any = {ANY, 0, 0, 0, 0, 0, 0, 0};
    rs_buffer bytes = {0};
    rs_tree tree;
    size_t n;
    make_tree(&bytes, &any, 1, NULL, 0);
    for (n = 0; n < 32; n++) {
        uint8_t *copy = make_exact(bytes.data, n);
        CHECK_CODE(rs_tree_compile(rs_slice_of(copy, n), 7, &tree, &err), RS_E_FMT_TREE, &err);
        CHECK_U64(err.offset, 7);
        free(copy);
    }
    make_tag(&bytes, 0); /* a byte more than nodes and aux */
    CHECK_CODE(make_compiled(&bytes, &tree, &err), RS_E_FMT_TREE, &err);
    rs_store_u32(bytes.data + 4, 1);
    CHECK_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_tree_clear(&tree);
    rs_store_u32(bytes.data + 4, UINT32_MAX);
    CHECK_CODE(make_compiled(&bytes, &tree, &err), RS_E_FMT_TREE, &err);
    rs_store_u32(bytes.data, 0);
    CHECK_CODE(make_compiled(&bytes, &tree, &err), RS_E_FMT_TREE, &err);
    rs_store_u32(bytes.data, UINT32_MAX);
    CHECK_CODE(make_compiled(&bytes, &tree, &err), RS_E_FMT_TREE, &err);
    rs_buffer_clear(&bytes);
}

/* A tuple of n - 1 children of one kind. */
static rs_status compile_wide(uint8_t kind, uint32_t n) {
    make_node *nodes = (make_node *)calloc(n, sizeof *nodes);
    rs_status status;
    uint32_t i;
    if (nodes == NULL) abort();
    for (i = 1; i < n; i++) nodes[i].kind = kind;
    nodes[0].kind = TUPLE, nodes[0].n_children = n - 1, nodes[0].first_child = 1;
    status = compile(nodes, n, NULL, 0);
    free(nodes);
    return status;
}

/* Lists in lists, `depth` containers, each below a union when `unions`. */
static rs_status compile_deep(uint32_t depth, bool unions) {
    make_node nodes[1300];
    uint32_t n = 0, next = 1, i;
    memset(nodes, 0, sizeof nodes);
    for (i = 0; i < depth; i++) {
        if (unions) {
            nodes[n].kind = UNION, nodes[n].n_children = 2, nodes[n].first_child = next;
            nodes[n + 1].kind = ANY, next += 2, n += 2;
        }
        nodes[n].kind = LIST, nodes[n].n_children = 1, nodes[n].first_child = next++, n++;
    }
    nodes[n++].kind = ANY;
    return compile(nodes, n, NULL, 0);
}

/* Below an ext a union must not lead to one either, however many unions there are in between. */
static void test_ext_by_way_of_unions(void) {
    make_node nodes[] = {{EXT, 7, 0, 1, 1, 0, 1, 0}, {UNION, 0, 0, 2, 2, 0, 0, 0}, {UNION, 0, 0, 2, 4, 0, 0, 0},
                         {LIST, 0, 0, 1, 6, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {CONST, 0, 0, 0, 0, 0, 1, 0},
                         {EXT, 7, 0, 1, 7, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}};
    static const uint8_t aux[] = {0, 0x11, 7, 0, 0};
    rs_tree tree;
    REQUIRE_OK(compile_with(&tree, nodes, 8, aux, 5), &err); /* within the list it may be */
    CHECK(!tree.nodes[0].payload && tree.nodes[1].payload && tree.nodes[2].payload && tree.nodes[3].payload);
    CHECK(tree.nodes[4].payload && tree.nodes[5].payload && !tree.nodes[6].payload && tree.nodes[7].payload);
    rs_tree_clear(&tree);
    nodes[5].aux_off = 1, nodes[5].aux_size = 4;
    CHECK_CODE(compile(nodes, 8, aux, 5), RS_E_FMT_TREE, &err);
    nodes[5].aux_off = 0, nodes[5].aux_size = 1;
    nodes[3].kind = EXT, nodes[3].param = 7, nodes[3].aux_size = 1, nodes[6].kind = LIST, nodes[6].param = 0, nodes[6].aux_size = 0;
    CHECK_CODE(compile(nodes, 8, aux, 5), RS_E_FMT_TREE, &err);
}

/* Bits, body and whether it is fixed are the child's. */
static void test_ext_is_transparent(void) {
    static const make_node kinds[] = {{INT, 3, 0, 0, 0, 0, 8, 0}, {INT, 16, 0, 0, 0, 0, 8, 0}, {FLOAT, 0, 0, 0, 0, 0, 0, 0},
                                      {STR, 1, 0, 0, 0, 0, 0, 0}, {CONST, 0, 0, 0, 0, 0, 1, 0}};
    static const uint8_t aux[8] = {0};
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        make_node nodes[2] = {{EXT, 1, 0, 1, 1, 0, 1, 0}};
        rs_tree tree;
        nodes[1] = kinds[i];
        if (!CHECK_OK(compile_with(&tree, nodes, 2, aux, 8), &err)) continue;
        CHECK(tree.nodes[0].bits == tree.nodes[1].bits && tree.nodes[0].fixed == tree.nodes[1].fixed);
        CHECK(tree.nodes[0].size_bytes == tree.nodes[1].size_bytes && tree.nodes[0].alone_bytes == tree.nodes[1].alone_bytes);
        rs_tree_clear(&tree);
    }
}

/* Lists in lists, each an ext: two levels a container, and 400 may be. */
static rs_status compile_ext_deep(uint32_t depth) {
    make_node nodes[1300];
    uint32_t n;
    memset(nodes, 0, sizeof nodes);
    for (n = 0; n < 2 * depth; n++) {
        nodes[n].kind = n % 2 == 0 ? EXT : LIST, nodes[n].n_children = 1, nodes[n].first_child = n + 1;
        if (n % 2 == 0) nodes[n].param = 3, nodes[n].aux_size = 1;
    }
    nodes[n++].kind = ANY;
    return compile(nodes, n, "", 1);
}

static void test_limits(void) {
    rs_buffer aux = {0};
    make_node constant = {CONST, 0, 0, 0, 0, 0, 0, 0};
    uint32_t size;
    CHECK_OK(compile_wide(ANY, 4095), &err);
    CHECK_OK(compile_wide(ANY, 4096), &err);
    CHECK_CODE(compile_wide(ANY, 4097), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_wide(STRUCT, 1024), &err);
    CHECK_OK(compile_wide(STRUCT, 1025), &err);
    CHECK_CODE(compile_wide(STRUCT, 1026), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_deep(199, false), &err);
    CHECK_OK(compile_deep(200, false), &err);
    CHECK_CODE(compile_deep(201, false), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_deep(200, true), &err);
    CHECK_CODE(compile_deep(201, true), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_ext_deep(200), &err);
    CHECK_CODE(compile_ext_deep(201), RS_E_FMT_TREE, &err);
    for (size = (1 << 20) - 1; size <= (1 << 20) + 1; size++) { /* of a whole tree: 32 bytes are head and node */
        uint32_t n = size - 32 - 4;
        aux.size_bytes = 0;
        make_units(&aux, 0x0C, n, 1, 'x');
        constant.aux_size = (uint32_t)aux.size_bytes;
        CHECK_U64(aux.size_bytes + 32, size);
        CHECK_CODE(compile(&constant, 1, aux.data, constant.aux_size), size > 1 << 20 ? RS_E_FMT_TREE : RS_OK, &err);
    }
    rs_buffer_clear(&aux);
}

static rs_status compile_union_of(uint32_t n) {
    make_node *nodes = (make_node *)calloc(n + 1, sizeof *nodes);
    rs_tree tree;
    rs_status status;
    uint32_t i, bits = 0;
    if (nodes == NULL) abort();
    for (i = 1; i <= n; i++) nodes[i].kind = BOOL;
    nodes[0].kind = UNION, nodes[0].n_children = n, nodes[0].first_child = 1;
    status = compile_with(&tree, nodes, n + 1, NULL, 0);
    if (status == RS_OK) {
        while ((1u << bits) < n) bits++;
        CHECK_U64(tree.nodes[0].bits, bits);
        CHECK(tree.nodes[0].fixed && tree.nodes[0].size_bytes == 1);
        rs_tree_clear(&tree);
    }
    free(nodes);
    return status;
}

static void test_unions(void) {
    /* Two fixed bodies just below 2^31, equal: standing alone with a byte of bits they are too large. */
    static const make_node large[] = {{UNION, 0, 0, 2, 1, 0, 0, 0},     {UNION, 0, 0, 2, 3, 0, 0, 0},
                                      {UNION, 0, 0, 2, 5, 0, 0, 0},     {LIST, 0, 1, 1, 7, 0, 0, 2147483647},
                                      {LIST, 0, 1, 1, 8, 0, 0, 2147483647}, {LIST, 0, 1, 1, 9, 0, 0, 2147483647},
                                      {LIST, 0, 1, 1, 10, 0, 0, 2147483647}, {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},       {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0}};
    static const uint8_t base[8] = {0};
    uint32_t n;
    for (n = 2; n <= 256; n++) CHECK_OK(compile_union_of(n), &err);
    CHECK_CODE(compile_union_of(257), RS_E_FMT_TREE, &err);
    CHECK_CODE(compile(large, 11, base, 8), RS_E_FMT_TREE, &err);
}

/* Every width an int can have: where its stored part goes. */
static void test_int_widths(void) {
    static const uint8_t base[8] = {0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    unsigned w;
    for (w = 0; w <= 64; w++) {
        make_node node = {INT, (uint8_t)w, 0, 0, 0, 0, 8, 0};
        rs_tree tree;
        bool body = w == 8 || w == 16 || w == 32 || w == 64;
        REQUIRE_OK(compile_with(&tree, &node, 1, base, 8), &err);
        CHECK_U64(tree.nodes[0].bits, body ? 0 : w);
        CHECK_U64(tree.nodes[0].size_bytes, body ? w / 8 : 0);
        CHECK_U64(tree.nodes[0].alone_bytes, body ? 0 : (w + 7) / 8);
        CHECK(tree.nodes[0].fixed && tree.nodes[0].base == UINT64_MAX - 1);
        rs_tree_clear(&tree);
    }
}

/* {"a": 3 bits, "b": float, "c": str, "d": bool, "e": [int16, int16]}: what the head holds and where. */
static void test_row_layout(void) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 5, 1, 8, 15, 0}, {INT, 3, 0, 0, 0, 0, 8, 0},
                                      {FLOAT, 0, 0, 0, 0, 0, 0, 0},   {STR, 1, 0, 0, 0, 0, 0, 0},
                                      {BOOL, 0, 0, 0, 0, 0, 0, 0},    {LIST, 0, 1, 1, 6, 0, 0, 2},
                                      {INT, 16, 0, 0, 0, 0, 8, 0}};
    static const char aux[] = "\0\0\0\0\0\0\0\0\x09\1a\x09\1b\x09\1c\x09\1d\x09\1e";
    rs_tree tree;
    const rs_node *n;
    uint32_t i;
    REQUIRE_OK(compile_with(&tree, nodes, 7, aux, 23), &err);
    n = tree.nodes;
    CHECK(!n[0].fixed && n[5].fixed);
    CHECK_U64(n[0].group_bytes, 1);
    CHECK_U64(n[0].head_bytes, 1 + 8 + 4);
    CHECK_U64(n[1].bit_off, 0);
    CHECK_U64(n[4].bit_off, 3);
    CHECK_U64(n[2].body_off, 1);
    CHECK_U64(n[5].body_off, 9);
    CHECK_U64(n[5].size_bytes, 4);
    CHECK(n[0].children == n + 1 && n[5].children == n + 6);
    /* What the binding keeps there is not there yet. */
    CHECK(tree.program == NULL);
    for (i = 0; i < tree.n_nodes; i++) CHECK(n[i].slot == NULL);
    rs_tree_clear(&tree);
}

/* Whatever a byte is changed to, compiling ends with a status. */
static void test_any_byte_changed(void) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 2, 1, 8, 6, 0}, {UNION, 0, 0, 2, 3, 0, 0, 0}, {LIST, 0, 1, 1, 5, 0, 0, 2},
                                      {NDARRAY, 0, 1, 0, 0, 14, 4, 0}, {CONST, 0, 0, 0, 0, 8, 3, 0}, {INT, 3, 0, 0, 0, 0, 8, 0}};
    static const char aux[] = "\0\0\0\0\0\0\0\0\x09\1a\x09\1b\0\3\1\7";
    rs_buffer bytes = {0};
    size_t i;
    unsigned value;
    make_tree(&bytes, nodes, 6, aux, 18);
    for (i = 0; i < bytes.size_bytes; i++) {
        uint8_t was = bytes.data[i];
        for (value = 0; value < 256; value++) {
            rs_tree tree;
            rs_status status;
            bytes.data[i] = (uint8_t)value;
            status = make_compiled(&bytes, &tree, &err);
            CHECK(status == RS_OK ? value == was || tree.n_nodes == 6
                                  : status == RS_E_FMT_TREE || status == RS_E_FMT_VERSION);
            if (status == RS_OK) rs_tree_clear(&tree);
        }
        bytes.data[i] = was;
    }
    rs_buffer_clear(&bytes);
}

int main(void) {
    RUN(test_every_rule);
    RUN(test_sizes);
    RUN(test_ext_by_way_of_unions);
    RUN(test_ext_is_transparent);
    RUN(test_limits);
    RUN(test_unions);
    RUN(test_int_widths);
    RUN(test_row_layout);
    RUN(test_any_byte_changed);
    return rs_test_finish("test_schema");
}
