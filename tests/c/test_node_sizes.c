/* test_node_sizes.c: the bits of the nodes add up to the heaps; nodes of known bits. */
#include "read/rs_node_sizes.h"
#include "rs_built.h"
#include "rs_columns.h"

static rs_error err;

enum { MAX_NODES = 256 };
static rs_node_size sizes[MAX_NODES];

static bool open_all(const built *b, rs_store *store) {
    memset(store, 0, sizeof *store);
    if (!CHECK_OK(rs_store_open(store, built_slice(b), NULL, &err), &err)) return false;
    for (uint64_t i = 0; i < store->n_blocks; i++) {
        if (!CHECK_OK(rs_store_load_block(store, i, &err), &err)) return false;
    }
    for (uint64_t i = 0; i < store->n_tables; i++) {
        if (!CHECK_OK(rs_store_load_table(store, (uint32_t)i, &err), &err)) return false;
    }
    return true;
}

static uint64_t sum(const rs_tree *tree) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < tree->n_nodes; i++) bits += sizes[i].bits;
    return bits;
}

/* Checks that the nodes of each block and value table take the bytes of its heap, and of its arrays if `arrays`. */
static void check_heaps(const built *b, bool arrays) {
    rs_store store;
    if (!open_all(b, &store)) return;
    for (uint64_t i = 0; i < store.n_blocks; i++) {
        const rs_block *block = &store.blocks[i];
        memset(sizes, 0, sizeof sizes);
        REQUIRE(store.trees[block->tree].n_nodes <= MAX_NODES);
        CHECK_OK(rs_node_sizes_add_block(&store, block, sizes, &err), &err);
        CHECK_U64(sum(&store.trees[block->tree]),
                  8 * (block->heap_size_bytes + (arrays ? block->arrays_size_bytes : 0)));
        CHECK_U64(sizes[0].values, block->n_records);
    }
    for (uint64_t i = 0; i < store.n_tables; i++) {
        const rs_table *table = &store.tables[i];
        if (table->kind != RS_FMT_TABLE_VALUES) continue;
        memset(sizes, 0, sizeof sizes);
        CHECK_OK(rs_node_sizes_add_table(&store, table, sizes, &err), &err);
        CHECK_U64(sum(table->tree), 8 * table->block.heap_size_bytes);
    }
    rs_store_close(&store);
}

/* {"a": i % 8, "b": None or an int, "c": [(int, bool), ...], "d": a float or a text}. */
RECORD(mixed_record) {
    make_head(raw, 0x0F, 4);
    make_str(raw, "a"), make_int(raw, (int64_t)(i % 8));
    make_str(raw, "b"), (i % 3 == 0 ? make_tag(raw, 0) : make_int(raw, (int64_t)(i * 7919 % 1000)));
    make_str(raw, "c"), make_head(raw, 0x0D, i % 4);
    for (uint64_t k = 0; k < i % 4; k++) {
        make_head(raw, 0x0E, 2), make_int(raw, (int64_t)((i + k) * 31 % 5000)), make_tag(raw, 1 + (i + k) * i / 3 % 2);
    }
    make_str(raw, "d");
    if (i % 2 == 0) make_float(raw, 1.0 / (double)(i + 3));
    else make_str(raw, i % 4 == 1 ? "left" : "right side");
}

RECORD(int_record) {
    make_head(raw, 0x0F, 2);
    make_str(raw, "a"), make_int(raw, (int64_t)(i * 7919 % 1021));
    make_str(raw, "b"), make_float(raw, 1.0 / (double)(i + 3));
}

/* Twenty fields that few records have, {"a": i % 4} and {"b": i % 5}: a rare group, and rows in the bits of others. */
RECORD(rare_record) {
    char key[3] = "k?";
    make_head(raw, 0x0F, 22);
    for (unsigned k = 0; k < 20; k++) {
        key[1] = (char)('a' + k);
        make_str(raw, key), ((i * 31 + k) % 40 == 0 ? make_int(raw, (int64_t)i) : make_tag(raw, 0));
    }
    make_str(raw, "m"), make_head(raw, 0x0F, 1), make_str(raw, "a"), make_int(raw, (int64_t)(i % 4));
    make_str(raw, "n"), make_head(raw, 0x0F, 1), make_str(raw, "b"), make_int(raw, (int64_t)(i % 5));
}

/* A str made of parts, outside any container. */
RECORD(path_record) {
    char text[32];
    (void)snprintf(text, sizeof text, "img_%05u.jpg", (unsigned)(i * 7919 % 65536));
    make_str(raw, text);
}

/* [an int, an array of 1,280 bytes, which are twenty times 64, in the arrays of the block] */
RECORD(array_record) {
    make_head(raw, 0x0D, 2), make_int(raw, (int64_t)i), make_array(raw, 640, arrays->size_bytes);
    if (rs_buffer_append_zeros(arrays, 1280, NULL) != RS_OK) abort();
}

TEST(test_arrays) {
    for (unsigned k = 0; k < 2; k++) {
        built b = build(array_record, 300, k == 0);
        REQUIRE(b.data != NULL);
        check_heaps(&b, k == 0); /* in an any value only the position counts */
        built_clear(&b);
    }
}

TEST(test_heaps) {
    static const built_record records[] = {columns_record, mixed_record, int_record, path_record, rare_record};
    static const uint64_t counts[] = {1, 63, 5000};
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 6; k++) {
            built b = build(records[i], counts[k % 3], k < 3);
            if (!CHECK(b.data != NULL)) continue;
            check_heaps(&b, false);
            built_clear(&b);
        }
    }
}

/* Opens a store of one block and puts its sizes into `sizes`. Returns the block's tree, which the store owns. */
static const rs_tree *sizes_of(const built *b, rs_store *store) {
    if (!CHECK(b->data != NULL) || !open_all(b, store) || !CHECK(store->n_blocks == 1)) return NULL;
    memset(sizes, 0, sizeof sizes);
    CHECK_OK(rs_node_sizes_add_block(store, &store->blocks[0], sizes, &err), &err);
    return &store->trees[store->blocks[0].tree];
}

/* A struct of an int of 10 bits and a float: 10 bits, 64 bits, and 6 bits that round up the group. */
TEST(test_known_bits) {
    built b = build(int_record, 3000, true);
    rs_store store;
    const rs_tree *tree = sizes_of(&b, &store);
    REQUIRE(tree != NULL);
    REQUIRE(tree->n_nodes == 3 && tree->nodes[1].kind == RS_FMT_NODE_INT && tree->nodes[2].kind == RS_FMT_NODE_FLOAT);
    CHECK_U64(sizes[0].bits, 3000 * 6);
    CHECK_U64(sizes[1].bits, 3000 * 10);
    CHECK_U64(sizes[2].bits, 3000 * 64);
    CHECK_U64(sizes[2].values, 3000);
    rs_store_close(&store);
    built_clear(&b);
}

/* {"a": None or an int of 10 bits, "b": None or a float}, each None in every third record. */
RECORD(optional_record) {
    make_head(raw, 0x0F, 2);
    make_str(raw, "a"), (i % 3 == 0 ? make_tag(raw, 0) : make_int(raw, (int64_t)(i * 7919 % 1021)));
    make_str(raw, "b"), (i % 3 == 1 ? make_tag(raw, 0) : make_float(raw, 1.0 / (double)(i + 3)));
}

/* The unused bits of a None count for the optional node, the bits of a value for the value. A None takes no space for a
 * body of bytes. */
TEST(test_known_optional) {
    built b = build(optional_record, 3000, true);
    rs_store store;
    const rs_tree *tree = sizes_of(&b, &store);
    REQUIRE(tree != NULL);
    REQUIRE(tree->n_nodes == 5 && tree->nodes[1].kind == RS_FMT_NODE_OPTIONAL);
    REQUIRE(tree->nodes[2].kind == RS_FMT_NODE_OPTIONAL);
    CHECK_U64(sizes[0].bits, 3000 * 4);
    CHECK_U64(sizes[1].bits, 3000 + 1000 * 10);
    CHECK_U64(sizes[2].bits, 3000);
    CHECK_U64(sizes[tree->nodes[1].children->index].bits, 2000 * 10);
    CHECK_U64(sizes[tree->nodes[1].children->index].values, 2000);
    CHECK_U64(sizes[tree->nodes[2].children->index].bits, 2000 * 64);
    CHECK_U64(sizes[tree->nodes[2].children->index].values, 2000);
    rs_store_close(&store);
    built_clear(&b);
}
