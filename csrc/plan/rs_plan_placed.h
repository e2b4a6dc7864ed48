/* rs_plan_placed.h: weighs the placed nodes for the values of alternatives, by reading them in the order of their
 * records, and puts one in the place of another node where it saves enough. */
#pragma once

#include "plan/rs_plan_arms.h"

/* What the placed nodes would take for the values of one alternative, of which every record has at most one. */
typedef struct rs_placed_weights {
    uint32_t n_runs;     /* number of runs of equal bytes; 0 when they are too many, or were not looked for */
    uint64_t marks_bits; /* bits of the marks of the runs */
    uint64_t rising;     /* bits of a rising node over the values as numbers; UINT64_MAX: none, or not looked for */
    uint64_t ranks;      /* the same over the numbers of the runs, which are those of the entries of a table that holds
                            each value once; UINT64_MAX where a value has several runs */
    unsigned scale;      /* of floats: `rising` is for the values times 10^scale */
} rs_placed_weights;

/* Weighs the placed nodes for all alternatives of a block's values that occur at most once in a record. rs_plan_prepare
 * has prepared them. It reads every number, so it is done before blocks are settled, by any thread. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_prepare_placed(rs_stats *stats, rs_error *err);
/* The same for one alternative, unless that is done already: a->placed is not NULL afterwards. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_weigh_placed(rs_stats *stats, rs_alternative *a, rs_error *err);

/* Replaces *out and *rest, the plan of an alternative, by a rising or runs node when that saves enough. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_placed(rs_plan_chooser *self, rs_alternative *a, rs_plan_arm *out,
                                          rs_plan_arm *rest);
/* Puts back the nodes that a row's placed nodes replaced, where the row's bit group takes as many bytes with them. */
void rs_plan_unplace(rs_plan *row);
/* Replaces *out, which joins the arms, by an exceptions node where most values are of one arm and it pays. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_exceptions(rs_plan_chooser *self, const rs_plan_arm *arms, uint32_t n,
                                              uint64_t values, rs_plan_arm *out);
