/* rs_block_encoding.c: makes trees for runs of values, and writes the tables that they need. */
#include "write/rs_block_encoding.h"

#include <stdlib.h>

#include "base/rs_crc.h"

enum { PROBED = 64 /* records from whose bytes those of a run are estimated */ };

void rs_settled_clear(rs_settled *self) {
    rs_tree_clear(&self->tree);
    rs_links_clear(&self->links);
    memset(self, 0, sizeof *self);
}

void rs_block_encoding_clear(rs_block_encoding *self) {
    rs_settled_clear(&self->last);
    rs_dictionaries_clear(&self->dictionaries);
    rs_buffer_clear(&self->trees);
    rs_buffer_clear(&self->tree_table);
    memset(self, 0, sizeof *self);
}

rs_status rs_block_encoding_write(rs_segment_writer *writer, const rs_slice *parts, size_t n, uint64_t *off,
                                  uint32_t *crc, rs_error *err) {
    RS_TRY(rs_segment_writer_align(writer, RS_FMT_ALIGNMENT, err));
    *off = writer->position;
    *crc = 0;
    for (size_t i = 0; i < n; i++) {
        size_t size = rs_slice_left(&parts[i]);
        if (size == 0) continue;
        *crc = rs_crc32c(*crc, parts[i].ptr, size);
        RS_TRY(rs_segment_writer_append(writer, parts[i].ptr, size, err));
    }
    return RS_OK;
}

rs_status rs_block_encoding_add_tree(rs_block_encoding *self, const uint8_t *bytes, size_t size, uint32_t *number,
                                     rs_error *err) {
    uint32_t crc = rs_crc32c(0, bytes, size);
    for (uint32_t i = 0; i < self->n_trees; i++) {
        const uint8_t *e = self->tree_table.data + (size_t)i * RS_FMT_TREE_ENTRY_SIZE;
        if (rs_load_u32(e + 8) == size && rs_load_u32(e + 12) == crc &&
            memcmp(self->trees.data + rs_load_u64(e), bytes, size) == 0) {
            *number = i;
            return RS_OK;
        }
    }
    return rs_block_encoding_append_tree(self, bytes, size, number, err);
}

rs_status rs_block_encoding_append_tree(rs_block_encoding *self, const uint8_t *bytes, size_t size, uint32_t *number,
                                        rs_error *err) {
    uint8_t entry[RS_FMT_TREE_ENTRY_SIZE];
    RS_TRY(rs_buffer_append_zeros(&self->trees,
                                  (size_t)(rs_align_up(self->trees.size_bytes, 8) - self->trees.size_bytes), err));
    rs_store_u64(entry, self->trees.size_bytes);
    rs_store_u32(entry + 8, (uint32_t)size);
    rs_store_u32(entry + 12, rs_crc32c(0, bytes, size));
    RS_TRY(rs_buffer_append(&self->trees, bytes, size, err));
    RS_TRY(rs_buffer_append(&self->tree_table, entry, sizeof entry, err));
    *number = self->n_trees++;
    return RS_OK;
}

/* Returns the bytes of the store so far. While a tree is made, only its tables add to them. They include the next
 * padding, because taking a block parcel between two calls may write it. */
static uint64_t table_bytes(const rs_block_encoding *self) {
    return self->taken_bytes + rs_align_up(self->writer->position, RS_FMT_ALIGNMENT) +
           self->dictionaries.tables.size_bytes + self->offsets->size_bytes + self->trees.size_bytes;
}

/* ---- Writing tables: the functions that rs_dictionaries calls ---- */

/* A table that is being written. */
typedef struct table {
    const rs_values *values;
    rs_scan scan;
    rs_stats survey;
    rs_settled settled;
    rs_buffer encoded;
    uint64_t *ends;
    uint32_t tree;
} table;

static rs_status encode_table(rs_block_encoding *self, table *t, uint64_t position_id, unsigned table_depth,
                              rs_error *err) {
    bool is_raw = false;
    for (uint32_t i = 0; i < t->values->n; i++) RS_TRY(rs_scan_record(&t->scan, rs_values_at(t->values, i), 0, err));
    t->settled.before = table_bytes(self);
    t->survey.values = *t->values;
    t->survey.scan = &t->scan;
    t->survey.choices = &self->choices;
    t->survey.hints = &self->dictionaries.attempts;
    t->survey.run = self->dictionaries.run;
    rs_status status = rs_infer_survey(&t->survey, position_id, err);
    if (status == RS_OK) status = rs_block_encoding_settle(self, &t->survey, table_depth, &t->settled, err);
    if (status == RS_OK) {
        status = rs_block_encoding_encode(&t->settled, t->values, 0, t->values->n, &t->scan, NULL, &t->encoded, t->ends,
                                          err);
    }
    RS_TRY(rs_block_encoding_accept(self, &t->settled, status, t->survey.raw_bytes, t->encoded.size_bytes, table_depth,
                                    &t->tree, &is_raw, err));
    if (!is_raw) return RS_OK;
    t->encoded.size_bytes = 0; /* raw values may not be adjacent, so copy them into a heap */
    for (uint32_t i = 0; i < t->values->n; i++) {
        rs_slice value = rs_values_at(t->values, i);
        RS_TRY(rs_buffer_append(&t->encoded, value.ptr, rs_slice_left(&value), err));
        t->ends[i] = t->encoded.size_bytes;
    }
    return RS_OK;
}

static rs_status write_heap(rs_block_encoding *self, const rs_buffer *bytes, rs_block *out, rs_error *err) {
    rs_slice part = rs_slice_of(bytes->data, bytes->size_bytes);
    out->heap_size_bytes = bytes->size_bytes;
    RS_TRY(rs_block_encoding_write(self->writer, &part, 1, &out->heap_off, &out->heap_crc, err));
    out->arrays_off = rs_align_up(self->writer->position, RS_FMT_ALIGNMENT);
    return RS_OK;
}

static rs_status write_table(rs_block_encoding *self, table *t, rs_block *out, rs_error *err) {
    out->n_records = t->values->n;
    out->tree = t->tree;
    RS_TRY(write_heap(self, &t->encoded, out, err));
    out->index_off = self->offsets->size_bytes; /* relative to OFFSETS; rs_builder.c makes it absolute at the end */
    return rs_offsets_append(t->ends, t->values->n, rs_choices_allow_lines(&self->choices), out, self->offsets, err);
}

static rs_status write_values(void *owner, const rs_values *values, uint64_t position_id, unsigned table_depth,
                              rs_block *out, rs_error *err) {
    rs_block_encoding *self = (rs_block_encoding *)owner;
    table *t = (table *)calloc(1, sizeof *t);
    memset(out, 0, sizeof *out);
    if (t == NULL) return rs_no_memory(err);
    t->values = values;
    t->ends = (uint64_t *)malloc((values->n + (size_t)1) * sizeof *t->ends);
    rs_status status = t->ends == NULL ? rs_no_memory(err) : encode_table(self, t, position_id, table_depth, err);
    if (status == RS_OK) status = write_table(self, t, out, err);
    rs_stats_clear(&t->survey);
    rs_scan_clear(&t->scan);
    rs_settled_clear(&t->settled);
    rs_buffer_clear(&t->encoded);
    free(t->ends);
    free(t);
    return status;
}

static rs_status write_bytes(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *err) {
    memset(out, 0, sizeof *out);
    return write_heap((rs_block_encoding *)owner, bytes, out, err);
}

/* ---- The steps of a run ---- */

void rs_block_encoding_begin(rs_block_encoding *self) {
    self->dictionaries.owner = self;
    self->dictionaries.choices = &self->choices;
    self->dictionaries.write_values = write_values;
    self->dictionaries.write_bytes = write_bytes;
    rs_dictionaries_begin_run(&self->dictionaries);
}

rs_status rs_block_encoding_settle(rs_block_encoding *self, rs_stats *survey, unsigned table_depth, rs_settled *out,
                                   rs_error *err) {
    rs_buffer bytes = {0};
    memset(out, 0, sizeof *out);
    out->before = table_bytes(self);
    rs_status status = rs_infer_tree(survey, &self->dictionaries, table_depth, &bytes, &out->links, err);
    if (status == RS_OK) status = rs_tree_compile(rs_slice_of(bytes.data, bytes.size_bytes), 0, &out->tree, err);
    if (status == RS_OK) {
        rs_tree_take_rests(&out->tree);
        rs_links_apply(&out->links, &out->tree);
    }
    rs_buffer_clear(&bytes);
    return status;
}

/* Makes room for n more records, which take as much as the first ones on average. */
static rs_status reserve_rest(rs_buffer *out, rs_places_part *places, size_t n, rs_error *err) {
    RS_TRY(rs_buffer_reserve(out, out->size_bytes / PROBED * n, err));
    for (uint32_t i = 0; places != NULL && i < places->n_nodes; i++) {
        rs_placed_values *v = &places->nodes[i];
        RS_TRY(rs_buffer_reserve(&v->locals, v->locals.size_bytes / PROBED * n, err));
        RS_TRY(rs_buffer_reserve(&v->values, v->values.size_bytes / PROBED * n, err));
    }
    return RS_OK;
}

rs_status rs_block_encoding_encode(const rs_settled *settled, const rs_values *values, uint32_t first, uint32_t n,
                                   rs_scan *scan, rs_places_part *places, rs_buffer *out, uint64_t *ends,
                                   rs_error *err) {
    scan->next = 0;
    if (places != NULL) RS_TRY(rs_places_part_begin(places, &settled->tree, err));
    for (uint32_t i = 0; i < n; i++) {
        /* The first records show the size of the others: growing a buffer step by step copies it again and again. */
        if (i == PROBED) RS_TRY(reserve_rest(out, places, n - i, err));
        if (places != NULL) places->local = first + i;
        RS_TRY(rs_encode_placed_record(&settled->tree, rs_values_at(values, first + i), scan, places, out, err));
        ends[i] = out->size_bytes;
    }
    return RS_OK;
}

rs_status rs_block_encoding_stay_raw(rs_block_encoding *self, uint32_t *tree, rs_error *err) {
    rs_buffer bytes = {0};
    rs_status status = rs_infer_any_tree(&bytes, err);
    if (status == RS_OK) status = rs_block_encoding_add_tree(self, bytes.data, bytes.size_bytes, tree, err);
    rs_buffer_clear(&bytes);
    return status;
}

rs_status rs_block_encoding_accept(rs_block_encoding *self, rs_settled *settled, rs_status status, uint64_t raw,
                                   uint64_t encoded, unsigned table_depth, uint32_t *tree, bool *is_raw,
                                   rs_error *err) {
    uint64_t size = encoded + (table_bytes(self) - settled->before) + settled->tree.size_bytes + RS_FMT_TREE_ENTRY_SIZE;
    /* Any other error is a fault in rs_infer or rs_encode. */
    RS_ASSERT(status == RS_OK || status == RS_E_ARG_LIMIT || status == RS_E_FMT_TREE || status == RS_E_MEM ||
              status >= RS_E_SYS);
    if (status == RS_E_MEM || status >= RS_E_SYS) return status;
    *is_raw = status != RS_OK || size >= raw;
    if (*is_raw) return rs_block_encoding_stay_raw(self, tree, err);
    self->features |= rs_tree_features(&settled->tree);
    RS_TRY(rs_block_encoding_add_tree(self, settled->tree.bytes, settled->tree.size_bytes, tree, err));
    if (table_depth > 0) return RS_OK;
    rs_settled_clear(&self->last);
    self->last = *settled;
    self->last_number = *tree;
    self->has_last = true;
    memset(settled, 0, sizeof *settled);
    return RS_OK;
}
