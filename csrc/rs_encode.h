/* rs_encode.h: rewrites a raw `any` record in the form that a schema tree gives it. */
#ifndef RS_ENCODE_H
#define RS_ENCODE_H

#include "rs_buffer.h"
#include "rs_scan.h"
#include "rs_schema.h"

/* Appends the record `raw` (one value that `scan` has read; scan->next stands at its first dict) as `tree` says.
 * RS_E_ARG_RANGE when it does not fit the tree; `out` then holds part of it, and the caller drops that.
 * Allocates only in `out`; needs no lock. */
RS_NODISCARD rs_status rs_encode_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_buffer *out,
                                        rs_error *err);

#endif
