/* rs_plan_choose.h: chooses the plan of a tree. */
#pragma once

#include "plan/rs_plan.h"

/* Plans a tree for all values of `stats`; *out lives as long as `stats`. `table_depth` is 0 for the values of a block,
 * else the number of tables between the values and a block. Costs consider the entries of `dictionaries`, which also
 * records failed attempts. RS_E_ARG_LIMIT when no tree within the limits describes the values; RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned table_depth,
                                      rs_plan **out, rs_error *err);
