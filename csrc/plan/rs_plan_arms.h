/* rs_plan_arms.h: the candidates among which the plan of a position is chosen, and the log of their bits. */
#pragma once

#include "plan/rs_plan.h"
#include "plan/rs_plan_log.h"

enum {
    RS_PLAN_ALONE_BITS = 4,      /* what rounds up the bits of a child of a union, on average */
    RS_PLAN_TABLE_BITS = 8 * 240 /* cost of a table beside its entries: the element of TABLES, a tree, offsets */
};

#define RS_PLAN_OFF_THE_LOG UINT32_MAX

/* The state of choosing. One thread at a time may use it. */
typedef struct rs_plan_chooser {
    rs_stats *stats;
    rs_dictionaries *dictionaries;
    unsigned hops; /* number of tables between these values and a block */
    bool frugal;   /* plan as few nodes and bytes of the tree as possible */
    bool often;    /* a record may have several values of the position, which is within a list or map */
    bool no_maps;  /* no map in place of structs */
    bool has_maps; /* a map was chosen in place of structs */
    rs_error *err;
    rs_plan_log *log; /* NULL without one; the fields below are for the log alone */
    uint32_t n_keys;  /* the first so many keys of the log lead to the position; RS_PLAN_OFF_THE_LOG for another */
    uint32_t depth, position;      /* of the entries that follow */
    uint32_t n_positions;          /* number of alternatives so far */
    const rs_alternative *weighed; /* the alternative whose forms are being weighed; NULL for parts of strings */
} rs_plan_chooser;

/* A candidate plan, and the bits that the values take under it. */
typedef struct rs_plan_arm {
    rs_plan *plan;
    uint64_t bits;
} rs_plan_arm;

/* Replaces *best by a dict-coded node with the entries `values` when that takes fewer bits for n values: entries, at
 * `rate` bits for each raw byte, plus n numbers. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_try_dict_coded(rs_plan_chooser *self, const rs_values *values, uint64_t n,
                                              uint64_t position_id, double rate, rs_plan_arm *best);
/* Joins n arms of a position with so many values: a union, an optional, or the only arm. It sorts `arms`. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_join_arms(rs_plan_chooser *self, rs_plan_arm *arms, uint32_t n, uint64_t values,
                                         rs_plan_arm *out);

/* Logs a form: the bits that all values of the alternative take with it, and how many fit it. `child` is the kind of
 * the child of a list, else 0. Does nothing off the log's field. */
void rs_plan_log_form(rs_plan_chooser *self, unsigned kind, unsigned child, uint64_t bits, uint64_t fits);
