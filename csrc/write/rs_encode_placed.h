/* rs_encode_placed.h: collects the values of placed nodes and writes the places of a block (FORMAT.md, Placed nodes). A
 * block may be encoded in ranges of records, each with a part of its own. */
#pragma once

#include "base/rs_buffer.h"
#include "format/rs_places.h"
#include "plan/rs_rising.h"

/* The values of one placed node in a range of records. */
typedef struct rs_placed_values {
    rs_buffer locals; /* u32: the records with a value here, by `local`; for runs, the first record of each run */
    rs_buffer values; /* runs and exceptions: the values, each in whole bytes; rising: the u64 numbers */
    rs_buffer ends;   /* exceptions: u32, the end of each value */
    rs_slice last;    /* runs: the raw bytes of the last value, borrowed; empty at first */
} rs_placed_values;

/* The placed values of a range of records. Owns its buffers. Zero it before the first use, call rs_places_part_begin
 * for each range and rs_places_part_clear at the end. One thread at a time may use it. */
typedef struct rs_places_part {
    rs_placed_values *nodes; /* for each placed node */
    uint32_t n_nodes, capacity;
    uint32_t local; /* the number of the record in its block; the caller sets it for each record */
} rs_places_part;

/* Empties the part and prepares it for a tree. RS_E_MEM. */
RS_NODISCARD rs_status rs_places_part_begin(rs_places_part *self, const rs_tree *tree, rs_error *err);
void rs_places_part_clear(rs_places_part *self);

/* Adds `number` as the current record's value under a rising node. RS_E_MEM. */
RS_NODISCARD rs_status rs_places_put_number(rs_places_part *self, const rs_node *node, uint64_t number, rs_error *err);
/* Records that the current record begins a run or is an exception, after its value was appended to `values`. RS_E_MEM;
 * RS_E_ARG_LIMIT when the values of exceptions exceed 4 GiB. */
RS_NODISCARD rs_status rs_places_end_value(rs_places_part *self, const rs_node *node, rs_error *err);

/* Appends the places of a block of n_records records to `out`, from the parts of its ranges in order. RS_E_MEM;
 * RS_E_ARG_LIMIT when the places exceed a limit of the format. */
RS_NODISCARD rs_status rs_places_write(const rs_places_part *parts, size_t n_parts, const rs_tree *tree,
                                       uint32_t n_records, rs_buffer *out, rs_error *err);
