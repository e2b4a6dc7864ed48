/* rs_block_encoding.h: encodes the runs of values of a store: the records of each block, and the values of each table.
 * It chooses a tree for each run, and collects the trees and tables of the store.
 *
 * A run is encoded in three steps. Its *survey* (rs_infer_survey) depends only on the values, so any thread may survey
 * any run. *Settling* chooses the tree and extends the tables, run after run. *Encoding* under a settled tree changes
 * only its output, so threads may divide the values of a run. A run is settled only after all values of the
 * previous one are encoded, because settling changes the dictionaries that encoding reads. */
#pragma once

#include "format/rs_segment.h"
#include "write/rs_encode.h"
#include "write/rs_infer.h"

/* A settled run. Owns tree and links. */
typedef struct rs_settled {
    rs_tree tree; /* compiled, with its links applied; only for encoding */
    rs_links links;
    uint64_t before; /* the bytes of the store before the run was settled */
} rs_settled;

/* Owns its buffers and trees; borrows writer and offsets. Zero the struct and set the first three fields; call
 * rs_block_encoding_clear at the end. One thread at a time may use it. */
typedef struct rs_block_encoding {
    rs_segment_writer *writer; /* receives the heaps of the tables */
    rs_buffer *offsets;        /* the store's OFFSETS so far */
    rs_choices choices;
    rs_dictionaries dictionaries;
    rs_buffer trees, tree_table;
    uint32_t n_trees;
    uint64_t features; /* bits of features_required that the trees need */
    /* Taken by rs_block_parcel.h: numbers of tables and trees, and bytes of the segment and of `offsets`. */
    uint32_t taken_tables, taken_trees;
    uint64_t taken_bytes;
    rs_settled last; /* the tree of the last block, which the next short block may reuse */
    uint32_t last_number;
    bool has_last;
} rs_block_encoding;

/* Each frees what the struct owns, and zeroes it. */
void rs_settled_clear(rs_settled *self);
void rs_block_encoding_clear(rs_block_encoding *self);

/* Begins the run of the next block, before it is settled. dictionaries.run becomes its number, counted from 1. */
void rs_block_encoding_begin(rs_block_encoding *self);
/* Settles a run: makes its tree and the tables for it. The caller calls rs_settled_clear, even after an error.
 * RS_E_ARG_LIMIT and RS_E_FMT_TREE when no tree within the limits describes the values; they stay raw. RS_E_MEM, and
 * the errors of the writer: `self` may then only be cleared. */
RS_NODISCARD rs_status rs_block_encoding_settle(rs_block_encoding *self, rs_stats *survey, unsigned table_depth,
                                                rs_settled *out, rs_error *err);
/* Appends the n values from number `first` of a settled run to `out`, and sets ends[i] to the end of the i-th of them
 * in `out`. `scan` has scanned these n values. RS_E_ARG_RANGE when a value does not fit the tree, which happens only
 * with the tree of another run; RS_E_ARG_LIMIT when they cannot be encoded within the limits: the run then stays raw.
 * RS_E_MEM. Any number of threads may encode values of one run, each with its own scan, places, `out` and ends. */
RS_NODISCARD rs_status rs_block_encoding_encode(const rs_settled *settled, const rs_values *values, uint32_t first,
                                                uint32_t n, rs_scan *scan, rs_places_part *places, rs_buffer *out,
                                                uint64_t *ends, rs_error *err);
/* Ends a run whose settling or encoding ended with `status`. Returns RS_E_MEM and errors of the writer; after another
 * error the run stays raw. A tree is used only when the `encoded` bytes save more than the bytes of the tree and its
 * tables. Sets *tree to the number of the run's tree, and *is_raw to whether the values stay raw. */
RS_NODISCARD rs_status rs_block_encoding_accept(rs_block_encoding *self, rs_settled *settled, rs_status status,
                                                uint64_t raw, uint64_t encoded, unsigned table_depth, uint32_t *tree,
                                                bool *is_raw, rs_error *err);
/* Sets *number to the number of the tree with these bytes, which is added if it is new. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_encoding_add_tree(rs_block_encoding *self, const uint8_t *bytes, size_t size,
                                                  uint32_t *number, rs_error *err);
/* The same for a tree that is known to be new, without a search. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_encoding_append_tree(rs_block_encoding *self, const uint8_t *bytes, size_t size,
                                                     uint32_t *number, rs_error *err);
/* Ends a run that stays raw. Sets *tree to the number of a tree of one `any` node. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_encoding_stay_raw(rs_block_encoding *self, uint32_t *tree, rs_error *err);

/* Writes the bytes of a heap or section, given as n parts, at the next multiple of 64. Sets *off to their offset
 * and *crc to their crc. Errors of the writer. */
RS_NODISCARD rs_status rs_block_encoding_write(rs_segment_writer *writer, const rs_slice *parts, size_t n,
                                               uint64_t *off, uint32_t *crc, rs_error *err);
