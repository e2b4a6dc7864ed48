/* test_path.c: walks to children, past siblings of many kinds of node; columns of numbers; damaged records. */
#include "columns/rs_gather_numbers.h"
#include "rs_hand.h"

static rs_error err;

static rs_cursor cursor_over(const uint8_t *bytes, size_t n, const uint8_t *arrays) {
    rs_cursor c;
    c.in = rs_slice_of(bytes, n);
    c.arrays = arrays, c.arrays_size = 2048; /* only pointed into */
    c.budget.values = 100, c.budget.bytes = 100, c.budget.depth = 10, c.shared = false;
    return c;
}

#define LEAF(kind, param) {kind, param, 0, 0, 0, 0, 0, 0}
#define INT_NODE(width) {INT, width, 0, 0, 0, 0, 8, 0}
/* The last child of the row is the mark, a str of one unit. Reading it shows that the other children were skipped
 * correctly. */
#define ROW(n) {TUPLE, 1, 0, n, 1, 0, 0, 0}
static const struct {
    const char *what;
    make_node nodes[7];
    uint32_t n_nodes;
    uint8_t aux[16];
    uint32_t aux_size;
    uint8_t bytes[24];
    size_t n;
    /* clang-format off */
} rows[] = {
    {"str", {ROW(2), LEAF(STR, 1), LEAF(STR, 1)}, 3, {0}, 0, {2, 'a', 'b', 1, '!'}, 5},
    {"str of invalid code points, which are not checked", {ROW(2), LEAF(STR, 4), LEAF(STR, 1)}, 3, {0}, 0, {1, 255, 255, 255, 255, 1, '!'}, 7},
    {"bytes", {ROW(2), LEAF(BYTES, 0), LEAF(STR, 1)}, 3, {0}, 0, {1, 0, 1, '!'}, 4},
    {"any", {ROW(2), LEAF(ANY, 0), LEAF(STR, 1)}, 3, {0}, 0, {0x0D, 2, 0x90, 0x09, 1, 'a', 1, '!'}, 8},
    {"list of bits", {ROW(2), {LIST, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), INT_NODE(3)}, 4, {0}, 8, {4, 0x88, 6, 1, '!'}, 5},
    {"list of strings", {ROW(2), {LIST, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {0}, 0, {2, 1, 'a', 0, 1, '!'}, 6},
    {"list of unions",
     {ROW(2), {LIST, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), {UNION, 0, 0, 2, 4, 0, 0, 0}, LEAF(STR, 1), LEAF(FLOAT, 0)},
     6,
     {0},
     0,
     {2, 2, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 1, '!'},
     14},
    {"row", {ROW(2), {TUPLE, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1), LEAF(BOOL, 0)}, 5, {0}, 0, {1, 1, 'a', 1, '!'}, 5},
    {"union", {ROW(2), {UNION, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1), LEAF(FLOAT, 0)}, 5, {0}, 0, {0, 1, 'a', 1, '!'}, 5},
    {"fixed union", {ROW(2), {UNION, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1), LEAF(FLOAT, 0)}, 5, {0}, 0, {1, 0, 0, 0, 0, 0, 0, 0, 0, 1, '!'}, 11},
    {"array", {ROW(2), {NDARRAY, 0, 0, 0, 0, 0, 2, 0}, LEAF(STR, 1)}, 3, {0, 3}, 2, {1, 1, 7, 7, 1, '!'}, 6},
    {"array outside", {ROW(2), {NDARRAY, 0, 1, 0, 0, 0, 5, 0}, LEAF(STR, 1)}, 3, {0, 3, 1, 0x80, 4}, 5, {16, 1, '!'}, 3},
    {"ext", {ROW(2), {EXT, 22, 0, 1, 3, 0, 3, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {9, 1, 'p'}, 3, {1, 'x', 1, '!'}, 4},
    {"numbers", {ROW(2), {NUMBERS, 0, 0, 0, 0, 0, 16, 0}, LEAF(STR, 1)}, 3, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 16, {3, 3, 0xD0, 1, 1, '!'}, 6},
    {"concat", {ROW(2), {CONCAT, 0, 0, 3, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1), {SAME, 0, 0, 0, 0, 0, 0, 0}, LEAF(STR, 2)}, 6, {0}, 0, {1, 'a', 1, 'b', 'c', 1, '!'}, 7},
    {"optional", {ROW(2), {OPTIONAL, 1, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {0}, 0, {1, 1, 'a', 1, '!'}, 5},
    {"optional that is not there", {ROW(2), {OPTIONAL, 1, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {0}, 0, {0, 1, '!'}, 3},
    {"fixed optional", {ROW(2), {OPTIONAL, 1, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(FLOAT, 0)}, 4, {0}, 0, {1, 0, 0, 0, 0, 0, 0, 0, 0, 1, '!'}, 11},
    {"list of optionals", {ROW(2), {LIST, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), {OPTIONAL, 1, 0, 1, 4, 0, 0, 0}, LEAF(STR, 1)}, 5, {0}, 0, {3, 5, 1, 'a', 0, 1, '!'}, 7},
    {"a key that may be missing", {{STRUCT, 0, 0, 2, 1, 0, 2, 0}, {OPTIONAL, 0, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1)}, 4, {0x91, 0x92}, 2, {1, 1, 'a', 1, '!'}, 5},
    {"map", {ROW(2), {MAP, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(STR, 1), LEAF(STR, 1)}, 5, {0}, 0, {1, 1, 'a', 1, 'b', 1, '!'}, 7},
    {"fixed map", {ROW(2), {MAP, 0, 0, 2, 3, 0, 0, 0}, LEAF(STR, 1), LEAF(BOOL, 0), LEAF(BOOL, 0)}, 5, {0}, 0, {2, 1, 3, 1, '!'}, 5},
    {"an optional mark", {ROW(2), LEAF(BYTES, 0), {OPTIONAL, 1, 0, 1, 3, 0, 0, 0}, LEAF(STR, 1)}, 4, {0}, 0, {1, 1, 7, 1, '!'}, 5},
    {"hex", {ROW(2), {HEX, 0, 0, 0, 0, 0, 0, 3}, LEAF(STR, 1)}, 3, {0}, 0, {0x12, 0x30, 1, '!'}, 4},
    {"fixed", {ROW(2), LEAF(FLOAT, 0), LEAF(STR, 1)}, 3, {0}, 0, {0, 0, 0, 0, 0, 0, 0, 0, 1, '!'}, 10},
};
/* clang-format on */

/* Walks to the second child and takes its string of one unit. */
static rs_status take_mark(const rs_tree *tree, const uint8_t *bytes, size_t n, uint8_t *mark) {
    uint8_t *exact = make_exact(bytes, n), *arrays = make_exact("", 0);
    rs_cursor c = cursor_over(exact, n, arrays);
    rs_place place;
    rs_status status = rs_path_begin(&c, tree->nodes, &place, &err);
    uint64_t units = 0;
    unsigned unit = 0;
    const uint8_t *p = NULL;
    if (status == RS_OK) status = rs_path_child(&c, &place, 1, &err);
    if (status == RS_OK && (place.node == NULL || place.node->kind != STR))
        status = RS_E_FMT_VALUE; /* the mark is gone */
    if (status == RS_OK) status = rs_decode_str(&c, place.node, &units, &unit, &p, &err);
    if (status == RS_OK && units > 0) *mark = *p;
    free(exact), free(arrays);
    return status;
}

TEST(test_skipped_siblings) {
    EACH_NAMED (i, rows) {
        rs_buffer bytes = {0};
        rs_tree tree;
        uint8_t record[24], mark = 0;
        make_tree(&bytes, rows[i].nodes, rows[i].n_nodes, rows[i].aux, rows[i].aux_size);
        CHECK_OK(make_compiled(&bytes, &tree, &err), &err);
        rs_buffer_clear(&bytes);
        if (tree.nodes == NULL) continue;
        CHECK_OK(take_mark(&tree, rows[i].bytes, rows[i].n, &mark), &err);
        CHECK_U64(mark, '!');
        for (size_t cut = 0; cut < rows[i].n; cut++)
            CHECK_CODE(take_mark(&tree, rows[i].bytes, cut, &mark), RS_E_FMT_TRUNCATED, &err);
        memcpy(record, rows[i].bytes, sizeof record);
        for (size_t k = 0; k < 256 * rows[i].n; k++) { /* any changed byte gives a status, never a crash */
            record[k / 256] = (uint8_t)k;
            (void)take_mark(&tree, record, rows[i].n, &mark);
            record[k / 256] = rows[i].bytes[k / 256];
        }
        rs_tree_clear(&tree);
    }
}

static rs_tree compile_tree(const make_node *nodes, uint32_t n_nodes, const void *aux, uint32_t aux_size) {
    rs_buffer bytes = {0};
    rs_tree tree;
    make_tree(&bytes, nodes, n_nodes, aux, aux_size);
    CHECK_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_buffer_clear(&bytes);
    return tree;
}

/* Returns element i of a list of small ints; -1000 if there is none. */
static int64_t element(const rs_tree *tree, const uint8_t *bytes, size_t n, int64_t i) {
    rs_cursor c = cursor_over(bytes, n, NULL);
    rs_place place;
    bool found;
    CHECK_OK(rs_path_begin(&c, tree->nodes, &place, &err), &err);
    CHECK_OK(rs_path_element(&c, &place, i, &found, &err), &err);
    if (!found) return -1000;
    return place.node == NULL ? rs_tag_small_value(*c.in.ptr)
                              : rs_decode_int_unchecked(place.node, place.body, place.bits);
}

TEST(test_elements) {
    static const make_node fixed[] = {{LIST, 0, 1, 1, 1, 0, 0, 3}, INT_NODE(8)},
                           counted[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, INT_NODE(8)}, any[] = {LEAF(ANY, 0)};
    static const uint8_t aux[8] = {0}, as_fixed[] = {1, 2, 3}, as_counted[] = {3, 1, 2, 3},
                         as_any[] = {0x0E, 3, 0x91, 0x92, 0x93};
    rs_tree trees[3];
    trees[0] = compile_tree(fixed, 2, aux, 8), trees[1] = compile_tree(counted, 2, aux, 8),
    trees[2] = compile_tree(any, 1, aux, 0);
    for (int64_t i = -5; i <= 5; i++) {
        int64_t expected = i >= 0 && i < 3 ? i + 1 : i < 0 && i >= -3 ? i + 4 : -1000;
        CHECK_U64((uint64_t)element(&trees[0], as_fixed, 3, i), (uint64_t)expected);
        CHECK_U64((uint64_t)element(&trees[1], as_counted, 4, i), (uint64_t)expected);
        CHECK_U64((uint64_t)element(&trees[2], as_any, 5, i), (uint64_t)expected);
    }
    CHECK_U64((uint64_t)element(&trees[1], as_counted, 4, INT64_MIN), (uint64_t)-1000);
    CHECK_U64((uint64_t)element(&trees[1], as_counted, 4, INT64_MAX), (uint64_t)-1000);
    for (size_t k = 0; k < 3; k++) rs_tree_clear(&trees[k]);
}

/* The place of an element of packed numbers has an int or decimal node that represents the elements. */
TEST(test_elements_of_numbers) {
    static const make_node node = {NUMBERS, 0, 0, 0, 0, 0, 16, 0};
    static const uint8_t ints[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 20},
                         floats[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 20};
    for (unsigned kind = 0; kind < 2; kind++) {
        uint8_t aux[16] = {0};
        rs_buffer bytes = {0};
        int64_t numbers[30], k;
        memcpy(aux, kind == 0 ? ints : floats, 13);
        rs_tree tree = compile_tree(&node, 1, aux, 16);
        for (int64_t i = 0; i < 30; i++) numbers[i] = i * i % 200;
        make_varint(&bytes, 30);
        CHECK_OK(rs_packed_ints_append(tree.nodes, numbers, 30, &bytes, &err), &err);
        for (int64_t i = -32; i < 33; i++) {
            rs_cursor c = cursor_over(bytes.data, bytes.size_bytes, NULL);
            rs_place place;
            bool found;
            CHECK_OK(rs_path_begin(&c, tree.nodes, &place, &err), &err);
            CHECK_OK(rs_path_element(&c, &place, i, &found, &err), &err);
            CHECK(found == (i >= -30 && i < 30));
            if (!found) continue;
            k = i < 0 ? i + 30 : i;
            CHECK(place.node->kind == (kind == 0 ? INT : DECIMAL) && place.node->fixed && c.in.ptr == c.in.end);
            if (kind == 0) CHECK(rs_decode_int_unchecked(place.node, place.body, place.bits) == numbers[k]);
            else CHECK(rs_decode_decimal_unchecked(place.node, place.body, place.bits) == (double)numbers[k] / 10.0);
        }
        rs_buffer_clear(&bytes), rs_tree_clear(&tree);
    }
}

/* Returns the place of child number `child` of the record, or of the record itself if `child` is negative. */
static rs_place place_in(const rs_tree *tree, rs_cursor *c, const uint8_t *bytes, size_t n, int child) {
    rs_place place = {NULL, NULL, 0};
    *c = cursor_over(bytes, n, NULL);
    CHECK_OK(rs_path_begin(c, tree->nodes, &place, &err), &err);
    if (child >= 0) CHECK_OK(rs_path_child(c, &place, (uint32_t)child, &err), &err);
    return place;
}

/* An optional leads to its value or to None as an `any` value; the place of an absent key stays at its optional. */
TEST(test_optionals) {
    static const make_node maybe[] = {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, INT_NODE(3)};
    static const make_node row[] = {{STRUCT, 0, 0, 2, 1, 8, 2, 0},   {OPTIONAL, 0, 0, 1, 3, 0, 0, 0},
                                    {OPTIONAL, 0, 0, 1, 4, 0, 0, 0}, INT_NODE(8),
                                    {OPTIONAL, 1, 0, 1, 5, 0, 0, 0}, LEAF(STR, 1)};
    static const uint8_t aux[] = {0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x92}, five[] = {11}, none[] = {10},
                         both[] = {7, 9, 1, 'a'}, first[] = {1, 9}, null[] = {2};
    rs_tree trees[2];
    rs_place place;
    rs_cursor c;
    trees[0] = compile_tree(maybe, 2, aux, 8), trees[1] = compile_tree(row, 6, aux, 10);
    place = place_in(&trees[0], &c, five, 1, -1);
    CHECK(place.node->kind == INT && rs_decode_int_unchecked(place.node, place.body, place.bits) == 5);
    place = place_in(&trees[0], &c, none, 1, -1);
    CHECK(place.node == NULL && rs_slice_left(&c.in) == 1 && *c.in.ptr == 0);
    place = place_in(&trees[1], &c, both, 4, 0);
    CHECK(place.node->kind == INT && rs_decode_int_unchecked(place.node, place.body, place.bits) == 9);
    place = place_in(&trees[1], &c, both, 4, 1);
    CHECK(place.node != NULL && place.node->kind == STR && place.body == NULL && rs_slice_left(&c.in) == 2);
    place = place_in(&trees[1], &c, first, 2, 1);
    CHECK(place.node->kind == OPTIONAL && (place.bits & 1) == 0); /* no such key */
    CHECK_U64(c.budget.values, 99);
    place = place_in(&trees[1], &c, null, 1, 1);
    CHECK(place.node == NULL && *c.in.ptr == 0); /* the key is present, with the value None */
    rs_tree_clear(&trees[0]), rs_tree_clear(&trees[1]);
}

/* Opens a segment of one record, and sets `c` and the place to this record. */
static rs_status begin_record(const hand *h, rs_store *store, rs_cursor *c, rs_place *place) {
    rs_record record;
    RS_TRY(rs_store_open(store, hand_slice(h), NULL, &err));
    RS_TRY(rs_store_find(store, 0, &record, &err));
    *c = rs_store_cursor(store, &record);
    return rs_path_begin(c, record.tree->nodes, place, &err);
}

/* A walk through entries of tables: a row in one table has a child whose value is an entry of another table. */
TEST(test_entries) {
    static const make_node row[] = {{TUPLE, 1, 0, 2, 1, 0, 0, 0}, LEAF(STR, 1), {DICT_CODED, 2, 0, 0, 0, 0, 4, 3}},
                           text = {SYMBOLS, 0, 0, 0, 0, 0, 4, 0};
    static const make_node outer[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {DICT_CODED, 1, 0, 0, 0, 0, 4, 1}};
    static const make_node after_symbols[] = {
        {TUPLE, 1, 0, 2, 1, 0, 0, 0}, {SYMBOLS, 0, 0, 0, 0, 4, 4, 0}, LEAF(STR, 1)};
    static const uint32_t numbers[] = {0, 2, 1};
    static const uint8_t symbols[24] = {1, 0, 255};
    hand h = {0};
    hand_values *t = hand_table(&h, hand_leaf(&h, STR, 1, 0));
    rs_store store;
    rs_cursor c;
    rs_place place;
    bool found;
    uint64_t n = 0;
    unsigned unit;
    const uint8_t *p = NULL;
    hand_put(t, "\1a", 2), hand_put(t, "\1b", 2), hand_put(t, "\1c", 2);
    hand_table_of(&h, hand_tree(&h, row, 3, numbers, 4), "\1\2xy", 4);
    hand_symbols(&h, symbols, sizeof symbols);
    (void)hand_tree(&h, &text, 1, numbers + 1, 4);
    hand_record(&h, "\2\0", 2);
    hand_finish(&h, hand_tree(&h, outer, 2, numbers + 2, 4));
    REQUIRE_OK(begin_record(&h, &store, &c, &place), &err);
    CHECK_OK(rs_path_element(&c, &place, 1, &found, &err), &err);
    CHECK(found && place.node->kind == TUPLE);
    CHECK_OK(rs_path_child(&c, &place, 1, &err), &err);
    CHECK_OK(rs_decode_str(&c, place.node, &n, &unit, &p, &err), &err);
    CHECK(n == 1 && *p == 'b' && c.arrays_size == 0);
    rs_store_close(&store), hand_clear(&h);

    hand_symbols(&h, symbols, sizeof symbols); /* symbols are skipped by their length; their codes are not read */
    hand_record(&h, "\2\xFF\xFF\1!", 5);
    hand_finish(&h, hand_tree(&h, after_symbols, 3, "\0\0\0\0\0\0\0", 8));
    REQUIRE_OK(begin_record(&h, &store, &c, &place), &err);
    CHECK_OK(rs_path_child(&c, &place, 1, &err), &err);
    CHECK_OK(rs_decode_str(&c, place.node, &n, &unit, &p, &err), &err);
    CHECK(n == 1 && *p == '!');
    rs_store_close(&store), hand_clear(&h);
}

/* ---- Columns ---- */

enum { OTHER, SCALAR, SEQUENCE };

/* Appends a number or a list of numbers to the column of a field. Returns which. */
static int take_column(rs_gather_field *field, const rs_cursor *cursor, const rs_place *place) {
    rs_gather_stop stop = {0};
    rs_cursor c = *cursor;
    bool taken;
    CHECK_OK(rs_column_take_number(&field->column, &c, place, &taken, &err), &err);
    if (taken) return SCALAR;
    c = *cursor;
    CHECK_OK(rs_gather_append_list(field, &c, place, &stop, &err), &err);
    return stop.why == RS_GATHER_DONE ? SEQUENCE : OTHER;
}

static int column_of(rs_gather_field *field, const rs_tree *tree, const void *bytes, size_t n) {
    uint8_t *exact = make_exact(bytes, n);
    rs_cursor c = cursor_over(exact, n, NULL);
    rs_place place;
    CHECK_OK(rs_path_begin(&c, tree->nodes, &place, &err), &err);
    const int shape = take_column(field, &c, &place);
    free(exact);
    return shape;
}

TEST(test_columns) {
    static const make_node any[] = {LEAF(ANY, 0)};
    static const uint8_t one[] = {0x91}, yes[] = {0x02}, text[] = {0x09, 1, 'a'}, list[] = {0x0D, 2, 0x92, 0x01},
                         mixed[] = {0x0D, 2, 0x92, 0x00}, half[] = {0x08, 0, 0, 0, 0, 0, 0, 0xE0, 0x3F};
    rs_tree tree = compile_tree(any, 1, one, 0);
    rs_gather_field field = {0};
    rs_column *column = &field.column;
    CHECK_U64((uint64_t)column_of(&field, &tree, yes, 1), SCALAR);
    CHECK_U64(column->seen, RS_COLUMN_BOOL);
    CHECK_U64((uint64_t)column_of(&field, &tree, one, 1), SCALAR);
    CHECK_U64((uint64_t)column_of(&field, &tree, list, 4), SEQUENCE);
    CHECK_U64(column->values.size_bytes, 32);
    CHECK_U64((uint64_t)column_of(&field, &tree, text, 3), OTHER);
    CHECK_U64((uint64_t)column_of(&field, &tree, mixed, 4), OTHER);
    CHECK_U64(column->values.size_bytes, 40); /* the numbers before the other value */
    column->values.size_bytes = 32;
    CHECK_U64(rs_load_u64(column->values.data + 16), 2);
    CHECK_U64((uint64_t)column_of(&field, &tree, half, 9), SCALAR);
    CHECK_U64(column->seen, RS_COLUMN_BOOL | RS_COLUMN_INT | RS_COLUMN_FLOAT);
    CHECK(rs_load_f64(column->values.data + 16) == 2.0);
    CHECK(rs_load_f64(column->values.data + 32) == 0.5);
    rs_column_clear(column);
    rs_tree_clear(&tree);
}

/* A sequence with some numbers in a table: the cursor returns from the table. */
TEST(test_columns_of_entries) {
    static const make_node row[] = {{TUPLE, 1, 0, 4, 1, 0, 0, 0},
                                    {DICT_CODED, 1, 0, 0, 0, 0, 4, 2},
                                    LEAF(ANY, 0),
                                    {DICT_CODED, 1, 0, 0, 0, 0, 4, 2},
                                    LEAF(ANY, 0)};
    static const make_node mixed[] = {{TUPLE, 1, 0, 2, 1, 0, 0, 0},
                                      {UNION, 0, 0, 2, 3, 0, 0, 0},
                                      LEAF(ANY, 0),
                                      {DICT_CODED, 0, 0, 0, 0, 0, 4, 1},
                                      LEAF(ANY, 0)};
    static const make_node one = LEAF(ANY, 0),
                           list[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {DICT_CODED, 1, 0, 0, 0, 0, 4, 2}};
    static const uint8_t zeros[4] = {0};
    static const struct {
        const make_node *nodes;
        uint32_t n_nodes;
        const char *bytes;
        size_t n;
        int64_t numbers[4];
        size_t count;
    } cases[] = {
        {row, 5, "\2\x93\x94", 3, {100, 3, 101, 4}, 4},
        {list, 2, "\4\x06", 2, {100, 101, 101, 100}, 4},
        {mixed, 5, "\0\x93", 2, {100, 3}, 2},
        {mixed, 5, "\1\x92\x93", 3, {2, 3}, 2},
    };
    EACH (i, cases) {
        hand h = {0};
        hand_values *t = hand_table(&h, hand_tree(&h, &one, 1, NULL, 0));
        rs_store store;
        rs_cursor c;
        rs_place place;
        rs_gather_field field = {0};
        hand_put(t, "\3\x64", 2);
        if (cases[i].nodes != mixed) hand_put(t, "\3\x65", 2);
        hand_record(&h, cases[i].bytes, cases[i].n);
        hand_finish(&h, hand_tree(&h, cases[i].nodes, cases[i].n_nodes, zeros, 4));
        REQUIRE_OK(begin_record(&h, &store, &c, &place), &err);
        CHECK(take_column(&field, &c, &place) == SEQUENCE);
        if (CHECK_U64(field.column.values.size_bytes, 8 * cases[i].count)) {
            CHECK(memcmp(field.column.values.data, cases[i].numbers, 8 * cases[i].count) == 0);
        }
        rs_column_clear(&field.column), rs_store_close(&store), hand_clear(&h);
    }
}
