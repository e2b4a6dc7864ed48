/* rs_gather.h: a gather reads some fields of the records at given positions into one buffer, without the interpreter.
 *
 * It has two steps, because the size of the buffer depends on the records. The first step, *measure*, locates the
 * records, a window at a time, and walks to each field once. It immediately converts values of known size: numbers in
 * rows of one length. For a list or array it keeps the location of the numbers, as a run (rs_run.h). Texts, and lists
 * with numbers that are not adjacent, are read into memory of the gather. Then the caller knows the sizes of all parts
 * and allocates the buffer. The second step, *fill*, writes each run to its place. If the sizes of all parts are known
 * from the start, the caller allocates the buffer first, and the values are written to it at once.
 *
 * A column (`to_numpy`) is a gather of one field in a form without parts. Measuring appends its values to memory of the
 * gather, which the caller takes over.
 *
 * Measuring stops at a block without compiled paths (see rs_window.h), at a record whose field only the interpreter
 * can find, and at a value that does not fit the result. */
#pragma once

#include "columns/rs_gather_field.h"

/* A gather for many batches in turn, which reuse its memory. Owns everything except specs and stores. One thread at a
 * time. */
typedef struct rs_gather {
    rs_gather_field *fields;
    uint32_t n_fields;
    bool direct;   /* the sizes of all parts are known before measuring */
    uint64_t n;    /* number of records of the batch */
    uint64_t done; /* number of records of the batch before the window */
    rs_gather_stop stop;
    rs_window window;
} rs_gather;

/* Makes a gather for n_fields specs. Free it with rs_gather_close, except after RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_open(rs_gather *self, const rs_gather_spec *specs, uint32_t n_fields, rs_error *err);
void rs_gather_close(rs_gather *self);

/* Returns the capacity in bytes of the buffers that the next batch reuses. */
uint64_t rs_gather_kept_bytes(const rs_gather *self);

/* Begins a batch of n records, and drops the previous one. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_begin(rs_gather *self, uint64_t n, rs_error *err);

/* Sets the rows of the packed fields, after rs_gather_begin. `given` has the batch's records, starts and counts of 0 or
 * more, and rising ends up to the number of records; the gather borrows it until the next batch. */
void rs_gather_give(rs_gather *self, const rs_gather_given *given);

/* Takes records self->done to `end` - 1 of the batch: record k is record start + step * positions[k] of the source, or
 * start + step * k if `positions` is NULL. The source has its paths in the order of the fields. self->stop has the
 * reason for the return. Another thread may change `positions` during the call. Errors of rs_window_locate,
 * rs_compiled_path_walk and of reading values, for field stop.field (unless UINT32_MAX) of record stop.record. After an
 * error, or a stop that cannot be resolved, only rs_gather_begin and rs_gather_close may follow. */
RS_NODISCARD rs_status rs_gather_measure(rs_gather *self, const rs_source *source, const int64_t *positions,
                                         int64_t start, int64_t step, uint64_t end, rs_error *err);

/* Takes the value that the caller has looked up after RS_GATHER_UNSURE; `place` is NULL if the record lacks it. Sets
 * self->stop as rs_gather_measure does. */
RS_NODISCARD rs_status rs_gather_take(rs_gather *self, const rs_cursor *cursor, const rs_place *place, rs_error *err);

/* Takes an empty text for a str that the caller keeps, after measuring stopped at an RS_GATHER_STRINGS field.
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_take_string(rs_gather *self, rs_error *err);

/* Computes the parts of all fields and the size of the buffer. Call it after measuring or, if self->direct, after
 * rs_gather_begin. RS_E_MEM, also for sizes beyond 2^63. Sets self->stop for a list that is too long. */
RS_NODISCARD rs_status rs_gather_layout(rs_gather *self, uint64_t *size_bytes, rs_error *err);

/* Sets the buffer of a direct gather, of the size of rs_gather_layout; does nothing for other gathers. The gather
 * borrows it until all records are measured. */
void rs_gather_place(rs_gather *self, uint8_t *buffer);

/* Writes all remaining parts. Sets self->stop for a number that its dtype cannot hold. */
RS_NODISCARD rs_status rs_gather_fill(rs_gather *self, uint8_t *buffer, rs_error *err);
