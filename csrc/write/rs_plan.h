/* rs_plan.h: the plan of a tree: a node for each position, chosen by its cost in bits. rs_infer makes the tree's bytes
 * from it. */
#ifndef RS_PLAN_H
#define RS_PLAN_H

#include "write/rs_dictionaries.h"
#include "write/rs_string_template.h"
#include "write/rs_stats.h"

/* One node of a plan. All memory belongs to the arena of the stats. */
typedef struct rs_plan {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t count;
    rs_slice aux;
    uint32_t n_children;
    struct rs_plan **children;
    uint64_t n;               /* number of values under this node */
    uint64_t position_id;     /* dict-coded, symbols, str: the position that the tables belong to */
    rs_values entries;        /* dict-coded: the values that its tables must hold */
    bool fresh;               /* dict-coded: begin a new dictionary instead of extending that of the position */
    const rs_alternative *of; /* symbols, and str that may become symbols: the alternative of the strings */
    void *link;               /* the node's link for encoding: see rs_links in rs_encode.h */
} rs_plan;

/* Plans a tree for all values of `stats`; *out lives as long as `stats`. `hops` is 0 for the values of a block, else
 * the number of tables between the values and a block. The dictionaries' entries count in the costs, and attempts that
 * failed are noted in `dictionaries`. RS_E_ARG_LIMIT when no tree within the limits describes the values; RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned hops, rs_plan **out,
                                      rs_error *err);

/* Each of these three plans a packed node for one alternative: lists of numbers, floats, or ints. It reads every
 * number. *out becomes NULL when no node takes fewer bits than *bits. Else *out is the plan of a node that some or all
 * values fit, *n_fits their number, and *bits the bits of all values, those that do not fit included. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_numbers(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                       uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_plan_floats(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                      uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_plan_ints(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits,
                                    uint64_t *n_fits, rs_error *err);

/* Returns a node without children and with a copy of `aux`, in memory of the stats; NULL without memory. */
rs_plan *rs_plan_leaf(rs_stats *stats, unsigned kind, unsigned param, const void *aux, size_t aux_size);
/* Returns a node with room for n_children children, which the caller sets; NULL without memory. */
rs_plan *rs_plan_inner(rs_stats *stats, unsigned kind, unsigned param, uint32_t n_children);

/* Returns the width w of an int node for numbers from 0 to `range`. It is rounded up to 16, 32 or 64 where few bits are
 * lost by it, because whole bytes need no shifting. */
unsigned rs_plan_width(uint64_t range);

#endif
