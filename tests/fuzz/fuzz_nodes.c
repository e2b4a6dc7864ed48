/* fuzz_nodes.c: segments with every kind of node. The input chooses trees, tables, places and the bytes of records;
 * everything else is valid, so nodes of every kind are read from untrusted bytes. */
#include "readers.h"
#include "rs_hand.h"
#include "tree_maker.h"

enum { MAX_TABLES = 3, ROOM = 64 };

static void take_bytes(rs_slice *in, uint8_t *out, unsigned n) {
    for (unsigned i = 0; i < n; i++) out[i] = (uint8_t)fuzz_take(in);
}

/* Adds some records or entries, with sizes from the input, or all of one size and without offsets. */
static void put_values(rs_slice *in, hand_values *values, unsigned n_max) {
    const unsigned n = 1 + fuzz_take(in) % n_max, size = fuzz_take(in);
    uint8_t bytes[ROOM];
    for (unsigned i = 0; i < n; i++) {
        const unsigned n_bytes = (size & 1) != 0 ? size / 2 % ROOM : fuzz_take(in) % ROOM;
        take_bytes(in, bytes, n_bytes);
        hand_put(values, bytes, n_bytes);
    }
}

/* Adds a symbol table: escapes, and symbols of a short pool. Returns the bytes of a unit. */
static unsigned put_symbols(rs_slice *in, hand *h) {
    uint8_t bytes[8 + 3 * 8 + 16 + 16] = {0};
    const unsigned unit = 1 + (fuzz_take(in) & 1), n_short = fuzz_take(in) % 9,
                   n = n_short + fuzz_take(in) % (9 - n_short);
    bytes[0] = (uint8_t)unit;
    rs_store_u16(bytes + 2, (uint16_t)n_short);
    rs_store_u32(bytes + 4, n);
    for (unsigned i = 0; i < n; i++) {
        const unsigned choice = fuzz_take(in), length = choice % 5, at = choice / 5 % 8;
        if (at + length <= 16 / unit) bytes[8 + 3 * i] = (uint8_t)(length | at << 4);
    }
    for (unsigned i = 0; i < 16; i++) bytes[8 + 3 * n + i] = (uint8_t)('a' + fuzz_take(in) % 26);
    hand_symbols(h, bytes, 8 + 3 * (size_t)n + 16 + 16);
    return unit;
}

static void put_number(rs_buffer *out, uint64_t value, unsigned n) {
    uint8_t le[8];
    rs_store_u64(le, value);
    make_bytes(out, le, n);
}

/* Appends the section of one placed node: a head within bounds, then bytes of the input. */
static void put_place(rs_slice *in, const rs_node *node, uint32_t n_records, rs_buffer *out) {
    const unsigned form = fuzz_take(in) & 1, m = fuzz_take(in) % 4;
    uint8_t bytes[256];
    if (node->kind == RS_FMT_NODE_RISING) {
        put_number(out, fuzz_take_number(in, 8), 8);
        put_number(out, fuzz_take_number(in, 8), 8);
        put_number(out, fuzz_take(in) % 48, 1);
        put_number(out, form, 1);
        put_number(out, fuzz_take(in) % 65, 1);
        put_number(out, 0, 5);
        take_bytes(in, bytes, 64);
        make_bytes(out, bytes, 64);
        memset(bytes, 0, sizeof bytes);
        make_bytes(out, bytes, sizeof bytes); /* enough for 72 fields of 64 bits */
        make_bytes(out, bytes, sizeof bytes);
        return;
    }
    put_number(out, m, 4);
    put_number(out, form, 1);
    put_number(out, 0, 3);
    take_bytes(in, bytes, (unsigned)rs_marks_size(form, n_records, m) % 64);
    make_bytes(out, bytes, (size_t)rs_marks_size(form, n_records, m));
    if (node->kind == RS_FMT_NODE_RUNS) {
        const uint64_t size = (m + 1) * (node->children->alone_bytes + node->children->size_bytes);
        memset(bytes, 0, sizeof bytes);
        take_bytes(in, bytes, 32);
        make_bytes(out, bytes, (size_t)(size < sizeof bytes ? size : sizeof bytes));
    } else {
        unsigned end = 0;
        for (unsigned i = 0; i < m; i++) put_number(out, end += fuzz_take(in) % 12, 4);
        take_bytes(in, bytes, 40);
        make_bytes(out, bytes, 40);
    }
}

/* Appends the places to the heap of the block, and returns their size. */
static uint64_t put_places(rs_slice *in, const rs_buffer *bytes, hand_values *block) {
    const size_t before = block->heap.size_bytes;
    rs_buffer places = {0}, sections = {0};
    rs_tree tree;
    if (rs_tree_compile(rs_slice_of(bytes->data, bytes->size_bytes), 0, &tree, NULL) != RS_OK) return 0;
    for (uint32_t i = 0; i < tree.n_nodes; i++) {
        if (!rs_node_is_placed(&tree.nodes[i])) continue;
        put_number(&places, 4 * tree.n_placed + sections.size_bytes, 4);
        put_place(in, &tree.nodes[i], block->n, &sections);
    }
    make_bytes(&block->heap, places.data, places.size_bytes);
    make_bytes(&block->heap, sections.data, sections.size_bytes);
    rs_buffer_clear(&places);
    rs_buffer_clear(&sections);
    rs_tree_clear(&tree);
    return block->heap.size_bytes - before;
}

static uint32_t put_tree(hand *h, const rs_buffer *tree) {
    uint8_t entry[RS_FMT_TREE_ENTRY_SIZE] = {0};
    const size_t at = (h->trees.size_bytes + 7) / 8 * 8;
    if (rs_buffer_append_zeros(&h->trees, at - h->trees.size_bytes, NULL) != RS_OK) abort();
    make_bytes(&h->trees, tree->data, tree->size_bytes);
    rs_store_u64(entry, at);
    rs_store_u32(entry + 8, (uint32_t)tree->size_bytes);
    make_bytes(&h->tree_table, entry, sizeof entry);
    return h->n_trees++;
}

static void put_table(rs_slice *in, hand *h, tree_tables *tables) {
    rs_buffer tree = {0};
    fuzz_make_tree(in, tables, &tree);
    hand_values *values = hand_table(h, put_tree(h, &tree));
    put_values(in, values, 6);
    tables->entries[tables->n_values++] = values->n;
    rs_buffer_clear(&tree);
}

/* Makes the segment of an input. */
static void make_segment(rs_slice *in, hand *h) {
    tree_tables tables = {0, {0}, 0, false};
    const unsigned choice = fuzz_take(in);
    rs_buffer tree = {0};
    memset(h, 0, sizeof *h);
    h->max_values = FUZZ_VALUES, h->max_bytes = FUZZ_BYTES;
    while (tables.n_values < choice % (MAX_TABLES + 1)) put_table(in, h, &tables);
    if ((choice & 8) != 0) tables.symbols = put_symbols(in, h);
    tables.placed = (choice & 16) != 0;
    fuzz_make_tree(in, &tables, &tree);
    uint32_t number = put_tree(h, &tree);
    put_values(in, &h->block, (choice & 32) != 0 ? 200 : 8);
    uint64_t places = put_places(in, &tree, &h->block);
    hand_finish(h, number);
    rs_store_u64(h->data + h->directory.sections[RS_FMT_SECTION_BLOCKS].off + RS_FMT_B_PLACES_SIZE, places);
    hand_seal(h);
    rs_buffer_clear(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rs_slice in = rs_slice_of(data, size);
    rs_store store;
    hand h;
    if (size > FUZZ_INPUT) return 0;
    make_segment(&in, &h);
    FUZZ_MUST(fuzz_open(&store, hand_slice(&h)));
    fuzz_read_all(&store, fuzz_seed(data, size));
    rs_store_close(&store);
    if (fuzz_open(&store, hand_slice(&h))) {
        const bool small = fuzz_is_small(&store);
        rs_store_close(&store);
        if (small) fuzz_any(rs_verify_segment(hand_slice(&h), NULL, NULL, NULL));
    }
    hand_clear(&h);
    return 0;
}

FUZZ_PLAIN
