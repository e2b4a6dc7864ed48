/* rs_arrow_writer.h: the state of writing a value of an Arrow array: room, errors, counts. */
#pragma once

#include "plan/rs_scan.h"
#include "write/rs_any_put.h"
#include "arrow/rs_arrow_columns.h"

/* Writes values at the end of `raw`. Borrows everything. A function with an argument `p` that returns a pointer writes
 * at p, the end of the written bytes, and returns the new end. It returns NULL after an error and sets `status` and
 * `err`. One thread at a time may use it. */
typedef struct rs_arrow_writer {
    rs_arrow_schema *schema;
    rs_arrow_column *columns; /* bound */
    rs_buffer *raw;
    uint8_t *end;         /* the end of the memory of `raw` */
    uint64_t begin;       /* the beginning of the record in `raw` */
    uint64_t values_left; /* how many more values the record may have */
    rs_scan *scan;        /* gets the key sets of dicts; NULL if the record will be scanned */
    rs_scan_counts counts;
    rs_status status;
    rs_error *err;
} rs_arrow_writer;

/* Makes room for n bytes at p, and returns p, which may have moved. NULL after an error. */
uint8_t *rs_arrow_grow(rs_arrow_writer *self, uint8_t *p, uint64_t n);
static inline uint8_t *rs_arrow_room(rs_arrow_writer *self, uint8_t *p, uint64_t n) {
    return RS_LIKELY(n <= (uint64_t)(self->end - p)) ? p : rs_arrow_grow(self, p, n);
}

#define RS_ARROW_TOO_MANY "a record of more than 268,435,456 values, the limit of readers"

/* Sets status and err, with the path of the node before the message, and returns NULL. */
RS_COLD uint8_t *rs_arrow_fail(rs_arrow_writer *self, uint32_t node, rs_status code, const char *message);

/* Counts a container of n values within `level` others. The caller has checked values_left. */
static inline void rs_arrow_count(rs_arrow_writer *self, uint64_t n, uint32_t level) {
    self->values_left -= n;
    if (level >= self->counts.depth) self->counts.depth = level + 1;
}
