/* test_block_encoding.c: stores of many blocks: round trips, and the trees and tables that blocks share. */
#include "rs_built.h"
#include "rs_columns.h"
#include "rs_raw.h"
#include "verify/rs_verify.h"
#include "write/rs_builder.h"

static rs_error err;

/* Verifies the segment and reads every record back. Leaves `store` open. */
static void check_all(const built *b, built_record record, uint64_t n, rs_store *store) {
    rs_buffer expected = {0}, arrays = {0}, got = {0};
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, NULL, &err), &err);
    memset(store, 0, sizeof *store);
    REQUIRE_OK(rs_store_open(store, built_slice(b), NULL, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        expected.size_bytes = 0;
        if (!CHECK_OK(raw_record(store, i, &got, &err), &err)) break;
        record(i, &expected, &arrays);
        if (CHECK(got.size_bytes == expected.size_bytes && memcmp(got.data, expected.data, got.size_bytes) == 0))
            continue;
        (void)fprintf(stderr, "    record %llu\n", (unsigned long long)i);
        break;
    }
    rs_buffer_clear(&expected);
    rs_buffer_clear(&arrays);
    rs_buffer_clear(&got);
}

static bool every_part(uint64_t i) { return (i + 1) % COLUMNS_PART == 0; }

static uint32_t tree_of(rs_store *store, uint64_t record) {
    rs_record found;
    return CHECK_OK(rs_store_find(store, record, &found, &err), &err) ? found.block->tree : UINT32_MAX;
}

/* Words change from block to block: dictionaries get new tables, and blocks share the other tables. */
TEST(test_many_blocks) {
    built b = build_blocks(columns_record, 10 * COLUMNS_PART, every_part, true);
    rs_store store;
    uint64_t last = 0;
    REQUIRE(b.data != NULL);
    check_all(&b, columns_record, 10 * COLUMNS_PART, &store);
    CHECK_U64(store.n_blocks, 10);
    CHECK(store.n_tables >= 10 && store.n_tables < 10 * 4);
    /* The tables come before the block that names them, in the order in which they were made. */
    for (uint64_t i = 0; i < store.n_tables; i++) {
        CHECK_OK(rs_store_load_table(&store, (uint32_t)i, &err), &err);
        CHECK(store.tables[i].block.heap_off >= last);
        last = store.tables[i].block.heap_off;
    }
    CHECK(store.tables[0].block.heap_off < store.blocks[0].heap_off);
    rs_store_close(&store);
    built_clear(&b);
}

static bool after_first_part(uint64_t i) { return i == COLUMNS_PART - 1; }

/* {"id", "shard", "label", "odd"}: rising ints, runs of ints, runs of words of one length, and ints with a few texts
 * among them. */
RECORD(placed_record) {
    char text[32];
    make_head(raw, 0x0F, 4);
    make_str(raw, "id"), make_int(raw, 1000 + 3 * (int64_t)i);
    make_str(raw, "shard"), make_int(raw, (int64_t)(i / 300 * 7919 % 1000) + 1000);
    (void)snprintf(text, sizeof text, "a word %02u", (unsigned)(i / 100 * 7919 % 17));
    make_str(raw, "label"), make_str(raw, text);
    make_str(raw, "odd");
    if (i % 100 == 3) make_str(raw, i % 200 == 3 ? "odd" : "strange");
    else make_int(raw, (int64_t)(i * 7919 % 8191));
}

static bool never(uint64_t i) { return (void)i, false; }

/* The values of placed nodes are read back. Only the places store them: a record has just 16 bits, and the usual ints
 * take 13. */
TEST(test_placed) {
    built b = build_blocks(placed_record, 3000, never, true);
    uint32_t n[256] = {0};
    rs_store store;
    REQUIRE(b.data != NULL);
    check_all(&b, placed_record, 3000, &store);
    const rs_tree *tree = &store.trees[tree_of(&store, 0)];
    for (uint32_t i = 0; i < tree->n_nodes; i++) n[tree->nodes[i].kind]++;
    CHECK(n[RS_FMT_NODE_RISING] == 1 && n[RS_FMT_NODE_RUNS] == 2 && n[RS_FMT_NODE_EXCEPTIONS] == 1);
    CHECK_U64(store.blocks[0].heap_size_bytes, 3000 * 2 + store.blocks[0].places_size_bytes);
    rs_store_close(&store);
    built_clear(&b);
}

/* Returns whether two ints of `raw` bytes stay raw if they take 10 bytes encoded. With `pads`, pads the segment before
 * this choice. */
static bool stays_raw(uint64_t raw, bool pads) {
    static const rs_span spans[] = {{0, 2}, {2, 2}};
    rs_segment_writer writer;
    rs_block_encoding encoding = {0};
    rs_settled settled;
    rs_scan scan = {0};
    rs_buffer offsets = {0}, ints = {0};
    rs_stats survey = {0};
    uint32_t tree;
    bool is_raw = false;
    encoding.writer = &writer, encoding.offsets = &offsets, encoding.choices = rs_choices_of(RS_LEVEL_AUTO);
    make_int(&ints, 100), make_int(&ints, 101);
    survey.values.base = ints.data, survey.values.spans = spans, survey.values.n = 2;
    survey.scan = &scan, survey.choices = &encoding.choices;
    if (CHECK_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err)) {
        CHECK_OK(rs_segment_writer_append(&writer, "x", 1, &err), &err);
        CHECK_OK(rs_infer_survey(&survey, 0, &err), &err);
        rs_block_encoding_begin(&encoding);
        CHECK_OK(rs_block_encoding_settle(&encoding, &survey, 0, &settled, &err), &err);
        if (pads) CHECK_OK(rs_segment_writer_align(&writer, RS_FMT_ALIGNMENT, &err), &err);
        CHECK_OK(rs_block_encoding_accept(&encoding, &settled, RS_OK, raw, 10, 0, &tree, &is_raw, &err), &err);
        rs_settled_clear(&settled);
    }
    rs_stats_clear(&survey);
    rs_block_encoding_clear(&encoding);
    rs_segment_writer_abort(&writer);
    rs_buffer_clear(&offsets);
    rs_buffer_clear(&ints);
    return is_raw;
}

/* A parcel may be taken at any time, which pads the segment. The choice must not depend on that. */
TEST(test_padding) {
    CHECK(stays_raw(0, false) && !stays_raw(300, false));
    for (uint64_t raw = 0; raw < 300; raw++) CHECK(stays_raw(raw, false) == stays_raw(raw, true));
}

TEST(test_short_last_block) {
    built b = build_blocks(columns_record, COLUMNS_PART, every_part, true);
    rs_store store, longer;
    REQUIRE(b.data != NULL);
    check_all(&b, columns_record, COLUMNS_PART, &store);
    /* 40 records of the next part have new words: they get their own tree, and tables only for these words. */
    built c = build_blocks(columns_record, COLUMNS_PART + 40, after_first_part, true);
    REQUIRE(c.data != NULL);
    check_all(&c, columns_record, COLUMNS_PART + 40, &longer);
    CHECK(longer.n_tables <= store.n_tables + 1);
    rs_store_close(&longer);
    rs_store_close(&store);
    built_clear(&b);
    built_clear(&c);
}

/* Repeats the records of the first part. */
static void add_again(uint64_t i, rs_buffer *raw, rs_buffer *arrays) { columns_record(i % COLUMNS_PART, raw, arrays); }
static bool every_part_and_a_bit(uint64_t i) { return (i + 1) % COLUMNS_PART == 0 || i == 3 * COLUMNS_PART + 20; }

TEST(test_the_last_tree_again) {
    built b = build_blocks(add_again, 4 * COLUMNS_PART, every_part_and_a_bit, true);
    rs_store store;
    REQUIRE(b.data != NULL);
    check_all(&b, add_again, 4 * COLUMNS_PART, &store);
    CHECK_U64(store.n_blocks, 5);
    CHECK_U64(tree_of(&store, 0), tree_of(&store, COLUMNS_PART));
    CHECK_U64(tree_of(&store, 0), tree_of(&store, 3 * COLUMNS_PART + 30));
    rs_store_close(&store);
    built_clear(&b);
}

/* Dicts with five orders of keys, each with its own words: several dictionaries of one path in one block. */
RECORD(add_orders) {
    static const char *const orders[] = {"abc", "cba", "bac", "acb", "cab"};
    const char *order = orders[i % 5];
    char key[2] = {0}, word[40];
    make_head(raw, 0x0F, 3);
    for (unsigned k = 0; k < 3; k++) {
        key[0] = order[k];
        (void)snprintf(word, sizeof word, "%s %c word %u of block %u", order, order[k], (unsigned)(i / 5 % 12),
                       (unsigned)(i / COLUMNS_PART));
        make_str(raw, key), make_str(raw, word);
    }
}

TEST(test_dictionaries_of_one_path) {
    built b = build_blocks(add_orders, 4 * COLUMNS_PART, every_part, true);
    built_layout layout;
    rs_store store;
    REQUIRE(b.data != NULL);
    check_all(&b, add_orders, 4 * COLUMNS_PART, &store);
    built_read(&b, &layout);
    for (unsigned i = 0; i < 4; i++) CHECK(layout.blocks[i].heap_size_bytes < COLUMNS_PART * 6); /* raw: 86+ each */
    rs_store_close(&store);
    built_clear(&b);
}

/* ---- Random records, in blocks cut at random ---- */

static uint64_t seed;

/* Most records repeat one of a few values, so tables pay off. */
RECORD(add_random) {
    make_state = (seed * 1000003 + i / 97 * 31) * 2654435761u + 1;
    uint64_t choice = make_random(30) + i % 29 * (1 + make_random(3));
    make_state = (seed + choice * 7919) * 0x9E3779B97F4A7C15u + 1;
    make_head(raw, 0x0D, 2);
    make_random_value(raw, 1 + (unsigned)(seed % 3));
    make_random_value(raw, (unsigned)(seed % 4));
}

static bool at_random(uint64_t i) { return (i * 2654435761u + seed * 40503u) % 1000 < 6; }

TEST(test_random) {
    for (seed = 1; seed <= 12; seed++) {
        built b = build_blocks(add_random, 1500, at_random, true);
        rs_store store;
        REQUIRE(b.data != NULL);
        check_all(&b, add_random, 1500, &store);
        rs_store_close(&store);
        built_clear(&b);
    }
}
