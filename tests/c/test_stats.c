/* test_stats.c: statistics of values: alternatives, key sets that share a struct, classes of lists, distinct values. */
#include "rs_counted.h"

static const rs_alternative *only(void) { return stats.root.n == 1 ? &stats.root.alternatives[0] : NULL; }

/* Returns the number of structs among the alternatives of the root. */
static uint32_t n_structs(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < stats.root.n; i++) n += stats.root.alternatives[i].kind == RS_FMT_NODE_STRUCT;
    return n;
}

static void check_keys(const rs_alternative *a, const char *expected) {
    char keys[64] = {0};
    REQUIRE(a != NULL && a->kind == RS_FMT_NODE_STRUCT && a->n_children < sizeof keys);
    for (uint32_t i = 0; i < a->n_children; i++) keys[i] = (char)a->keys[i].ptr[2];
    CHECK_STR(keys, expected);
}

TEST(test_shapes_of_one_order) {
    add_dict("abd", 1), add_dict("abcd", 2), add_dict("ad", 3), add_dict("bcde", 4), add_dict("abd", 5);
    REQUIRE_OK(collect_stats(), &err);
    check_keys(only(), "abcde");
    CHECK(only()->n == 5 && only()->n_key_sets == 4);
    CHECK_U64(only()->children[0].alternatives[0].n, 4); /* a */
    CHECK_U64(only()->children[2].alternatives[0].n, 2); /* c, although its place was added later */
    CHECK(only()->children[4].alternatives[0].min == 4);
    clear_stats();
}

TEST(test_shapes_of_another_order) {
    add_dict("abc", 1), add_dict("bac", 2), add_dict("cb", 3), add_dict("xyz", 4), add_dict("", 5), add_dict("abz", 6);
    REQUIRE_OK(collect_stats(), &err);
    check_keys(&stats.root.alternatives[0], "abcz"); /* two of three keys in common */
    CHECK_U64(stats.root.n, 5);
    CHECK_U64(n_structs(), 5);
    clear_stats();
    add_dict("abc", 1), add_dict("abz", 2), add_dict("zc", 3), add_dict("dazb", 4), add_dict("dabz", 5),
        add_dict("cd", 6);
    REQUIRE_OK(collect_stats(), &err);
    check_keys(&stats.root.alternatives[0], "dabzc"); /* "zc" comes after "abcz" */
    check_keys(&stats.root.alternatives[1], "cdazb");
    CHECK(stats.root.n == 2 && stats.root.alternatives[0].n_key_sets == 4);
    clear_stats();
}

/* A struct has a limited number of keys; a dict with further keys goes to the next struct. */
TEST(test_keys_of_one_struct) {
    char key[16];
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(key, sizeof key, "k%03u", i);
        make_head(&block.raw, 0x0F, 2), make_str(&block.raw, "a"), make_int(&block.raw, 1);
        make_str(&block.raw, key), make_int(&block.raw, 1), make_record_end(&block);
    }
    REQUIRE_OK(collect_stats(), &err);
    REQUIRE(stats.root.n == 2 && n_structs() == 2);
    CHECK_U64(stats.root.alternatives[0].n_children, 512);
    CHECK_U64(stats.root.alternatives[1].n_children, 1 + 600 - 511);
    clear_stats();
}

/* Two dicts with the key "a" and different second keys. For Python, 1 and True are equal keys, and so are (1,) and
 * (True,): a struct may have only one of them. Two ints are equal exactly if their bytes are. */
TEST(test_keys_that_are_equal) {
    static const struct {
        const char *keys[2]; /* any values of up to 3 bytes */
        size_t size;
        uint32_t n_structs;
    } rows[] = {{{"\x91", "\x02"}, 1, 2}, {{"\x91", "\x92"}, 1, 1}, {{"\x0E\1\x91", "\x0E\1\x02"}, 3, 2}};
    EACH (k, rows) {
        for (unsigned i = 0; i < 2; i++) {
            make_head(&block.raw, 0x0F, 2), make_str(&block.raw, "a"), make_int(&block.raw, 0);
            make_bytes(&block.raw, rows[k].keys[i], rows[k].size), make_int(&block.raw, 0), make_record_end(&block);
        }
        REQUIRE_OK(collect_stats(), &err);
        CHECK_U64(n_structs(), rows[k].n_structs);
        clear_stats();
    }
}

/* A position has a limited number of structs; its other dicts are `any`. From then on no dict extends a struct, because
 * the encoder would look there for a dict that is `any`. */
TEST(test_too_many_shapes) {
    char key[16];
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < 300; i++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            make_head(&block.raw, 0x0F, 1), make_str(&block.raw, key), make_int(&block.raw, 1), make_record_end(&block);
        }
        /* This dict has a key of the first struct, and a key of a dict that went under `any`. */
        make_head(&block.raw, 0x0F, 2), make_str(&block.raw, "k0"), make_int(&block.raw, 1);
        make_str(&block.raw, "k299"), make_int(&block.raw, 1), make_record_end(&block);
    }
    REQUIRE_OK(collect_stats(), &err);
    CHECK_U64(stats.root.n, 251);
    CHECK_U64(n_structs(), 250);
    CHECK_U64(stats.root.alternatives[250].kind, RS_FMT_NODE_ANY);
    CHECK_U64(stats.root.alternatives[250].n, 2 * 51);
    CHECK(stats.root.closed && stats.root.alternatives[0].n_key_sets == 1);
    clear_stats();
}

static void add_elements(unsigned a, unsigned b) {
    unsigned tags[2] = {a, b};
    make_head(&block.raw, 0x0D, 2);
    for (unsigned i = 0; i < 2; i++) tags[i] == 8 ? make_float(&block.raw, 0.5) : make_tag(&block.raw, tags[i]);
    make_record_end(&block);
}

TEST(test_classes_of_lists) {
    add_ints(0x0D, 0, 0, 0); /* its class follows from the other lists */
    add_elements(0x91, 0x92), add_elements(8, 8), add_elements(8, 0x91), add_elements(2, 1), add_elements(0, 0x91);
    add_ints(0x0D, 0, 0, 0);
    REQUIRE_OK(collect_stats(), &err);
    const rs_alternative *a = stats.root.alternatives;
    REQUIRE(stats.root.n == 3);
    CHECK(a[0].elements == RS_ELEMENTS_INTS && a[0].n == 2 && a[0].count_min == 0 && a[0].count_max == 2);
    CHECK(a[1].elements == RS_ELEMENTS_FLOATS && a[1].n == 1 && a[1].total == 2);
    CHECK(a[2].elements == RS_ELEMENTS_MIXED && a[2].n == 4 &&
          a[2].children->n == 4); /* the last empty list may join any class */
    CHECK(a[0].children->n == 0); /* numbers have no statistics for each element */
    clear_stats();
}

/* At the limit, a list of numbers joins the lists of any elements, where the encoder would put it. */
TEST(test_lists_at_the_limit) {
    char name[16];
    add_elements(0, 0x91);
    for (unsigned i = 0; i < 249; i++) {
        (void)snprintf(name, sizeof name, "C%u", i);
        make_ext(&block.raw, 25, name), make_head(&block.raw, 0x0E, 0), make_record_end(&block);
    }
    add_ints(0x0D, 3, 5, 1);
    REQUIRE_OK(collect_stats(), &err);
    CHECK(stats.root.n == 250 && stats.root.alternatives[0].n == 2 && stats.root.alternatives[0].total == 5);
    clear_stats();
}

TEST(test_distinct_values) {
    for (uint32_t i = 0; i < 2000; i++) add_int(i % 100);
    REQUIRE_OK(collect_stats(), &err);
    CHECK(only() != NULL && only()->distinct != NULL && only()->distinct->n == 100 && only()->n_offsets == 2000);
    clear_stats();
    for (uint32_t i = 0; i < 2000; i++) add_int(i); /* all values differ, so counting stops */
    REQUIRE_OK(collect_stats(), &err);
    CHECK(only() != NULL && only()->distinct == NULL && only()->gave_up && stats.kept_bytes < 64 * 1024);
    clear_stats();
    for (uint32_t i = 0; i < 1000; i++) add_int(i); /* 1,000 distinct values are always kept */
    REQUIRE_OK(collect_stats(), &err);
    CHECK(only() != NULL && only()->distinct != NULL && only()->distinct->n == 1000);
    clear_stats();
    for (uint32_t i = 0; i < 10; i++) add_int(7); /* a constant has no set */
    REQUIRE_OK(collect_stats(), &err);
    CHECK(only() != NULL && only()->constant && only()->distinct == NULL);
    clear_stats();
}

/* The hash of a container depends only on its elements, not on the lists before it: an empty list has the same hash
 * before and after lists of numbers or of other values. */
TEST(test_distinct_containers) {
    for (uint32_t others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < 300; i++) {
            if (i % 3 != 0) others ? add_elements(0, 0x90 + i % 2) : add_ints(0x0D, 1 + i % 2, i % 5, 1);
            else add_ints(0x0D, 0, 0, 0);
        }
        REQUIRE_OK(collect_stats(), &err);
        REQUIRE(only() != NULL && only()->distinct != NULL);
        CHECK_U64(only()->distinct->n, others ? 3 : 11);
        clear_stats();
    }
    for (uint32_t i = 0; i < 300; i++) { /* tuples of a dict, a list and an int */
        make_head(&block.raw, 0x0E, 3), make_head(&block.raw, 0x0F, 1 + i % 2), make_str(&block.raw, "a");
        make_int(&block.raw, i % 3);
        if (i % 2 == 1) make_str(&block.raw, "b"), make_tag(&block.raw, 0);
        make_head(&block.raw, 0x0D, i % 5), make_bytes(&block.raw, "\x91\x92\x93\x94", i % 5);
        make_int(&block.raw, 1000), make_record_end(&block);
    }
    REQUIRE_OK(collect_stats(), &err);
    REQUIRE(only() != NULL && only()->distinct != NULL && only()->n_children == 3);
    CHECK_U64(only()->distinct->n, 30);
    CHECK_U64(only()->children[0].alternatives[0].distinct->n, 6);
    CHECK_U64(only()->children[1].alternatives[0].distinct->n, 5);
    CHECK(only()->children[2].alternatives[0].constant);
    clear_stats();
}

TEST(test_payloads_are_not_entries) {
    for (uint32_t i = 0; i < 50; i++)
        make_ext(&block.raw, 13, NULL), make_int(&block.raw, i % 2), make_record_end(&block);
    REQUIRE_OK(collect_stats(), &err);
    REQUIRE(only() != NULL && only()->kind == RS_FMT_NODE_EXT);
    CHECK(only()->distinct != NULL && only()->children->payload && only()->children->alternatives[0].distinct == NULL);
    clear_stats();
}
