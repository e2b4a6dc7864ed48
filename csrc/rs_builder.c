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

/* Waits for the flusher's thread, whosever block it has; RS_E_* where that block, or an earlier one, failed. */
static rs_status settle(rs_builder *self, rs_error *err) {
    rs_builder *other = self->flusher == NULL ? NULL : self->flusher->builder;
    if (self->writer->process_id != rs_os_process_id()) {
        return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE,
                            "a forked child cannot go on with a build of its parent");
    }
    if (other != NULL) {
        rs_os_thread_join(&self->flusher->thread);
        self->flusher->builder = NULL;
    } else {
        other = self;
    }
    if (other->failed == RS_OK) other = self;
    if (other->failed != RS_OK && err != NULL) *err = other->failure;
    return other->failed;
}

static void clear_block(rs_block_input *block) {
    rs_buffer_clear(&block->raw);
    rs_buffer_clear(&block->arrays);
    rs_scan_clear(&block->scan);
    free(block->ends);
}

void rs_builder_close(rs_builder *self) {
    bool has_thread = self->flusher != NULL && self->flusher->builder == self;
    bool is_left = has_thread && self->flusher->process_id != rs_os_process_id();
    if (has_thread && !is_left) (void)settle(self, NULL);
    rs_buffer_clear(&self->raw);
    rs_buffer_clear(&self->arrays);
    rs_scan_clear(&self->scan);
    free(self->ends);
    if (!is_left) {
        clear_block(&self->block);
        rs_buffer_clear(&self->encoded);
        rs_buffer_clear(&self->offsets);
        rs_buffer_clear(&self->groups);
        rs_buffer_clear(&self->blocks);
        rs_buffer_clear(&self->trees);
        rs_buffer_clear(&self->tree_table);
        rs_buffer_clear(&self->tree_bytes);
        free(self->encoded_ends);
    }
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
    if (ends == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a block");
    self->ends = ends;
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

/* ---- Writing a block: only the builder's `block`, and what it owns of the output, may be looked at here ---- */

/* Encodes the block as `tree`; RS_E_ARG_RANGE when a record does not fit. */
static rs_status encode_block(rs_builder *self, const rs_tree *tree, rs_error *err) {
    rs_block_input *block = &self->block;
    uint32_t i;
    uint64_t begin = 0;
    self->encoded.size_bytes = 0;
    block->scan.next = 0;
    for (i = 0; i < block->n_records; i++) {
        rs_slice record;
        record.ptr = block->raw.data + begin;
        record.end = block->raw.data + block->ends[i];
        begin = block->ends[i];
        RS_TRY(rs_encode_record(tree, record, &block->scan, &self->encoded, err));
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
    rs_block_input *block = &self->block;
    rs_tree tree;
    rs_status status = RS_OK;
    uint64_t best = block->raw.size_bytes, size, last = 0;
    *is_raw = true;
    self->tree_bytes.size_bytes = 0;
    if (self->compress) {
        status = rs_infer_tree(rs_slice_of(block->raw.data, block->raw.size_bytes), block->ends, block->n_records,
                               &block->scan, &self->tree_bytes, err);
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
        if (block->n_records < RS_FMT_BLOCK_RECORDS && self->tree_bytes.size_bytes * 16 > self->encoded.size_bytes) {
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

/* GROUPS entries for the groups that begin in the block. */
static rs_status add_groups(rs_builder *self, uint32_t block_number, rs_error *err) {
    uint64_t first = self->block.first_record, end = first + self->block.n_records;
    uint64_t n = (end + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS, g;
    uint8_t entry[4];
    rs_store_u32(entry, block_number);
    for (g = (first + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS; g < n; g++) {
        RS_TRY(rs_buffer_append(&self->groups, entry, sizeof entry, err));
    }
    return RS_OK;
}

static rs_status grow_encoded_ends(rs_builder *self, rs_error *err) {
    uint64_t *ends;
    if (self->encoded_capacity >= self->block.n_records) return RS_OK;
    ends = (uint64_t *)realloc(self->encoded_ends, self->block.ends_capacity * sizeof *ends);
    if (ends == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a block");
    self->encoded_ends = ends;
    self->encoded_capacity = self->block.ends_capacity;
    return RS_OK;
}

/* One giant record must not keep its buffers for the rest of the build. */
static void empty(rs_buffer *buffer) {
    buffer->size_bytes = 0;
    if (buffer->capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(buffer);
}

static rs_status write_block(rs_builder *self, rs_error *err) {
    rs_block_input *input = &self->block;
    rs_block block;
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    bool is_raw;
    const rs_buffer *heap;
    memset(&block, 0, sizeof block);
    RS_TRY(grow_encoded_ends(self, err));
    RS_TRY(choose_form(self, &block.tree, &is_raw, err));
    heap = is_raw ? &input->raw : &self->encoded;
    block.first_record = input->first_record;
    block.n_records = input->n_records;
    block.heap_size_bytes = heap->size_bytes;
    block.arrays_size_bytes = input->arrays.size_bytes;
    RS_TRY(write_part(self, heap, &block.heap_off, &block.heap_crc, err));
    RS_TRY(write_part(self, &input->arrays, &block.arrays_off, &block.arrays_crc, err));
    block.index_off = self->offsets.size_bytes; /* from the section's start until finish knows where that is */
    RS_TRY(rs_offsets_append(is_raw ? input->ends : self->encoded_ends, input->n_records, &block, &self->offsets, err));
    RS_TRY(add_groups(self, (uint32_t)(self->blocks.size_bytes / RS_FMT_BLOCK_SIZE), err));
    rs_block_write(&block, entry);
    RS_TRY(rs_buffer_append(&self->blocks, entry, sizeof entry, err));
    self->raw_size += input->raw.size_bytes + input->arrays.size_bytes;
    self->last_tree = block.tree + 1;
    input->n_records = 0;
    rs_scan_reset(&input->scan);
    empty(&input->raw);
    empty(&input->arrays);
    empty(&self->encoded);
    return RS_OK;
}

/* What a thread runs, and who has none. */
static void write_and_remember(void *builder) {
    rs_builder *self = (rs_builder *)builder;
    self->failed = write_block(self, &self->failure);
}

/* ---- Handing a block over ---- */

/* The open block becomes `block`, whose empty buffers are those of the next one. */
static void exchange(rs_builder *self) {
    rs_block_input next = self->block;
    self->block.raw = self->raw;
    self->block.arrays = self->arrays;
    self->block.ends = self->ends;
    self->block.ends_capacity = self->ends_capacity;
    self->block.n_records = self->n_open;
    self->block.first_record = self->n_records - self->n_open;
    self->block.scan = self->scan;
    /* Maxima and features are the segment's, and stay with the records that come. */
    self->scan.shapes = next.scan.shapes;
    self->scan.capacity = next.scan.capacity;
    rs_scan_reset(&self->scan);
    self->raw = next.raw;
    self->arrays = next.arrays;
    self->ends = next.ends;
    self->ends_capacity = next.ends_capacity;
    self->n_open = 0;
}

static rs_status flush(rs_builder *self, bool beside, rs_error *err) {
    RS_TRY(settle(self, err));
    if (self->n_open == 0) return RS_OK;
    /* A giant record and its successors at once would be more memory than without a thread. */
    if (self->raw.size_bytes + self->arrays.size_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) beside = false;
    exchange(self);
    if (beside && self->flusher != NULL &&
        rs_os_thread_start(&self->flusher->thread, write_and_remember, self, NULL) == RS_OK) {
        self->flusher->builder = self;
        self->flusher->process_id = rs_os_process_id();
        return RS_OK;
    }
    write_and_remember(self);
    if (self->failed == RS_OK) exchange(self); /* without a thread one set of buffers does */
    return settle(self, err);
}

rs_status rs_builder_flush(rs_builder *self, rs_error *err) { return flush(self, false, err); }

rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err) { return flush(self, true, err); }

/* ---- Finishing ---- */

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
