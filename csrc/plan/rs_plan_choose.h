/* rs_plan_choose.h: chooses the plan of a tree. */
#pragma once

#include "plan/rs_plan.h"

/* Plans a tree for all values of `stats`; *out lives as long as `stats`. `hops` is 0 for the values of a block, else
 * the number of tables between the values and a block. The dictionaries' entries count in the costs, and attempts that
 * failed are noted in `dictionaries`. RS_E_ARG_LIMIT when no tree within the limits describes the values; RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned hops, rs_plan **out,
                                      rs_error *err);
