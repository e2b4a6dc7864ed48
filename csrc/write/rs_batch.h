/* rs_batch.h: records that were encoded away from the builder that gets them, in a process that iterates over a part of
 * what is built. A batch holds `any` values as rs_builder.raw does, and the arrays outside them; where an array will
 * stand depends on the block that its record falls into, so a batch also says where in `raw` the positions are.
 * Packed, it is a run of bytes for the builder's process; it is no part of the format and never stored. */
#ifndef RS_BATCH_H
#define RS_BATCH_H

#include "write/rs_builder.h"
#include "write/rs_scan.h"

/* Owns its buffers. Zero it to begin, rs_batch_clear at the end. Values are appended to raw, arrays and array slots as
 * rs_builder says of the first two; a slot is two u64, where in raw the position of an array begins and how many bytes
 * the array has, in the order of raw. One thread at a time. */
typedef struct rs_batch {
    rs_buffer raw;
    rs_buffer arrays;
    rs_buffer array_slots;
    rs_buffer ends;   /* u64: where each record ends in raw */
    rs_scan scan;
} rs_batch;

enum { RS_BATCH_ARRAY_SLOT_SIZE = 16 };

void rs_batch_clear(rs_batch *self);

/* Ends the record that was appended; what rs_builder_end_record refuses is refused here, with the same error but for
 * err->record, which is the number in the batch. The caller drops a refused record. */
RS_NODISCARD rs_status rs_batch_end_record(rs_batch *self, rs_error *err);
/* Drops what was appended since the last record ended; the marks are the sizes of `arrays` and `array_slots` as of
 * then. */
void rs_batch_drop_record(rs_batch *self, size_t arrays_mark, size_t slots_mark);
/* Drops the last of the records that have ended; the marks are those of before it. */
void rs_batch_pop_record(rs_batch *self, size_t arrays_mark, size_t slots_mark);

/* Bytes in hand. */
static inline size_t rs_batch_size(const rs_batch *self) { return self->raw.size_bytes + self->arrays.size_bytes; }

/* Bytes that rs_batch_pack writes. */
size_t rs_batch_packed_size(const rs_batch *self);
/* Writes all records to `out`, which has rs_batch_packed_size bytes, and empties the batch. */
void rs_batch_pack(rs_batch *self, uint8_t *out);

/* Reads a packed batch, record by record. Borrows its bytes. One thread at a time. */
typedef struct rs_batch_reader {
    uint64_t n_records; /* all of them */
    uint64_t next;
    uint64_t n_array_slots;
    uint64_t next_array_slot;
    uint64_t at;        /* in raw */
    const uint8_t *ends;
    const uint8_t *array_slots;
    rs_slice raw;
    rs_slice arrays;
} rs_batch_reader;

/* `packed` outlives `self`. RS_E_FMT_TRUNCATED where its sizes do not fit it. */
RS_NODISCARD rs_status rs_batch_open(rs_slice packed, rs_batch_reader *self, rs_error *err);
/* Appends the next record, of which there is one, to `raw` and `arrays`, which become what they are where the record
 * was encoded into them. The record is not ended. RS_E_FMT_VALUE for a batch that contradicts itself; on failure the
 * caller drops what was appended. */
RS_NODISCARD rs_status rs_batch_next(rs_batch_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err);

/* Appends all records to a list and ends them, flushing full blocks beside. After a failure the builder is fit only to
 * be closed. Needs no lock. */
RS_NODISCARD rs_status rs_batch_append_all(rs_batch_reader *self, rs_builder *builder, rs_error *err);

#endif
