/* rs_plan_placed.h: computes the costs of placed nodes by reading values in the order of their records, and replaces
 * another node by a placed one if that saves enough. */
#pragma once

#include "plan/rs_plan_candidates.h"

/* The costs of placed nodes for one alternative that occurs at most once in a record. */
typedef struct rs_placed_weights {
    uint32_t n_runs;     /* number of runs of equal values; 0 when they are too many or were not counted */
    uint64_t marks_bits; /* bits of the marks of the runs */
    uint64_t rising;     /* bits of a rising node over the values as numbers; UINT64_MAX without one */
    /* Bits of a rising node over the numbers of the runs, as numbers of a table's entries; UINT64_MAX if a value has
     * several runs. */
    uint64_t ranks;
    unsigned scale; /* of floats: `rising` is for the values times 10^scale */
} rs_placed_weights;

/* Computes the costs of placed nodes for all alternatives of a block that occur at most once in a record. Call it after
 * rs_plan_prepare. It takes long, but any thread may do it before the block's turn to be planned. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_prepare_placed(rs_stats *stats, rs_error *err);
/* The same for one alternative, unless that is done already, so that a->placed is not NULL. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_weigh_placed(rs_stats *stats, rs_alternative *a, rs_error *err);

/* Replaces *out and *rest, the plan of an alternative, by a rising or runs node when that saves enough. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_placed(rs_plan_chooser *self, rs_alternative *a, rs_plan_candidate *out,
                                          rs_plan_candidate *rest);
/* Undoes the replacements in a row that do not make its bit group shorter. */
void rs_plan_unplace(rs_plan *row);
/* Replaces *out, the joined candidates, by an exceptions node if nearly all values belong to one candidate and the node
 * saves enough. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_exceptions(rs_plan_chooser *self, const rs_plan_candidate *candidates, uint32_t n,
                                              uint64_t values, rs_plan_candidate *out);
