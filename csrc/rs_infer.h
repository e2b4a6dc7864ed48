/* rs_infer.h: chooses the schema tree of a block by reading every record of it: exact, nothing sampled. */
#ifndef RS_INFER_H
#define RS_INFER_H

#include "rs_buffer.h"
#include "rs_format.h"
#include "rs_scan.h"

/* Appends to `out` the bytes of a tree that every record fits. The n records are `any` values in `raw`, record i ending
 * at ends[i]; `scan` has read them all (its `next` is left anywhere). RS_E_ARG_LIMIT: no tree within the limits
 * describes them, use `any`. Needs no lock; allocates. */
RS_NODISCARD rs_status rs_infer_tree(rs_slice raw, const uint64_t *ends, uint32_t n, rs_scan *scan, rs_buffer *out,
                                     rs_error *err);

/* Appends the tree that is one `any` node. */
RS_NODISCARD rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err);

#endif
