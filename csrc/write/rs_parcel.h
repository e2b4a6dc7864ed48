/* rs_parcel.h: parcels: records that a build worker, another process than the builder's, has made into any values. A
 * parcel holds any values as rs_builder.raw does, and the arrays outside them. The position of an array depends on the
 * block that its record will fall into, so the parcel also lists where in `raw` the positions of arrays stand. A packed
 * parcel is a run of bytes that is sent to the builder's process. It is never stored and is no part of the format. */
#pragma once

#include "plan/rs_scan.h"
#include "write/rs_builder.h"

/* A parcel that is being filled. Owns its buffers. Zero it before the first use; call rs_parcel_clear at the end.
 * The caller appends values to `raw` and `arrays` as rs_builder says, and one array slot for each array in `arrays`, in
 * the order of `raw`. An array slot is two u64: where in `raw` the position of the array begins, and the array's bytes.
 * One thread at a time may use it. */
typedef struct rs_parcel {
    rs_buffer raw;
    rs_buffer arrays;
    rs_buffer array_slots;
    rs_buffer ends; /* u64: where each record ends in raw */
    rs_scan scan;
} rs_parcel;

enum { RS_PARCEL_ARRAY_SLOT_SIZE = 16 };

/* Frees the buffers. */
void rs_parcel_clear(rs_parcel *self);

/* Ends the record that was appended. It refuses the same records as rs_builder_end_record, with the same error, but
 * err->record is the number within the parcel. The caller drops a refused record with rs_parcel_drop_record. */
RS_NODISCARD rs_status rs_parcel_end_record(rs_parcel *self, rs_error *err);
/* Drops the bytes of an unfinished record. The marks are the sizes of `arrays` and `array_slots` before it. */
void rs_parcel_drop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark);
/* Drops the last record that has ended. The marks are the sizes from before that record. */
void rs_parcel_pop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark);

/* Returns the bytes of the records and arrays in the parcel. */
static inline size_t rs_parcel_size(const rs_parcel *self) { return self->raw.size_bytes + self->arrays.size_bytes; }

/* Returns the number of records in the parcel that have ended. */
static inline uint64_t rs_parcel_n_records(const rs_parcel *self) { return self->ends.size_bytes / 8; }

/* Returns the number of bytes that rs_parcel_pack writes. */
size_t rs_parcel_packed_size(const rs_parcel *self);
/* Writes all records to `out`, which has rs_parcel_packed_size bytes, and empties the parcel. */
void rs_parcel_pack(rs_parcel *self, uint8_t *out);

/* Reads a packed parcel record by record. Borrows the parcel's bytes. One thread at a time may use it. */
typedef struct rs_parcel_reader {
    uint64_t n_records; /* number of all records */
    uint64_t next;      /* number of the next record */
    uint64_t n_array_slots;
    uint64_t next_array_slot;
    uint64_t at; /* where the next record begins in raw */
    const uint8_t *ends;
    const uint8_t *array_slots;
    rs_slice raw;
    rs_slice arrays;
} rs_parcel_reader;

/* Opens a packed parcel, which must outlive `self`. RS_E_FMT_TRUNCATED when its sizes do not add up. */
RS_NODISCARD rs_status rs_parcel_open(rs_slice packed, rs_parcel_reader *self, rs_error *err);
/* Appends the next record to `raw` and `arrays`, with new positions for its arrays; there must be a next record. The
 * caller ends the record. RS_E_FMT_VALUE when the parcel contradicts itself, RS_E_MEM; the caller then drops the bytes
 * that were appended. */
RS_NODISCARD rs_status rs_parcel_next(rs_parcel_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err);

/* Appends all records to a builder, ends them, and flushes full blocks with rs_builder_flush_beside. After a failure
 * the builder may only be closed. Needs no lock. */
RS_NODISCARD rs_status rs_parcel_append_all(rs_parcel_reader *self, rs_builder *builder, rs_error *err);
