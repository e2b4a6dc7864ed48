/* rs_parcel.h: parcels: records that a build worker (another process) has encoded as any values. A parcel has any
 * values like rs_builder.raw, and their arrays. The position of an array depends on the block of its record, so the
 * parcel also lists where `raw` has positions of arrays. A packed parcel is a run of bytes for the builder's process;
 * it is never stored and not part of the format. */
#pragma once

#include "plan/rs_scan.h"
#include "write/rs_builder.h"

/* A parcel that is being filled. Owns its buffers. Zero it before the first use; call rs_parcel_clear at the end.
 * The caller appends values to `raw` and `arrays` as for rs_builder, and one array slot for each array in `arrays`, in
 * the order of `raw`. An array slot is two u64: the offset in `raw` of the array's position, and the array's size.
 * One thread at a time may use it. */
typedef struct rs_parcel {
    rs_buffer raw;
    rs_buffer arrays;
    rs_buffer array_slots;
    rs_buffer ends; /* u64: the end of each record in raw */
    rs_scan scan;
} rs_parcel;

enum { RS_PARCEL_ARRAY_SLOT_SIZE = 16 };

/* Frees the buffers. */
void rs_parcel_clear(rs_parcel *self);

/* Ends the record that was appended. Errors of rs_builder_end_record, with the number within the parcel as err->record.
 * After an error the caller calls rs_parcel_drop_record. */
RS_NODISCARD rs_status rs_parcel_end_record(rs_parcel *self, rs_error *err);
/* Drops the bytes of an unfinished record. The marks are the sizes of `arrays` and `array_slots` before it. */
void rs_parcel_drop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark);
/* Drops the last ended record. The marks are the sizes before that record. */
void rs_parcel_pop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark);

/* Returns the number of bytes of the records and arrays in the parcel. */
static inline size_t rs_parcel_size(const rs_parcel *self) { return self->raw.size_bytes + self->arrays.size_bytes; }

/* Returns the number of ended records in the parcel. */
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
    uint64_t at; /* the offset in raw of the next byte to append */
    const uint8_t *ends;
    const uint8_t *array_slots;
    rs_slice raw;
    rs_slice arrays;
} rs_parcel_reader;

/* Opens a packed parcel, which must outlive `self`. RS_E_FMT_TRUNCATED when its sizes do not add up. */
RS_NODISCARD rs_status rs_parcel_open(rs_slice packed, rs_parcel_reader *self, rs_error *err);
/* Appends the next record, which must exist, to `raw` and `arrays`, with new positions for its arrays. The caller ends
 * the record. RS_E_FMT_VALUE when the parcel contradicts itself, RS_E_MEM; the caller then drops the appended bytes. */
RS_NODISCARD rs_status rs_parcel_next(rs_parcel_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err);

/* Appends all records to a builder, ends them, and flushes full blocks with rs_builder_flush_beside. After a failure
 * the builder may only be closed. Needs no lock. */
RS_NODISCARD rs_status rs_parcel_append_all(rs_parcel_reader *self, rs_builder *builder, rs_error *err);
