/* rs_block_encoding.h: how a run of values is encoded: under which tree, and to which bytes. What is written of
 * trees and tables collects here, for all runs of a store. */
#ifndef RS_BLOCK_ENCODING_H
#define RS_BLOCK_ENCODING_H

#include "format/rs_segment.h"
#include "write/rs_encode.h"
#include "write/rs_infer.h"

/* Owns its buffers and trees; borrows writer and offsets. Zero it, set the first three; rs_block_encoding_clear at
 * the end. One thread at a time. */
typedef struct rs_block_encoding {
    rs_segment_writer *writer; /* takes the tables' heaps */
    rs_buffer *offsets;        /* the store's OFFSETS so far */
    bool compress;             /* false: everything keeps `any` */
    rs_dictionaries dictionaries;
    rs_buffer trees, tree_table;
    uint32_t n_trees;
    uint64_t features;         /* bits of features_required that the trees need */
    /* The tree of the last block, for a short one after it. */
    rs_tree last;
    rs_links last_links;
    uint32_t last_number;
    bool has_last;
} rs_block_encoding;

/* What a run of values became. Owns its buffers; reused from run to run. */
typedef struct rs_encoded_run {
    rs_buffer encoded;  /* unless is_raw */
    uint64_t *ends;     /* where each value ends in it */
    uint32_t capacity;
    uint32_t tree;
    bool is_raw;        /* the values stay as they are, under a tree of `any` */
} rs_encoded_run;

void rs_encoded_run_clear(rs_encoded_run *self);
void rs_block_encoding_clear(rs_block_encoding *self);

/* Chooses for values that `scan` has read in their order. A tree is added only where it saves more than its own bytes
 * and those of its tables. They stand in a block (position_id 0), or in a table of the dictionary of
 * `position_id`, `hops` tables away from one. After a failure `self` is fit only to be
 * cleared. */
RS_NODISCARD rs_status rs_block_encoding_choose(rs_block_encoding *self, const rs_values *values, rs_scan *scan,
                                                uint64_t position_id,
                                       unsigned hops, rs_encoded_run *out, rs_error *err);

/* Writes a run of bytes at the next multiple of 64: of heaps and of sections. */
RS_NODISCARD rs_status rs_block_encoding_write(rs_segment_writer *writer, const rs_buffer *part, uint64_t *off,
                                               uint32_t *crc,
                                      rs_error *err);

#endif
