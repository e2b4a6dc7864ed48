/* rs_infer.h: chooses the schema tree of a run of values by reading every one of them: exact, nothing sampled. */
#ifndef RS_INFER_H
#define RS_INFER_H

#include "write/rs_encode.h"
#include "write/rs_dictionaries.h"
#include "write/rs_scan.h"

/* Appends to `out` the bytes of a tree that every value fits, and to `links` what encoding with it needs. `scan` has
 * read the values in their order (its `next` is left anywhere). Tables that the tree names are written through
 * `dictionaries`; the values stand in a block (`position_id` 0), or in a table of the dictionary of
 * `position_id`, `hops` tables away from one. RS_E_ARG_LIMIT: no tree within the limits describes
 * them, use `any`. Needs no lock; allocates. */
RS_NODISCARD rs_status rs_infer_tree(const rs_values *values, rs_scan *scan, rs_dictionaries *dictionaries,
                                     uint64_t position_id,
                                     unsigned hops, rs_buffer *out, rs_links *links, rs_error *err);

/* Appends the tree that is one `any` node. */
RS_NODISCARD rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err);

#endif
