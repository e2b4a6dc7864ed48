/* rs_builder.c: collects raw records into blocks, and ends the segment with its last sections. */
#include "write/rs_builder.h"

#include <stdlib.h>

#include "base/rs_crc.h"

/* The memory for raw records. It must not move, because threads read it while the block is filled. Only a giant record
 * makes it grow further. */
enum { PINNED_BYTES = RS_FMT_BLOCK_RAW_HARD + RS_FMT_BLOCK_RAW_HARD / 16, LONG_WAIT_MS = 1000 };

void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, const rs_choices *choices) {
    const rs_choices default_choices = rs_choices_of(RS_LEVEL_AUTO);
    memset(self, 0, sizeof *self);
    self->writer = writer;
    self->hand_at = RS_PIPELINE_CHUNK;
    rs_block_writer_begin(&self->out, writer, choices == NULL ? &default_choices : choices);
}

rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, const rs_choices *choices, rs_error *err) {
    static const uint8_t blank[RS_FMT_HEADER_SIZE] = {0};
    rs_builder_begin(self, writer, choices);
    return rs_segment_writer_append(writer, blank, sizeof blank, err);
}

void rs_builder_close(rs_builder *self) {
    bool is_left = self->pipeline != NULL && rs_pipeline_is_left(self->pipeline);
    if (self->pipeline != NULL) rs_pipeline_stop(self->pipeline);
    rs_buffer_clear(&self->raw);
    rs_buffer_clear(&self->arrays);
    rs_scan_clear(&self->scan);
    if (!is_left) {
        if (self->open != NULL && self->open->ends == self->ends) self->open->ends = NULL;
        rs_raw_block_free(self->open);
        rs_block_writer_clear(&self->out);
    }
    free(self->ends);
    free(self->next_ends);
    memset(self, 0, sizeof *self);
}

/* ---- Records ---- */

static uint64_t last_end(const rs_builder *self) { return self->n_open == 0 ? 0 : self->ends[self->n_open - 1]; }

void rs_builder_drop_record(rs_builder *self, size_t arrays_mark) {
    self->raw.size_bytes = (size_t)last_end(self);
    self->arrays.size_bytes = arrays_mark;
    self->scan.n_key_sets = self->key_sets;
}

/* Makes room for `capacity` ends. If the pipeline reads the old ones, the open block keeps them. */
static rs_status grow_ends(rs_builder *self, size_t capacity, rs_error *err) {
    bool is_read = self->open != NULL && self->open->ends == self->ends;
    uint64_t *ends = (uint64_t *)realloc(is_read ? NULL : self->ends, capacity * sizeof *ends);
    if (ends == NULL) return rs_no_memory(err);
    if (is_read) memcpy(ends, self->ends, self->n_open * sizeof *ends);
    self->ends = ends;
    self->ends_capacity = capacity;
    return RS_OK;
}

/* Prepares the memory of the open block for threads that read it while it is filled. */
static rs_status pin_open(rs_builder *self) {
    rs_raw_block *block = rs_pipeline_take_spare(self->pipeline);
    if (block == NULL) block = (rs_raw_block *)calloc(1, sizeof *block);
    if (block == NULL) return RS_E_MEM;
    if (rs_buffer_reserve(&self->raw, PINNED_BYTES - self->raw.size_bytes, NULL) != RS_OK ||
        (self->ends_capacity < RS_FMT_BLOCK_RECORDS && grow_ends(self, RS_FMT_BLOCK_RECORDS, NULL) != RS_OK)) {
        rs_raw_block_free(block);
        return RS_E_MEM;
    }
    rs_buffer_pin(&self->raw);
    self->next_ends = block->ends;
    self->next_ends_capacity = block->ends_capacity;
    block->base = self->raw.data;
    block->ends = self->ends;
    block->ends_capacity = 0;
    block->number = self->n_closed;
    self->open = block;
    return RS_OK;
}

/* Returns the size of the chunk after the first `bytes` of a block. */
static uint64_t chunk_after(uint64_t bytes) {
    if (bytes / 3 >= RS_PIPELINE_CHUNK_MOST) return RS_PIPELINE_CHUNK_MOST;
    return bytes / 3 <= RS_PIPELINE_CHUNK ? RS_PIPELINE_CHUNK : bytes / 3;
}

/* Hands the records of the open block to the survey. If memory is short, or a giant record has moved the others, no
 * chunk is handed over until the block is closed. */
static RS_COLD void hand_chunk(rs_builder *self) {
    rs_status status = RS_E_MEM;
    self->hand_at = UINT64_MAX;
    if (self->pipeline == NULL || rs_pipeline_is_left(self->pipeline)) return;
    if (self->out.encoding.choices.level == RS_LEVEL_NONE) return;
    if (self->open == NULL && pin_open(self) != RS_OK) return;
    if (self->open->base != self->raw.data || self->open->ends != self->ends) return;
    rs_pipeline_enter(self->pipeline);
    status = rs_raw_block_add_chunk(self->open, self->n_handed, self->n_open - self->n_handed, &self->scan,
                                    self->key_sets, NULL);
    if (status == RS_OK) {
        self->n_handed = self->n_open;
        self->key_sets = self->key_sets_before = 0;
        status = rs_pipeline_add_open(self->pipeline, &self->out, self->open, NULL);
    }
    rs_pipeline_leave(self->pipeline);
    if (status == RS_OK) self->hand_at = last_end(self) + chunk_after(last_end(self));
}

/* Prepares the end of a record. The previous record cannot be taken back any more, so it may go into a chunk. */
static rs_status begin_end(rs_builder *self, rs_error *err) {
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    if (RS_UNLIKELY(last_end(self) >= self->hand_at)) hand_chunk(self);
    if (self->n_open == self->ends_capacity) {
        return grow_ends(self, self->ends_capacity == 0 ? 1024 : self->ends_capacity * 2, err);
    }
    return RS_OK;
}

static void count_record(rs_builder *self) {
    self->ends[self->n_open++] = self->raw.size_bytes;
    self->n_records++;
    self->key_sets_before = self->key_sets;
    self->key_sets = self->scan.n_key_sets;
}

rs_status rs_builder_end_record(rs_builder *self, rs_error *err) {
    uint64_t begin = last_end(self);
    RS_TRY(begin_end(self, err));
    rs_slice record = rs_slice_of(self->raw.data + begin, self->raw.size_bytes - (size_t)begin);
    rs_status status = rs_scan_record(&self->scan, record, self->arrays.size_bytes, err);
    if (status != RS_OK) {
        self->scan.n_key_sets = self->key_sets;
        self->raw.size_bytes = (size_t)begin;
        if (err != NULL) err->record = self->n_records;
        return status;
    }
    count_record(self);
    return RS_OK;
}

rs_status rs_builder_end_record_unchecked(rs_builder *self, const rs_scan_counts *counts, rs_error *err) {
    RS_TRY(begin_end(self, err));
    rs_scan_count_unchecked(&self->scan, self->raw.size_bytes - last_end(self), counts);
    count_record(self);
    return RS_OK;
}

void rs_builder_pop_record(rs_builder *self) {
    RS_ASSERT(self->n_open > self->n_handed);
    self->n_open--;
    self->n_records--;
    self->raw.size_bytes = (size_t)last_end(self);
    self->scan.n_key_sets = self->key_sets = self->key_sets_before;
}

/* ---- Closing a block ---- */

static rs_status check(rs_builder *self, rs_error *err) {
    if (self->writer->process_id != rs_os_process_id()) {
        return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE,
                            "a forked child cannot continue a build of its parent");
    }
    if (self->failed == RS_OK && self->pipeline != NULL) {
        self->failed = rs_pipeline_status(self->pipeline, &self->failure);
    }
    if (self->failed != RS_OK && err != NULL) *err = self->failure;
    return self->failed;
}

/* Gives the memory of the open block to `block`, and the memory of `block` to the next open block. */
static void exchange(rs_builder *self, rs_raw_block *block) {
    rs_buffer raw = block->raw, arrays = block->arrays;
    uint64_t *ends = block->ends;
    size_t capacity = block->ends_capacity;
    if (self->open != NULL) ends = self->next_ends, capacity = self->next_ends_capacity;
    block->raw = self->raw;
    block->arrays = self->arrays;
    if (self->open == NULL || block->base != self->raw.data || block->ends != self->ends) {
        /* Otherwise a thread may be reading these fields for the survey. */
        block->base = self->raw.data;
        block->ends = self->ends;
        block->number = self->n_closed;
    }
    self->n_closed++;
    self->raw_closed += self->raw.size_bytes + self->arrays.size_bytes;
    block->ends_capacity = self->ends_capacity;
    block->first_record = self->n_records - self->n_open;
    block->n_records = self->n_open;
    block->closed = true;
    self->raw = raw;
    self->arrays = arrays;
    self->ends = ends;
    self->ends_capacity = capacity;
    self->next_ends = NULL;
    self->open = NULL;
    self->n_open = self->n_handed = 0;
    self->key_sets = self->key_sets_before = 0;
    self->hand_at = RS_PIPELINE_CHUNK;
}

/* Restarts the survey of an open block whose memory has moved. */
static void survey_anew(rs_builder *self) {
    rs_raw_block *block = self->open;
    if (self->pipeline != NULL) rs_pipeline_withdraw(self->pipeline, block);
    rs_stats_clear(&block->survey);
    block->survey_status = RS_OK;
    block->to_survey = block->chunks;
    if (block->ends != self->ends) free(block->ends);
    block->ends = self->ends;
}

/* Closes the open block, inside the monitor of the pipeline if there is one. */
static rs_status close_block(rs_builder *self, rs_raw_block *block, rs_error *err) {
    /* Restart the survey before adding the last chunk: while survey_anew waits, the old survey may take its next chunk,
     * and the old memory lacks the records of the last chunk. */
    if (self->open != NULL && (block->base != self->raw.data || block->ends != self->ends)) survey_anew(self);
    rs_status status = rs_raw_block_add_chunk(block, self->n_handed, self->n_open - self->n_handed, &self->scan,
                                              self->scan.n_key_sets, err);
    if (status != RS_OK) return status;
    exchange(self, block);
    if (self->pipeline == NULL) return RS_OK;
    return rs_pipeline_add_closed(self->pipeline, &self->out, block, err);
}

/* A block is encoded in private memory before the segment reserves its own. Near a memory limit the kernel could then
 * kill the process, so this checks the limit first. Small blocks pass unchecked, as small reservations do. */
static rs_status require_memory(const rs_builder *self, rs_error *err) {
    size_t bytes = self->raw.size_bytes;
    if (bytes < (1u << 20) || !self->writer->memory_backed) return RS_OK;
    if (bytes > RS_FMT_BLOCK_RAW_HARD) bytes = RS_FMT_BLOCK_RAW_HARD;
    return rs_os_require_memory(NULL, 2 * (uint64_t)bytes, err);
}

static rs_status hand_block(rs_builder *self, rs_error *err) {
    rs_raw_block *block = self->open;
    RS_TRY(require_memory(self, err));
    if (block == NULL && self->pipeline != NULL) block = rs_pipeline_take_spare(self->pipeline);
    if (block == NULL) block = (rs_raw_block *)calloc(1, sizeof *block);
    if (block == NULL) return rs_no_memory(err);
    if (self->pipeline != NULL) rs_pipeline_enter(self->pipeline);
    rs_status status = close_block(self, block, err);
    if (self->pipeline != NULL) rs_pipeline_leave(self->pipeline);
    if (self->pipeline != NULL && status == RS_OK) return RS_OK;
    if (status == RS_OK) status = rs_block_writer_run(&self->out, block, err);
    if (block->closed && status == RS_OK) {
        rs_raw_block_reset(block); /* one set of buffers is enough */
        if (block->raw.capacity_bytes <= 2 * RS_FMT_BLOCK_RAW_HARD) {
            self->raw = block->raw;
            memset(&block->raw, 0, sizeof block->raw);
        }
    }
    if (block != self->open) rs_raw_block_free(block);
    return status;
}

rs_status rs_builder_hand_over(rs_builder *self, rs_error *err) {
    RS_TRY(check(self, err));
    if (self->n_open == 0) return RS_OK;
    self->failed = hand_block(self, &self->failure);
    return check(self, err);
}

bool rs_builder_wait(rs_builder *self, bool all, uint32_t milliseconds) {
    return self->pipeline == NULL || rs_pipeline_wait(self->pipeline, all, milliseconds);
}

rs_build_sizes rs_builder_measure(const rs_builder *self) {
    const rs_block_writer *out = &self->out;
    if (self->pipeline != NULL) rs_pipeline_hold(self->pipeline);
    const rs_build_sizes sizes = {
        .raw_written = out->raw_size,
        .sections = out->offsets.size_bytes + out->groups.size_bytes + out->blocks.size_bytes,
        .written = self->writer->position,
    };
    if (self->pipeline != NULL) rs_pipeline_release(self->pipeline);
    return sizes;
}

static rs_status flush(rs_builder *self, bool all, rs_error *err) {
    /* Do not hold a giant record and the next block in memory at once. */
    if (self->raw.size_bytes + self->arrays.size_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) all = true;
    RS_TRY(rs_builder_hand_over(self, err));
    while (!rs_builder_wait(self, all, LONG_WAIT_MS)) continue;
    return check(self, err);
}

rs_status rs_builder_flush(rs_builder *self, rs_error *err) { return flush(self, true, err); }

rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err) { return flush(self, false, err); }

/* ---- Finishing ---- */

static rs_status write_bytes(rs_builder *self, const rs_buffer *bytes, uint64_t *off, uint32_t *crc, rs_error *err) {
    rs_slice part = rs_slice_of(bytes->data, bytes->size_bytes);
    return rs_block_encoding_write(self->writer, &part, 1, off, crc, err);
}

rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count, rs_section *out,
                                   rs_error *err) {
    out->size_bytes = bytes->size_bytes;
    out->count = count;
    return write_bytes(self, bytes, &out->off, &out->crc, err);
}

uint64_t rs_builder_least_heap(const rs_builder *self) {
    const rs_block_encoding *encoding = &self->out.encoding;
    uint64_t least = rs_header_least_size(self->scan.n_values, self->out.raw_size);
    uint64_t follows = self->out.offsets.size_bytes + self->out.groups.size_bytes + self->out.blocks.size_bytes +
                       encoding->trees.size_bytes + encoding->tree_table.size_bytes;
    return least > follows ? least - follows : 0;
}

rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, uint64_t least, rs_section *heap, rs_error *err) {
    const uint64_t end = self->writer->position;
    if (end < least) RS_TRY(rs_segment_writer_append_zeros(self->writer, least - end, err));
    RS_TRY(rs_segment_writer_align(self->writer, RS_FMT_ALIGNMENT, err));
    heap->off = RS_FMT_HEADER_SIZE;
    heap->size_bytes = self->writer->position - RS_FMT_HEADER_SIZE;
    heap->count = n_blocks;
    heap->crc = 0;
    return RS_OK;
}

rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err) {
    rs_section *at = directory->sections;
    rs_block_encoding *encoding = &self->out.encoding;
    const uint32_t n_tables = rs_dictionaries_n_tables(&encoding->dictionaries);
    RS_TRY(rs_builder_write_section(self, &self->out.offsets, 0, &at[RS_FMT_SECTION_OFFSETS], err));
    /* The entries count the offsets of their groups from OFFSETS. */
    rs_buffer *entries[] = {&self->out.blocks, &encoding->dictionaries.tables};
    for (unsigned i = 0; i < 2; i++) {
        rs_offsets_move(entries[i]->data, entries[i]->size_bytes, 0, at[RS_FMT_SECTION_OFFSETS].off);
    }
    const struct {
        const rs_buffer *bytes;
        uint64_t count;
        unsigned kind;
    } parts[] = {
        {&self->out.groups, self->out.groups.size_bytes / 4, RS_FMT_SECTION_GROUPS},
        {&self->out.blocks, rs_builder_n_blocks(self), RS_FMT_SECTION_BLOCKS},
        {&encoding->trees, encoding->n_trees, RS_FMT_SECTION_TREES},
        {&encoding->tree_table, encoding->n_trees, RS_FMT_SECTION_TREE_TABLE},
        {&encoding->dictionaries.tables, n_tables, RS_FMT_SECTION_TABLES},
    };
    for (unsigned i = 0; i < (n_tables == 0 ? 4 : 5); i++) {
        RS_TRY(rs_builder_write_section(self, parts[i].bytes, parts[i].count, &at[parts[i].kind], err));
    }
    return RS_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns RS_FMT_FEATURE_ENDS if an entry has ends that are distances from a line, else 0. */
static uint64_t features_of(const rs_buffer *entries) {
    for (size_t i = 0; i < entries->size_bytes; i += RS_FMT_BLOCK_SIZE) {
        if (entries->data[i + RS_FMT_B_INDEX_WIDTH] == RS_FMT_INDEX_LINES) return RS_FMT_FEATURE_ENDS;
    }
    return 0;
}

void rs_builder_describe(const rs_builder *self, rs_header *header) {
    const rs_block_encoding *encoding = &self->out.encoding;
    header->features_required |= self->features_required | self->scan.features | encoding->features;
    header->features_required |= features_of(&self->out.blocks) | features_of(&encoding->dictionaries.tables);
    /* There may be tables that no tree uses, because their tree was discarded. */
    if (rs_dictionaries_n_tables(&encoding->dictionaries) > 0) header->features_required |= RS_FMT_FEATURE_TABLES;
    header->n_records = self->n_records;
    header->max_values = larger(header->max_values, self->scan.max_values);
    header->max_bytes = larger(header->max_bytes, self->scan.max_bytes);
    header->max_depth = (uint32_t)larger(header->max_depth, self->scan.max_depth);
    header->raw_size += self->out.raw_size;
}

rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                  const rs_directory *keys, rs_error *err) {
    uint8_t bytes[RS_FMT_HEADER_SIZE] = {0};
    uint32_t crc;
    rs_directory with_label = *directory;
    self->raw.size_bytes = 0;
    if (rs_slice_left(&self->label) > 0) {
        RS_TRY(rs_buffer_append(&self->raw, self->label.ptr, rs_slice_left(&self->label), err));
        RS_TRY(rs_builder_write_section(self, &self->raw, self->label_pairs, &with_label.label, err));
        self->raw.size_bytes = 0;
    }
    RS_TRY(rs_directory_write(&with_label, keys, header, &self->raw, err));
    RS_TRY(write_bytes(self, &self->raw, &header->directory_off, &crc, err));
    header->segment_size = self->writer->position;
    header->created_ns = rs_os_now_ns();
    RS_TRY(rs_os_random(header->segment_id, sizeof header->segment_id, err));
    rs_header_write(header, bytes);
    return rs_segment_writer_write_at(self->writer, 0, bytes, sizeof bytes, err);
}

rs_status rs_builder_finish(rs_builder *self, rs_error *err) {
    rs_header header = {0};
    if (self->finished) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the store is finished");
    self->finished = true;
    rs_directory directory = {0};
    RS_TRY(rs_builder_flush(self, err));
    RS_TRY(rs_builder_end_heap(self, rs_builder_n_blocks(self), rs_builder_least_heap(self),
                               &directory.sections[RS_FMT_SECTION_HEAP], err));
    RS_TRY(rs_builder_write_tables(self, &directory, err));
    header.content = RS_FMT_CONTENT_LIST;
    rs_builder_describe(self, &header);
    return rs_builder_write_header(self, &header, &directory, NULL, err);
}
