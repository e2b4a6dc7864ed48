/* rs_forms.h: the form of a run of values: which tree, and their bytes under it. What is written of trees and tables
 * collects here, for all runs of a store. */
#ifndef RS_FORMS_H
#define RS_FORMS_H

#include "format/rs_segment.h"
#include "write/rs_encode.h"
#include "write/rs_infer.h"

/* Owns its buffers and trees; borrows writer and offsets. Zero it, set the first three; rs_forms_clear at the end. One
 * thread at a time. */
typedef struct rs_forms {
    rs_segment_writer *writer; /* takes the tables' heaps */
    rs_buffer *offsets;        /* the store's OFFSETS so far */
    bool compress;             /* false: everything keeps `any` */
    rs_packer packer;
    rs_buffer trees, tree_table;
    uint32_t n_trees;
    uint64_t features;         /* bits of features_required that the trees need */
    /* The tree of the last block, for a short one after it. */
    rs_tree last;
    rs_links last_links;
    uint32_t last_number;
    bool has_last;
} rs_forms;

/* What a run of values became. Owns its buffers; reused from run to run. */
typedef struct rs_form {
    rs_buffer encoded;  /* unless is_raw */
    uint64_t *ends;     /* where each value ends in it */
    uint32_t capacity;
    uint32_t tree;
    bool is_raw;        /* the values stay as they are, under a tree of `any` */
} rs_form;

void rs_form_clear(rs_form *self);
void rs_forms_clear(rs_forms *self);

/* Chooses for values that `scan` has read in their order. A tree is added only where it saves more than its own bytes
 * and those of its tables. They stand in a block (path 0), or in a table of the dictionary of
 * `path`, `hops` tables away from one. After a failure `self` is fit only to be
 * cleared. */
RS_NODISCARD rs_status rs_forms_choose(rs_forms *self, const rs_values *values, rs_scan *scan, uint64_t path,
                                       unsigned hops, rs_form *out, rs_error *err);

/* Writes a run of bytes at the next multiple of 64: of heaps and of sections. */
RS_NODISCARD rs_status rs_forms_write(rs_segment_writer *writer, const rs_buffer *part, uint64_t *off, uint32_t *crc,
                                      rs_error *err);

#endif
