/* rs_counted.h: a block of raw records, and the stats of its records. */
#pragma once

#include "plan/rs_plan_choose.h"
#include "rs_make.h"

static rs_error err;
static make_block block;
static rs_stats stats;
static rs_choices choices = {.level = RS_LEVEL_AUTO};
static rs_span counted_spans[MAKE_RECORDS];
static uint64_t counted_kept_bytes; /* stats.kept_bytes before the first record */

/* Collects the stats of the records in `block`. Pair it with clear_stats(). */
static inline rs_status collect_stats(void) {
    uint64_t begin = 0;
    memset(&stats, 0, sizeof stats);
    for (uint32_t i = 0; i < block.n; i++) {
        counted_spans[i].off = (uint32_t)begin;
        counted_spans[i].size_bytes = (uint32_t)(block.ends[i] - begin);
        begin = block.ends[i];
    }
    stats.values.base = block.raw.data;
    stats.values.spans = counted_spans;
    stats.values.n = block.n;
    stats.scan = &block.scan;
    stats.choices = &choices;
    stats.kept_bytes = counted_kept_bytes;
    return rs_stats_collect(&stats, &err);
}

static inline void clear_stats(void) {
    rs_stats_clear(&stats);
    make_block_clear(&block);
}

static inline void add_int(int64_t value) { make_int(&block.raw, value), make_record_end(&block); }
static inline void add_float(double value) { make_float(&block.raw, value), make_record_end(&block); }
static inline void add_text(const char *text) { make_str(&block.raw, text), make_record_end(&block); }
static inline void add_tag(unsigned tag) { make_tag(&block.raw, tag), make_record_end(&block); }

/* Adds a dict that has each letter of `keys`, in that order, as a key with `value`. */
static inline void add_dict(const char *keys, int64_t value) {
    char key[2] = {0};
    make_head(&block.raw, 0x0F, strlen(keys));
    for (; *keys != '\0'; keys++) key[0] = *keys, make_str(&block.raw, key), make_int(&block.raw, value);
    make_record_end(&block);
}

static inline void add_ints(unsigned tag, uint64_t n, int64_t first, int64_t step) {
    make_head(&block.raw, tag, n);
    for (; n > 0; n--, first += step) make_int(&block.raw, first);
    make_record_end(&block);
}
