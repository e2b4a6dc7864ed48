/* rs_block_writer.c: the steps from a block of raw records to bytes of a segment. */
#include "write/rs_block_writer.h"

#include <stdlib.h>

#include "plan/rs_plan.h"
#include "plan/rs_plan_placed.h"

enum {
    SHORT_RUN = 8192,          /* the most records of a short block */
    PREPARE_BYTES = 32 * 1024, /* the bytes of values that a thread takes at a time for preparation */
    SAMPLED_RECORDS = 1024,    /* about the most records of the sample of a trial */
    PLANNED_RUNS = 16,         /* every 16th block is planned, so that better trees are found */
    MOST_FAILED = 4            /* after more failures in turn, the distance of trials does not grow */
};

/* The most bytes of a sample and of a whole block in a trial, relative to the last block that was planned. */
static const double SAMPLE_MOST = 1.05, TRIAL_MOST = 1.01;

void rs_block_writer_begin(rs_block_writer *self, rs_segment_writer *writer, const rs_choices *choices) {
    memset(self, 0, sizeof *self);
    self->writer = writer;
    self->encoding.writer = writer;
    self->encoding.offsets = &self->offsets;
    self->encoding.choices = *choices;
    self->next_trial = 1;
}

void rs_block_writer_clear(rs_block_writer *self) {
    for (unsigned i = 0; i < RS_SURVEY_LAG; i++) rs_attempts_clear(&self->hints[i]);
    rs_block_encoding_clear(&self->encoding);
    rs_buffer_clear(&self->offsets);
    rs_buffer_clear(&self->groups);
    rs_buffer_clear(&self->blocks);
    memset(self, 0, sizeof *self);
}

/* ---- Blocks ---- */

static bool is_short(const rs_raw_block *block) {
    return block->number > 0 && block->n_records <= SHORT_RUN && block->raw.size_bytes < RS_FMT_BLOCK_RAW;
}

void rs_raw_block_reset(rs_raw_block *block) {
    rs_raw_block old = *block;
    while (block->chunks != NULL) {
        rs_chunk *next = block->chunks->next;
        rs_scan_clear(&block->chunks->scan);
        rs_buffer_clear(&block->chunks->encoded);
        rs_places_part_clear(&block->chunks->places);
        free(block->chunks);
        block->chunks = next;
    }
    rs_stats_clear(&block->survey);
    rs_settled_clear(&block->settled);
    free(block->encoded_ends);
    memset(block, 0, sizeof *block);
    block->raw = old.raw;
    block->arrays = old.arrays;
    block->ends = old.ends;
    block->ends_capacity = old.ends_capacity;
    block->spans = old.spans;
    block->spans_capacity = old.spans_capacity;
    rs_buffer_unpin(&block->raw);
    block->raw.size_bytes = block->arrays.size_bytes = 0;
}

void rs_raw_block_free(rs_raw_block *block) {
    if (block == NULL) return;
    rs_raw_block_reset(block);
    rs_buffer_clear(&block->raw);
    rs_buffer_clear(&block->arrays);
    free(block->ends);
    free(block->spans);
    free(block);
}

rs_status rs_raw_block_add_chunk(rs_raw_block *block, uint32_t first, uint32_t n, rs_scan *scan, size_t n_key_sets,
                                 rs_error *err) {
    rs_chunk *chunk = (rs_chunk *)calloc(1, sizeof *chunk);
    size_t rest = scan->n_key_sets - n_key_sets, capacity = rest < 512 ? 1024 : 2 * rest;
    uint64_t *key_sets = NULL;
    if (scan->key_sets != NULL) key_sets = (uint64_t *)malloc(capacity * sizeof *key_sets);
    if (chunk == NULL || (key_sets == NULL && scan->key_sets != NULL)) {
        free(chunk);
        free(key_sets);
        return rs_no_memory(err);
    }
    if (rest > 0) memcpy(key_sets, scan->key_sets + n_key_sets, rest * sizeof *key_sets);
    chunk->scan = *scan;
    chunk->scan.n_key_sets = n_key_sets;
    scan->key_sets = key_sets;
    scan->capacity = key_sets == NULL ? 0 : capacity;
    rs_scan_reset(scan);
    scan->n_key_sets = rest;
    chunk->first = first;
    chunk->n = n;
    if (block->last == NULL) block->chunks = chunk;
    else block->last->next = chunk;
    block->last = chunk;
    if (block->to_survey == NULL) block->to_survey = chunk;
    return RS_OK;
}

uint64_t rs_raw_block_memory(const rs_raw_block *block) {
    const uint64_t raw = block->closed ? block->raw.size_bytes : RS_FMT_BLOCK_RAW; /* the builder will fill it */
    uint64_t bytes = raw + block->arrays.size_bytes + rs_stats_memory(&block->survey) +
                     (block->ends_capacity + (block->encoded_ends == NULL ? 0 : block->n_records)) * sizeof(uint64_t) +
                     block->spans_capacity * sizeof(rs_span);
    for (const rs_chunk *chunk = block->chunks; chunk != NULL; chunk = chunk->next) {
        bytes += chunk->scan.capacity * sizeof(uint64_t) + chunk->encoded.capacity_bytes;
    }
    return bytes;
}

/* ---- The survey ---- */

/* Returns the number of the last block whose failed attempts the survey of block `number` uses. `number` is not 0. */
static uint64_t hint_of(uint64_t number) {
    uint64_t lag = 1 + number / 2;
    return number - (lag < RS_SURVEY_LAG ? lag : RS_SURVEY_LAG);
}

bool rs_block_writer_may_survey(const rs_block_writer *self, uint64_t number) {
    return number == 0 || self->n_settled > hint_of(number);
}

static void begin_survey(const rs_block_writer *self, rs_raw_block *block) {
    rs_stats *survey = &block->survey;
    memset(survey, 0, sizeof *survey);
    survey->values.base = block->base;
    survey->choices = &self->encoding.choices;
    survey->hints = block->number == 0 ? NULL : &self->hints[hint_of(block->number) % RS_SURVEY_LAG];
    survey->run = (uint32_t)block->number + 1; /* as rs_block_encoding_begin counts */
    rs_infer_begin_survey(survey, 0);
}

/* Makes the spans of records `begin` to `end` - 1. */
static rs_status list_spans(rs_raw_block *block, uint32_t begin, uint32_t end, rs_error *err) {
    uint64_t at = begin == 0 ? 0 : block->ends[begin - 1];
    if (block->spans_capacity < end) {
        size_t capacity = end > RS_FMT_BLOCK_RECORDS / 2 ? (size_t)end + RS_FMT_BLOCK_RECORDS / 2 : (size_t)end * 2;
        rs_span *spans = (rs_span *)realloc(block->spans, capacity * sizeof *spans);
        if (spans == NULL) return rs_no_memory(err);
        block->spans = spans;
        block->spans_capacity = capacity;
    }
    for (uint32_t i = begin; i < end; i++) {
        if (block->ends[i] > UINT32_MAX) {
            return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a block of 4 GiB stays raw");
        }
        block->spans[i].off = (uint32_t)at;
        block->spans[i].size_bytes = (uint32_t)(block->ends[i] - at);
        at = block->ends[i];
    }
    return RS_OK;
}

static rs_status survey_chunk(const rs_block_writer *self, rs_raw_block *block, rs_chunk *chunk) {
    rs_stats *survey = &block->survey;
    if (chunk->first == 0) begin_survey(self, block);
    RS_TRY(list_spans(block, chunk->first, chunk->first + chunk->n, &block->error));
    survey->values.spans = block->spans;
    survey->values.n = chunk->first + chunk->n;
    survey->scan = &chunk->scan;
    return rs_stats_collect_more(survey, chunk->first, &block->error);
}

void rs_block_writer_survey(const rs_block_writer *self, rs_raw_block *block) {
    rs_chunk *chunk = block->to_survey;
    if (chunk != NULL && block->survey_status == RS_OK) {
        block->survey_status = survey_chunk(self, block, chunk);
        return;
    }
    if (block->survey_status == RS_OK) block->survey_status = rs_plan_prepare(&block->survey, &block->error);
    rs_block_writer_weigh(block);
}

void rs_block_writer_weigh(rs_raw_block *block) {
    if (block->survey_status == RS_OK) block->survey_status = rs_plan_prepare_placed(&block->survey, &block->error);
    block->surveyed = true;
}

static int compare_size(const void *a, const void *b) {
    uint64_t left = (*(rs_alternative *const *)a)->raw_bytes, right = (*(rs_alternative *const *)b)->raw_bytes;
    return left < right ? 1 : left > right ? -1 : 0;
}

void rs_block_writer_list(rs_raw_block *block) {
    if (block->survey_status == RS_OK) block->survey_status = rs_stats_end(&block->survey, &block->error);
    uint32_t n = block->survey_status == RS_OK ? rs_plan_list(&block->survey, NULL) : 0;
    if (n > 0) block->to_prepare = (rs_alternative **)rs_arena_take(&block->survey.arena, n * sizeof(rs_alternative *));
    if (n > 0 && block->to_prepare == NULL) block->survey_status = rs_no_memory(&block->error);
    if (block->to_prepare == NULL) {
        rs_block_writer_weigh(block);
        return;
    }
    block->n_to_prepare = rs_plan_list(&block->survey, block->to_prepare);
    qsort(block->to_prepare, n, sizeof(rs_alternative *), compare_size);
}

uint32_t rs_block_writer_take(rs_raw_block *block, uint32_t *first, rs_stats *part) {
    uint64_t bytes = 0;
    rs_stats_begin_part(part, &block->survey);
    *first = block->next_to_prepare;
    while (block->next_to_prepare < block->n_to_prepare && bytes < PREPARE_BYTES) {
        bytes += block->to_prepare[block->next_to_prepare++]->raw_bytes;
    }
    return block->next_to_prepare - *first;
}

rs_status rs_block_writer_prepare(const rs_raw_block *block, uint32_t first, uint32_t n, rs_stats *part,
                                  rs_error *err) {
    for (uint32_t i = 0; i < n; i++) RS_TRY(rs_plan_prepare_alternative(part, block->to_prepare[first + i], err));
    return RS_OK;
}

/* ---- Trials ---- */

/* Appends the places of the block to the bytes of its last chunk. */
static rs_status end_places(rs_raw_block *block, rs_error *err) {
    rs_buffer *out = &block->last->encoded;
    size_t n = 0, before = out->size_bytes;
    const rs_chunk *chunk;
    if (block->tree->tree.n_placed == 0) return RS_OK;
    for (chunk = block->chunks; chunk != NULL; chunk = chunk->next) n++;
    rs_places_part *parts = (rs_places_part *)malloc(n * sizeof *parts);
    if (parts == NULL) return rs_no_memory(err);
    for (chunk = block->chunks, n = 0; chunk != NULL; chunk = chunk->next) parts[n++] = chunk->places;
    rs_status status = rs_places_write(parts, n, &block->tree->tree, block->n_records, out, err);
    block->places_size = out->size_bytes - before;
    free(parts);
    return status;
}

/* Encodes every n-th record under the tree of the last block, whatever the chunks are. Returns whether all fit and take
 * about as few bytes as that block. RS_E_MEM. */
static rs_status try_sample(rs_block_writer *self, const rs_raw_block *block, bool *fits, rs_error *err) {
    const rs_tree *tree = &self->encoding.last.tree;
    const rs_values values = {block->base, block->spans, block->n_records};
    uint64_t raw = 0;
    rs_scan scan = {0};
    rs_places_part places = {0};
    rs_buffer out = {0};
    rs_status status = rs_places_part_begin(&places, tree, err);
    for (uint32_t i = 0; i < block->n_records && status == RS_OK; i += block->n_records / SAMPLED_RECORDS + 1) {
        rs_slice record = rs_values_at(&values, i);
        rs_scan_reset(&scan);
        status = rs_scan_record(&scan, record, UINT64_MAX, err);
        scan.next = 0;
        places.local = i;
        if (status == RS_OK) status = rs_encode_placed_record(tree, record, &scan, &places, &out, err);
        raw += rs_slice_left(&record);
    }
    *fits = status == RS_OK && (double)out.size_bytes <= SAMPLE_MOST * self->planned_heap * (double)raw;
    rs_scan_clear(&scan);
    rs_places_part_clear(&places);
    rs_buffer_clear(&out);
    return status == RS_E_MEM ? status : RS_OK;
}

bool rs_block_writer_may_try(const rs_block_writer *self, const rs_raw_block *block) {
    if (block->trial != RS_TRIAL_NONE || block->number == 0) return false;
    if (block->closed && is_short(block)) return self->encoding.choices.level != RS_LEVEL_NONE;
    if (self->encoding.choices.level != RS_LEVEL_AUTO && self->encoding.choices.level != RS_LEVEL_FAST) return false;
    return block->number >= self->next_trial && (block->number + 1) % PLANNED_RUNS != 0;
}

rs_status rs_block_writer_begin_trial(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    bool fits = is_short(block);
    block->trial = RS_TRIAL_FAILED;
    if (!self->encoding.has_last) return RS_OK;
    /* Large values may repeat those of earlier blocks, which only the plan finds out. */
    if (!fits && self->encoding.dictionaries.n_seen > 0) return RS_OK;
    rs_status status = list_spans(block, 0, block->n_records, err);
    if (status != RS_OK) return status == RS_E_ARG_LIMIT ? RS_OK : status;
    if (!fits) RS_TRY(try_sample(self, block, &fits, err));
    if (!fits) return RS_OK;
    block->encoded_ends = (uint64_t *)malloc((block->n_records + (size_t)1) * sizeof *block->encoded_ends);
    if (block->encoded_ends == NULL) return rs_no_memory(err);
    block->tree = &self->encoding.last;
    block->trial = RS_TRIAL_RUNS;
    return RS_OK;
}

rs_status rs_block_writer_end_trial(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    uint64_t size = 0, most = block->raw.size_bytes - 1;
    rs_chunk *chunk;
    if (!is_short(block)) most = (uint64_t)(TRIAL_MOST * self->planned * (double)block->raw.size_bytes);
    if (block->status == RS_OK) block->status = end_places(block, err);
    if (block->status == RS_E_MEM) return rs_no_memory(err);
    for (chunk = block->chunks; chunk != NULL; chunk = chunk->next) size += chunk->encoded.size_bytes;
    block->trial = block->status == RS_OK && size <= most ? RS_TRIAL_PASSED : RS_TRIAL_FAILED;
    block->status = RS_OK;
    if (block->trial == RS_TRIAL_PASSED) return RS_OK;
    block->tree = NULL;
    block->places_size = 0;
    for (chunk = block->chunks; chunk != NULL; chunk = chunk->next) chunk->encoded.size_bytes = 0;
    return RS_OK;
}

void rs_block_writer_count_trial(rs_block_writer *self, const rs_raw_block *block) {
    if (block->trial == RS_TRIAL_PASSED) self->n_failed = 0;
    if (block->trial != RS_TRIAL_FAILED || is_short(block)) return;
    if (self->n_failed < MOST_FAILED) self->n_failed++;
    self->next_trial = block->number + (UINT64_C(1) << self->n_failed);
}

/* ---- Settling and encoding ---- */

static rs_status settle_tree(rs_block_writer *self, rs_raw_block *block) {
    if (block->trial == RS_TRIAL_PASSED) return RS_OK;
    if (block->encoded_ends == NULL) {
        block->encoded_ends = (uint64_t *)malloc((block->n_records + (size_t)1) * sizeof *block->encoded_ends);
    }
    if (block->encoded_ends == NULL) return rs_no_memory(&block->error);
    RS_TRY(block->survey_status);
    rs_status status = rs_block_encoding_settle(&self->encoding, &block->survey, 0, &block->settled, &block->error);
    if (status == RS_OK) block->tree = &block->settled;
    return status;
}

rs_status rs_block_writer_settle(rs_block_writer *self, rs_raw_block *block) {
    rs_block_encoding_begin(&self->encoding);
    block->status = self->encoding.choices.level == RS_LEVEL_NONE ? RS_E_ARG_LIMIT : settle_tree(self, block);
    rs_stats_clear(&block->survey);
    self->memory = rs_dictionaries_memory(&self->encoding.dictionaries);
    rs_attempts_copy(&self->hints[block->number % RS_SURVEY_LAG], &self->encoding.dictionaries.attempts);
    return block->status == RS_E_MEM || block->status >= RS_E_SYS ? block->status : RS_OK;
}

rs_status rs_block_writer_encode(const rs_raw_block *block, rs_chunk *chunk, rs_error *err) {
    rs_values values = {block->base, block->spans, block->n_records};
    return rs_block_encoding_encode(block->tree, &values, chunk->first, chunk->n, &chunk->scan, &chunk->places,
                                    &chunk->encoded, block->encoded_ends + chunk->first, err);
}

/* ---- Writing ---- */

rs_status rs_block_writer_add_entry(rs_block_writer *self, const rs_block *block, rs_error *err) {
    uint64_t first = block->first_record, end = first + block->n_records;
    uint64_t n = (end + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS;
    uint8_t group[4], entry[RS_FMT_BLOCK_SIZE];
    rs_store_u32(group, (uint32_t)(self->blocks.size_bytes / RS_FMT_BLOCK_SIZE));
    for (uint64_t g = (first + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS; g < n; g++) {
        RS_TRY(rs_buffer_append(&self->groups, group, sizeof group, err));
    }
    rs_block_write(block, entry);
    return rs_buffer_append(&self->blocks, entry, sizeof entry, err);
}

/* Also makes the ends of encoded records relative to the block. */
rs_status rs_block_writer_accept(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    uint64_t size = 0;
    for (const rs_chunk *chunk = block->chunks; chunk != NULL && block->tree != NULL && block->status == RS_OK;
         chunk = chunk->next) {
        for (uint32_t i = 0; i < chunk->n; i++) block->encoded_ends[chunk->first + i] += size;
        size += chunk->encoded.size_bytes;
    }
    block->tree_number = self->encoding.last_number;
    if (block->trial == RS_TRIAL_PASSED) return RS_OK;
    if (block->tree != NULL && block->status == RS_OK) {
        block->status = end_places(block, err);
        size += block->places_size;
    }
    RS_TRY(rs_block_encoding_accept(&self->encoding, &block->settled, block->status, block->raw.size_bytes, size, 0,
                                    &block->tree_number, &block->is_raw, err));
    if (block->is_raw) return RS_OK;
    self->planned = (double)size / (double)block->raw.size_bytes;
    self->planned_heap = (double)(size - block->places_size) / (double)block->raw.size_bytes;
    return RS_OK;
}

static rs_status write_heap(rs_block_writer *self, const rs_raw_block *block, rs_block *out, rs_error *err) {
    rs_slice raw = rs_slice_of(block->raw.data, block->raw.size_bytes);
    size_t n = 0;
    const rs_chunk *chunk;
    out->heap_size_bytes = block->raw.size_bytes;
    if (block->is_raw) return rs_block_encoding_write(self->writer, &raw, 1, &out->heap_off, &out->heap_crc, err);
    for (chunk = block->chunks; chunk != NULL; chunk = chunk->next) n++;
    rs_slice *parts = (rs_slice *)malloc((n + 1) * sizeof *parts);
    if (parts == NULL) return rs_no_memory(err);
    out->heap_size_bytes = 0;
    for (chunk = block->chunks, n = 0; chunk != NULL; chunk = chunk->next) {
        parts[n++] = rs_slice_of(chunk->encoded.data, chunk->encoded.size_bytes);
        out->heap_size_bytes += chunk->encoded.size_bytes;
    }
    rs_status status = rs_block_encoding_write(self->writer, parts, n, &out->heap_off, &out->heap_crc, err);
    free(parts);
    return status;
}

rs_status rs_block_writer_write(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    rs_slice arrays = rs_slice_of(block->arrays.data, block->arrays.size_bytes);
    rs_block out = {0};
    out.tree = block->tree_number;
    out.first_record = block->first_record;
    out.n_records = block->n_records;
    out.arrays_size_bytes = block->arrays.size_bytes;
    RS_TRY(write_heap(self, block, &out, err));
    out.places_size_bytes = block->is_raw ? 0 : block->places_size;
    RS_TRY(rs_block_encoding_write(self->writer, &arrays, 1, &out.arrays_off, &out.arrays_crc, err));
    out.index_off = self->offsets.size_bytes; /* relative to OFFSETS; rs_builder.c makes it absolute */
    RS_TRY(rs_offsets_append(block->is_raw ? block->ends : block->encoded_ends, block->n_records,
                             rs_choices_allow_lines(&self->encoding.choices), &out, &self->offsets, err));
    RS_TRY(rs_block_writer_add_entry(self, &out, err));
    self->raw_size += block->raw.size_bytes + block->arrays.size_bytes;
    return RS_OK;
}

/* Encodes all chunks of a settled block, or of one whose trial runs. */
static rs_status encode_all(rs_raw_block *block) {
    rs_status status = RS_OK;
    for (rs_chunk *chunk = block->chunks; chunk != NULL && status == RS_OK; chunk = chunk->next) {
        status = block->status = rs_block_writer_encode(block, chunk, &block->error);
    }
    return status;
}

static rs_status run_trial(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    RS_TRY(rs_block_writer_begin_trial(self, block, err));
    if (block->trial == RS_TRIAL_RUNS) {
        (void)encode_all(block);
        RS_TRY(rs_block_writer_end_trial(self, block, err));
    }
    rs_block_writer_count_trial(self, block);
    return RS_OK;
}

rs_status rs_block_writer_run(rs_block_writer *self, rs_raw_block *block, rs_error *err) {
    if (rs_block_writer_may_try(self, block)) RS_TRY(run_trial(self, block, err));
    if (self->encoding.choices.level != RS_LEVEL_NONE && block->trial != RS_TRIAL_PASSED) {
        while (!block->surveyed) {
            rs_block_writer_survey(self, block);
            if (block->to_survey != NULL) block->to_survey = block->to_survey->next;
        }
    }
    rs_status status = rs_block_writer_settle(self, block);
    self->n_settled++;
    if (block->tree == &block->settled && status == RS_OK) status = encode_all(block);
    if (status != RS_OK && err != NULL) *err = block->error;
    if (status == RS_E_MEM || status >= RS_E_SYS) return status;
    RS_TRY(rs_block_writer_accept(self, block, err));
    return rs_block_writer_write(self, block, err);
}
