/* rs_column_read.h: reads one field of many records into arrays without the interpreter. rs_column and rs_utf8 append
 * the values. A field with the same offset in all records of a block is read without a walk.
 *
 * Only one thread at a time may fill the caches of an rs_store, but column reads run while other threads read. So a
 * column read uses only loaded blocks with a compiled path and stops at any other; the caller loads that block under
 * its lock, compiles the path for its tree, and continues. */
#pragma once

#include "read/rs_utf8.h"
#include "columns/rs_column.h"
#include "columns/rs_entries.h"
#include "columns/rs_window.h"

enum {
    RS_COLUMN_READ_TEXT = 3, /* a kind of column, besides RS_COLUMN_SCALAR and RS_COLUMN_SEQUENCE */

    /* Why rs_column_read_run returned. */
    RS_COLUMN_READ_DONE = 0,    /* all records were read */
    RS_COLUMN_READ_BLOCK = 1,   /* the source has no compiled path for block number `block` */
    RS_COLUMN_READ_UNSURE = 2,  /* the caller must look up the field of record `index`, and call rs_column_read_take */
    RS_COLUMN_READ_LACKING = 3, /* record `index` does not have the field */
    RS_COLUMN_READ_OTHER = 4,   /* the field of record `index` does not have the column's kind */
};

/* The column so far. Owns its buffers. Zero the struct and call rs_column_read_open; call rs_column_read_clear at the
 * end. One thread at a time may use it. */
typedef struct rs_column_read {
    int kind;           /* the kind of column; RS_COLUMN_OTHER before the first value that is not None */
    bool nulls;         /* None becomes a null */
    rs_slice missing;   /* the any value for records without the field; if ptr is NULL the read stops at them */
    rs_column numbers;  /* SCALAR, SEQUENCE: the numbers; a null scalar is False */
    rs_buffer text;     /* TEXT: the UTF-8 of all values */
    rs_buffer offsets;  /* SEQUENCE, TEXT: i64, the start of each record's numbers or bytes, and the end of the last */
    rs_buffer valid;    /* with `nulls`: a byte for each record, 0 for a null */
    uint64_t n;         /* number of records read */
    uint64_t n_null;    /* number of nulls among them */
    rs_entries entries; /* the cache of table entries */
    rs_window window;   /* the current records */
} rs_column_read;

/* The progress of rs_column_read_run. Zero it before the first call. */
typedef struct rs_column_read_stop {
    int why;        /* the reason for the last return */
    uint64_t done;  /* number of positions read so far */
    uint64_t block; /* with RS_COLUMN_READ_BLOCK: the number of the block */
    uint64_t index; /* the number of the record where the read stopped */
} rs_column_read_stop;

/* Begins a column read of n records. RS_E_MEM. */
RS_NODISCARD rs_status rs_column_read_open(rs_column_read *self, uint64_t n, bool nulls, rs_error *err);
/* Frees the buffers and zeroes the struct. */
void rs_column_read_clear(rs_column_read *self);

/* Reads the records start + step * positions[k], or start + step * k if `positions` is NULL, for k from stop->done to
 * n - 1. Another thread may change `positions` during the call: each position is loaded once and checked.
 * RS_E_ARG_RANGE for a position without a record, after stop->done records were read; errors of rs_window_locate,
 * rs_compiled_path_walk, rs_column_take and rs_utf8_take for record stop->index. After an error `self` may only be
 * cleared. */
RS_NODISCARD rs_status rs_column_read_run(rs_column_read *self, const rs_source *source, const int64_t *positions,
                                          int64_t start, int64_t step, uint64_t n, rs_column_read_stop *stop,
                                          rs_error *err);

/* Appends the value at a place that the caller has looked up. Sets *fits to false, without counting the record, for a
 * value that does not have the column's kind. */
RS_NODISCARD rs_status rs_column_read_take(rs_column_read *self, const rs_cursor *cursor, const rs_place *place,
                                           bool *fits, rs_error *err);
