/* rs_block_encoding.h: encodes the runs of values of a store: the records of each block, and the values of each table.
 * It chooses a tree for each run, and collects the trees and tables of the store. */
#ifndef RS_BLOCK_ENCODING_H
#define RS_BLOCK_ENCODING_H

#include "format/rs_segment.h"
#include "write/rs_encode.h"
#include "write/rs_infer.h"

/* Owns its buffers and trees; borrows writer and offsets. Zero the struct and set the first three fields; call
 * rs_block_encoding_clear at the end. One thread at a time may use it. */
typedef struct rs_block_encoding {
    rs_segment_writer *writer; /* receives the heaps of the tables */
    rs_buffer *offsets;        /* the store's OFFSETS so far */
    bool compress;             /* false: all values stay any values */
    rs_dictionaries dictionaries;
    rs_buffer trees, tree_table;
    uint32_t n_trees;
    uint64_t features; /* bits of features_required that the trees need */
    /* The tree of the last block, which a short block after it may use again. */
    rs_tree last;
    rs_links last_links;
    uint32_t last_number;
    bool has_last;
} rs_block_encoding;

/* The encoding of a run. Zero it before the first use; it may be used for many runs. Owns its buffers. */
typedef struct rs_encoded_run {
    rs_buffer encoded; /* the encoded bytes, unless is_raw */
    uint64_t *ends;    /* where each value ends in `encoded` */
    uint32_t capacity; /* of ends */
    uint32_t tree;     /* the number of the tree */
    bool is_raw;       /* the raw values are used, under a tree of one `any` node */
} rs_encoded_run;

/* Each frees what the struct owns, and zeroes it. */
void rs_encoded_run_clear(rs_encoded_run *self);
void rs_block_encoding_clear(rs_block_encoding *self);

/* Encodes values that `scan` has scanned in their order. A tree is used only when it saves more than its own bytes and
 * those of its tables. For the records of a block `position_id` and `hops` are 0. For the values of a table,
 * `position_id` is that of its dictionary and `hops` the number of tables between the values and a block. After a
 * failure `self` may only be cleared. RS_E_MEM, and the errors of the writer. */
RS_NODISCARD rs_status rs_block_encoding_choose(rs_block_encoding *self, const rs_values *values, rs_scan *scan,
                                                uint64_t position_id, unsigned hops, rs_encoded_run *out,
                                                rs_error *err);

/* Writes the bytes of a heap or section at the next multiple of 64. *off becomes their offset, *crc their crc. */
RS_NODISCARD rs_status rs_block_encoding_write(rs_segment_writer *writer, const rs_buffer *part, uint64_t *off,
                                               uint32_t *crc, rs_error *err);

#endif
