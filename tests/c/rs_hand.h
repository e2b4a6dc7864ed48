/* rs_hand.h: segments made by hand: trees, tables and one block of records given as bytes, with matching checksums, so
 * that any field can be broken and sealed again. Include from one file only. */
#pragma once

#include "rs_make.h"
#include "read/rs_store.h"
#include "verify/rs_check.h"

enum { HAND_MAX_COUNT = 512 };

/* Values in a heap: the records of the block, or the entries of a table. */
typedef struct hand_values {
    rs_buffer heap;
    uint64_t ends[HAND_MAX_COUNT];
    uint32_t n, tree;
    bool symbols;
} hand_values;

/* Zero it first; call hand_clear at the end. */
typedef struct hand {
    rs_buffer trees, tree_table;
    uint32_t n_trees, n_tables;
    hand_values *tables; /* HAND_MAX_COUNT tables, allocated when the first is added */
    hand_values block;
    uint64_t max_values, max_bytes; /* 0 means 1,000 and 100,000 */
    uint8_t *data;                  /* the segment, once hand_finish has made it */
    size_t size;
    rs_header header;
    rs_directory directory;
} hand;

static inline void hand_put(hand_values *v, const void *bytes, size_t n) {
    if (v->n == HAND_MAX_COUNT) abort();
    make_bytes(&v->heap, bytes, n);
    v->ends[v->n++] = v->heap.size_bytes;
}

static inline void hand_record(hand *h, const void *bytes, size_t n) { hand_put(&h->block, bytes, n); }

/* Adds a tree and returns its number. */
static inline uint32_t hand_tree(hand *h, const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    uint8_t entry[16];
    if (rs_buffer_append_zeros(&h->trees, (8 - h->trees.size_bytes % 8) % 8, NULL) != RS_OK) abort();
    size_t at = h->trees.size_bytes;
    make_tree(&h->trees, nodes, n, aux, aux_size);
    rs_store_u64(entry, at), rs_store_u32(entry + 8, (uint32_t)(h->trees.size_bytes - at));
    rs_store_u32(entry + 12, 0); /* hand_seal sets the checksum */
    make_bytes(&h->tree_table, entry, 16);
    return h->n_trees++;
}

static inline uint32_t hand_leaf(hand *h, uint8_t kind, uint8_t param, uint16_t flags) {
    make_node node = {kind, param, flags, 0, 0, 0, 0, 0};
    return hand_tree(h, &node, 1, NULL, 0);
}

/* Adds an empty table of values under a tree; hand_put adds entries. */
static inline hand_values *hand_table(hand *h, uint32_t tree) {
    if (h->tables == NULL) h->tables = (hand_values *)calloc(HAND_MAX_COUNT, sizeof *h->tables);
    if (h->tables == NULL || h->n_tables == HAND_MAX_COUNT) abort();
    h->tables[h->n_tables].tree = tree;
    return &h->tables[h->n_tables++];
}

/* Adds a table of one entry. */
static inline void hand_table_of(hand *h, uint32_t tree, const void *bytes, size_t n) {
    hand_put(hand_table(h, tree), bytes, n);
}

static inline void hand_symbols(hand *h, const void *bytes, size_t n) {
    hand_values *t = hand_table(h, 0);
    make_bytes(&t->heap, bytes, n);
    t->symbols = true;
}

static inline void hand_align(rs_buffer *out) {
    if (rs_buffer_append_zeros(out, (64 - out->size_bytes % 64) % 64, NULL) != RS_OK) abort();
}

static inline void hand_section(rs_buffer *out, rs_directory *d, unsigned kind, const rs_buffer *bytes,
                                uint64_t count) {
    hand_align(out);
    d->sections[kind].off = out->size_bytes, d->sections[kind].size_bytes = bytes->size_bytes,
    d->sections[kind].count = count;
    make_bytes(out, bytes->data, bytes->size_bytes);
}

/* Appends the heap of `v` to `out`, and to `entries` its entry, whose index offset is still relative to OFFSETS. */
static inline void hand_entry(rs_buffer *out, rs_buffer *offsets, const hand_values *v, uint64_t first,
                              rs_buffer *entries) {
    rs_block block = {0};
    uint8_t e[RS_FMT_BLOCK_SIZE];
    block.first_record = first, block.n_records = v->n, block.tree = v->tree;
    hand_align(out);
    block.heap_off = out->size_bytes, block.heap_size_bytes = v->heap.size_bytes;
    make_bytes(out, v->heap.data, v->heap.size_bytes);
    hand_align(out);
    block.arrays_off = out->size_bytes;
    block.index_off = offsets->size_bytes;
    if (!v->symbols && rs_offsets_append(v->ends, v->n, false, &block, offsets, NULL) != RS_OK) abort();
    if (block.index_width == 0) block.index_off = UINT64_MAX; /* none: see hand_place */
    rs_block_write(&block, e);
    make_bytes(entries, e, sizeof e);
}

/* Makes the index offsets of entries absolute, once OFFSETS has its place. */
static inline void hand_place(rs_buffer *entries, uint64_t offsets) {
    for (size_t at = RS_FMT_B_INDEX_OFFSET; at < entries->size_bytes; at += RS_FMT_BLOCK_SIZE) {
        uint64_t off = rs_load_u64(entries->data + at);
        rs_store_u64(entries->data + at, off == UINT64_MAX ? 0 : off + offsets);
    }
}

static inline uint8_t *hand_table_entry(const hand *h, uint32_t number) {
    return h->data + h->directory.sections[RS_FMT_SECTION_TABLES].off + (size_t)number * RS_FMT_BLOCK_SIZE;
}

static inline uint8_t *hand_tree_at(const hand *h, uint32_t number) {
    const uint8_t *e = h->data + h->directory.sections[RS_FMT_SECTION_TREE_TABLE].off + 16 * (size_t)number;
    return h->data + h->directory.sections[RS_FMT_SECTION_TREES].off + rs_load_u64(e);
}

static inline void hand_crc_of_heap(const hand *h, uint8_t *e) {
    uint64_t off = rs_load_u64(e + RS_FMT_B_HEAP_OFFSET), size = rs_load_u64(e + RS_FMT_B_HEAP_SIZE);
    if (off <= h->size && size <= h->size - off) rs_store_u32(e + RS_FMT_B_HEAP_CRC, rs_crc32c(0, h->data + off, size));
}

/* Computes the checksums of the sections, the directory and the header again. */
static inline void hand_seal_sections(hand *h) {
    const rs_section *sections = h->directory.sections;
    rs_buffer entries = {0};
    for (unsigned kind = RS_FMT_SECTION_OFFSETS; kind <= RS_FMT_SECTION_LAST; kind++) {
        h->directory.sections[kind].crc = rs_crc32c(0, h->data + sections[kind].off, sections[kind].size_bytes);
    }
    if (rs_directory_write(&h->directory, NULL, &h->header, &entries, NULL) != RS_OK) abort();
    memcpy(h->data + h->header.directory_off, entries.data, entries.size_bytes);
    rs_header_write(&h->header, h->data);
    rs_buffer_clear(&entries);
}

/* Computes all checksums again after a change. */
static inline void hand_seal(hand *h) {
    const rs_section *sections = h->directory.sections;
    if (h->block.n > 0) hand_crc_of_heap(h, h->data + sections[RS_FMT_SECTION_BLOCKS].off);
    for (uint32_t i = 0; i < h->n_tables; i++) hand_crc_of_heap(h, hand_table_entry(h, i));
    for (uint32_t i = 0; i < h->n_trees; i++) {
        uint8_t *e = h->data + sections[RS_FMT_SECTION_TREE_TABLE].off + 16 * (size_t)i;
        rs_store_u32(e + 12, rs_crc32c(0, hand_tree_at(h, i), rs_load_u32(e + 8)));
    }
    hand_seal_sections(h);
}

/* Puts the segment together; its records are under `tree`. */
static inline void hand_finish(hand *h, uint32_t tree) {
    rs_buffer out = {0}, offsets = {0}, blocks = {0}, tables = {0}, groups = {0};
    rs_directory *d = &h->directory;
    memset(d, 0, sizeof *d), memset(&h->header, 0, sizeof h->header);
    if (rs_buffer_append_zeros(&out, RS_FMT_HEADER_SIZE, NULL) != RS_OK) abort();
    h->block.tree = tree;
    if (h->block.n > 0) hand_entry(&out, &offsets, &h->block, 0, &blocks);
    for (uint32_t i = 0; i < h->n_tables; i++) {
        hand_entry(&out, &offsets, &h->tables[i], h->tables[i].symbols ? RS_FMT_TABLE_SYMBOLS : RS_FMT_TABLE_VALUES,
                   &tables);
    }
    hand_align(&out);
    d->sections[RS_FMT_SECTION_HEAP].off = RS_FMT_HEADER_SIZE;
    d->sections[RS_FMT_SECTION_HEAP].size_bytes = out.size_bytes - RS_FMT_HEADER_SIZE;
    d->sections[RS_FMT_SECTION_HEAP].count = h->block.n > 0;
    hand_place(&blocks, out.size_bytes), hand_place(&tables, out.size_bytes);
    hand_section(&out, d, RS_FMT_SECTION_OFFSETS, &offsets, 0);
    if (rs_buffer_append_zeros(&groups, 4 * (((size_t)h->block.n + 63) / 64), NULL) != RS_OK) abort();
    hand_section(&out, d, RS_FMT_SECTION_GROUPS, &groups, groups.size_bytes / 4);
    hand_section(&out, d, RS_FMT_SECTION_BLOCKS, &blocks, h->block.n > 0);
    hand_section(&out, d, RS_FMT_SECTION_TREES, &h->trees, h->n_trees);
    hand_section(&out, d, RS_FMT_SECTION_TREE_TABLE, &h->tree_table, h->n_trees);
    if (h->n_tables > 0) hand_section(&out, d, RS_FMT_SECTION_TABLES, &tables, h->n_tables);
    hand_align(&out);
    h->header.directory_off = out.size_bytes;
    if (rs_buffer_append_zeros(&out, (h->n_tables > 0 ? 7u : 6u) * RS_FMT_ENTRY_SIZE, NULL) != RS_OK) abort();
    h->header.content = RS_FMT_CONTENT_LIST, h->header.segment_size = out.size_bytes, h->header.n_records = h->block.n;
    h->header.features_required = RS_FMT_FEATURES_KNOWN & ~RS_FMT_FEATURE_MAPPING;
    h->header.max_values = h->max_values != 0 ? h->max_values : 1000;
    h->header.max_bytes = h->max_bytes != 0 ? h->max_bytes : 100000;
    h->header.max_depth = RS_FMT_DEPTH;
    h->data = make_exact(out.data, out.size_bytes), h->size = out.size_bytes;
    hand_seal(h);
    rs_buffer_clear(&out), rs_buffer_clear(&offsets), rs_buffer_clear(&blocks), rs_buffer_clear(&tables),
        rs_buffer_clear(&groups);
}

static inline void hand_clear(hand *h) {
    for (uint32_t i = 0; i < h->n_tables; i++) rs_buffer_clear(&h->tables[i].heap);
    free(h->tables), free(h->data);
    rs_buffer_clear(&h->trees), rs_buffer_clear(&h->tree_table), rs_buffer_clear(&h->block.heap);
    memset(h, 0, sizeof *h);
}

static inline rs_slice hand_slice(const hand *h) { return rs_slice_of(h->data, h->size); }

/* Opens the segment and checks record `index`, as any reader would, without the checksums of its tables. */
static inline rs_status hand_check(const hand *h, uint64_t index, rs_error *err) {
    rs_store store;
    rs_record record;
    rs_cursor cursor;
    rs_status status = rs_store_open(&store, hand_slice(h), NULL, err);
    if (status != RS_OK) return status;
    status = rs_store_find(&store, index, &record, err);
    if (status == RS_OK) {
        cursor = rs_store_cursor(&store, &record);
        status = rs_check_record(&cursor, record.tree, NULL, err);
    }
    rs_store_close(&store);
    return status;
}
