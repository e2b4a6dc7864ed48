/* test_schema.c: rules 17 to 19 of FORMAT.md, each broken alone; limits; the fields that compiling computes. */
#include "format/rs_schema.h"
#include "rs_make.h"

static rs_error err;

static rs_status compile_with(rs_tree *tree, const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_buffer bytes = {0};
    make_tree(&bytes, nodes, n, aux, aux_size);
    rs_status status = make_compiled(&bytes, tree, &err);
    rs_buffer_clear(&bytes);
    return status;
}

static rs_status compile(const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_tree tree;
    rs_status status = compile_with(&tree, nodes, n, aux, aux_size);
    if (status == RS_OK) rs_tree_clear(&tree);
    return status;
}

/* ---- One root, up to four other nodes ---- */

#define AUX_BASE {0, 0, 0, 0, 0, 0, 0, 0}
#define LEAF(kind, param) {kind, param, 0, 0, 0, 0, 0, 0}
#define PARENT(kind, param, n) {kind, param, 0, n, 1, 0, 0, 0}
#define REST_STR {STR, 1, 2, 0, 0, 0, 0, 0}
#define INT_OF(width) {INT, width, 0, 0, 0, 0, 8, 0}
#define AUX_OF(kind, aux_size) {kind, 0, 0, 0, 0, 0, aux_size, 0}
static const struct {
    const char *what;
    rs_status code;
    make_node nodes[5];
    uint32_t n;
    uint8_t aux[24];
    uint32_t aux_size;
    /* clang-format off */
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
    {"const and one more byte", RS_E_FMT_TREE, {{CONST, 0, 0, 0, 0, 0, 2, 0}}, 1, {0x00, 0x00}, 2},
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
    {"list with a count but no flag", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 1, 0, 0, 3}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"list without a child", RS_E_FMT_TREE, {{LIST, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
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
    {"union of one", RS_OK, {{UNION, 0, 0, 1, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"optional of a union of one", RS_OK, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, {UNION, 0, 0, 1, 2, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"union of none", RS_E_FMT_TREE, {{UNION, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"union of param 1", RS_E_FMT_TREE, {{UNION, 1, 0, 2, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"union with aux", RS_E_FMT_TREE, {{UNION, 0, 0, 2, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"array", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {1, 0x83}, 2},
    {"array with shape", RS_OK, {{NDARRAY, 0, 1, 0, 0, 0, 4, 0}}, 1, {0, 3, 1, 7}, 4},
    {"array of flag 2", RS_E_FMT_TREE, {{NDARRAY, 0, 2, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2},
    {"array without dtype", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"array without its shape", RS_E_FMT_TREE, {{NDARRAY, 0, 1, 0, 0, 0, 2, 0}}, 1, {0, 3}, 2},
    {"array with a shape but no flag", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 4, 0}}, 1, {0, 3, 1, 7}, 4},
    {"scalar with a shape", RS_E_FMT_TREE, {{NDARRAY, 0, 1, 0, 0, 0, 4, 0}}, 1, {2, 3, 1, 7}, 4},
    {"array of dtype 0", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 0}, 2},
    {"array of a later dtype", RS_E_FMT_VERSION, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {0, 23}, 2},
    {"narrow array as wide as its items", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 2, 0}}, 1, {16 << 2, 3}, 2},
    {"ext", RS_OK, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 30", RS_OK, {{EXT, 30, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 32", RS_E_FMT_VERSION, {{EXT, 32, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext of code 0", RS_E_FMT_VERSION, {{EXT, 0, 0, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext without a child", RS_E_FMT_TREE, {{EXT, 7, 0, 0, 0, 0, 1, 0}}, 1, {0}, 1},
    {"ext of two children", RS_E_FMT_TREE, {{EXT, 7, 0, 2, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"ext with flag", RS_E_FMT_TREE, {{EXT, 7, 1, 1, 1, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext with count", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 1}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 1},
    {"ext without EXTRA", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"EXTRA and one more byte", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0, 0}, 2},
    {"EXTRA cut off", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {9, 1, 'x'}, 3},
    {"EXTRA of a dict", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 2, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0F, 0}, 2},
    {"EXTRA of a class", RS_OK, {{EXT, 24, 0, 1, 1, 0, 10, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x0E, 3, 9, 1, 'm', 9, 1, 'P', 0x0E, 0}, 10},
    {"ext of ext", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {EXT, 7, 0, 1, 2, 0, 1, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 1},
    {"ext of a const of ext", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {CONST, 0, 0, 0, 0, 1, 4, 0}}, 2, {0, 0x11, 7, 0, 0}, 5},
    {"const of ext", RS_OK, {{CONST, 0, 0, 0, 0, 0, 4, 0}}, 1, {0x11, 7, 0, 0}, 4},
    {"const of a later ext", RS_E_FMT_VERSION, {{CONST, 0, 0, 0, 0, 0, 4, 0}}, 1, {0x11, 32, 0, 0}, 4},
    {"struct with a set as key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 5, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x11, 3, 0, 0x0D, 0}, 5},
    {"struct with a date as key", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 4, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0x11, 13, 0, 0x91}, 4},
    {"array of a struct", RS_OK, {{NDARRAY, 0, 0, 0, 0, 0, 10, 0}}, 1, {0, 20, 2, 0, 1, 1, 'a', 0, 3, 0}, 10},
    {"array of a struct too small", RS_E_FMT_TREE, {{NDARRAY, 0, 0, 0, 0, 0, 10, 0}}, 1, {0, 20, 1, 0, 1, 1, 'a', 0, 3, 0}, 10},
    {"node without a parent", RS_E_FMT_TREE, {{ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"node that is its own child", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 0, 0, 0, 0}}, 1, {0}, 0},
    {"child skipped", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 2, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"child beyond the end", RS_E_FMT_TREE, {{LIST, 0, 0, 1, 1, 0, 0, 0}}, 1, {0}, 0},
    {"children beyond the end", RS_E_FMT_TREE, {{TUPLE, 0, 0, UINT32_MAX, 1, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"child of two parents", RS_E_FMT_TREE, {{TUPLE, 0, 0, 2, 1, 0, 0, 0}, {LIST, 0, 0, 1, 2, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"fixed body of 2^31 - 8", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, 268435455}, {FLOAT, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"fixed body of 2^31", RS_E_FMT_TREE, {{LIST, 0, 1, 1, 1, 0, 0, 268435456}, {FLOAT, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"huge count of bits", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, UINT32_MAX}, {BOOL, 0, 0, 0, 0, 0, 0, 0}}, 2, {0}, 0},
    {"huge count of nothing", RS_OK, {{LIST, 0, 1, 1, 1, 0, 0, UINT32_MAX}, {CONST, 0, 0, 0, 0, 0, 1, 0}}, 2, {0}, 1},
    {"decimal", RS_OK, {AUX_OF(DECIMAL, 10)}, 1, {0}, 10},
    {"decimal of 64 bits", RS_OK, {{DECIMAL, 64, 0, 0, 0, 0, 10, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 22, 32}, 10},
    {"decimal of 65 bits", RS_E_FMT_TREE, {{DECIMAL, 65, 0, 0, 0, 0, 10, 0}}, 1, {0}, 10},
    {"decimal of scale 23", RS_E_FMT_TREE, {{DECIMAL, 64, 0, 0, 0, 0, 10, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 23, 0}, 10},
    {"decimal of 33 correction bits", RS_E_FMT_TREE, {{DECIMAL, 64, 0, 0, 0, 0, 10, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 33}, 10},
    {"decimal of 5 bits, 5 of correction", RS_OK, {{DECIMAL, 5, 0, 0, 0, 0, 10, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 10},
    {"decimal of 5 bits, 6 of correction", RS_E_FMT_TREE, {{DECIMAL, 5, 0, 0, 0, 0, 10, 0}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 6}, 10},
    {"decimal with aux of 9", RS_E_FMT_TREE, {AUX_OF(DECIMAL, 9)}, 1, {0}, 9},
    {"decimal with aux of 11", RS_E_FMT_TREE, {AUX_OF(DECIMAL, 11)}, 1, {0}, 11},
    {"decimal with flag", RS_E_FMT_TREE, {{DECIMAL, 0, 1, 0, 0, 0, 10, 0}}, 1, {0}, 10},
    {"decimal with count", RS_E_FMT_TREE, {{DECIMAL, 0, 0, 0, 0, 0, 10, 1}}, 1, {0}, 10},
    {"decimal with a child", RS_E_FMT_TREE, {{DECIMAL, 0, 0, 1, 1, 0, 10, 0}, LEAF(ANY, 0)}, 2, {0}, 10},
    {"numbers", RS_OK, {AUX_OF(NUMBERS, 16)}, 1, {0}, 16},
    {"numbers at every limit", RS_OK, {{NUMBERS, 1, 1, 0, 0, 0, 16, UINT32_MAX}}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 1, 22, 16, 64, 64}, 16},
    {"numbers of param 2", RS_E_FMT_TREE, {{NUMBERS, 2, 0, 0, 0, 0, 16, 0}}, 1, {0}, 16},
    {"numbers of kind 2", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 2}, 16},
    {"ints with a scale", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 16},
    {"floats of scale 23", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 1, 23}, 16},
    {"numbers of stride 17", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17}, 16},
    {"numbers of head_width 65", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 65}, 16},
    {"numbers of max_width 65", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 65}, 16},
    {"numbers, reserved 1", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 16},
    {"numbers, reserved 2", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 16},
    {"numbers, reserved 3", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 16)}, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 16},
    {"numbers with aux of 15", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 15)}, 1, {0}, 15},
    {"numbers with aux of 17", RS_E_FMT_TREE, {AUX_OF(NUMBERS, 17)}, 1, {0}, 17},
    {"numbers with a count but no flag", RS_E_FMT_TREE, {{NUMBERS, 0, 0, 0, 0, 0, 16, 1}}, 1, {0}, 16},
    {"numbers with flag 2", RS_E_FMT_TREE, {{NUMBERS, 0, 2, 0, 0, 0, 16, 0}}, 1, {0}, 16},
    {"numbers with a child", RS_E_FMT_TREE, {{NUMBERS, 0, 0, 1, 1, 0, 16, 0}, LEAF(ANY, 0)}, 2, {0}, 16},
    {"dict", RS_OK, {{DICT_CODED, 0, 0, 0, 0, 0, 4, 1}}, 1, {0}, 4},
    {"dict of 32 bits", RS_OK, {{DICT_CODED, 32, 0, 0, 0, 0, 4, UINT32_MAX}}, 1, {0}, 4},
    {"dict of 33 bits", RS_E_FMT_TREE, {{DICT_CODED, 33, 0, 0, 0, 0, 4, 1}}, 1, {0}, 4},
    {"dict of 2 entries and 0 bits", RS_E_FMT_TREE, {{DICT_CODED, 0, 0, 0, 0, 0, 4, 2}}, 1, {0}, 4},
    {"dict of 2^31 entries and 31 bits", RS_OK, {{DICT_CODED, 31, 0, 0, 0, 0, 4, UINT32_C(1) << 31}}, 1, {0}, 4},
    {"dict of 2^31 + 1 entries and 31 bits", RS_E_FMT_TREE, {{DICT_CODED, 31, 0, 0, 0, 0, 4, (UINT32_C(1) << 31) + 1}}, 1, {0}, 4},
    {"dict without a table", RS_E_FMT_TREE, {{DICT_CODED, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"dict with half a number", RS_E_FMT_TREE, {{DICT_CODED, 0, 0, 0, 0, 0, 6, 1}}, 1, {0}, 6},
    {"dict with flag", RS_E_FMT_TREE, {{DICT_CODED, 0, 2, 0, 0, 0, 4, 1}}, 1, {0}, 4},
    {"dict with a child", RS_E_FMT_TREE, {{DICT_CODED, 0, 0, 1, 1, 0, 4, 1}, LEAF(ANY, 0)}, 2, {0}, 4},
    {"symbols", RS_OK, {AUX_OF(SYMBOLS, 4)}, 1, {0}, 4},
    {"symbols of the rest", RS_OK, {{SYMBOLS, 0, 2, 0, 0, 0, 4, 0}}, 1, {0}, 4},
    {"symbols of UTF-16", RS_OK, {{SYMBOLS, 1, 0, 0, 0, 0, 4, 0}}, 1, {0}, 4},
    {"symbols with param", RS_E_FMT_TREE, {{SYMBOLS, 2, 0, 0, 0, 0, 4, 0}}, 1, {0}, 4},
    {"symbols with flag 1", RS_E_FMT_TREE, {{SYMBOLS, 0, 1, 0, 0, 0, 4, 0}}, 1, {0}, 4},
    {"symbols with count", RS_E_FMT_TREE, {{SYMBOLS, 0, 0, 0, 0, 0, 4, 1}}, 1, {0}, 4},
    {"symbols without a table", RS_E_FMT_TREE, {AUX_OF(SYMBOLS, 0)}, 1, {0}, 0},
    {"symbols of two tables", RS_E_FMT_TREE, {AUX_OF(SYMBOLS, 8)}, 1, {0}, 8},
    {"concat of nothing", RS_OK, {LEAF(CONCAT, 0)}, 1, {0}, 0},
    {"concat with param", RS_E_FMT_TREE, {LEAF(CONCAT, 1)}, 1, {0}, 0},
    {"concat with flag", RS_E_FMT_TREE, {{CONCAT, 0, 2, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"concat with count", RS_E_FMT_TREE, {{CONCAT, 0, 0, 0, 0, 0, 0, 1}}, 1, {0}, 0},
    {"concat with aux", RS_E_FMT_TREE, {AUX_OF(CONCAT, 1)}, 1, {0}, 1},
    {"concat of four kinds of text",
     RS_OK,
     {PARENT(CONCAT, 0, 4),
      {CONST, 0, 0, 0, 0, 0, 2, 0},
      {SYMBOLS, 0, 0, 0, 0, 4, 4, 0},
      {HEX, 0, 0, 0, 0, 0, 0, 1},
      LEAF(STR, 2)},
     5,
     {9, 0, 0, 0, 0, 0, 0, 0},
     8},
    {"concat of a const of bytes", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), {CONST, 0, 0, 0, 0, 0, 2, 0}}, 2, {12, 0}, 2},
    {"concat of a const of None", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), {CONST, 0, 0, 0, 0, 0, 1, 0}}, 2, {0}, 1},
    {"concat of any", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), LEAF(ANY, 0)}, 2, {0}, 0},
    {"concat of bytes", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), LEAF(BYTES, 0)}, 2, {0}, 0},
    {"concat of concat", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), LEAF(CONCAT, 0)}, 2, {0}, 0},
    {"concat of an optional", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 1), {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, LEAF(STR, 1)}, 3, {0}, 0},
    {"same of the first", RS_OK, {PARENT(CONCAT, 0, 3), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, 0}, {SAME, 0, 0, 0, 0, 0, 0, 0}}, 4, {0}, 0},
    {"same of a same", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 3), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, 0}, {SAME, 0, 0, 0, 0, 0, 0, 1}}, 4, {0}, 0},
    {"same of itself", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, 1}}, 3, {0}, 0},
    {"same of a later part", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), {SAME, 0, 0, 0, 0, 0, 0, 1}, LEAF(STR, 1)}, 3, {0}, 0},
    {"same of a missing part", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, UINT32_MAX}}, 3, {0}, 0},
    {"same with param", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), {SAME, 1, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"same with aux", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 1, 0}}, 3, {0}, 1},
    {"same with flag", RS_E_FMT_TREE, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), {SAME, 0, 2, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"same as root", RS_E_FMT_TREE, {LEAF(SAME, 0)}, 1, {0}, 0},
    {"same in a tuple", RS_E_FMT_TREE, {PARENT(TUPLE, 1, 2), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, 0}}, 3, {0}, 0},
    {"rising of an int with a width", RS_E_FMT_TREE, {PARENT(RISING, 0, 1), INT_OF(8)}, 2, {0}, 8},
    {"digits", RS_OK, {{DIGITS, 64, 0, 0, 0, 0, 8, 20}}, 1, {0}, 8},
    {"digits of 65 bits", RS_E_FMT_TREE, {{DIGITS, 65, 0, 0, 0, 0, 8, 20}}, 1, {0}, 8},
    {"21 digits", RS_E_FMT_TREE, {{DIGITS, 64, 0, 0, 0, 0, 8, 21}}, 1, {0}, 8},
    {"digits with aux of 7", RS_E_FMT_TREE, {AUX_OF(DIGITS, 7)}, 1, {0}, 7},
    {"digits with flag", RS_E_FMT_TREE, {{DIGITS, 0, 1, 0, 0, 0, 8, 0}}, 1, {0}, 8},
    {"hex", RS_OK, {{HEX, 1, 0, 0, 0, 0, 0, 65535}}, 1, {0}, 0},
    {"hex of no digits", RS_E_FMT_TREE, {{HEX, 0, 0, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"hex of 65536 digits", RS_E_FMT_TREE, {{HEX, 0, 0, 0, 0, 0, 0, 65536}}, 1, {0}, 0},
    {"hex of param 2", RS_E_FMT_TREE, {{HEX, 2, 0, 0, 0, 0, 0, 1}}, 1, {0}, 0},
    {"hex with aux", RS_E_FMT_TREE, {{HEX, 0, 0, 0, 0, 0, 1, 1}}, 1, {0}, 1},
    {"hex with flag", RS_E_FMT_TREE, {{HEX, 0, 1, 0, 0, 0, 0, 1}}, 1, {0}, 0},
    {"alphabet", RS_OK, {{ALPHABET, 0, 0, 0, 0, 0, 2, 0}}, 1, {'0', '1'}, 2},
    {"alphabet of three", RS_E_FMT_TREE, {{ALPHABET, 0, 0, 0, 0, 0, 3, 0}}, 1, {'0', '1', '2'}, 3},
    {"alphabet of one", RS_E_FMT_TREE, {{ALPHABET, 0, 0, 0, 0, 0, 1, 0}}, 1, {'0'}, 1},
    {"alphabet of Latin-1", RS_E_FMT_TREE, {{ALPHABET, 0, 0, 0, 0, 0, 2, 0}}, 1, {'0', 0xE9}, 2},
    {"alphabet of no count", RS_E_FMT_TREE, {{ALPHABET, 0, 1, 0, 0, 0, 2, 0}}, 1, {'0', '1'}, 2},
    {"alphabet of 65536", RS_E_FMT_TREE, {{ALPHABET, 0, 1, 0, 0, 0, 2, 65536}}, 1, {'0', '1'}, 2},
    {"alphabet with count and rest", RS_E_FMT_TREE, {{ALPHABET, 1, 3, 0, 0, 0, 2, 9}}, 1, {'0', '1'}, 2},
    {"alphabet with rest of param 0", RS_E_FMT_TREE, {{ALPHABET, 0, 2, 0, 0, 0, 2, 0}}, 1, {'0', '1'}, 2},
    {"alphabet with rest", RS_OK, {{ALPHABET, 2, 2, 0, 0, 0, 2, 0}}, 1, {'0', '1'}, 2},
    {"UUID of two digits", RS_E_FMT_TREE, {{ALPHABET, 3, 1, 0, 0, 0, 2, 32}}, 1, {'0', '1'}, 2},
    {"UUID without count", RS_E_FMT_TREE, {{ALPHABET, 3, 0, 0, 0, 0, 16, 0}}, 1, {'0'}, 16},
    {"UUID", RS_OK, {{ALPHABET, 3, 1, 0, 0, 0, 16, 32}}, 1, {'0'}, 16},
    {"optional", RS_OK, {PARENT(OPTIONAL, 1, 1), LEAF(STR, 1)}, 2, {0}, 0},
    {"optional of 64 bits", RS_OK, {PARENT(OPTIONAL, 1, 1), INT_OF(63)}, 2, {0}, 8},
    {"optional of 64 bits in the body", RS_OK, {PARENT(OPTIONAL, 1, 1), INT_OF(64)}, 2, {0}, 8},
    {"optional of 65 bits", RS_E_FMT_TREE, {PARENT(OPTIONAL, 1, 1), {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, INT_OF(63)}, 3, {0}, 8},
    {"optional of param 2", RS_E_FMT_TREE, {PARENT(OPTIONAL, 2, 1), LEAF(STR, 1)}, 2, {0}, 0},
    {"optional without a child", RS_E_FMT_TREE, {LEAF(OPTIONAL, 1)}, 1, {0}, 0},
    {"optional of two children", RS_E_FMT_TREE, {PARENT(OPTIONAL, 1, 2), LEAF(STR, 1), LEAF(STR, 1)}, 3, {0}, 0},
    {"optional with aux", RS_E_FMT_TREE, {{OPTIONAL, 1, 0, 1, 1, 0, 1, 0}, LEAF(STR, 1)}, 2, {0}, 1},
    {"optional with flag", RS_E_FMT_TREE, {{OPTIONAL, 1, 1, 1, 1, 0, 0, 0}, LEAF(STR, 1)}, 2, {0}, 0},
    {"optional with count", RS_E_FMT_TREE, {{OPTIONAL, 1, 0, 1, 1, 0, 0, 1}, LEAF(STR, 1)}, 2, {0}, 0},
    {"optional key as root", RS_E_FMT_TREE, {PARENT(OPTIONAL, 0, 1), LEAF(STR, 1)}, 2, {0}, 0},
    {"optional key in a tuple", RS_E_FMT_TREE, {PARENT(TUPLE, 1, 1), {OPTIONAL, 0, 0, 1, 2, 0, 0, 0}, LEAF(STR, 1)}, 3, {0}, 0},
    {"optional key in a union", RS_E_FMT_TREE, {PARENT(UNION, 0, 2), {OPTIONAL, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {0}, 0},
    {"optional key", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 0, 0, 1, 2, 0, 0, 0}, LEAF(STR, 1)}, 3, {0x90}, 1},
    {"optional key that may be None", RS_OK, {{STRUCT, 0, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 0, 0, 1, 2, 0, 0, 0}, {OPTIONAL, 1, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1)}, 4, {0x90}, 1},
    {"optional None around an optional key", RS_E_FMT_TREE, {{STRUCT, 0, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, {OPTIONAL, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1)}, 4, {0x90}, 1},
    {"rest of a str", RS_OK, {REST_STR}, 1, {0}, 0},
    {"rest of a str of param 0", RS_E_FMT_TREE, {{STR, 0, 2, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"rest of bytes", RS_OK, {{BYTES, 0, 2, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"rest of any", RS_E_FMT_TREE, {{ANY, 0, 2, 0, 0, 0, 0, 0}}, 1, {0}, 0},
    {"rest in a list", RS_E_FMT_TREE, {PARENT(LIST, 0, 1), REST_STR}, 2, {0}, 0},
    {"rest in a list of one", RS_E_FMT_TREE, {{LIST, 0, 1, 1, 1, 0, 0, 1}, REST_STR}, 2, {0}, 0},
    {"rest before a fixed child", RS_OK, {PARENT(TUPLE, 1, 2), REST_STR, LEAF(FLOAT, 0)}, 3, {0}, 0},
    {"rest before a child that is not fixed", RS_E_FMT_TREE, {PARENT(TUPLE, 1, 2), REST_STR, LEAF(ANY, 0)}, 3, {0}, 0},
    {"rest twice", RS_E_FMT_TREE, {PARENT(TUPLE, 1, 2), REST_STR, REST_STR}, 3, {0}, 0},
    {"rest in each child of a union", RS_OK, {PARENT(UNION, 0, 2), REST_STR, REST_STR}, 3, {0}, 0},
    {"rest in an optional", RS_OK, {PARENT(OPTIONAL, 1, 1), REST_STR}, 2, {0}, 0},
    {"rest in an ext", RS_OK, {{EXT, 22, 0, 1, 1, 0, 2, 0}, REST_STR}, 2, {9, 0}, 2},
    {"rest in a concat", RS_OK, {PARENT(CONCAT, 0, 2), LEAF(STR, 1), REST_STR}, 3, {0}, 0},
    {"rest within a tuple within a tuple", RS_OK, {PARENT(TUPLE, 1, 2), LEAF(ANY, 0), {TUPLE, 1, 0, 1, 3, 0, 0, 0}, REST_STR}, 4, {0}, 0},
    {"rest within a tuple that is not last", RS_E_FMT_TREE, {PARENT(TUPLE, 1, 2), {TUPLE, 1, 0, 1, 3, 0, 0, 0}, LEAF(ANY, 0), REST_STR}, 4, {0}, 0},
    {"ext of a dict", RS_E_FMT_TREE, {{EXT, 4, 0, 1, 1, 4, 1, 0}, {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}}, 2, {0}, 5},
    {"ext of an optional", RS_OK, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, LEAF(ANY, 0)}, 3, {0}, 1},
    {"ext of an optional dict", RS_E_FMT_TREE, {{EXT, 4, 0, 1, 1, 4, 1, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}}, 3, {0}, 5},
    {"ext of an optional ext", RS_E_FMT_TREE, {{EXT, 7, 0, 1, 1, 0, 1, 0}, {OPTIONAL, 1, 0, 1, 2, 0, 0, 0}, {EXT, 7, 0, 1, 3, 0, 1, 0}, LEAF(ANY, 0)}, 4, {0}, 1},
    {"ext of a list of a dict", RS_OK, {{EXT, 3, 0, 1, 1, 4, 1, 0}, {LIST, 0, 0, 1, 2, 0, 0, 0}, {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}}, 3, {0}, 5},
};
/* clang-format on */

TEST(test_every_rule) {
    EACH_NAMED (i, cases) {
        CHECK_CODE(compile(cases[i].nodes, cases[i].n, cases[i].aux, cases[i].aux_size), cases[i].code, &err);
    }
}

/* ---- Head and size (rule 17) ---- */

TEST(test_sizes) {
    static const make_node any = {ANY, 0, 0, 0, 0, 0, 0, 0};
    rs_buffer bytes = {0};
    rs_tree tree;
    make_tree(&bytes, &any, 1, NULL, 0);
    for (size_t n = 0; n < 32; n++) {
        uint8_t *copy = make_exact(bytes.data, n);
        CHECK_CODE(rs_tree_compile(rs_slice_of(copy, n), 7, &tree, &err), RS_E_FMT_TREE, &err);
        CHECK_U64(err.offset, 7);
        free(copy);
    }
    make_tag(&bytes, 0); /* one byte after nodes and aux */
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

/* Compiles a tuple of n - 1 children of one kind. */
static rs_status compile_wide(uint8_t kind, uint32_t n) {
    make_node *nodes = (make_node *)calloc(n, sizeof *nodes);
    if (nodes == NULL) abort();
    for (uint32_t i = 1; i < n; i++) nodes[i].kind = kind;
    nodes[0].kind = TUPLE, nodes[0].n_children = n - 1, nodes[0].first_child = 1;
    rs_status status = compile(nodes, n, NULL, 0);
    free(nodes);
    return status;
}

/* Compiles `depth` nested lists, each below a union if `unions` is true. */
static rs_status compile_deep(uint32_t depth, bool unions) {
    make_node nodes[1300];
    uint32_t n = 0, next = 1;
    memset(nodes, 0, sizeof nodes);
    for (uint32_t i = 0; i < depth; i++) {
        if (unions) {
            nodes[n].kind = UNION, nodes[n].n_children = 2, nodes[n].first_child = next;
            nodes[n + 1].kind = ANY, next += 2, n += 2;
        }
        nodes[n].kind = LIST, nodes[n].n_children = 1, nodes[n].first_child = next++, n++;
    }
    nodes[n++].kind = ANY;
    return compile(nodes, n, NULL, 0);
}

/* A union below an ext must not contain an ext, even through several unions. */
TEST(test_ext_by_way_of_unions) {
    make_node nodes[] = {{EXT, 7, 0, 1, 1, 0, 1, 0},  {UNION, 0, 0, 2, 2, 0, 0, 0}, {UNION, 0, 0, 2, 4, 0, 0, 0},
                         {LIST, 0, 0, 1, 6, 0, 0, 0}, {ANY, 0, 0, 0, 0, 0, 0, 0},   {CONST, 0, 0, 0, 0, 0, 1, 0},
                         {EXT, 7, 0, 1, 7, 0, 1, 0},  {ANY, 0, 0, 0, 0, 0, 0, 0}};
    static const uint8_t aux[] = {0, 0x11, 7, 0, 0};
    rs_tree tree;
    REQUIRE_OK(compile_with(&tree, nodes, 8, aux, 5), &err); /* the list may contain an ext */
    CHECK(!tree.nodes[0].payload && tree.nodes[1].payload && tree.nodes[2].payload && tree.nodes[3].payload);
    CHECK(tree.nodes[4].payload && tree.nodes[5].payload && !tree.nodes[6].payload && tree.nodes[7].payload);
    rs_tree_clear(&tree);
    nodes[5].aux_off = 1, nodes[5].aux_size = 4;
    CHECK_CODE(compile(nodes, 8, aux, 5), RS_E_FMT_TREE, &err);
    nodes[5].aux_off = 0, nodes[5].aux_size = 1;
    nodes[3].kind = EXT, nodes[3].param = 7, nodes[3].aux_size = 1, nodes[6].kind = LIST, nodes[6].param = 0,
    nodes[6].aux_size = 0;
    CHECK_CODE(compile(nodes, 8, aux, 5), RS_E_FMT_TREE, &err);
}

/* An ext has the bits and body of its child, and is fixed if the child is. */
TEST(test_ext_is_transparent) {
    static const make_node kinds[] = {{INT, 3, 0, 0, 0, 0, 8, 0},
                                      {INT, 16, 0, 0, 0, 0, 8, 0},
                                      {FLOAT, 0, 0, 0, 0, 0, 0, 0},
                                      {STR, 1, 0, 0, 0, 0, 0, 0},
                                      {CONST, 0, 0, 0, 0, 0, 1, 0}};
    static const uint8_t aux[8] = {0};
    EACH (i, kinds) {
        make_node nodes[2] = {{EXT, 1, 0, 1, 1, 0, 1, 0}};
        rs_tree tree;
        nodes[1] = kinds[i];
        if (!CHECK_OK(compile_with(&tree, nodes, 2, aux, 8), &err)) continue;
        CHECK(tree.nodes[0].bits == tree.nodes[1].bits && tree.nodes[0].fixed == tree.nodes[1].fixed);
        CHECK(tree.nodes[0].size_bytes == tree.nodes[1].size_bytes &&
              tree.nodes[0].alone_bytes == tree.nodes[1].alone_bytes);
        rs_tree_clear(&tree);
    }
}

/* Compiles `depth` nested lists, each within an ext: two levels for each list. A tree has at most 400 levels. */
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

TEST(test_limits) {
    rs_buffer aux = {0};
    make_node constant = {CONST, 0, 0, 0, 0, 0, 0, 0};
    CHECK_OK(compile_wide(ANY, 4095), &err);
    CHECK_OK(compile_wide(ANY, 4096), &err);
    CHECK_CODE(compile_wide(ANY, 4097), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_wide(STRUCT, 1024), &err);
    CHECK_OK(compile_wide(STRUCT, 1025), &err);
    CHECK_CODE(compile_wide(STRUCT, 1026), RS_E_FMT_TREE, &err);
    CHECK(strstr(err.message, "tree node 0: ") != NULL); /* a fault of the whole tree is reported at its root */
    CHECK_OK(compile_deep(199, false), &err);
    CHECK_OK(compile_deep(200, false), &err);
    CHECK_CODE(compile_deep(201, false), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_deep(200, true), &err);
    CHECK_CODE(compile_deep(201, true), RS_E_FMT_TREE, &err);
    CHECK_OK(compile_ext_deep(200), &err);
    CHECK_CODE(compile_ext_deep(201), RS_E_FMT_TREE, &err);
    for (uint32_t size = (1 << 20) - 1; size <= (1 << 20) + 1; size++) { /* of the tree; 32 bytes are head and node */
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
    uint32_t bits = 0;
    if (nodes == NULL) abort();
    for (uint32_t i = 1; i <= n; i++) nodes[i].kind = BOOL;
    nodes[0].kind = UNION, nodes[0].n_children = n, nodes[0].first_child = 1;
    rs_status status = compile_with(&tree, nodes, n + 1, NULL, 0);
    if (status == RS_OK) {
        while ((1u << bits) < n) bits++;
        CHECK_U64(tree.nodes[0].bits, bits);
        CHECK(tree.nodes[0].fixed && tree.nodes[0].size_bytes == 1);
        rs_tree_clear(&tree);
    }
    free(nodes);
    return status;
}

TEST(test_unions) {
    /* The inner unions have bodies just below 2^31. With a byte of bits before them they are too large. */
    static const make_node large[] = {{UNION, 0, 0, 2, 1, 0, 0, 0},
                                      {UNION, 0, 0, 2, 3, 0, 0, 0},
                                      {UNION, 0, 0, 2, 5, 0, 0, 0},
                                      {LIST, 0, 1, 1, 7, 0, 0, 2147483647},
                                      {LIST, 0, 1, 1, 8, 0, 0, 2147483647},
                                      {LIST, 0, 1, 1, 9, 0, 0, 2147483647},
                                      {LIST, 0, 1, 1, 10, 0, 0, 2147483647},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0}};
    static const uint8_t base[8] = {0};
    for (uint32_t n = 2; n <= 256; n++) CHECK_OK(compile_union_of(n), &err);
    CHECK_CODE(compile_union_of(257), RS_E_FMT_TREE, &err);
    CHECK_CODE(compile(large, 11, base, 8), RS_E_FMT_TREE, &err);
}

/* Every width of an int, with the place of its stored part. */
TEST(test_int_widths) {
    static const uint8_t base[8] = {0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    for (unsigned w = 0; w <= 64; w++) {
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

/* {"a": 3 bits, "b": float, "c": str, "d": bool, "e": [int16, int16]}: the fields of the head and their offsets. */
TEST(test_row_layout) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 5, 1, 8, 15, 0}, {INT, 3, 0, 0, 0, 0, 8, 0},
                                      {FLOAT, 0, 0, 0, 0, 0, 0, 0},   {STR, 1, 0, 0, 0, 0, 0, 0},
                                      {BOOL, 0, 0, 0, 0, 0, 0, 0},    {LIST, 0, 1, 1, 6, 0, 0, 2},
                                      {INT, 16, 0, 0, 0, 0, 8, 0}};
    static const char aux[] = "\0\0\0\0\0\0\0\0\x09\1a\x09\1b\x09\1c\x09\1d\x09\1e";
    rs_tree tree;
    REQUIRE_OK(compile_with(&tree, nodes, 7, aux, 23), &err);
    const rs_node *n = tree.nodes;
    CHECK(!n[0].fixed && n[5].fixed);
    CHECK_U64(n[0].group_bytes, 1);
    CHECK_U64(n[0].head_bytes, 1 + 8 + 4);
    CHECK_U64(n[1].bit_off, 0);
    CHECK_U64(n[4].bit_off, 3);
    CHECK_U64(n[2].body_off, 1);
    CHECK_U64(n[5].body_off, 9);
    CHECK_U64(n[5].size_bytes, 4);
    CHECK(n[0].children == n + 1 && n[5].children == n + 6);
    /* The slots of the binding are still empty. */
    CHECK(tree.program == NULL);
    for (uint32_t i = 0; i < tree.n_nodes; i++) CHECK(n[i].slot == NULL);
    rs_tree_clear(&tree);
}

/* (bool, (2 bits, float, 3 bits), bool): with IN_BITS the inner row has no group of its own. */
TEST(test_row_in_bits) {
    make_node nodes[] = {{TUPLE, 0, 0, 3, 1, 0, 0, 0}, {BOOL, 0, 0, 0, 0, 0, 0, 0}, {TUPLE, 0, 8, 3, 4, 0, 0, 0},
                         {BOOL, 0, 0, 0, 0, 0, 0, 0},  {INT, 2, 0, 0, 0, 0, 8, 0},  {FLOAT, 0, 0, 0, 0, 0, 0, 0},
                         {INT, 3, 0, 0, 0, 0, 8, 0}};
    static const char aux[8];
    rs_tree tree;
    REQUIRE_OK(compile_with(&tree, nodes, 7, aux, 8), &err);
    const rs_node *n = tree.nodes;
    CHECK_U64(n[0].group_bytes, 1);
    CHECK_U64(n[0].size_bytes, 9);
    CHECK_U64(n[2].bits, 5);
    CHECK_U64(n[2].group_bytes, 0);
    CHECK_U64(n[3].bit_off, 6);
    CHECK_U64(n[6].bit_off, 2);
    CHECK_U64(n[5].body_off, 0);
    CHECK(rs_tree_features(&tree) == RS_FMT_FEATURE_IN_BITS);
    rs_tree_clear(&tree);
    nodes[4].param = 62;
    CHECK_CODE(compile_with(&tree, nodes, 7, aux, 8), RS_E_FMT_TREE, &err);
    nodes[4].param = 2, nodes[0].flags = 8;
    CHECK_CODE(compile_with(&tree, nodes, 7, aux, 8), RS_E_FMT_TREE, &err);
}

TEST(test_counts_of_tables_and_parts) {
    make_node nodes[66];
    uint32_t tables[65] = {0};
    for (uint32_t n = 1; n <= 65; n++) {
        make_node node = {DICT_CODED, 16, 0, 0, 0, 0, 0, 65};
        node.aux_size = 4 * n;
        CHECK_CODE(compile(&node, 1, tables, 4 * n), n <= 64 ? RS_OK : RS_E_FMT_TREE, &err);
        memset(nodes, 0, sizeof nodes);
        for (uint32_t i = 1; i <= n; i++) nodes[i].kind = STR;
        nodes[0].kind = CONCAT, nodes[0].n_children = n, nodes[0].first_child = 1;
        CHECK_CODE(compile(nodes, n + 1, NULL, 0), n <= 64 ? RS_OK : RS_E_FMT_TREE, &err);
    }
}

/* Checks the bits and sizes of compiled nodes, and whether they are fixed. */
TEST(test_packed_sizes) {
    static const struct {
        make_node nodes[3];
        uint32_t n;
        unsigned bits;
        bool fixed;
        uint64_t size;
    } sizes[] = {
        {{{DECIMAL, 7, 0, 0, 0, 0, 10, 0}}, 1, 7, true, 0},
        {{{DECIMAL, 32, 0, 0, 0, 0, 10, 0}}, 1, 0, true, 4},
        {{AUX_OF(NUMBERS, 16)}, 1, 0, false, 0},
        {{{NUMBERS, 0, 1, 0, 0, 0, 16, 9}}, 1, 0, false, 0},
        {{{DICT_CODED, 8, 0, 0, 0, 0, 4, 9}}, 1, 8, true, 0},
        {{AUX_OF(SYMBOLS, 4)}, 1, 0, false, 0},
        {{{DIGITS, 16, 0, 0, 0, 0, 8, 9}}, 1, 0, true, 2},
        {{{DIGITS, 17, 0, 0, 0, 0, 8, 9}}, 1, 17, true, 0},
        {{{HEX, 0, 0, 0, 0, 0, 0, 7}}, 1, 0, true, 4},
        {{{ALPHABET, 0, 1, 0, 0, 0, 8, 7}}, 1, 0, true, 3},
        {{{ALPHABET, 1, 1, 0, 0, 0, 8, 7}}, 1, 0, true, 2},
        {{{ALPHABET, 1, 0, 0, 0, 0, 8, 0}}, 1, 0, false, 0},
        {{PARENT(CONCAT, 0, 2), {HEX, 0, 0, 0, 0, 0, 0, 7}, {DIGITS, 9, 0, 0, 0, 0, 8, 0}}, 3, 0, true, 6},
        {{PARENT(OPTIONAL, 1, 1), {DICT_CODED, 8, 0, 0, 0, 0, 4, 9}}, 2, 9, true, 0},
        {{PARENT(OPTIONAL, 1, 1), LEAF(FLOAT, 0)}, 2, 1, false, 0},
        {{PARENT(OPTIONAL, 1, 1), LEAF(STR, 1)}, 2, 1, false, 0},
        {{PARENT(OPTIONAL, 1, 1), LEAF(BOOL, 0)}, 2, 2, true, 0},
    };
    static const uint8_t aux[16] = {0};
    EACH (i, sizes) {
        rs_tree tree;
        if (!CHECK_OK(compile_with(&tree, sizes[i].nodes, sizes[i].n, aux, 16), &err)) continue;
        CHECK(tree.nodes[0].fixed == sizes[i].fixed);
        CHECK_U64(tree.nodes[0].bits, sizes[i].bits);
        CHECK_U64(tree.nodes[0].size_bytes, sizes[i].size);
        CHECK_U64(tree.nodes[0].alone_bytes, (sizes[i].bits + 7) / 8);
        CHECK_U64(tree.n_links, sizes[i].nodes[sizes[i].n - 1].kind == DICT_CODED || sizes[i].nodes[0].kind == SYMBOLS);
        rs_tree_clear(&tree);
    }
}

/* Any change of a byte gives a tree of as many nodes or one of two errors, never another one such as RS_E_MEM. */
static void check_any_byte_changed(const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    rs_buffer bytes = {0};
    make_tree(&bytes, nodes, n, aux, aux_size);
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        const uint8_t was = bytes.data[i];
        for (unsigned value = 0; value < 256; value++) {
            rs_tree tree;
            bytes.data[i] = (uint8_t)value;
            rs_status status = make_compiled(&bytes, &tree, &err);
            CHECK(status == RS_OK ? tree.n_nodes == n : status == RS_E_FMT_TREE || status == RS_E_FMT_VERSION);
            if (value == was) CHECK_OK(status, &err);
            if (status == RS_OK) rs_tree_clear(&tree);
        }
        bytes.data[i] = was;
    }
    rs_buffer_clear(&bytes);
}

TEST(test_any_byte_changed) {
    static const make_node plain[] = {{STRUCT, 0, 0, 2, 1, 8, 6, 0}, {UNION, 0, 0, 2, 3, 0, 0, 0},
                                      {LIST, 0, 1, 1, 5, 0, 0, 2},   {NDARRAY, 0, 1, 0, 0, 14, 4, 0},
                                      {CONST, 0, 0, 0, 0, 8, 3, 0},  {INT, 3, 0, 0, 0, 0, 8, 0}},
                           packed[] = {{STRUCT, 0, 0, 3, 1, 0, 3, 0},   {OPTIONAL, 0, 0, 1, 4, 0, 0, 0},
                                       {NUMBERS, 0, 0, 0, 0, 3, 16, 0}, {CONCAT, 0, 0, 2, 5, 0, 0, 0},
                                       {DECIMAL, 9, 0, 0, 0, 3, 10, 0}, {DICT_CODED, 3, 0, 0, 0, 4, 4, 7},
                                       {SAME, 0, 0, 0, 0, 0, 0, 0}};
    static const uint8_t aux[32] = {0x91, 0x92, 0x93};
    check_any_byte_changed(plain, 6, "\0\0\0\0\0\0\0\0\x09\1a\x09\1b\0\3\1\7", 18);
    check_any_byte_changed(packed, 7, aux, 32);
}
