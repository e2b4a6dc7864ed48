/* rs_piece.h: records that were encoded away from the builder that gets them, in a process that iterates over a part of
 * what is built. A piece holds `any` values as rs_builder.raw does, and the arrays outside them; where an array will
 * stand depends on the block that its record falls into, so a piece also says where in `raw` the positions are.
 * Packed, it is a run of bytes for the builder's process; it is no part of the format and never stored. */
#ifndef RS_PIECE_H
#define RS_PIECE_H

#include "write/rs_builder.h"
#include "write/rs_scan.h"

/* Owns its buffers. Zero it to begin, rs_piece_clear at the end. Values are appended to raw, arrays and places as
 * rs_builder says of the first two; a place is two u64, where in raw the position of an array begins and how many bytes
 * the array has, in the order of raw. One thread at a time. */
typedef struct rs_piece {
    rs_buffer raw;
    rs_buffer arrays;
    rs_buffer places;
    rs_buffer ends;   /* u64: where each record ends in raw */
    rs_scan scan;
} rs_piece;

enum { RS_PIECE_PLACE_SIZE = 16 };

void rs_piece_clear(rs_piece *self);

/* Ends the record that was appended; what rs_builder_end_record refuses is refused here, with the same error but for
 * err->record, which is the number in the piece. The caller drops a refused record. */
RS_NODISCARD rs_status rs_piece_end_record(rs_piece *self, rs_error *err);
/* Drops what was appended since the last record ended; the marks are the sizes of `arrays` and `places` as of then. */
void rs_piece_drop_record(rs_piece *self, size_t arrays_mark, size_t places_mark);
/* Drops the last of the records that have ended; the marks are those of before it. */
void rs_piece_pop_record(rs_piece *self, size_t arrays_mark, size_t places_mark);

/* Bytes in hand. */
static inline size_t rs_piece_size(const rs_piece *self) { return self->raw.size_bytes + self->arrays.size_bytes; }

/* Bytes that rs_piece_pack writes. */
size_t rs_piece_packed_size(const rs_piece *self);
/* Writes all records to `out`, which has rs_piece_packed_size bytes, and empties the piece. */
void rs_piece_pack(rs_piece *self, uint8_t *out);

/* Reads a packed piece, record by record. Borrows its bytes. One thread at a time. */
typedef struct rs_piece_reader {
    uint64_t n_records; /* all of them */
    uint64_t next;
    uint64_t n_places;
    uint64_t next_place;
    uint64_t at;        /* in raw */
    const uint8_t *ends;
    const uint8_t *places;
    rs_slice raw;
    rs_slice arrays;
} rs_piece_reader;

/* `packed` outlives `self`. RS_E_FMT_TRUNCATED where its sizes do not fit it. */
RS_NODISCARD rs_status rs_piece_open(rs_slice packed, rs_piece_reader *self, rs_error *err);
/* Appends the next record, of which there is one, to `raw` and `arrays`, which become what they are where the record
 * was encoded into them. The record is not ended. RS_E_FMT_VALUE for a piece that contradicts itself; on failure the
 * caller drops what was appended. */
RS_NODISCARD rs_status rs_piece_next(rs_piece_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err);

/* Appends all records to a list and ends them, flushing full blocks beside. After a failure the builder is fit only to
 * be closed. Needs no lock. */
RS_NODISCARD rs_status rs_piece_append_all(rs_piece_reader *self, rs_builder *builder, rs_error *err);

#endif
