/* rs_plan.h: the plan of a tree: a node for each position, chosen by its cost in bits. rs_infer makes its bytes. */
#pragma once

#include "plan/rs_dictionaries.h"
#include "plan/rs_string_template.h"
#include "plan/rs_stats.h"

/* One node of a plan. All memory belongs to the arena of the stats. */
typedef struct rs_plan {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t count;
    rs_slice aux;
    uint32_t n_children;
    struct rs_plan **children;
    uint64_t n;                    /* number of values under this node */
    uint64_t position_id;          /* dict-coded, symbols, str: the position of the tables */
    rs_values entries;             /* dict-coded: the values that its tables must hold */
    bool fresh;                    /* dict-coded: begin a new dictionary, do not extend the position's old one */
    const rs_alternative *of;      /* symbols, and str that may become symbols: the alternative of the strings */
    const rs_template *without;    /* with `of`: strings that fit it belong to another node; NULL for none */
    const rs_symbol_string *texts; /* symbols for a part of a template: the n texts, else NULL */
    uint8_t unit_bytes;            /* of `texts` */
    struct rs_plan *replaced;      /* placed: the replaced node, if it is fixed and has only bits; else NULL */
    struct rs_plan *plain;         /* union of ints: one int for all of them, which is fixed; else NULL */
    void *link;                    /* the node's link for encoding: see rs_links in rs_encode.h */
} rs_plan;

/* The part of planning one alternative that depends on its values alone, not on the tables of earlier runs. Several
 * threads may thus prepare several runs. All memory belongs to the arena of the stats. */
typedef struct rs_prepared {
    const rs_template *template;   /* str: its template, or NULL */
    rs_plan *packed;               /* int, float, list of numbers: the packed node, or NULL */
    uint64_t bits, n_fits;         /* of `packed`, else of the plain node: see rs_plan_numbers */
    const rs_trained *trained;     /* str: a symbol table for all its strings, or NULL */
    const rs_symbol_string *pairs; /* str with units of 4 bytes: all its strings in UTF-16, or NULL */
} rs_prepared;

/* Prepares the alternatives that rs_plan_list lists. rs_plan_choose prepares any other alternative that it needs.
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_prepare(rs_stats *stats, rs_error *err);
/* Lists at `out` (NULL: only counts) the alternatives that take long to prepare. Leaves out alternatives that will
 * probably be constant or dict-coded. Returns their number. Threads may prepare them at once, each with a part of the
 * stats (rs_stats_begin_part). */
uint32_t rs_plan_list(const rs_stats *stats, rs_alternative **out);
/* Prepares one alternative unless it is prepared already, so that a->prepared is not NULL. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_prepare_alternative(rs_stats *stats, rs_alternative *a, rs_error *err);

/* Lists all strings of an alternative at `out`, for a symbol table: with units of 1 or 2 bytes as they are, with units
 * of 4 bytes as a->prepared->pairs. */
void rs_plan_strings(const rs_stats *stats, const rs_alternative *a, rs_symbol_string *out);
/* Returns whether all values of an alternative are equal, and its node may be a constant of at most `most` bytes. */
bool rs_plan_is_constant(const rs_stats *stats, const rs_alternative *a, size_t most);
/* Returns the entries for a dictionary of the alternative, none if they are too many. Borrowed from the stats. */
static inline rs_values rs_plan_distinct(const rs_stats *stats, const rs_alternative *a) {
    rs_values values = {stats->values.base, NULL, 0};
    if (a->distinct != NULL) {
        values.spans = a->distinct->spans;
        values.n = a->distinct->n;
    } else if (a->constant && a->n > 1) { /* a set begins with the first value that differs */
        values.spans = &a->first_span;
        values.n = 1;
    }
    return values;
}

/* Returns whether the distinct values are so few that only a dict-coded node is tried. */
bool rs_plan_has_few(const rs_alternative *a);
enum {
    RS_PLAN_CONST_BYTES = 4096, /* a longer constant stays in the heap */
    RS_PLAN_LITTLE_TEXT = 32768 /* a position with more units does not join the shared symbol table */
};

/* Returns whether a node is likely to be fixed, as FORMAT.md defines it. May err for unions, optionals and arrays. */
bool rs_plan_may_be_fixed(const rs_plan *d);
/* Returns the bits of a node in the bit group of its parent; for a dict-coded node without a final width, the bits that
 * its entries need. */
unsigned rs_plan_group_bits(const rs_plan *d);
/* Returns the bits that an optional in a bit group takes on top of its own bit and of those of its values. */
uint64_t rs_plan_unused_bits(const rs_plan *optional);
/* Returns the bits that a rare group saves in n values of a struct. */
uint64_t rs_plan_rare_gain(const rs_plan *row, uint64_t n);
/* Returns the bits of a row's bit group: of its children, and for each byte of its rare group. */
unsigned rs_plan_children_bits(const rs_plan *row);
/* Puts rare optional values under a union of one child, so that a record without one spends only one bit on it. Call it
 * when the widths of all nodes are final. RS_E_MEM. */
RS_NODISCARD rs_status rs_plan_move_rare(rs_stats *stats, rs_plan *root, rs_error *err);
/* Moves the bits of rows within rows to the bit group of the outer row where that saves bytes. Call it last. */
void rs_plan_join_bits(rs_plan *d);

/* These functions plan a packed node for one alternative: lists of numbers, floats, or ints. They may read every
 * number. Sets *out to NULL when no node takes fewer bits than *bits. Else *out is a node that fits some or all values,
 * *n_fits their number, and *bits the bits of all values, misfits included. RS_E_MEM. */
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

/* Returns the width of an int node for numbers from 0 to `range`. It is rounded up to 16, 32 or 64 if that costs few
 * bits, because whole bytes need no shifting. */
unsigned rs_plan_width(uint64_t range);
/* Returns a base for an int node of this width for numbers from min to max. The width may allow a few more numbers; the
 * base is 0 if possible, else in the middle of the lowest ones, so that the node also fits blocks that are alike. */
int64_t rs_plan_base(int64_t min, int64_t max, unsigned width);
