/* rs_plan_candidates.h: the candidates for the plan of a position. */
#pragma once

#include "plan/rs_plan.h"

enum {
    RS_PLAN_PADDING_BITS = 4,    /* average padding of a child of a union, which fills whole bytes */
    RS_PLAN_TABLE_BITS = 8 * 240 /* cost of a table besides its entries: the element of TABLES, a tree, offsets */
};

/* The state of choosing. One thread at a time may use it. */
typedef struct rs_plan_chooser {
    rs_stats *stats;
    rs_dictionaries *dictionaries;
    unsigned table_depth; /* number of tables between these values and a block */
    bool frugal;          /* plan as few nodes and bytes of the tree as possible */
    bool often;           /* a record may have several values of the position, because it is within a list or map */
    bool no_maps;         /* no map in place of structs */
    bool has_maps;        /* a map was chosen in place of structs */
    rs_error *err;
} rs_plan_chooser;

/* A candidate plan, and the bits that the values take under it. */
typedef struct rs_plan_candidate {
    rs_plan *plan;
    uint64_t bits;
} rs_plan_candidate;

/* Replaces *best by a dict-coded node with the entries `values` when that takes fewer bits for n values: the entries,
 * at `rate` bits per raw byte, plus n numbers. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_dict_coded(rs_plan_chooser *self, const rs_values *values, uint64_t n,
                                              uint64_t position_id, double rate, rs_plan_candidate *best);
/* Makes one dict-coded candidate of *n candidates for strings with units of different sizes, if that takes fewer bits
 * than a union: then *n becomes 1. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_merge_words(rs_plan_chooser *self, rs_plan_candidate *candidates, uint32_t *n,
                                           uint64_t values);
/* Joins the n candidates of a position with `values` values into a union or an optional; a single one stays as it is.
 * Sorts `candidates`. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_join(rs_plan_chooser *self, rs_plan_candidate *candidates, uint32_t n, uint64_t values,
                                    rs_plan_candidate *out);
