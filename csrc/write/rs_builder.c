/* rs_builder.c: collects the raw records of a block, has the block encoded, writes it, and ends the segment with
 * tables, directory and header. */
#include "write/rs_builder.h"

#include <stdlib.h>

#include "base/rs_crc.h"

void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, bool compress) {
    memset(self, 0, sizeof *self);
    self->writer = writer;
    self->encoding.writer = writer;
    self->encoding.offsets = &self->offsets;
    self->encoding.compress = compress;
}

rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, bool compress, rs_error *err) {
    static const uint8_t blank[RS_FMT_HEADER_SIZE] = {0};
    rs_builder_begin(self, writer, compress);
    return rs_segment_writer_append(writer, blank, sizeof blank, err);
}

/* Waits for the flusher's thread, which may be writing a block of another builder. Returns the failure of that block,
 * or of an earlier block of this builder. RS_E_STATE_FINISHED in a forked child. */
static rs_status settle(rs_builder *self, rs_error *err) {
    rs_builder *other = self->flusher == NULL ? NULL : self->flusher->builder;
    if (self->writer->process_id != rs_os_process_id()) {
        return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE,
                            "a forked child cannot continue a build of its parent");
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
        rs_encoded_run_clear(&self->run);
        rs_block_encoding_clear(&self->encoding);
        rs_buffer_clear(&self->offsets);
        rs_buffer_clear(&self->groups);
        rs_buffer_clear(&self->blocks);
        free(self->spans);
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
    size_t key_sets = self->scan.n_key_sets;
    rs_slice record = rs_slice_of(self->raw.data + begin, self->raw.size_bytes - (size_t)begin);
    rs_status status;
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    if (self->n_open == self->ends_capacity) RS_TRY(grow_ends(self, err));
    status = rs_scan_record(&self->scan, record, self->arrays.size_bytes, err);
    if (status != RS_OK) {
        self->scan.n_key_sets = key_sets;
        self->raw.size_bytes = (size_t)begin;
        if (err != NULL) err->record = self->n_records;
        return status;
    }
    self->ends[self->n_open++] = self->raw.size_bytes;
    self->n_records++;
    return RS_OK;
}

rs_status rs_builder_end_record_unchecked(rs_builder *self, const rs_scan_counts *counts, rs_error *err) {
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    if (self->n_open == self->ends_capacity) RS_TRY(grow_ends(self, err));
    rs_scan_note_unchecked(&self->scan, self->raw.size_bytes - last_end(self), counts);
    self->ends[self->n_open++] = self->raw.size_bytes;
    self->n_records++;
    return RS_OK;
}

void rs_builder_pop_record(rs_builder *self, size_t key_sets) {
    RS_ASSERT(self->n_open > 0);
    self->n_open--;
    self->n_records--;
    self->raw.size_bytes = (size_t)last_end(self);
    self->scan.n_key_sets = key_sets;
}

/* ---- Writing a block. The flusher's thread runs these functions, so they use only the fields from `block` on. ---- */

/* Adds the elements of GROUPS for the groups that begin in the block. */
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

/* Lists the block's records as values. RS_E_ARG_LIMIT when an offset does not fit a span. */
static rs_status list_records(rs_builder *self, rs_values *out, rs_error *err) {
    const rs_block_input *block = &self->block;
    uint64_t begin = 0;
    uint32_t i;
    if (block->raw.size_bytes > UINT32_MAX) return RS_E_ARG_LIMIT;
    if (self->spans_capacity < block->n_records) {
        rs_span *spans = (rs_span *)realloc(self->spans, block->ends_capacity * sizeof *spans);
        if (spans == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a block");
        self->spans = spans;
        self->spans_capacity = block->ends_capacity;
    }
    for (i = 0; i < block->n_records; i++) {
        self->spans[i].off = (uint32_t)begin;
        self->spans[i].size_bytes = (uint32_t)(block->ends[i] - begin);
        begin = block->ends[i];
    }
    out->base = block->raw.data;
    out->spans = self->spans;
    out->n = block->n_records;
    return RS_OK;
}

/* Leaves the block's encoding in `run`. */
static rs_status choose_encoding(rs_builder *self, rs_error *err) {
    rs_values values = {NULL, NULL, 0};
    bool compress = self->encoding.compress;
    rs_status status = list_records(self, &values, err);
    if (status == RS_E_ARG_LIMIT) self->encoding.compress = false; /* a block of 4 GiB or more stays raw */
    else RS_TRY(status);
    status = rs_block_encoding_choose(&self->encoding, &values, &self->block.scan, 0, 0, &self->run, err);
    self->encoding.compress = compress;
    return status;
}

/* Empties a buffer. It frees a very large one, so that one giant record does not take memory until the end. */
static void empty(rs_buffer *buffer) {
    buffer->size_bytes = 0;
    if (buffer->capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(buffer);
}

static rs_status write_block(rs_builder *self, rs_error *err) {
    rs_block_input *input = &self->block;
    rs_block block;
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    const rs_buffer *heap;
    memset(&block, 0, sizeof block);
    RS_TRY(choose_encoding(self, err));
    heap = self->run.is_raw ? &input->raw : &self->run.encoded;
    block.tree = self->run.tree;
    block.first_record = input->first_record;
    block.n_records = input->n_records;
    block.heap_size_bytes = heap->size_bytes;
    block.arrays_size_bytes = input->arrays.size_bytes;
    RS_TRY(rs_block_encoding_write(self->writer, heap, &block.heap_off, &block.heap_crc, err));
    RS_TRY(rs_block_encoding_write(self->writer, &input->arrays, &block.arrays_off, &block.arrays_crc, err));
    block.index_off = self->offsets.size_bytes; /* relative to OFFSETS; place_index makes it absolute */
    RS_TRY(rs_offsets_append(self->run.is_raw ? input->ends : self->run.ends, input->n_records, &block, &self->offsets,
                             err));
    RS_TRY(add_groups(self, (uint32_t)(self->blocks.size_bytes / RS_FMT_BLOCK_SIZE), err));
    rs_block_write(&block, entry);
    RS_TRY(rs_buffer_append(&self->blocks, entry, sizeof entry, err));
    self->raw_size += input->raw.size_bytes + input->arrays.size_bytes;
    input->n_records = 0;
    rs_scan_reset(&input->scan);
    empty(&input->raw);
    empty(&input->arrays);
    empty(&self->run.encoded);
    return RS_OK;
}

/* The function that the flusher's thread runs. Without a thread the caller runs it. */
static void write_and_remember(void *builder) {
    rs_builder *self = (rs_builder *)builder;
    self->failed = write_block(self, &self->failure);
}

/* ---- Handing a block over ---- */

/* Exchanges the open block and `block`: the open block is ready to be written, and the next one gets empty buffers. */
static void exchange(rs_builder *self) {
    rs_block_input next = self->block;
    self->block.raw = self->raw;
    self->block.arrays = self->arrays;
    self->block.ends = self->ends;
    self->block.ends_capacity = self->ends_capacity;
    self->block.n_records = self->n_open;
    self->block.first_record = self->n_records - self->n_open;
    self->block.scan = self->scan;
    /* Maxima and features hold for the whole segment, so they stay in self->scan. */
    self->scan.key_sets = next.scan.key_sets;
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
    /* With a thread, a giant record and the next block would take memory at the same time. */
    if (self->raw.size_bytes + self->arrays.size_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) beside = false;
    exchange(self);
    if (beside && self->flusher != NULL &&
        rs_os_thread_start(&self->flusher->thread, write_and_remember, self, NULL) == RS_OK) {
        self->flusher->builder = self;
        self->flusher->process_id = rs_os_process_id();
        return RS_OK;
    }
    write_and_remember(self);
    if (self->failed == RS_OK) exchange(self); /* without a thread one set of buffers is enough */
    return settle(self, err);
}

rs_status rs_builder_flush(rs_builder *self, rs_error *err) { return flush(self, false, err); }

rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err) { return flush(self, true, err); }

/* ---- Finishing ---- */

rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count, rs_section *out,
                                   rs_error *err) {
    out->size_bytes = bytes->size_bytes;
    out->count = count;
    return rs_block_encoding_write(self->writer, bytes, &out->off, &out->crc, err);
}

/* Makes the index offsets of block or table entries absolute. They are relative to OFFSETS before. */
static void place_index(rs_buffer *entries, uint64_t section_off) {
    size_t i;
    for (i = 0; i < entries->size_bytes; i += RS_FMT_BLOCK_SIZE) {
        uint8_t *e = entries->data + i;
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
    rs_block_encoding *encoding = &self->encoding;
    RS_TRY(rs_builder_write_section(self, &self->offsets, 0, &sections[RS_FMT_SECTION_OFFSETS], err));
    place_index(&self->blocks, sections[RS_FMT_SECTION_OFFSETS].off);
    place_index(&self->encoding.dictionaries.tables, sections[RS_FMT_SECTION_OFFSETS].off);
    RS_TRY(rs_builder_write_section(self, &self->groups, self->groups.size_bytes / 4, &sections[RS_FMT_SECTION_GROUPS],
                                    err));
    RS_TRY(rs_builder_write_section(self, &self->blocks, rs_builder_n_blocks(self), &sections[RS_FMT_SECTION_BLOCKS],
                                    err));
    RS_TRY(rs_builder_write_section(self, &encoding->trees, encoding->n_trees, &sections[RS_FMT_SECTION_TREES], err));
    RS_TRY(rs_builder_write_section(self, &encoding->tree_table, encoding->n_trees,
                                    &sections[RS_FMT_SECTION_TREE_TABLE], err));
    if (rs_dictionaries_n_tables(&encoding->dictionaries) == 0) return RS_OK;
    return rs_builder_write_section(self, &encoding->dictionaries.tables,
                                    rs_dictionaries_n_tables(&encoding->dictionaries), &sections[RS_FMT_SECTION_TABLES],
                                    err);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void rs_builder_describe(const rs_builder *self, rs_header *header) {
    header->features_required |= self->features_required | self->scan.features | self->encoding.features;
    /* A table may have been written for a tree that was then not used. */
    if (rs_dictionaries_n_tables(&self->encoding.dictionaries) > 0) header->features_required |= RS_FMT_FEATURE_TABLES;
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
    RS_TRY(rs_block_encoding_write(self->writer, &self->raw, &header->directory_off, &crc, err));
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
