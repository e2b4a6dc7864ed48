/* rs_column_read.h: one field of many records into arrays, without an interpreter: the loop over records, whose leaves
 * rs_column and rs_utf8 read. Records of a block whose field stands at one offset take no walk.
 *
 * The caches of an rs_store are filled by one thread at a time, and this loop runs beside others. So it reads only
 * blocks that its source knows: for any other it stops, and the caller loads the block under the lock by which it
 * serialises such calls, makes a compiled for its tree, and goes on. */
#ifndef RS_COLUMN_READ_H
#define RS_COLUMN_READ_H

#include "read/rs_column.h"
#include "read/rs_entries.h"
#include "read/rs_compiled_path.h"
#include "read/rs_store.h"
#include "read/rs_utf8.h"

enum {
    RS_COLUMN_READ_TEXT = 3, /* a kind, beside RS_COLUMN_SCALAR and SEQUENCE */

    /* Why rs_column_read_run returned. */
    RS_COLUMN_READ_DONE = 0,
    RS_COLUMN_READ_BLOCK = 1,   /* the source has no compiled for `block` */
    RS_COLUMN_READ_UNSURE = 2,  /* the caller has to walk record `index` itself, and call rs_column_read_take */
    RS_COLUMN_READ_LACKING = 3, /* record `index` has no such field */
    RS_COLUMN_READ_OTHER = 4,   /* record `index` has there what does not go with those before */

    RS_COLUMN_READ_WINDOW = 256
};

/* A store and how to walk its records. Borrows all of it; `compiled_paths` has an entry for each block, NULL for
 * one that is not known: those of the others are loaded. One thread at a time. */
typedef struct rs_source {
    const rs_store *store;
    const rs_compiled_path **compiled_paths;
} rs_source;

/* What was read. Owns its buffers: zero it, rs_column_read_open, rs_column_read_clear at the end. One thread at a
 * time. */
typedef struct rs_column_read {
    int kind;           /* RS_COLUMN_OTHER until a record that is not None tells */
    bool nulls;         /* None is taken too, as a null */
    rs_slice missing;   /* the caller's `any` value for a field that a record lacks; NULL: RS_COLUMN_READ_LACKING */
    rs_column numbers;  /* SCALAR, SEQUENCE; a null scalar is False */
    rs_buffer text;
    rs_buffer offsets;  /* SEQUENCE, TEXT: i64, where each record's numbers or bytes begin, and the end of the last */
    rs_buffer valid;    /* with `nulls`: a byte for each record, 0 for a null */
    uint64_t n;         /* records taken */
    uint64_t n_null;
    rs_entries entries; /* of dict-coded nodes that were come to */
    /* The window at hand: where its records lie. */
    rs_slice records[RS_COLUMN_READ_WINDOW];
    const rs_block *blocks[RS_COLUMN_READ_WINDOW];
    const rs_compiled_path *compiled_paths[RS_COLUMN_READ_WINDOW];
    uint32_t locals[RS_COLUMN_READ_WINDOW];
} rs_column_read;

/* Where rs_column_read_run stands. `done` is how many of the positions are taken. */
typedef struct rs_column_read_stop {
    int why;
    uint64_t done;
    uint64_t block;
    uint64_t index;
} rs_column_read_stop;

/* Room for n records, where that can be told. */
RS_NODISCARD rs_status rs_column_read_open(rs_column_read *self, uint64_t n, bool nulls, rs_error *err);
void rs_column_read_clear(rs_column_read *self);

/* Takes records start + step * positions[k], or start + step * k where `positions` is NULL, for k from stop->done to
 * n. `positions` may be memory that another thread changes: each position is read once and checked. RS_E_ARG_RANGE for
 * one that is no record, as far as its reading came: stop->done were taken before. Other errors are those of
 * rs_store_find, of the walk and of the leaves; record stop->index is where. Blocks are not loaded. After an error
 * `self` is fit only to be cleared. */
RS_NODISCARD rs_status rs_column_read_run(rs_column_read *self, const rs_source *source, const int64_t *positions,
                                          int64_t start,
                                     int64_t step, uint64_t n, rs_column_read_stop *stop, rs_error *err);

/* Takes the value at a place that the caller has come to. *fits is false for what does not go with the others. */
RS_NODISCARD rs_status rs_column_read_take(rs_column_read *self, const rs_cursor *cursor, const rs_place *place,
                                           bool *fits,
                                      rs_error *err);

#endif
