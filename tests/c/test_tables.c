/* test_tables.c: tables of values and symbols: rules 29 to 32, each broken alone; chains and shared tables. */
#include "rs_hand.h"
#include "verify/rs_verify.h"

static rs_error err;

static const uint8_t no_symbols[24] = {1, 0, 255}; /* no symbol, no pool */

static uint32_t dict_tree(hand *h, const uint32_t *tables, uint32_t n_tables, uint8_t width, uint32_t count) {
    make_node node = {DICT_CODED, width, 0, 0, 0, 0, 0, 0};
    node.aux_size = 4 * n_tables, node.count = count;
    return hand_tree(h, &node, 1, tables, 4 * n_tables);
}

static uint32_t symbols_tree(hand *h, uint32_t table) {
    make_node node = {SYMBOLS, 0, 2, 0, 0, 0, 4, 0};
    return hand_tree(h, &node, 1, &table, 4);
}

/* Table 0: "a", "bc", "" and "d" under a str; table 1: symbols. Record i is entry i of table 0. */
static void make_words(hand *h) {
    static const uint32_t zero = 0;
    uint32_t str = hand_leaf(h, STR, 1, 0), root = dict_tree(h, &zero, 1, 3, 4);
    memset(&err, 0, sizeof err);
    hand_values *t = hand_table(h, str);
    hand_put(t, "\1a", 2), hand_put(t, "\2bc", 3), hand_put(t, "\0", 1), hand_put(t, "\1d", 2);
    hand_symbols(h, no_symbols, sizeof no_symbols);
    (void)symbols_tree(h, 1);
    for (uint8_t i = 0; i < 6; i++) hand_record(h, &i, 1); /* 4 and 5 are not entries */
    hand_finish(h, root);
}

TEST(test_entries) {
    hand h = {0};
    rs_store store;
    make_words(&h);
    for (uint64_t i = 0; i < 4; i++) CHECK_OK(hand_check(&h, i, &err), &err);
    CHECK_CODE(hand_check(&h, 4, &err), RS_E_FMT_VALUE, &err); /* rule 31 */
    CHECK_CODE(hand_check(&h, 5, &err), RS_E_FMT_VALUE, &err);
    REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err);
    CHECK_U64(store.n_tables, 2);
    for (uint64_t i = 0; i < 4; i++) {
        static const char *const texts[] = {"a", "bc", "", "d"};
        rs_scalar key;
        rs_store_scalar(&store, i, &key);
        CHECK(key.kind == RS_SCALAR_STR && key.n == strlen(texts[i]) && memcmp(key.units, texts[i], key.n) == 0);
        CHECK(rs_store_key_equals_str(&store, i, 1, (const uint8_t *)texts[i], strlen(texts[i])) == RS_KEY_EQUAL);
    }
    rs_store_close(&store);
    hand_clear(&h);
}

/* ---- Rule 29: every field of an entry ---- */

TEST(test_fields) {
    static const struct {
        const char *what;
        uint32_t table;
        unsigned at, width;
        uint64_t value;
        rs_status code;
    } cases[] = {
        {"kind 0", 0, 0, 8, 0, RS_E_FMT_VERSION},
        {"kind 3", 0, 0, 8, 3, RS_E_FMT_VERSION},
        {"kind 1 + 2^32", 0, 0, 8, (UINT64_C(1) << 32) + 1, RS_E_FMT_VERSION},
        {"values called symbols", 0, 0, 8, 2, RS_E_FMT_BLOCK},
        {"n_records 0", 0, 8, 4, 0, RS_E_FMT_BLOCK},
        {"n_records 65537", 0, 8, 4, 65537, RS_E_FMT_BLOCK},
        {"one entry less than the dict has", 0, 8, 4, 3, RS_E_FMT_TREE},
        {"one entry more", 0, 8, 4, 5, RS_E_FMT_TREE},
        {"tree 3", 0, 12, 4, 3, RS_E_FMT_BLOCK},
        {"heap_offset not aligned", 0, 16, 8, 4097, RS_E_FMT_BLOCK},
        {"heap_offset beyond", 0, 16, 8, UINT64_C(1) << 62, RS_E_FMT_BLOCK},
        {"heap_offset before", 0, 16, 8, 0, RS_E_FMT_BLOCK},
        {"heap_size beyond", 0, 24, 8, 1 << 20, RS_E_FMT_BLOCK},
        {"heap_size that wraps", 0, 24, 8, UINT64_MAX, RS_E_FMT_BLOCK},
        {"heap too short for the last entry", 0, 24, 8, 7, RS_OK},
        {"index_offset not aligned", 0, 32, 8, 4100, RS_E_FMT_BLOCK},
        {"index_offset 0", 0, 32, 8, 0, RS_E_FMT_BLOCK},
        {"row_size", 0, 40, 4, 1, RS_E_FMT_BLOCK},
        {"index_width 1", 0, 44, 1, 1, RS_E_FMT_BLOCK},
        {"index_width 8: groups beyond", 0, 44, 1, 8, RS_E_FMT_BLOCK},
        {"index_bits", 0, 45, 1, 1, RS_E_FMT_BLOCK},
        {"reserved", 0, 46, 1, 1, RS_E_FMT_RESERVED},
        {"reserved", 0, 47, 1, 1, RS_E_FMT_RESERVED},
        {"arrays_offset", 0, 48, 8, 1, RS_E_FMT_BLOCK},
        {"arrays_size", 0, 56, 8, 64, RS_E_FMT_BLOCK},
        {"places", 0, 72, 8, 1, RS_E_FMT_BLOCK},
        {"symbols called values", 1, 0, 8, 1, RS_E_FMT_BLOCK},
        {"symbols with a record", 1, 8, 4, 1, RS_E_FMT_BLOCK},
        {"symbols with a tree", 1, 12, 4, 1, RS_E_FMT_BLOCK},
        {"symbols out of the heap", 1, 16, 8, UINT64_C(1) << 40, RS_E_FMT_BLOCK},
        {"symbols without bytes", 1, 24, 8, 0, RS_E_FMT_TRUNCATED},
        {"symbols cut", 1, 24, 8, 23, RS_E_FMT_TRUNCATED},
        {"symbols beyond the heap", 1, 24, 8, 1 << 20, RS_E_FMT_BLOCK},
        {"symbols with offsets", 1, 32, 8, 8, RS_E_FMT_BLOCK},
        {"symbols with rows", 1, 40, 4, 1, RS_E_FMT_BLOCK},
        {"symbols with an index", 1, 44, 1, 2, RS_E_FMT_BLOCK},
        {"symbols with index_bits", 1, 45, 1, 1, RS_E_FMT_BLOCK},
        {"symbols, reserved", 1, 46, 1, 1, RS_E_FMT_RESERVED},
        {"symbols with arrays", 1, 56, 8, 1, RS_E_FMT_BLOCK},
        {"symbols, places", 1, 79, 1, 1, RS_E_FMT_BLOCK},
    };
    hand h = {0};
    make_words(&h);
    EACH_NAMED (i, cases) {
        uint8_t *at = hand_table_entry(&h, cases[i].table) + cases[i].at, was[8];
        rs_store store;
        memcpy(was, at, cases[i].width), memcpy(at, &cases[i].value, cases[i].width);
        hand_seal(&h);
        REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err); /* opening does not read tables */
        CHECK_CODE(rs_store_load_tree(&store, 1 + cases[i].table, &err), cases[i].code, &err);
        rs_store_close(&store);
        if (cases[i].code == RS_OK) CHECK_CODE(hand_check(&h, 3, &err), RS_E_FMT_OFFSET, &err); /* rule 31 */
        CHECK(rs_verify_segment(hand_slice(&h), NULL, NULL, &err) != RS_OK);
        memcpy(at, was, cases[i].width);
    }
    hand_clear(&h);
}

/* ---- Rule 30: the tables that a tree may name ---- */

static rs_status check_dict(const uint32_t *tables, uint32_t n_tables, uint8_t width, uint32_t count) {
    hand h = {0};
    uint32_t str = hand_leaf(&h, STR, 1, 0);
    hand_values *t = hand_table(&h, str);
    hand_put(t, "\1a", 2), hand_put(t, "\1b", 2);
    hand_symbols(&h, no_symbols, sizeof no_symbols);
    hand_table_of(&h, str, "\1c", 2);
    uint32_t root = dict_tree(&h, tables, n_tables, width, count);
    hand_record(&h, "\0\0\0\0", ((size_t)width + 7) / 8);
    hand_finish(&h, root);
    rs_status status = hand_check(&h, 0, &err);
    hand_clear(&h);
    return status;
}

TEST(test_names) {
    uint32_t zeros[64] = {0};
    CHECK_OK(check_dict((const uint32_t[]){0}, 1, 1, 2), &err);
    CHECK_OK(check_dict((const uint32_t[]){0, 2}, 2, 2, 3), &err);
    CHECK_OK(check_dict((const uint32_t[]){2, 0, 2}, 3, 32, 4), &err);
    CHECK_OK(check_dict(zeros, 64, 7, 128), &err);
    CHECK_CODE(check_dict(zeros, 64, 7, 127), RS_E_FMT_TREE, &err);
    CHECK_CODE(check_dict((const uint32_t[]){0}, 1, 2, 1), RS_E_FMT_TREE, &err);
    CHECK_CODE(check_dict((const uint32_t[]){0}, 1, 2, 3), RS_E_FMT_TREE, &err);
    CHECK_CODE(check_dict((const uint32_t[]){0}, 1, 32, UINT32_MAX), RS_E_FMT_TREE, &err);
    CHECK_CODE(check_dict((const uint32_t[]){1}, 1, 1, 2), RS_E_FMT_TREE, &err); /* symbols */
    CHECK_CODE(check_dict((const uint32_t[]){0, 1}, 2, 1, 2), RS_E_FMT_TREE, &err);
    CHECK_CODE(check_dict((const uint32_t[]){3}, 1, 1, 2), RS_E_FMT_TREE, &err); /* no such table */
    CHECK_CODE(check_dict((const uint32_t[]){UINT32_MAX}, 1, 1, 2), RS_E_FMT_TREE, &err);
    for (uint32_t i = 0; i < 4; i++) {
        hand h = {0};
        hand_table_of(&h, hand_leaf(&h, STR, 1, 0), "\1a", 2);
        hand_symbols(&h, no_symbols, sizeof no_symbols);
        uint32_t root = symbols_tree(&h, i);
        hand_record(&h, "", 0);
        hand_finish(&h, root);
        CHECK_CODE(hand_check(&h, 0, &err), i == 1 ? RS_OK : RS_E_FMT_TREE, &err);
        hand_clear(&h);
    }
}

/* A table's tree may name only lower tables. The order in which trees are loaded makes no difference. */
TEST(test_cycles) {
    static const uint32_t zero = 0, one = 1;
    hand own = {0}, higher = {0}, shared = {0};
    rs_store store;
    uint32_t root = dict_tree(&own, &zero, 1, 0, 1); /* table 0 under the tree that names it */
    hand_table_of(&own, root, "", 0);
    hand_record(&own, "", 0), hand_finish(&own, root);
    CHECK_CODE(hand_check(&own, 0, &err), RS_E_FMT_TREE, &err);
    CHECK_CODE(rs_verify_segment(hand_slice(&own), NULL, NULL, &err), RS_E_FMT_TREE, &err);

    root = dict_tree(&higher, &zero, 1, 0, 1); /* table 0 names table 1 */
    hand_table_of(&higher, dict_tree(&higher, &one, 1, 0, 1), "", 0);
    hand_table_of(&higher, hand_leaf(&higher, BOOL, 0, 0), "\1", 1);
    hand_record(&higher, "", 0), hand_finish(&higher, root);
    CHECK_CODE(hand_check(&higher, 0, &err), RS_E_FMT_TREE, &err);

    /* A block and table 1 may share a tree that names table 0. If table 0 has it too, loading the tree fails. */
    hand_table_of(&shared, hand_leaf(&shared, BOOL, 0, 0), "\1", 1);
    root = dict_tree(&shared, &zero, 1, 0, 1);
    hand_table_of(&shared, root, "", 0);
    hand_table_of(&shared, dict_tree(&shared, &one, 1, 0, 1), "", 0);
    hand_record(&shared, "", 0), hand_finish(&shared, root);
    CHECK_OK(hand_check(&shared, 0, &err), &err);
    CHECK_OK(rs_verify_segment(hand_slice(&shared), NULL, NULL, &err), &err);
    rs_store_u32(hand_table_entry(&shared, 0) + 12, root), rs_store_u32(hand_table_entry(&shared, 0) + 40, 0);
    rs_store_u64(hand_table_entry(&shared, 0) + 24, 0);
    hand_seal(&shared); /* the tree of table 0 names table 0 */
    REQUIRE_OK(rs_store_open(&store, hand_slice(&shared), NULL, &err), &err);
    CHECK_CODE(rs_store_load_tree(&store, root, &err), RS_E_FMT_TREE, &err);
    CHECK_CODE(rs_store_load_table(&store, 0, &err), RS_E_FMT_TREE, &err);
    CHECK_CODE(rs_store_load_table(&store, 2, &err), RS_E_FMT_TREE, &err);
    rs_store_close(&store);
    hand_clear(&own), hand_clear(&higher), hand_clear(&shared);
}

/* A tree that names a table cannot be the tree of a lower table, even if a block has loaded it already. */
TEST(test_tree_loaded_before) {
    static const uint32_t one = 1, two = 2;
    hand h = {0};
    rs_store store;
    uint32_t leaf = hand_leaf(&h, BOOL, 0, 0), names = dict_tree(&h, &one, 1, 0, 1),
             root = dict_tree(&h, &two, 1, 0, 1);
    hand_table_of(&h, names, "", 0); /* 0: under a tree that names 1 */
    hand_table_of(&h, leaf, "\1", 1);
    hand_table_of(&h, names, "", 0); /* 2: under the same tree, which is valid here */
    hand_record(&h, "", 0), hand_finish(&h, root);
    CHECK_OK(hand_check(&h, 0, &err), &err);
    REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err);
    CHECK_OK(rs_store_load_tree(&store, names, &err), &err);
    CHECK_CODE(rs_store_load_table(&store, 0, &err), RS_E_FMT_TREE, &err);
    CHECK_OK(rs_store_load_table(&store, 2, &err), &err);
    CHECK(store.trees[leaf].nodes && store.trees[names].nodes && !store.trees[root].nodes);
    rs_store_close(&store);
    CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), RS_E_FMT_TREE, &err);
    hand_clear(&h);
}

/* The highest table number of a tree counts, wherever it is listed. */
TEST(test_highest_table_of_a_tree) {
    static const uint32_t orders[][2] = {{3, 1}, {1, 3}, {3, 0}, {0, 3}};
    for (size_t i = 0; i < 4; i++) {
        hand h = {0};
        rs_store store;
        uint32_t leaf = hand_leaf(&h, BOOL, 0, 0), names = dict_tree(&h, orders[i], 2, 1, 2);
        for (uint32_t k = 0; k < 6; k++) {
            bool is_named = k == orders[i][0] || k == orders[i][1];
            hand_table_of(&h, is_named ? leaf : names, is_named ? "\1" : "\0", 1);
        }
        hand_record(&h, "\0", 1), hand_finish(&h, names);
        REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err);
        CHECK_OK(rs_store_load_tree(&store, names, &err), &err);
        for (uint32_t k = 0; k < 6; k++) {
            CHECK_CODE(rs_store_load_table(&store, k, &err),
                       k > 3 || k == orders[i][0] || k == orders[i][1] ? RS_OK : RS_E_FMT_TREE, &err);
        }
        rs_store_close(&store), hand_clear(&h);
    }
}

/* Loading a table does not change a tree that is loaded already, because other threads may read the tree without a
 * lock. */
TEST(test_loaded_tree_stays_as_it_is) {
    hand h = {0};
    rs_store store;
    rs_node before;
    uint32_t leaf = hand_leaf(&h, STR, 1, 0);
    hand_table_of(&h, leaf, "\1a", 2);
    hand_record(&h, "\1b", 2), hand_finish(&h, leaf);
    REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err);
    REQUIRE_OK(rs_store_load_block(&store, 0, &err), &err);
    memcpy(&before, store.trees[leaf].nodes, sizeof before);
    CHECK_OK(rs_store_load_table(&store, 0, &err), &err);
    CHECK(memcmp(&before, store.trees[leaf].nodes, sizeof before) == 0);
    CHECK(store.tables[0].tree == &store.trees[leaf]);
    rs_store_close(&store), hand_clear(&h);
}

/* Makes n tables. The entry of each but the first is an entry of the table below, so reading the last reads all. */
static void make_chain(hand *h, uint32_t n) {
    uint32_t i, tree = hand_leaf(h, STR, 1, 0);
    hand_table_of(h, tree, "\1a", 2);
    for (i = 0; i + 1 < n; i++) hand_table_of(h, dict_tree(h, &i, 1, 0, 1), "", 0);
    tree = dict_tree(h, &i, 1, 0, 1);
    hand_record(h, "", 0), hand_finish(h, tree);
}

TEST(test_chains) {
    for (uint32_t n = 398; n <= 403; n++) {
        hand h = {0};
        rs_store store;
        rs_status expected = n <= 400 ? RS_OK : RS_E_FMT_TREE;
        make_chain(&h, n);
        CHECK_CODE(hand_check(&h, 0, &err), expected, &err);
        CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), expected, &err);
        REQUIRE_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err);
        for (uint32_t i = 0; i < n; i++) { /* loading from the bottom needs no recursion, and has the same limit */
            CHECK_CODE(rs_store_load_table(&store, i, &err), i <= 400 ? RS_OK : RS_E_FMT_TREE, &err);
        }
        CHECK_CODE(rs_store_load_tree(&store, n, &err), expected, &err);
        if (expected == RS_OK) CHECK_U64(store.trees[n].levels, n);
        rs_store_close(&store);
        hand_clear(&h);
    }
}

/* ---- Rule 31: entries ---- */

TEST(test_entries_that_do_not_fit) {
    static const uint32_t zero = 0;
    static const struct {
        const char *bytes;
        size_t n;
        rs_status code;
    } cases[] = {
        {"\1a", 2, RS_OK}, {"\1ab", 3, RS_E_FMT_TRAILING}, {"\2a", 2, RS_E_FMT_TRUNCATED}, {"", 0, RS_E_FMT_TRUNCATED}};
    EACH (i, cases) {
        hand h = {0};
        hand_table_of(&h, hand_leaf(&h, STR, 1, 0), cases[i].bytes, cases[i].n);
        uint32_t root = dict_tree(&h, &zero, 1, 0, 1);
        hand_record(&h, "", 0), hand_finish(&h, root);
        CHECK_CODE(hand_check(&h, 0, &err), cases[i].code, &err);
        CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), cases[i].code, &err);
        hand_clear(&h);
    }
}

/* An array in a table cannot have its data outside: the arrays belong to the block. */
TEST(test_arrays) {
    static const uint32_t zero = 0;
    static const make_node node = {NDARRAY, 0, 1, 0, 0, 0, 5, 0};
    hand h = {0};
    hand_table_of(&h, hand_tree(&h, &node, 1, "\0\2\1\x80\x08", 5), "\0", 1); /* 1,024 items of 1 byte */
    uint32_t root = dict_tree(&h, &zero, 1, 0, 1);
    hand_record(&h, "", 0), hand_finish(&h, root);
    CHECK_CODE(hand_check(&h, 0, &err), RS_E_FMT_VALUE, &err);
    hand_clear(&h);
}

/* ---- Limits: bytes that many values share ---- */

/* Checks that a list with one entry n times counts `size` bytes each time. */
static void check_budget(hand *h, uint64_t n, uint64_t size) {
    static const make_node nodes[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}};
    static const uint32_t zero = 0;
    uint8_t count = (uint8_t)n;
    uint32_t root = hand_tree(h, nodes, 2, &zero, 4);
    hand_record(h, &count, 1);
    h->max_bytes = n * size;
    hand_finish(h, root);
    CHECK_OK(hand_check(h, 0, &err), &err);
    h->header.max_bytes--;
    hand_seal(h);
    CHECK_CODE(hand_check(h, 0, &err), RS_E_FMT_LIMIT, &err);
    hand_clear(h);
}

TEST(test_shared_bytes_count) {
    static const make_node array = {NDARRAY, 0, 0, 0, 0, 0, 2, 0}, fixed = {NDARRAY, 0, 1, 0, 0, 0, 4, 0},
                           hex = {20, 0, 0, 0, 0, 0, 0, 6}, digits = {19, 0, 0, 0, 0, 0, 8, 4},
                           concat = {CONCAT, 0, 0, 2, 1, 0, 0, 0}, word = {CONST, 0, 0, 0, 0, 0, 4, 0};
    make_node pair[3];
    hand h = {0};
    hand_table_of(&h, hand_leaf(&h, STR, 1, 0), "\5hello", 6), check_budget(&h, 3, 5);
    hand_table_of(&h, hand_leaf(&h, STR, 2, 2), "h\0i\0", 4), check_budget(&h, 3, 2);
    hand_table_of(&h, hand_leaf(&h, BYTES, 0, 0), "\5hello", 6), check_budget(&h, 3, 5);
    hand_table_of(&h, hand_leaf(&h, ANY, 0, 0), "\x09\5hello", 7), check_budget(&h, 3, 7);
    hand_table_of(&h, hand_tree(&h, &array, 1, "\0\3", 2), "\1\2aabb", 6), check_budget(&h, 3, 4);
    hand_table_of(&h, hand_tree(&h, &fixed, 1, "\0\3\1\2", 4), "aabb", 4), check_budget(&h, 3, 4);
    hand_table_of(&h, hand_tree(&h, &hex, 1, NULL, 0), "abc", 3), check_budget(&h, 3, 6);
    hand_table_of(&h, hand_tree(&h, &digits, 1, "\7\0\0\0\0\0\0\0", 8), "", 0), check_budget(&h, 3, 4);
    pair[0] = concat, pair[1] = pair[2] = word;
    hand_table_of(&h, hand_tree(&h, pair, 3, "\x09\2ab", 4), "", 0), check_budget(&h, 3, 4);
}

/* ---- Rule 32 ---- */

TEST(test_deep_check) {
    hand h = {0};
    make_words(&h);
    CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), RS_E_FMT_VALUE, &err); /* records 4 and 5 */
    uint8_t *heap = h.data + rs_load_u64(hand_table_entry(&h, 0) + 16);
    heap[7] ^= 1; /* 'd' is still a letter */
    CHECK_OK(hand_check(&h, 3, &err), &err);
    CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), RS_E_FMT_CHECKSUM, &err);
    heap[7] ^= 1;
    hand_table_entry(&h, 1)[RS_FMT_B_HEAP_CRC] ^= 1; /* of the symbols */
    hand_seal_sections(&h);
    CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), RS_E_FMT_CHECKSUM, &err);
    hand_clear(&h);
}

/* Only the deep check reads an entry that no record names. */
TEST(test_entry_of_no_record) {
    hand h = {0};
    hand_values *t = hand_table(&h, hand_leaf(&h, STR, 1, 0));
    hand_put(t, "\1a", 2), hand_put(t, "\2b", 2);
    hand_record(&h, "\1x", 2), hand_finish(&h, 0);
    CHECK_OK(hand_check(&h, 0, &err), &err);
    CHECK_CODE(rs_verify_segment(hand_slice(&h), NULL, NULL, &err), RS_E_FMT_TRUNCATED, &err);
    hand_clear(&h);
}
