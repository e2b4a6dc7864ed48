/* rs_infer.h: infers the schema tree of a run of values: a survey (stats, and the planning that needs nothing else),
 * then plan, tables, and the tree's bytes. Every value is read; nothing is sampled. */
#pragma once

#include "plan/rs_dictionaries.h"
#include "plan/rs_stats.h"
#include "write/rs_encode.h"

/* Surveys the values of `stats`, whose values, scan, hints and run are set; all else is zero. For the values of a block
 * `position_id` is 0, for those of a table it is that of its dictionary. Needs no lock: any thread may survey any run,
 * while others survey other runs. The caller calls rs_stats_clear, also after an error. RS_E_ARG_LIMIT when no tree
 * within the limits describes the values; RS_E_MEM. */
RS_NODISCARD rs_status rs_infer_survey(rs_stats *stats, uint64_t position_id, rs_error *err);
/* The first step of rs_infer_survey. rs_stats_collect_more and, at the end, rs_plan_prepare (rs_plan.h) are the others:
 * so a run can be surveyed in parts. */
void rs_infer_begin_survey(rs_stats *stats, uint64_t position_id);

/* Appends to `out` the bytes of a tree that every value of a survey fits, and to `links` the links for encoding with
 * it. The tables that the tree names are written through `dictionaries`. `hops` is 0 for the values of a block, else
 * the number of tables between the values and a block. RS_E_ARG_LIMIT when no tree within the limits describes the
 * values: the caller then uses `any`. RS_E_MEM. The runs of a store are inferred in their order, one at a time. */
RS_NODISCARD rs_status rs_infer_tree(rs_stats *stats, rs_dictionaries *dictionaries, unsigned hops, rs_buffer *out,
                                     rs_links *links, rs_error *err);

/* Appends a tree of one `any` node. */
RS_NODISCARD rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err);
