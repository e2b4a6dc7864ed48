/* rs_gather.h: a gather reads some fields of the records at given positions into one buffer, without the interpreter.
 *
 * It goes in two steps, because the size of the buffer depends on the records. The first step, *measure*, locates the
 * records, a window at a time, and walks to each field once. Values whose size is known before, numbers in rows of one
 * length, are converted at once. Of a list or array it notes where its numbers stand, as a run (rs_run.h). Texts, and
 * lists whose numbers do not stand one after another, are read into memory of the gather. Then the sizes of all parts
 * are known, and the caller allocates the buffer. The second step, *fill*, writes each run at its place. Where the
 * sizes of all parts are known before, the buffer comes first and there is no second step.
 *
 * Measuring stops at a block without compiled paths, as rs_window.h tells; at a record in which only the interpreter
 * can find a field; and at a value that has no place in the result. */
#pragma once

#include "columns/rs_gather_field.h"

/* A gather, for many batches in turn: it keeps its memory. Owns all but specs and stores. One thread at a time. */
typedef struct rs_gather {
    rs_gather_field *fields;
    uint32_t n_fields;
    bool direct;   /* the sizes of all parts are known before measuring */
    uint64_t n;    /* number of records of the batch */
    uint64_t done; /* number of records of the batch that are behind the window */
    rs_gather_stop stop;
    rs_window window;
} rs_gather;

/* Makes the state for n_fields specs. Free it with rs_gather_close; after RS_E_MEM nothing is held. */
RS_NODISCARD rs_status rs_gather_open(rs_gather *self, const rs_gather_spec *specs, uint32_t n_fields, rs_error *err);
void rs_gather_close(rs_gather *self);

/* Returns the bytes of memory that the batches so far have taken, and that a further batch would use again. */
uint64_t rs_gather_kept_bytes(const rs_gather *self);

/* Begins a batch of n records. What a batch before it left is dropped. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_begin(rs_gather *self, uint64_t n, rs_error *err);

/* Takes the records from number self->done of the batch up to `end`: record k is record start + step * positions[k] of
 * the source, whose paths are those of the fields in their order. self->stop says why it returned. Another thread may
 * change `positions` meanwhile. Errors are those of rs_window_locate, rs_compiled_path_walk and of reading values; they
 * are in stop.field, where it is not UINT32_MAX, of record stop.record. After an error, or a stop that cannot be
 * settled, only rs_gather_begin and rs_gather_close may follow. */
RS_NODISCARD rs_status rs_gather_measure(rs_gather *self, const rs_source *source, const int64_t *positions,
                                         int64_t start, int64_t step, uint64_t end, rs_error *err);

/* Takes the value that the caller has looked up after RS_GATHER_UNSURE; `place` is NULL where the record lacks it. Sets
 * self->stop as rs_gather_measure does. */
RS_NODISCARD rs_status rs_gather_take(rs_gather *self, const rs_cursor *cursor, const rs_place *place, rs_error *err);

/* Takes an empty text for a str that the caller keeps, of a RS_GATHER_STRINGS at which measuring stopped. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_take_string(rs_gather *self, rs_error *err);

/* Computes the parts of all fields and the size of the buffer: after measuring, or after rs_gather_begin when
 * self->direct. RS_E_MEM for sizes beyond 2^63. Sets self->stop for a list that is too long. */
RS_NODISCARD rs_status rs_gather_layout(rs_gather *self, uint64_t *size_bytes, rs_error *err);

/* Gives the buffer, of the size of rs_gather_layout. It is borrowed until rs_gather_fill returns, of a direct gather
 * until the last call of rs_gather_measure. */
void rs_gather_place(rs_gather *self, uint8_t *buffer);

/* Writes all parts that measuring has not written. Sets self->stop for a number that its dtype cannot hold. */
RS_NODISCARD rs_status rs_gather_fill(rs_gather *self, uint8_t *buffer, rs_error *err);
