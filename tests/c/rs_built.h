/* rs_built.h: segments made by the builder, copied into memory of exactly their size, where tests can break them. */
#pragma once

#include "rs_make.h"
#include "read/rs_store.h"
#include "write/rs_builder.h"

/* Appends record i to `raw`, large arrays to `arrays`. */
typedef void (*built_record)(uint64_t i, rs_buffer *raw, rs_buffer *arrays);

typedef struct built {
    uint8_t *data;
    size_t size;
} built;

static inline void built_clear(built *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

static inline rs_slice built_slice(const built *b) { return rs_slice_of(b->data, b->size); }

/* Returns whether a block ends after record i. */
typedef bool (*built_last)(uint64_t i);

/* `last` may be NULL: then blocks end when they are full. */
static inline rs_status built_add(rs_builder *builder, built_record record, uint64_t n, built_last last,
                                  rs_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        record(i, &builder->raw, &builder->arrays);
        RS_TRY(rs_builder_end_record(builder, err));
        if (last == NULL ? rs_builder_is_full(builder) : last(i)) RS_TRY(rs_builder_flush(builder, err));
    }
    return rs_builder_finish(builder, err);
}

/* Finishes the writer, and copies the segment; data is NULL after a failure. */
static inline built built_finish(rs_segment_writer *writer) {
    rs_segment segment;
    rs_error err;
    built out = {NULL, 0};
    if (CHECK_OK(rs_segment_writer_finish(writer, &segment, &err), &err)) {
        out.data = make_exact(segment.data, segment.size_bytes);
        out.size = segment.size_bytes;
        rs_segment_close(&segment);
    }
    rs_segment_writer_abort(writer);
    return out;
}

/* Builds n records in an anonymous segment; data is NULL after a failure. */
static inline built build_blocks(built_record record, uint64_t n, built_last last, bool compress) {
    rs_segment_writer writer;
    rs_builder builder;
    rs_error err;
    built out = {NULL, 0};
    rs_choices choices = rs_choices_of(compress ? RS_LEVEL_AUTO : RS_LEVEL_NONE);
    rs_error_clear(&err);
    if (!CHECK_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err)) return out;
    if (CHECK_OK(rs_builder_open(&builder, &writer, &choices, &err), &err) &&
        CHECK_OK(built_add(&builder, record, n, last, &err), &err)) {
        out = built_finish(&writer);
    }
    rs_builder_close(&builder);
    rs_segment_writer_abort(&writer);
    return out;
}

static inline built build(built_record record, uint64_t n, bool compress) {
    return build_blocks(record, n, NULL, compress);
}

/* ---- Changing bytes of a segment and making all checksums match again ---- */

typedef struct built_layout {
    rs_header header;
    rs_directory directory;
    rs_block blocks[64];
    rs_block tables[64]; /* only the place of the heap is set */
    uint64_t n_blocks, n_tables;
} built_layout;

/* Reads the layout of an unchanged segment. */
static inline void built_read(const built *b, built_layout *out) {
    if (rs_header_read(built_slice(b), NULL, &out->header, NULL) != RS_OK ||
        rs_directory_read(built_slice(b), &out->header, 0, &out->directory, NULL) != RS_OK) {
        abort();
    }
    out->n_blocks = out->directory.sections[RS_FMT_SECTION_BLOCKS].count;
    if (out->n_blocks > 64) abort();
    for (uint64_t i = 0; i < out->n_blocks; i++) {
        if (rs_block_read(built_slice(b), &out->directory, i, &out->blocks[i], NULL) != RS_OK) abort();
    }
    out->n_tables = out->directory.sections[RS_FMT_SECTION_TABLES].count;
    if (out->n_tables > 64) abort();
    for (uint64_t i = 0; i < out->n_tables; i++) {
        const uint8_t *e = b->data + out->directory.sections[RS_FMT_SECTION_TABLES].off + 80 * i;
        memset(&out->tables[i], 0, sizeof out->tables[i]);
        out->tables[i].heap_off = rs_load_u64(e + 16), out->tables[i].heap_size_bytes = rs_load_u64(e + 24);
    }
}

static inline uint8_t *built_section(const built *b, const built_layout *layout, unsigned kind) {
    return b->data + layout->directory.sections[kind].off;
}

static inline void built_seal(built *b, const built_layout *layout) {
    uint8_t *entries = b->data + layout->header.directory_off;
    const rs_section *sections = layout->directory.sections;
    uint8_t *blocks = built_section(b, layout, RS_FMT_SECTION_BLOCKS);
    uint8_t *table = built_section(b, layout, RS_FMT_SECTION_TREE_TABLE);
    uint8_t *trees = built_section(b, layout, RS_FMT_SECTION_TREES);
    for (uint64_t i = 0; i < layout->n_blocks; i++) {
        const rs_block *k = &layout->blocks[i];
        rs_store_u32(blocks + 80 * i + 64, rs_crc32c(0, b->data + k->heap_off, k->heap_size_bytes));
        rs_store_u32(blocks + 80 * i + 68, rs_crc32c(0, b->data + k->arrays_off, k->arrays_size_bytes));
    }
    for (uint64_t i = 0; i < sections[RS_FMT_SECTION_TREE_TABLE].count; i++) {
        uint64_t off = rs_load_u64(table + 16 * i), size = rs_load_u32(table + 16 * i + 8);
        uint64_t all = sections[RS_FMT_SECTION_TREES].size_bytes;
        if (off <= all && size <= all - off) rs_store_u32(table + 16 * i + 12, rs_crc32c(0, trees + off, size));
    }
    for (uint64_t i = 0; i < layout->n_tables; i++) {
        const rs_block *k = &layout->tables[i];
        uint8_t *e = built_section(b, layout, RS_FMT_SECTION_TABLES) + 80 * i;
        rs_store_u32(e + 64, rs_crc32c(0, b->data + k->heap_off, k->heap_size_bytes));
        rs_store_u32(e + 68, 0);
    }
    for (unsigned kind = 2; kind <= 6; kind++) {
        const rs_section *s = &sections[kind];
        rs_store_u32(entries + 40 * (kind - 1) + 32, rs_crc32c(0, b->data + s->off, s->size_bytes));
    }
    if (layout->n_tables > 0) { /* TABLES has the last directory entry */
        const rs_section *s = &sections[RS_FMT_SECTION_TABLES];
        rs_store_u32(entries + 240 + 32, rs_crc32c(0, b->data + s->off, s->size_bytes));
    }
    rs_store_u32(b->data + 108, rs_crc32c(0, entries, layout->n_tables > 0 ? 280 : 240));
    rs_store_u32(b->data + RS_FMT_H_HEADER_CRC, rs_crc32c(0, b->data, RS_FMT_H_HEADER_CRC));
}
