/* rs_builder.c: building side of rs_store.h: collects a block of raw records, chooses its tree, writes it, and
 * closes the segment with tables, directory and header, step by step for rs_mapping.c too. */
#include <stdlib.h>

#include "rs_crc.h"
#include "rs_infer.h"
#include "rs_store.h"

enum { ENTRY_OVERHEAD = RS_FMT_TREE_ENTRY_SIZE };

void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, bool compress) {
    memset(self, 0, sizeof *self);
    self->writer = writer;
    self->compress = compress;
}

rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, bool compress, rs_error *err) {
    static const uint8_t blank[RS_FMT_HEADER_SIZE] = {0};
    rs_builder_begin(self, writer, compress);
    return rs_segment_writer_append(writer, blank, sizeof blank, err);
}

void rs_builder_close(rs_builder *self) {
    rs_buffer_clear(&self->raw);
    rs_buffer_clear(&self->arrays);
    rs_buffer_clear(&self->encoded);
    rs_buffer_clear(&self->offsets);
    rs_buffer_clear(&self->groups);
    rs_buffer_clear(&self->blocks);
    rs_buffer_clear(&self->trees);
    rs_buffer_clear(&self->tree_table);
    rs_buffer_clear(&self->tree_bytes);
    rs_scan_clear(&self->scan);
    free(self->ends);
    free(self->encoded_ends);
    memset(self, 0, sizeof *self);
}

static uint64_t last_end(const rs_builder *self) { return self->n_open == 0 ? 0 : self->ends[self->n_open - 1]; }

void rs_builder_drop_record(rs_builder *self, size_t arrays_mark) {
    self->raw.size_bytes = (size_t)last_end(self);
    self->arrays.size_bytes = arrays_mark;
}

static rs_status grow_ends(rs_builder *self, rs_error *err) {
    size_t capacity = self->ends_capacity == 0 ? 1024 : self->ends_capacity * 2;
    uint64_t *ends = (uint64_t *)realloc(self->ends, capacity * sizeof *ends);
    uint64_t *encoded;
    if (ends != NULL) self->ends = ends;
    encoded = (uint64_t *)realloc(self->encoded_ends, capacity * sizeof *encoded);
    if (encoded != NULL) self->encoded_ends = encoded;
    if (ends == NULL || encoded == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a block");
    self->ends_capacity = capacity;
    return RS_OK;
}

rs_status rs_builder_end_record(rs_builder *self, rs_error *err) {
    uint64_t begin = last_end(self);
    size_t shapes = self->scan.n_shapes;
    rs_slice record = rs_slice_of(self->raw.data + begin, self->raw.size_bytes - (size_t)begin);
    rs_status status;
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    if (self->n_open == self->ends_capacity) RS_TRY(grow_ends(self, err));
    status = rs_scan_record(&self->scan, record, self->arrays.size_bytes, err);
    if (status != RS_OK) {
        self->scan.n_shapes = shapes;
        self->raw.size_bytes = (size_t)begin;
        if (err != NULL) err->record = self->n_records;
        return status;
    }
    self->ends[self->n_open++] = self->raw.size_bytes;
    self->n_records++;
    return RS_OK;
}

void rs_builder_pop_record(rs_builder *self, size_t shapes) {
    RS_ASSERT(self->n_open > 0);
    self->n_open--;
    self->n_records--;
    self->raw.size_bytes = (size_t)last_end(self);
    self->scan.n_shapes = shapes;
}

/* Encodes the open block as `tree`; RS_E_ARG_RANGE when a record does not fit. */
static rs_status encode_block(rs_builder *self, const rs_tree *tree, rs_error *err) {
    uint32_t i;
    uint64_t begin = 0;
    self->encoded.size_bytes = 0;
    self->scan.next = 0;
    for (i = 0; i < self->n_open; i++) {
        rs_slice record;
        record.ptr = self->raw.data + begin;
        record.end = self->raw.data + self->ends[i];
        begin = self->ends[i];
        RS_TRY(rs_encode_record(tree, record, &self->scan, &self->encoded, err));
        self->encoded_ends[i] = self->encoded.size_bytes;
    }
    return RS_OK;
}

/* The number of a tree with these bytes: an old one, or a new one added. */
static rs_status intern_tree(rs_builder *self, const uint8_t *bytes, size_t size, uint32_t *number, rs_error *err) {
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
    RS_TRY(rs_buffer_append_zeros(
        &self->trees, (size_t)(rs_align_up(self->trees.size_bytes, 8) - self->trees.size_bytes), err));
    rs_store_u64(entry, self->trees.size_bytes);
    rs_store_u32(entry + 8, (uint32_t)size);
    rs_store_u32(entry + 12, crc);
    RS_TRY(rs_buffer_append(&self->trees, bytes, size, err));
    RS_TRY(rs_buffer_append(&self->tree_table, entry, sizeof entry, err));
    *number = self->n_trees++;
    return RS_OK;
}

/* Encodes the block with the last block's tree; *size is what that takes. False where it does not fit. */
static bool fits_last_tree(rs_builder *self, uint64_t *size) {
    rs_tree tree;
    const uint8_t *e;
    bool fits;
    if (self->last_tree == 0) return false;
    e = self->tree_table.data + (size_t)(self->last_tree - 1) * RS_FMT_TREE_ENTRY_SIZE;
    if (rs_tree_compile(rs_slice_of(self->trees.data + rs_load_u64(e), rs_load_u32(e + 8)), 0, &tree, NULL) != RS_OK) {
        return false;
    }
    fits = encode_block(self, &tree, NULL) == RS_OK;
    rs_tree_clear(&tree);
    *size = self->encoded.size_bytes;
    return fits;
}

/* Leaves the block's best form in `encoded` (or, for `any`, in raw) and its tree's number. A new tree is added only
 * where it saves more than its own bytes, against `any` and against the last block's tree. */
static rs_status choose_form(rs_builder *self, uint32_t *number, bool *is_raw, rs_error *err) {
    rs_tree tree;
    rs_status status = RS_OK;
    uint64_t best = self->raw.size_bytes, size, last = 0;
    *is_raw = true;
    self->tree_bytes.size_bytes = 0;
    if (self->compress) {
        status = rs_infer_tree(rs_slice_of(self->raw.data, self->raw.size_bytes), self->ends, self->n_open, &self->scan,
                               &self->tree_bytes, err);
        if (status == RS_OK) {
            status = rs_tree_compile(rs_slice_of(self->tree_bytes.data, self->tree_bytes.size_bytes), 0, &tree, err);
        }
        if (status == RS_OK) {
            status = encode_block(self, &tree, err);
            rs_tree_clear(&tree);
        }
        if (status == RS_E_MEM) return status;
        /* The limits of a tree are the one reason not to have one; anything else is a mistake of infer or encode. */
        RS_ASSERT(status == RS_OK || status == RS_E_ARG_LIMIT || status == RS_E_FMT_TREE);
    }
    if (self->compress && status == RS_OK) {
        size = self->encoded.size_bytes + self->tree_bytes.size_bytes + ENTRY_OVERHEAD;
        if (size < best) {
            *is_raw = false;
            best = size;
        }
        /* A short block seldom pays for a tree of its own: the one before may do. */
        if (self->n_open < RS_FMT_BLOCK_RECORDS && self->tree_bytes.size_bytes * 16 > self->encoded.size_bytes) {
            if (fits_last_tree(self, &last) && last <= best) {
                *is_raw = false;
                *number = self->last_tree - 1;
                return RS_OK;
            }
            if (!*is_raw) {
                RS_TRY(rs_tree_compile(rs_slice_of(self->tree_bytes.data, self->tree_bytes.size_bytes), 0, &tree, err));
                status = encode_block(self, &tree, err);
                rs_tree_clear(&tree);
                RS_TRY(status);
            }
        }
    }
    if (*is_raw) {
        self->tree_bytes.size_bytes = 0;
        RS_TRY(rs_infer_any_tree(&self->tree_bytes, err));
    }
    return intern_tree(self, self->tree_bytes.data, self->tree_bytes.size_bytes, number, err);
}

static rs_status write_part(rs_builder *self, const rs_buffer *part, uint64_t *off, uint32_t *crc, rs_error *err) {
    RS_TRY(rs_segment_writer_align(self->writer, RS_FMT_ALIGNMENT, err));
    *off = self->writer->position;
    *crc = rs_crc32c(0, part->data, part->size_bytes);
    return part->size_bytes == 0 ? RS_OK : rs_segment_writer_append(self->writer, part->data, part->size_bytes, err);
}

/* GROUPS entries for the groups that begin in this block. */
static rs_status add_groups(rs_builder *self, uint64_t first_record, uint32_t block_number, rs_error *err) {
    uint64_t n = (self->n_records + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS, g;
    uint8_t entry[4];
    rs_store_u32(entry, block_number);
    for (g = (first_record + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS; g < n; g++) {
        RS_TRY(rs_buffer_append(&self->groups, entry, sizeof entry, err));
    }
    return RS_OK;
}

rs_status rs_builder_flush(rs_builder *self, rs_error *err) {
    rs_block block;
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    bool is_raw;
    const rs_buffer *heap;
    if (self->n_open == 0) return RS_OK;
    memset(&block, 0, sizeof block);
    RS_TRY(choose_form(self, &block.tree, &is_raw, err));
    heap = is_raw ? &self->raw : &self->encoded;
    block.first_record = self->n_records - self->n_open;
    block.n_records = self->n_open;
    block.heap_size_bytes = heap->size_bytes;
    block.arrays_size_bytes = self->arrays.size_bytes;
    RS_TRY(write_part(self, heap, &block.heap_off, &block.heap_crc, err));
    RS_TRY(write_part(self, &self->arrays, &block.arrays_off, &block.arrays_crc, err));
    block.index_off = self->offsets.size_bytes; /* from the section's start until finish knows where that is */
    RS_TRY(rs_offsets_append(is_raw ? self->ends : self->encoded_ends, self->n_open, &block, &self->offsets, err));
    RS_TRY(add_groups(self, block.first_record, (uint32_t)(self->blocks.size_bytes / RS_FMT_BLOCK_SIZE), err));
    rs_block_write(&block, entry);
    RS_TRY(rs_buffer_append(&self->blocks, entry, sizeof entry, err));
    self->raw_size += self->raw.size_bytes + self->arrays.size_bytes;
    self->last_tree = block.tree + 1;
    self->raw.size_bytes = 0;
    self->arrays.size_bytes = 0;
    self->n_open = 0;
    rs_scan_reset(&self->scan);
    /* One giant record must not keep its buffers for the rest of the build. */
    if (self->raw.capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(&self->raw);
    if (self->encoded.capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(&self->encoded);
    if (self->arrays.capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(&self->arrays);
    return RS_OK;
}

rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count, rs_section *out,
                                   rs_error *err) {
    out->size_bytes = bytes->size_bytes;
    out->count = count;
    return write_part(self, bytes, &out->off, &out->crc, err);
}

/* Turns index offsets from section-relative to absolute. */
static void place_index(rs_builder *self, uint64_t section_off) {
    size_t i;
    for (i = 0; i < self->blocks.size_bytes; i += RS_FMT_BLOCK_SIZE) {
        uint8_t *e = self->blocks.data + i;
        uint64_t off = rs_load_u64(e + RS_FMT_B_INDEX_OFFSET);
        rs_store_u64(e + RS_FMT_B_INDEX_OFFSET, e[RS_FMT_B_INDEX_WIDTH] == 0 ? 0 : off + section_off);
    }
}

rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, rs_section *heap, rs_error *err) {
    RS_TRY(rs_segment_writer_align(self->writer, RS_FMT_ALIGNMENT, err));
    heap->off = RS_FMT_HEADER_SIZE;
    heap->size_bytes = self->writer->position - RS_FMT_HEADER_SIZE;
    heap->count = n_blocks;
    heap->crc = 0;
    return RS_OK;
}

rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err) {
    rs_section *sections = directory->sections;
    RS_TRY(rs_builder_write_section(self, &self->offsets, 0, &sections[RS_FMT_SECTION_OFFSETS], err));
    place_index(self, sections[RS_FMT_SECTION_OFFSETS].off);
    RS_TRY(rs_builder_write_section(self, &self->groups, self->groups.size_bytes / 4, &sections[RS_FMT_SECTION_GROUPS],
                                    err));
    RS_TRY(rs_builder_write_section(self, &self->blocks, rs_builder_n_blocks(self), &sections[RS_FMT_SECTION_BLOCKS],
                                    err));
    RS_TRY(rs_builder_write_section(self, &self->trees, self->n_trees, &sections[RS_FMT_SECTION_TREES], err));
    return rs_builder_write_section(self, &self->tree_table, self->n_trees, &sections[RS_FMT_SECTION_TREE_TABLE], err);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void rs_builder_describe(const rs_builder *self, rs_header *header) {
    header->features_required |= self->features_required | self->scan.features;
    header->n_records = self->n_records;
    header->max_values = larger(header->max_values, self->scan.max_values);
    header->max_bytes = larger(header->max_bytes, self->scan.max_bytes);
    header->max_depth = (uint32_t)larger(header->max_depth, self->scan.max_depth);
    header->raw_size += self->raw_size;
}

rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                  const rs_directory *keys, rs_error *err) {
    uint8_t bytes[RS_FMT_HEADER_SIZE];
    uint32_t crc;
    rs_directory all = *directory;
    self->raw.size_bytes = 0;
    if (rs_slice_left(&self->label) > 0) {
        RS_TRY(rs_buffer_append(&self->raw, self->label.ptr, rs_slice_left(&self->label), err));
        RS_TRY(rs_builder_write_section(self, &self->raw, self->label_pairs, &all.label, err));
        self->raw.size_bytes = 0;
    }
    RS_TRY(rs_directory_write(&all, keys, header, &self->raw, err));
    RS_TRY(write_part(self, &self->raw, &header->directory_off, &crc, err));
    header->segment_size = self->writer->position;
    header->created_ns = rs_os_now_ns();
    RS_TRY(rs_os_random(header->segment_id, sizeof header->segment_id, err));
    rs_header_write(header, bytes);
    return rs_segment_writer_write_at(self->writer, 0, bytes, sizeof bytes, err);
}

rs_status rs_builder_finish(rs_builder *self, rs_error *err) {
    rs_header header;
    rs_directory directory;
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    self->finished = true;
    memset(&header, 0, sizeof header);
    memset(&directory, 0, sizeof directory);
    RS_TRY(rs_builder_flush(self, err));
    RS_TRY(rs_builder_end_heap(self, rs_builder_n_blocks(self), &directory.sections[RS_FMT_SECTION_HEAP], err));
    RS_TRY(rs_builder_write_tables(self, &directory, err));
    header.content = RS_FMT_CONTENT_LIST;
    rs_builder_describe(self, &header);
    return rs_builder_write_header(self, &header, &directory, NULL, err);
}
