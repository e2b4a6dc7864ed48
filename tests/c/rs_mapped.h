/* rs_mapped.h: mappings, as rs_built.h makes lists: built, copied to their exact size, changed and sealed again. */
#pragma once

#include "rs_built.h"
#include "read/rs_mapping.h"
#include "write/rs_mapping_builder.h"

enum { MAPPED_SEED = 4711 };

/* Appends key or value i. A key must be in its canonical form, which is hashed. */
typedef void (*mapped_part)(uint64_t i, rs_buffer *raw);

typedef struct mapped_input {
    mapped_part key, value;
    uint64_t n;
    const uint8_t *opaque; /* NULL when no entry is opaque */
    const uint64_t *order; /* 2 n_entries numbers; NULL when no record is dead */
    uint64_t n_entries;    /* only with order */
    uint64_t flush_every;  /* keys per block; 0 for as many as fit */
} mapped_input;

static inline rs_status mapped_add(rs_mapping_builder *b, const mapped_input *input, uint64_t *hashes, rs_error *err) {
    for (uint64_t i = 0; i < input->n; i++) {
        size_t begin = b->keys.raw.size_bytes;
        input->key(i, &b->keys.raw);
        hashes[i] = rs_hash64(b->keys.raw.data + begin, b->keys.raw.size_bytes - begin, MAPPED_SEED);
        input->value(i, &b->values.raw);
        RS_TRY(rs_mapping_builder_end_pair(b, err));
        if (rs_builder_is_full(&b->keys) || (input->flush_every != 0 && (i + 1) % input->flush_every == 0)) {
            RS_TRY(rs_builder_flush(&b->keys, err));
        }
        if (rs_builder_is_full(&b->values)) RS_TRY(rs_builder_flush(&b->values, err));
    }
    return rs_mapping_builder_write_tables(b, err);
}

static inline rs_status mapped_finish(rs_mapping_builder *b, const mapped_input *input, const uint64_t *hashes,
                                      rs_error *err) {
    rs_buffer table = {0};
    uint64_t n = input->order == NULL ? input->n : input->n_entries;
    uint64_t *entry_hashes = (uint64_t *)calloc((size_t)n + 1, 8);
    if (entry_hashes == NULL) abort();
    for (uint64_t i = 0; i < n; i++) entry_hashes[i] = hashes[input->order == NULL ? i : input->order[2 * i]];
    rs_status status = rs_keys_build(entry_hashes, input->opaque, n, MAPPED_SEED, 0, &table, err);
    if (status == RS_OK) status = rs_mapping_builder_finish(b, &table, input->order, n, err);
    rs_buffer_clear(&table);
    free(entry_hashes);
    return status;
}

/* data is NULL after a failure. */
static inline built map_build(const mapped_input *input, bool compress) {
    rs_segment_writer writer;
    rs_mapping_builder builder;
    rs_error err;
    built out = {NULL, 0};
    rs_choices choices = rs_choices_of(compress ? RS_LEVEL_AUTO : RS_LEVEL_NONE);
    uint64_t *hashes = (uint64_t *)calloc((size_t)input->n + 1, 8);
    if (hashes == NULL) abort();
    rs_error_clear(&err);
    if (CHECK_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err)) {
        if (CHECK_OK(rs_mapping_builder_open(&builder, &writer, &choices, &err), &err) &&
            CHECK_OK(mapped_add(&builder, input, hashes, &err), &err) &&
            CHECK_OK(mapped_finish(&builder, input, hashes, &err), &err)) {
            out = built_finish(&writer);
        }
        rs_mapping_builder_close(&builder);
        rs_segment_writer_abort(&writer);
    }
    free(hashes);
    return out;
}

/* ---- Changing bytes of a mapping and making all checksums match again ---- */

typedef struct mapped_layout {
    rs_header header;
    rs_directory stores[2];
} mapped_layout;

/* Reads the layout of an unchanged mapping. */
static inline void mapped_read(const built *b, mapped_layout *out) {
    if (rs_header_read(built_slice(b), NULL, &out->header, NULL) != RS_OK ||
        rs_directory_read(built_slice(b), &out->header, 0, &out->stores[0], NULL) != RS_OK ||
        rs_directory_read(built_slice(b), &out->header, 1, &out->stores[1], NULL) != RS_OK) {
        abort();
    }
}

/* Returns the directory entry of a section of a store. */
static inline uint8_t *mapped_entry(const built *b, const mapped_layout *layout, unsigned store, unsigned kind) {
    uint8_t *e = b->data + layout->header.directory_off;
    return e + 40 * (store == 0 ? kind - 1 : 6 + kind - 2);
}

/* Makes the checksums of heaps, trees, sections (at the offsets in `layout`), directory and header match. */
static inline void mapped_seal(built *b, const mapped_layout *layout) {
    uint32_t count = rs_load_u32(b->data + 68);
    for (unsigned store = 0; store < 2; store++) {
        const rs_section *s = layout->stores[store].sections;
        uint8_t *table = b->data + s[RS_FMT_SECTION_TREE_TABLE].off, *trees = b->data + s[RS_FMT_SECTION_TREES].off;
        for (uint32_t i = 0; i < s[RS_FMT_SECTION_BLOCKS].count; i++) {
            uint8_t *e = b->data + s[RS_FMT_SECTION_BLOCKS].off + 80 * i;
            uint64_t off = rs_load_u64(e + 16), size = rs_load_u64(e + 24);
            if (off <= b->size && size <= b->size - off) rs_store_u32(e + 64, rs_crc32c(0, b->data + off, size));
        }
        for (uint32_t i = 0; i < s[RS_FMT_SECTION_TREE_TABLE].count; i++) {
            uint64_t off = rs_load_u64(table + 16 * i), size = rs_load_u32(table + 16 * i + 8);
            uint64_t all = s[RS_FMT_SECTION_TREES].size_bytes;
            if (off <= all && size <= all - off) rs_store_u32(table + 16 * i + 12, rs_crc32c(0, trees + off, size));
        }
        for (unsigned kind = 2; kind <= RS_FMT_SECTION_LAST; kind++) {
            if (s[kind].off == 0) continue;
            rs_store_u32(mapped_entry(b, layout, store, kind) + 32,
                         rs_crc32c(0, b->data + s[kind].off, s[kind].size_bytes));
        }
    }
    if (count > layout->header.directory_count) count = layout->header.directory_count;
    rs_store_u32(b->data + 108, rs_crc32c(0, b->data + layout->header.directory_off, 40 * count));
    rs_store_u32(b->data + RS_FMT_H_HEADER_CRC, rs_crc32c(0, b->data, RS_FMT_H_HEADER_CRC));
}
