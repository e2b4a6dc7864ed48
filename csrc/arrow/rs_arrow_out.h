/* rs_arrow_out.h: exports the records of stores to Arrow, batch after batch, without the interpreter.
 *
 * An export has three steps. First, the caller makes each block known: its tree is compiled, which gives the types of
 * most fields. If a tree does not give all types, rs_arrow_out_run reads the records of its blocks. Second,
 * rs_arrow_out_resolve fixes the types for all records together, and rs_arrow_out_settle prepares the batches. Third,
 * rs_arrow_out_run appends records, and rs_arrow_out_batch hands out the appended records.
 *
 * Only one thread at a time may fill the caches of an rs_store, but an export runs while other threads read. So it uses
 * only known blocks and stops at any other; the caller loads that block under its lock, makes it known, and continues.
 */
#pragma once

#include "read/rs_store.h"
#include "columns/rs_window.h"
#include "arrow/rs_arrow_export.h"
#include "arrow/rs_arrow_walk.h"

enum {
    /* Why rs_arrow_out_run returned. */
    RS_ARROW_DONE = 0,    /* all records were read */
    RS_ARROW_BLOCK = 1,   /* block number `block` is not known */
    RS_ARROW_UNSURE = 2,  /* the caller must look up the field of record `index`, and call rs_arrow_out_take */
    RS_ARROW_LACKING = 3, /* record `index` does not have the field */
    RS_ARROW_FULL = 4,    /* the batch has batch_bytes or more */

    RS_ARROW_BATCH_BYTES = 256 << 20 /* the bytes at which a batch ends */
};

/* The progress of rs_arrow_out_run. Zero it before the first call. */
typedef struct rs_arrow_stop {
    int why;        /* the reason for the last return */
    uint64_t done;  /* number of positions read so far */
    uint64_t block; /* with RS_ARROW_BLOCK: the number of the block */
    uint64_t index; /* the number of the record where it stopped */
} rs_arrow_stop;

/* An export. Owns its fields and ops. Zero the struct, call rs_arrow_out_open, and rs_arrow_out_clear at the end. One
 * thread at a time may use it. */
typedef struct rs_arrow_out {
    rs_arrow_field *root;
    rs_arrow_program program;
    rs_arrow_walk walk;
    rs_slice missing; /* the any value for records without the field; if ptr is NULL the run stops at them */
    bool has_rest;    /* a known block has records that must be read to know the types */
    bool settled;
    bool wide;            /* some record may be too large for 32-bit offsets, so all offsets have 64 bits */
    uint64_t batch_bytes; /* the bytes of the batch at which a run stops; RS_ARROW_BATCH_BYTES by default */
    uint64_t max_records; /* the most records between two checks of the batch's size */
    rs_window window;
} rs_arrow_out;

/* Makes the root field. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_out_open(rs_arrow_out *self, rs_error *err);
/* Frees everything and zeroes the struct. Exported batches stay. */
void rs_arrow_out_clear(rs_arrow_out *self);

/* Makes a loaded block of a source known: sets its of_block, which is NULL at first, to memory of the export.
 * `compiled` is the path to the field, compiled for the block's tree, or NULL for whole records. Errors of
 * rs_arrow_compile. */
RS_NODISCARD rs_status rs_arrow_out_add_block(rs_arrow_out *self, rs_source *source, uint64_t block,
                                              const rs_compiled_path *compiled, rs_error *err);

/* Drops the kinds of values that the trees gave, so that the next runs read all values of their records. This finds the
 * types of a selection, which may have fewer kinds of values than the trees allow. */
void rs_arrow_out_infer_all(rs_arrow_out *self);

/* Fixes the types. Sets *whole to false if a field has no type (see its `problem`), or if maps may have fewer kinds of
 * values than their trees and rs_arrow_out_infer_all was not called. RS_E_ARG_LIMIT, RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_out_resolve(rs_arrow_out *self, bool *whole, rs_error *err);

/* Prepares batches of up to `rows` records. Call it once, when all fields have types. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_out_settle(rs_arrow_out *self, uint64_t rows, rs_error *err);

/* Reads the records start + step * positions[k], or start + step * k if `positions` is NULL, for k from stop->done to
 * n - 1: adds the kinds of their values or, once the export is settled, appends them. Another thread may change
 * `positions` during the call: each position is loaded once and checked. RS_E_ARG_RANGE for a position without a
 * record; errors of rs_store_find (without loading blocks), rs_compiled_path_walk and rs_arrow_put for record
 * stop->index. After an error `self` may only be cleared. */
RS_NODISCARD rs_status rs_arrow_out_run(rs_arrow_out *self, const rs_source *source, const int64_t *positions,
                                        int64_t start, int64_t step, uint64_t n, rs_arrow_stop *stop, rs_error *err);

/* Takes the value at a place that the caller has looked up. Errors of rs_arrow_compile and rs_arrow_put. */
RS_NODISCARD rs_status rs_arrow_out_take(rs_arrow_out *self, const rs_cursor *cursor, const rs_place *place,
                                         rs_error *err);
/* Takes the value for a record without the field. Errors of rs_arrow_put. */
RS_NODISCARD rs_status rs_arrow_out_take_missing(rs_arrow_out *self, rs_error *err);

/* Hands out the appended records, and begins a batch of up to `rows`. Errors of rs_arrow_export_batch. */
RS_NODISCARD rs_status rs_arrow_out_batch(rs_arrow_out *self, uint64_t rows, struct ArrowArray *out, rs_error *err);
