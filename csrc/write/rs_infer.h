/* rs_infer.h: infers the schema tree of a run of values: a survey (statistics, and the planning that depends on them
 * alone), then plan, tables, and the tree's bytes. Every value is read; nothing is sampled. */
#pragma once

#include "plan/rs_dictionaries.h"
#include "plan/rs_stats.h"
#include "write/rs_encode.h"

/* Surveys the values of `stats`, whose values, scan, choices, hints and run are set; all else is zero. `position_id` is
 * 0 for the values of a block, and the position id of the dictionary for the values of a table. Needs no lock: threads
 * may survey several runs at once. The caller calls rs_stats_clear, also after an error. RS_E_ARG_LIMIT when no tree
 * within the limits describes the values; RS_E_MEM. */
RS_NODISCARD rs_status rs_infer_survey(rs_stats *stats, uint64_t position_id, rs_error *err);
/* The first step of rs_infer_survey, to survey a run in parts: rs_stats_collect_more follows for each part, and
 * rs_plan_prepare (rs_plan.h) at the end. */
void rs_infer_begin_survey(rs_stats *stats, uint64_t position_id);

/* Appends the bytes of a tree for all values of a survey to `out`, and the links for encoding to `links`. Writes its
 * tables through `dictionaries`. `table_depth` is 0 for the values of a block, else the number of tables between the
 * values and a block. RS_E_ARG_LIMIT when no tree within the limits describes the values: the caller then uses `any`.
 * RS_E_MEM. The runs of a store are inferred in order, one at a time. */
RS_NODISCARD rs_status rs_infer_tree(rs_stats *stats, rs_dictionaries *dictionaries, unsigned table_depth,
                                     rs_buffer *out, rs_links *links, rs_error *err);

/* Appends a tree of one `any` node. */
RS_NODISCARD rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err);
