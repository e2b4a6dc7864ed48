/* rs_block_encoding.c: tries trees for a run of values, and writes the tables that they need. */
#include "write/rs_block_encoding.h"

#include <stdlib.h>

#include "base/rs_crc.h"

enum { SHORT_RUN = 8192 }; /* the most values of a run for which the last tree is tried */

void rs_encoded_run_clear(rs_encoded_run *self) {
    rs_buffer_clear(&self->encoded);
    free(self->ends);
    memset(self, 0, sizeof *self);
}

void rs_block_encoding_clear(rs_block_encoding *self) {
    if (self->has_last) {
        rs_tree_clear(&self->last);
        rs_links_clear(&self->last_links);
    }
    rs_dictionaries_clear(&self->dictionaries);
    rs_buffer_clear(&self->trees);
    rs_buffer_clear(&self->tree_table);
    memset(self, 0, sizeof *self);
}

rs_status rs_block_encoding_write(rs_segment_writer *writer, const rs_buffer *part, uint64_t *off, uint32_t *crc,
                                  rs_error *err) {
    RS_TRY(rs_segment_writer_align(writer, RS_FMT_ALIGNMENT, err));
    *off = writer->position;
    *crc = rs_crc32c(0, part->data, part->size_bytes);
    return part->size_bytes == 0 ? RS_OK : rs_segment_writer_append(writer, part->data, part->size_bytes, err);
}

static rs_status no_memory(rs_error *err) { return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a block"); }

static rs_status grow_ends(rs_encoded_run *run, uint32_t n, rs_error *err) {
    uint64_t *ends;
    if (run->capacity >= n) return RS_OK;
    ends = (uint64_t *)realloc(run->ends, n * sizeof *ends);
    if (ends == NULL) return no_memory(err);
    run->ends = ends;
    run->capacity = n;
    return RS_OK;
}

/* Encodes all values under `tree`; RS_E_ARG_RANGE when one does not fit. */
static rs_status encode(const rs_values *values, rs_scan *scan, const rs_tree *tree, rs_encoded_run *out,
                        rs_error *err) {
    uint32_t i;
    out->encoded.size_bytes = 0;
    scan->next = 0;
    for (i = 0; i < values->n; i++) {
        RS_TRY(rs_encode_record(tree, rs_values_at(values, i), scan, &out->encoded, err));
        out->ends[i] = out->encoded.size_bytes;
    }
    return RS_OK;
}

/* Sets *number to that of the tree with these bytes. The tree is added when there is none. */
static rs_status intern_tree(rs_block_encoding *self, const uint8_t *bytes, size_t size, uint32_t *number,
                             rs_error *err) {
    uint8_t entry[RS_FMT_TREE_ENTRY_SIZE];
    uint32_t crc = rs_crc32c(0, bytes, size), i;
    for (i = 0; i < self->n_trees; i++) {
        const uint8_t *e = self->tree_table.data + (size_t)i * RS_FMT_TREE_ENTRY_SIZE;
        if (rs_load_u32(e + 8) == size && rs_load_u32(e + 12) == crc &&
            memcmp(self->trees.data + rs_load_u64(e), bytes, size) == 0) {
            *number = i;
            return RS_OK;
        }
    }
    RS_TRY(rs_buffer_append_zeros(&self->trees,
                                  (size_t)(rs_align_up(self->trees.size_bytes, 8) - self->trees.size_bytes), err));
    rs_store_u64(entry, self->trees.size_bytes);
    rs_store_u32(entry + 8, (uint32_t)size);
    rs_store_u32(entry + 12, crc);
    RS_TRY(rs_buffer_append(&self->trees, bytes, size, err));
    RS_TRY(rs_buffer_append(&self->tree_table, entry, sizeof entry, err));
    *number = self->n_trees++;
    return RS_OK;
}

/* ---- Writing tables: the functions that rs_dictionaries calls ---- */

static rs_status write_run(rs_block_encoding *self, const rs_values *values, rs_encoded_run *run, rs_block *out,
                           rs_error *err) {
    uint32_t i;
    if (run->is_raw) { /* raw values need not be adjacent, so they are copied together into a heap */
        run->encoded.size_bytes = 0;
        for (i = 0; i < values->n; i++) {
            rs_slice value = rs_values_at(values, i);
            RS_TRY(rs_buffer_append(&run->encoded, value.ptr, rs_slice_left(&value), err));
            run->ends[i] = run->encoded.size_bytes;
        }
    }
    memset(out, 0, sizeof *out);
    out->n_records = values->n;
    out->tree = run->tree;
    out->heap_size_bytes = run->encoded.size_bytes;
    RS_TRY(rs_block_encoding_write(self->writer, &run->encoded, &out->heap_off, &out->heap_crc, err));
    out->arrays_off = rs_align_up(self->writer->position, RS_FMT_ALIGNMENT);
    out->index_off = self->offsets->size_bytes; /* relative to OFFSETS; rs_builder.c makes it absolute at the end */
    return rs_offsets_append(run->ends, values->n, out, self->offsets, err);
}

static rs_status write_values(void *owner, const rs_values *values, uint64_t position_id, unsigned hops, rs_block *out,
                              rs_error *err) {
    rs_block_encoding *self = (rs_block_encoding *)owner;
    rs_encoded_run run;
    rs_scan scan;
    rs_status status = RS_OK;
    uint32_t i;
    memset(&run, 0, sizeof run);
    memset(&scan, 0, sizeof scan);
    for (i = 0; status == RS_OK && i < values->n; i++) status = rs_scan_record(&scan, rs_values_at(values, i), 0, err);
    if (status == RS_OK) status = rs_block_encoding_choose(self, values, &scan, position_id, hops, &run, err);
    if (status == RS_OK) status = write_run(self, values, &run, out, err);
    rs_scan_clear(&scan);
    rs_encoded_run_clear(&run);
    return status;
}

static rs_status write_bytes(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *err) {
    rs_block_encoding *self = (rs_block_encoding *)owner;
    memset(out, 0, sizeof *out);
    out->heap_size_bytes = bytes->size_bytes;
    RS_TRY(rs_block_encoding_write(self->writer, bytes, &out->heap_off, &out->heap_crc, err));
    out->arrays_off = rs_align_up(self->writer->position, RS_FMT_ALIGNMENT);
    return RS_OK;
}

/* ---- Choosing a tree ---- */

/* Returns the bytes written so far. While a tree is made they grow only by its tables. */
static uint64_t table_bytes(const rs_block_encoding *self) {
    return self->writer->position + self->dictionaries.tables.size_bytes + self->offsets->size_bytes +
           self->trees.size_bytes;
}

/* Makes a tree for these values, compiled and with its links set. */
static rs_status make_tree(rs_block_encoding *self, const rs_values *values, rs_scan *scan, uint64_t position_id,
                           unsigned hops, rs_tree *tree, rs_links *links, rs_error *err) {
    rs_buffer bytes = {NULL, 0, 0};
    rs_status status = rs_infer_tree(values, scan, &self->dictionaries, position_id, hops, &bytes, links, err);
    memset(tree, 0, sizeof *tree);
    if (status == RS_OK) status = rs_tree_compile(rs_slice_of(bytes.data, bytes.size_bytes), 0, tree, err);
    if (status == RS_OK) {
        rs_tree_take_rests(tree);
        rs_links_apply(links, tree);
    }
    rs_buffer_clear(&bytes);
    return status;
}

/* Tries the tree of the last block for a short run, because a short run seldom saves the bytes of its own tree. Returns
 * true when the tree fits and saves bytes; *out then holds the encoding. */
static bool fits_last(rs_block_encoding *self, const rs_values *values, rs_scan *scan, uint64_t raw,
                      rs_encoded_run *out) {
    if (!self->has_last || values->n > SHORT_RUN) return false;
    if (encode(values, scan, &self->last, out, NULL) != RS_OK || out->encoded.size_bytes >= raw) return false;
    out->tree = self->last_number;
    return true;
}

static rs_status stay_raw(rs_block_encoding *self, rs_encoded_run *out, rs_error *err) {
    rs_buffer bytes = {NULL, 0, 0};
    rs_status status = rs_infer_any_tree(&bytes, err);
    out->is_raw = true;
    if (status == RS_OK) status = intern_tree(self, bytes.data, bytes.size_bytes, &out->tree, err);
    rs_buffer_clear(&bytes);
    return status;
}

/* Keeps a tree as the last one. It takes over what `tree` and `links` own, and zeroes them. */
static void keep_last(rs_block_encoding *self, rs_tree *tree, rs_links *links, uint32_t number) {
    if (self->has_last) {
        rs_tree_clear(&self->last);
        rs_links_clear(&self->last_links);
    }
    self->last = *tree;
    self->last_links = *links;
    self->last_number = number;
    self->has_last = true;
    memset(tree, 0, sizeof *tree);
    memset(links, 0, sizeof *links);
}

rs_status rs_block_encoding_choose(rs_block_encoding *self, const rs_values *values, rs_scan *scan,
                                   uint64_t position_id, unsigned hops, rs_encoded_run *out, rs_error *err) {
    rs_tree tree;
    rs_links links;
    rs_status status;
    uint64_t raw = 0, before, size;
    uint32_t i;
    out->is_raw = false;
    self->dictionaries.owner = self;
    self->dictionaries.write_values = write_values;
    self->dictionaries.write_bytes = write_bytes;
    if (hops == 0) rs_dictionaries_begin_run(&self->dictionaries);
    RS_TRY(grow_ends(out, values->n, err));
    if (!self->compress) return stay_raw(self, out, err);
    for (i = 0; i < values->n; i++) raw += values->spans[i].size_bytes;
    if (hops == 0 && fits_last(self, values, scan, raw, out)) return RS_OK;
    memset(&links, 0, sizeof links);
    before = table_bytes(self);
    status = make_tree(self, values, scan, position_id, hops, &tree, &links, err);
    if (status == RS_OK) status = encode(values, scan, &tree, out, err);
    /* Without a fault in rs_infer or rs_encode, only the limits of a tree keep values from having one. */
    RS_ASSERT(status == RS_OK || status == RS_E_ARG_LIMIT || status == RS_E_FMT_TREE || status == RS_E_MEM ||
              status >= RS_E_SYS);
    size = out->encoded.size_bytes + (table_bytes(self) - before) + tree.size_bytes + RS_FMT_TREE_ENTRY_SIZE;
    if (status == RS_OK && size < raw) {
        self->features |= rs_tree_features(&tree);
        status = intern_tree(self, tree.bytes, tree.size_bytes, &out->tree, err);
        if (status == RS_OK && hops == 0) keep_last(self, &tree, &links, out->tree);
    } else if (status < RS_E_SYS && status != RS_E_MEM) {
        status = stay_raw(self, out, err);
    }
    rs_tree_clear(&tree);
    rs_links_clear(&links);
    return status;
}
