/* rs_stats_structs.h: the choice of the struct for a dict. */
#pragma once

#include "plan/rs_alternatives.h"

/* Returns the struct of the position for dicts whose keys have this hash; NULL if there is none. Makes it the last
 * alternative, and the key set its last. */
rs_alternative *rs_stats_find_struct(rs_position *at, uint64_t hash);

/* Adds the key set of a dict to a struct of this position if dict and struct share at least half of the keys of the
 * smaller of them, and one order of the keys suits all dicts. Sets *out to that struct, or NULL. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_join_struct(rs_stats *self, rs_position *at, const rs_stats_head *h,
                                            rs_alternative **out, rs_error *err);
/* Sets the keys, the children's position ids and the first key set of a new struct of the position. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_begin_struct(rs_stats *self, rs_position *at, rs_alternative *a, const rs_stats_head *h,
                                             rs_error *err);
