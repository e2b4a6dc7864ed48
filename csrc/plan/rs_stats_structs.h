/* rs_stats_structs.h: which struct takes a dict. */
#pragma once

#include "plan/rs_alternatives.h"

/* Returns the struct of the position that takes dicts with this hash of their keys, and makes it the last alternative
 * and the key set its last one; NULL when there is none. */
rs_alternative *rs_stats_find_struct(rs_position *at, uint64_t hash);

/* Adds the key set of a dict to a struct of this position that has at least half of the keys in common with it, in one
 * order. *out becomes that struct, or NULL when there is none. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_join_struct(rs_stats *self, rs_position *at, const rs_stats_head *h,
                                            rs_alternative **out, rs_error *err);
/* Sets keys, children and the first key set of a new alternative of the position. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_begin_struct(rs_stats *self, rs_position *at, rs_alternative *a, const rs_stats_head *h,
                                             rs_error *err);
