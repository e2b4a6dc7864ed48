/* rs_infer.h: infers the schema tree of a run of values: stats, plan, tables, and the tree's bytes. Every value is
 * read; nothing is sampled. */
#ifndef RS_INFER_H
#define RS_INFER_H

#include "write/rs_encode.h"
#include "write/rs_dictionaries.h"
#include "write/rs_scan.h"

/* Appends to `out` the bytes of a tree that every value fits, and to `links` the links for encoding with it. `scan` has
 * scanned the values in their order; its `next` changes. The tables that the tree names are written through
 * `dictionaries`. For the values of a block `position_id` and `hops` are 0. For the values of a table, `position_id` is
 * that of its dictionary and `hops` the number of tables between the values and a block. RS_E_ARG_LIMIT when no tree
 * within the limits describes the values: the caller then uses `any`. RS_E_MEM. Needs no lock. */
RS_NODISCARD rs_status rs_infer_tree(const rs_values *values, rs_scan *scan, rs_dictionaries *dictionaries,
                                     uint64_t position_id, unsigned hops, rs_buffer *out, rs_links *links,
                                     rs_error *err);

/* Appends a tree of one `any` node. */
RS_NODISCARD rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err);

#endif
