/* rs_group_rows.h: sorts the records of a list by their groups, for group_by and for saved indexes. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_status.h"

/* Groups n records; record i is in group group_of[i], below n_groups. Appends to `starts` the first row of each group
 * and then n, and to `rows` the record numbers group after group, ascending within a group. Each number takes `width`
 * bytes, 4 or 8, which n must fit. With `may_be_in_order`, if row i is record i for every i, appends nothing to `rows`
 * and sets *in_order; else clears it. RS_E_ARG_RANGE for a group that is not below n_groups; RS_E_MEM. After a failure
 * the buffers hold part of the numbers. Needs no lock. */
RS_NODISCARD rs_status rs_group_rows(const uint64_t *group_of, uint64_t n, uint64_t n_groups, uint32_t width,
                                     bool may_be_in_order, rs_buffer *starts, rs_buffer *rows, bool *in_order,
                                     rs_error *err);
