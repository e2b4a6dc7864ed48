/* test_compiled_path.c: paths compiled for trees: the shared prefix, the three results of a walk, damaged records. */
#include "columns/rs_compiled_path.h"
#include "rs_make.h"

static rs_error err;

#define KEY(text) {(const uint8_t *)(text), sizeof(text) - 1, 1, false, 0}
#define INDEX(i) {NULL, 0, 0, true, i}

static rs_status walk(const rs_compiled_path *compiled, const uint8_t *bytes, size_t n, rs_place *place,
                      rs_cursor *cursor, int *found) {
    memset(cursor, 0, sizeof *cursor);
    cursor->in = rs_slice_of(bytes, n);
    cursor->budget.values = 100, cursor->budget.bytes = 100, cursor->budget.depth = 10, cursor->shared = false;
    return rs_compiled_path_walk(compiled, cursor, place, found, &err);
}

/* {"t": str, "a": {"b": i8, "c": [f8, f8]}, "u": i3 or str, "v": any}. */
static const make_node NODES[] = {
    {STRUCT, 0, 0, 4, 1, 0, 12, 0}, {STR, 1, 0, 0, 0, 0, 0, 0},  {STRUCT, 0, 0, 2, 5, 12, 6, 0},
    {UNION, 0, 0, 2, 7, 0, 0, 0},   {ANY, 0, 0, 0, 0, 0, 0, 0},  {INT, 8, 0, 0, 0, 18, 8, 0},
    {LIST, 0, 1, 1, 9, 0, 0, 2},    {INT, 3, 0, 0, 0, 18, 8, 0}, {STR, 1, 0, 0, 0, 0, 0, 0},
    {FLOAT, 0, 0, 0, 0, 0, 0, 0},
};
static const uint8_t AUX[] = "\x09\x01t\x09\x01"
                             "a\x09\x01u\x09\x01v"
                             "\x09\x01"
                             "b\x09\x01"
                             "c\0\0\0\0\0\0\0";
static const uint8_t RECORD[] = "\x00"
                                "\x05"
                                "\0\0\0\0\0\0\xE0\x3F\0\0\0\0\0\0\xF0\x3F"
                                "\x02hi"
                                "\x06"
                                "\x0F\x01\x09\x01k\x0E\x02\x91\x92";
enum { RECORD_SIZE = 1 + 1 + 16 + 3 + 1 + 9 };

static rs_tree compiled_tree(void) {
    rs_buffer bytes = {0};
    rs_tree tree;
    make_tree(&bytes, NODES, sizeof NODES / sizeof NODES[0], AUX, sizeof AUX);
    CHECK_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_buffer_clear(&bytes);
    return tree;
}

/* Compiles a path. `at` has the step of each key at the root, `below` the step at struct a. */
static void open_path(rs_compiled_path *compiled, const rs_key_path *path, const rs_tree *tree, const int32_t *at,
                      const int32_t *below) {
    if (!CHECK_OK(rs_compiled_path_open(compiled, path, tree, &err), &err)) abort();
    for (uint32_t k = 0; k < path->n_keys; k++)
        rs_compiled_path_set(compiled, 0, k, 0, at[k]), rs_compiled_path_set(compiled, 0, k, 2, below[k]);
    rs_compiled_path_prepare(compiled);
}

TEST(test_shared_part) {
    static const rs_path_key keys[] = {KEY("a"), KEY("c"), INDEX(-1)};
    static const rs_path_name names[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}};
    static const int32_t at[] = {1, -1, -1}, below[] = {-1, 1, -1};
    rs_key_path path = {keys, names, 3, 3};
    rs_tree tree = compiled_tree();
    rs_compiled_path compiled;
    rs_cursor cursor;
    rs_place place;
    int found;
    open_path(&compiled, &path, &tree, at, below);
    CHECK(rs_compiled_path_is_fixed(&compiled));
    CHECK_U64(compiled.body_off, 10);
    CHECK_U64(compiled.least, 18);
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    CHECK(found == RS_WALK_FOUND && rs_load_f64(place.body) == 1.0);
    for (size_t cut = 0; cut < RECORD_SIZE; cut++)
        CHECK_CODE(walk(&compiled, RECORD, cut, &place, &cursor, &found), cut < 18 ? RS_E_FMT_TRUNCATED : RS_OK, &err);
    rs_compiled_path_clear(&compiled);
    path.n_names = 0; /* the whole record */
    open_path(&compiled, &path, &tree, at, below);
    CHECK(!rs_compiled_path_is_fixed(&compiled) && compiled.least == 0);
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    CHECK(place.node == tree.nodes && place.body == NULL);
    rs_compiled_path_clear(&compiled);
    rs_tree_clear(&tree);
}

/* Returns the value at the end of a path of `n` keys: an int, the tag of an `any` value, or the kind of another node;
 * -1 if lacking, -2 if unsure. */
static int64_t found_by(const rs_tree *tree, const rs_path_key *keys, uint32_t n, const int32_t *at,
                        const int32_t *below) {
    static const rs_path_name names[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}};
    const rs_key_path path = {keys, names, n, n};
    rs_compiled_path compiled;
    rs_cursor cursor;
    rs_place place;
    uint8_t changed[RECORD_SIZE], *exact;
    int found = -1;
    open_path(&compiled, &path, tree, at, below);
    for (size_t k = 0; k < 256 * RECORD_SIZE; k++) { /* a changed byte gives a status, never a crash */
        memcpy(changed, RECORD, RECORD_SIZE);
        changed[k / 256] = (uint8_t)k;
        exact = make_exact(changed, RECORD_SIZE - k % 2);
        (void)walk(&compiled, exact, RECORD_SIZE - k % 2, &place, &cursor, &found);
        free(exact);
    }
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    int64_t out = found == RS_WALK_LACKING  ? -1
                  : found == RS_WALK_UNSURE ? -2
                  : place.node == NULL      ? *cursor.in.ptr
                  : place.node->kind == INT ? rs_decode_int_unchecked(place.node, place.body, place.bits)
                                            : place.node->kind;
    rs_compiled_path_clear(&compiled);
    return out;
}

TEST(test_walks) {
    static const rs_path_key ab[] = {KEY("a"), KEY("b")}, u[] = {KEY("u")}, vk[] = {KEY("v"), KEY("k"), INDEX(1)},
                             vq[] = {KEY("v"), KEY("q")}, vi[] = {KEY("v"), INDEX(0)}, q[] = {KEY("q")},
                             ux[] = {KEY("u"), KEY("x")}, t[] = {KEY("t")}, a9[] = {KEY("a"), KEY("c"), INDEX(2)};
    static const int32_t to_ab[] = {1, -1}, in_ab[] = {-1, 0}, to_u[] = {2, -1}, to_v[] = {3, -1, -1},
                         none[] = {-1, -1, -1}, ask[] = {-2, -2, -2}, to_t[] = {0}, to_a[] = {1, -1, -1},
                         in_c[] = {-1, 1, -1};
    rs_tree tree = compiled_tree();
    CHECK_U64(found_by(&tree, ab, 2, to_ab, in_ab), 5);
    CHECK_U64(found_by(&tree, u, 1, to_u, none), 6);
    CHECK_U64(found_by(&tree, t, 1, to_t, none), STR);
    CHECK_U64(found_by(&tree, vk, 3, to_v, none), 0x92);
    CHECK_U64((uint64_t)found_by(&tree, vq, 2, to_v, none), (uint64_t)-1);
    CHECK_U64((uint64_t)found_by(&tree, vi, 2, to_v, none), (uint64_t)-2); /* 0 may be a key of the dict */
    CHECK_U64((uint64_t)found_by(&tree, q, 1, none, none), (uint64_t)-1);
    CHECK_U64((uint64_t)found_by(&tree, q, 1, ask, ask), (uint64_t)-2);
    CHECK_U64((uint64_t)found_by(&tree, ux, 2, to_u, none), (uint64_t)-1);
    CHECK_U64((uint64_t)found_by(&tree, a9, 3, to_a, in_c), (uint64_t)-1);
    rs_tree_clear(&tree);
}

/* The whole name "a.b" is tried before its parts, at compile time or, if the tree does not decide, during the walk. */
TEST(test_dotted_names) {
    static const rs_path_key keys[] = {KEY("a.b"), KEY("a"), KEY("b")},
                             in_any[] = {KEY("v"), KEY("k.x"), KEY("k"), INDEX(0)};
    static const rs_path_name dotted[] = {{0, 1, 2}}, later[] = {{0, 0, 0}, {1, 2, 2}};
    static const int32_t parts[] = {-1, 1, -1}, whole[] = {0, 1, -1}, inner[] = {-1, -1, 0}, to_v[] = {3, -1, -1, -1},
                         none[] = {-1, -1, -1, -1};
    const rs_key_path path = {keys, dotted, 3, 1}, path_in_any = {in_any, later, 4, 2};
    rs_tree tree = compiled_tree();
    rs_compiled_path compiled;
    rs_cursor cursor;
    rs_place place;
    int found;
    open_path(&compiled, &path, &tree, parts, inner);
    CHECK(rs_compiled_path_is_fixed(&compiled));
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    CHECK(found == RS_WALK_FOUND && *place.body == 5);
    rs_compiled_path_clear(&compiled);
    open_path(&compiled, &path, &tree, whole, inner);
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    CHECK(found == RS_WALK_FOUND && place.node == &tree.nodes[1]);
    rs_compiled_path_clear(&compiled);
    open_path(&compiled, &path_in_any, &tree, to_v, none);
    CHECK_OK(walk(&compiled, RECORD, RECORD_SIZE, &place, &cursor, &found), &err);
    CHECK(found == RS_WALK_FOUND && *cursor.in.ptr == 0x91);
    rs_compiled_path_clear(&compiled);
    rs_tree_clear(&tree);
}

/* The keys of a plain dict and the path's key have units of different sizes: every pair of sizes, and units that differ
 * only in their highest byte. */
TEST(test_units_of_keys) {
    static const make_node any = {ANY, 0, 0, 0, 0, 0, 0, 0};
    static const rs_path_name name = {0, 0, 0};
    static const uint32_t texts[][3] = {{'a', 'b', 0xFF}, {'a', 'b', 0xFFFF}, {'a', 'b', 0x100FF}, {'a', 'b', 0x1FF}};
    rs_buffer bytes = {0}, record = {0};
    uint8_t stored[12], expected[12];
    rs_tree tree;
    unsigned k, from, to;
    make_tree(&bytes, &any, 1, NULL, 0);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    for (unsigned i = 0; i < 4 * 4 * 9; i++) {
        const rs_path_key key = {expected, 3, 1u << i % 3, false, 0};
        const rs_key_path path = {&key, &name, 1, 1};
        rs_compiled_path compiled;
        rs_cursor cursor;
        rs_place place;
        int found;
        from = 1u << i / 3 % 3, to = 1u << i % 3;
        for (k = 0; k < 3; k++) {
            memcpy(stored + from * k, &texts[i / 9 % 4][k], from);
            memcpy(expected + to * k, &texts[i / 36][k], to);
        }
        record.size_bytes = 0;
        make_head(&record, 0x0F, 1);
        make_head(&record, 0x09 + i / 3 % 3, 3), make_bytes(&record, stored, 3 * from);
        make_int(&record, 7);
        REQUIRE_OK(rs_compiled_path_open(&compiled, &path, &tree, &err), &err);
        CHECK_OK(walk(&compiled, record.data, record.size_bytes, &place, &cursor, &found), &err);
        for (k = 0; k < 3; k++) { /* narrow units hold only the low bytes */
            uint32_t a = texts[i / 9 % 4][k] & (uint32_t)(UINT64_C(0xFFFFFFFF) >> (32 - 8 * from));
            uint32_t b = texts[i / 36][k] & (uint32_t)(UINT64_C(0xFFFFFFFF) >> (32 - 8 * to));
            if (a != b) break;
        }
        if (!CHECK(found == (k == 3 ? RS_WALK_FOUND : RS_WALK_LACKING))) (void)fprintf(stderr, "    case %u\n", i);
        rs_compiled_path_clear(&compiled);
    }
    rs_tree_clear(&tree);
    rs_buffer_clear(&bytes);
    rs_buffer_clear(&record);
}
