/* rs_plan.h: a tree before its bytes: which node stands where, chosen by what it would cost. */
#ifndef RS_PLAN_H
#define RS_PLAN_H

#include "write/rs_dictionaries.h"
#include "write/rs_string_template.h"
#include "write/rs_stats.h"

/* One node. All memory is the arena of the stats. */
typedef struct rs_plan {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t count;
    rs_slice aux;
    uint32_t n_children;
    struct rs_plan **children;
    uint64_t n;                 /* values that stand here */
    uint64_t position_id;       /* dict-coded, symbols, str: whose table */
    rs_values entries;          /* dict-coded, until it is settled: what its tables have to hold */
    bool fresh;                 /* dict-coded: a dictionary of its own, not the position's so far */
    const rs_alternative *of;   /* symbols, until they are settled, and str that might be symbols: the strings */
    void *link;                 /* what encoding needs beside the tree: see rs_encode.h */
} rs_plan;

/* Chooses for all values of stats, which stand in a block, or `hops` tables away from one. `dictionaries` is asked for
 * what its dictionaries hold, and remembers what was not worth it. RS_E_ARG_LIMIT: no tree within the limits.
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned hops, rs_plan **out,
                                       rs_error *err);

/* The nodes for lists of numbers and for floats, which need a look at every number: NULL where none is better than
 * *bits, else a plan for those of the n values that it fits; *bits becomes what they take, *n_fits how many they
 * are. */
RS_NODISCARD rs_status rs_plan_numbers(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                        uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_plan_floats(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                       uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_plan_ints(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                     uint64_t *n_fits, rs_error *err);

/* A node without children in memory of the stats; NULL without memory. */
rs_plan *rs_plan_leaf(rs_stats *stats, unsigned kind, unsigned param, const void *aux, size_t aux_size);
/* The same with n children, which are the caller's to set. */
rs_plan *rs_plan_inner(rs_stats *stats, unsigned kind, unsigned param, uint32_t n_children);

/* Bits of an int node: whole bytes where little is lost by it, because those need no shifting. */
unsigned rs_plan_width(uint64_t range);

#endif
