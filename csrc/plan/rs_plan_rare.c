/* rs_plan_rare.c: moves rare optional values out of the bit group.
 *
 * An optional takes the bits of its value in every record. If dicts have few of many possible keys, most of the bit
 * group would be unused. Under a union of one child, a value has a body of whole bytes, and only in the records that
 * have the value. The bits that say which values there are become a rare group if most records have none. */
#include "plan/rs_plan.h"

enum {
    NODE_BITS = 8 * RS_FMT_NODE_SIZE, /* cost of one more node */
    BODY_BITS = 16,                   /* least gain of a value, because reading a body takes time */
    RARE_BITS = 4,                    /* least gain of a rare group */
    UNFIXED_BITS = 16                 /* least gain of a row that loses its fixed size */
};

/* The state of moving. The tree may still get spare_nodes nodes. */
typedef struct mover {
    rs_stats *stats;
    uint32_t spare_nodes;
    rs_error *err;
} mover;

static bool fills_bytes(unsigned width) { return width == 8 || width == 16 || width == 32 || width == 64; }

unsigned rs_plan_group_bits(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_DECIMAL:
    case RS_FMT_NODE_DIGITS: return fills_bytes(d->param) ? 0 : d->param;
    case RS_FMT_NODE_BOOL: return 1;
    case RS_FMT_NODE_DICT_CODED: return d->param != 0 || d->entries.n == 0 ? d->param : rs_bit_width(d->entries.n - 1);
    case RS_FMT_NODE_UNION: return rs_bit_width(d->n_children - 1);
    case RS_FMT_NODE_OPTIONAL: return 1 + rs_plan_group_bits(d->children[0]);
    case RS_FMT_NODE_EXT:
    case RS_FMT_NODE_EXCEPTIONS: return rs_plan_group_bits(d->children[0]);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return (d->flags & RS_FMT_FLAG_IN_BITS) != 0 ? rs_plan_children_bits(d) : 0;
    default: return 0;
    }
}

unsigned rs_plan_children_bits(const rs_plan *row) {
    unsigned bits = 0, rare = 0;
    for (uint32_t i = 0; i < row->n_children; i++) {
        if ((row->children[i]->flags & RS_FMT_FLAG_RARE) != 0) rare++;
        else bits += rs_plan_group_bits(row->children[i]);
    }
    return bits + (rare + 7) / 8;
}

/* Returns whether a node is fixed and its bodies have no bytes. */
static bool without_body(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_BOOL:
    case RS_FMT_NODE_DICT_CODED:
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
    case RS_FMT_NODE_SAME: return true;
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_DECIMAL:
    case RS_FMT_NODE_DIGITS: return !fills_bytes(d->param);
    case RS_FMT_NODE_OPTIONAL:
    case RS_FMT_NODE_EXCEPTIONS:
    case RS_FMT_NODE_EXT: return without_body(d->children[0]);
    default: return false;
    }
}

bool rs_plan_may_be_fixed(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_ANY:
    case RS_FMT_NODE_STR:
    case RS_FMT_NODE_BYTES:
    case RS_FMT_NODE_NUMBERS:
    case RS_FMT_NODE_MAP:
    case RS_FMT_NODE_SYMBOLS: return false;
    case RS_FMT_NODE_OPTIONAL: return (d->flags & RS_FMT_FLAG_RARE) == 0 && without_body(d->children[0]);
    case RS_FMT_NODE_EXCEPTIONS: return rs_plan_may_be_fixed(d->children[0]);
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_ALPHABET:
    case RS_FMT_NODE_NDARRAY:
        if ((d->flags & RS_FMT_FLAG_FIXED) == 0) return false;
        break;
    default: break;
    }
    for (uint32_t i = 0; i < d->n_children; i++) {
        if (!rs_plan_may_be_fixed(d->children[i])) return false;
    }
    return true;
}

static bool is_text(const rs_plan *d) {
    if (d->kind == RS_FMT_NODE_OPTIONAL || d->kind == RS_FMT_NODE_EXCEPTIONS) d = d->children[0];
    if (d->kind == RS_FMT_NODE_ALPHABET) return d->param != RS_FMT_ALPHABET_ALL && (d->flags & RS_FMT_FLAG_FIXED) == 0;
    return d->kind == RS_FMT_NODE_STR || d->kind == RS_FMT_NODE_BYTES || d->kind == RS_FMT_NODE_SYMBOLS;
}

/* Returns the number, counted from 1, of the text that needs no length because it ends the row: all children after it
 * are fixed. 0 without one. */
static uint32_t last_text(const rs_plan *row) {
    uint32_t i = row->n_children;
    while (i > 0 && rs_plan_may_be_fixed(row->children[i - 1])) i--;
    return i > 0 && is_text(row->children[i - 1]) ? i : 0;
}

/* Returns the bits of the values of an optional when they have bodies. */
static uint64_t bits_of_bodies(const rs_plan *optional) {
    const rs_plan *child = optional->children[0];
    return NODE_BITS + child->n * ((rs_plan_group_bits(child) + 7) / 8 * 8);
}

/* Returns whether the values of an optional take fewer bits with bodies, by enough. */
static bool gains_by_bodies(const rs_plan *optional) {
    const rs_plan *child = optional->children[0];
    return optional->n * rs_plan_group_bits(child) > bits_of_bodies(optional) + child->n * BODY_BITS;
}

uint64_t rs_plan_unused_bits(const rs_plan *optional) {
    const rs_plan *child = optional->children[0];
    const uint64_t width = rs_plan_group_bits(child);
    return (gains_by_bodies(optional) ? bits_of_bodies(optional) : optional->n * width) - child->n * width;
}

/* Returns the bits that the values of child i of a row save when they get bodies; 0 when that is not worth a node.
 * `text` comes from last_text. */
static uint64_t saved_by(const rs_plan *row, uint32_t i, uint32_t text) {
    const rs_plan *optional = row->children[i];
    if (optional->kind != RS_FMT_NODE_OPTIONAL) return 0;
    const rs_plan *child = optional->children[0];
    const uint64_t now = optional->n * rs_plan_group_bits(child);
    uint64_t then = bits_of_bodies(optional) + child->n * BODY_BITS;
    if (text != 0 && i >= text) then += optional->n * 8; /* the text before it then needs a length */
    return now > then ? now - then : 0;
}

static rs_status put_under_union(mover *self, rs_plan *optional) {
    if (self->spare_nodes == 0) return RS_OK;
    rs_plan *d = rs_plan_inner(self->stats, RS_FMT_NODE_UNION, 0, 1);
    if (d == NULL) return rs_no_memory(self->err);
    self->spare_nodes--;
    d->children[0] = optional->children[0];
    d->n = d->children[0]->n;
    optional->children[0] = d;
    return RS_OK;
}

/* Returns the bits of a child of a row in its bit group: now or, with `then`, after rs_plan_move_rare. */
static unsigned bits_of(const rs_plan *child, bool then) {
    return then && child->kind == RS_FMT_NODE_OPTIONAL && gains_by_bodies(child) ? 1 : rs_plan_group_bits(child);
}

/* Returns how often a child of a row has a value, from 0 to 1; 1 if it may not be rare. */
static double share_of(const rs_plan *child, bool then) {
    if (child->kind != RS_FMT_NODE_OPTIONAL || bits_of(child, then) != 1 || child->n == 0) return 1;
    return (double)child->children[0]->n / (double)child->n;
}

/* Returns the bits of the bit group and the rare group of a row in a record, on average, if the children that are in at
 * most a share of the records are rare, and independent of one another; a large number if they are too many. */
static double group_cost(const rs_plan *row, double most, bool then) {
    uint64_t bits = 0, rare = 0;
    double stored = 0, zero = 1;
    for (uint32_t i = 0; i < row->n_children; i++) {
        const double share = share_of(row->children[i], then);
        if (share > most) {
            bits += bits_of(row->children[i], then);
            continue;
        }
        zero *= 1 - share;
        if (++rare % 8 != 0) continue;
        stored += 1 - zero;
        zero = 1;
    }
    const uint64_t bytes = (rare + 7) / 8, group = (bits + bytes + 7) / 8;
    return rare != 0 && group + bytes > RS_FMT_RARE_BYTES ? 1e9 : 8 * ((double)group + stored + 1 - zero);
}

/* Finds the best rare group of a struct. Returns the largest share of its children, or 0 if no rare group saves enough.
 * Sets *saved to the bits that the group saves in a record. */
static double best_share(const rs_plan *row, bool then, double *saved) {
    const double now = group_cost(row, 0, then);
    double best = now - (rs_plan_may_be_fixed(row) ? UNFIXED_BITS : RARE_BITS), share = 0;
    *saved = 0;
    for (double most = 0.5; most > 0.001; most /= 2) {
        const double cost = group_cost(row, most, then);
        if (cost >= best) continue;
        best = cost;
        share = most;
        *saved = now - cost;
    }
    return share;
}

uint64_t rs_plan_rare_gain(const rs_plan *row, uint64_t n) {
    double saved;
    (void)best_share(row, true, &saved);
    return (uint64_t)(saved * (double)n);
}

/* Gives a struct a rare group, if that saves enough. */
static void mark_rare(rs_plan *row) {
    double saved;
    const double share = best_share(row, false, &saved);
    for (uint32_t i = 0; share != 0 && i < row->n_children; i++) {
        if (share_of(row->children[i], false) <= share) row->children[i]->flags |= RS_FMT_FLAG_RARE;
    }
}

static rs_status move_rare(mover *self, rs_plan *d) {
    uint64_t saved = 0;
    bool row = d->kind == RS_FMT_NODE_STRUCT || d->kind == RS_FMT_NODE_TUPLE;
    uint32_t text = row ? last_text(d) : 0;
    for (uint32_t i = 0; row && i < d->n_children; i++) saved += saved_by(d, i, text);
    /* Rows of a fixed size are read faster. */
    if (saved > 0 && rs_plan_may_be_fixed(d) && saved <= d->n * UNFIXED_BITS) saved = 0;
    for (uint32_t i = 0; saved > 0 && i < d->n_children; i++) {
        if (saved_by(d, i, text) > 0) RS_TRY(put_under_union(self, d->children[i]));
    }
    if (d->kind == RS_FMT_NODE_STRUCT) mark_rare(d);
    for (uint32_t i = 0; i < d->n_children; i++) RS_TRY(move_rare(self, d->children[i]));
    return RS_OK;
}

static uint32_t count_nodes(const rs_plan *d) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < d->n_children; i++) n += count_nodes(d->children[i]);
    return n;
}

rs_status rs_plan_move_rare(rs_stats *stats, rs_plan *root, rs_error *err) {
    uint32_t n = count_nodes(root);
    mover self = {stats, n < RS_FMT_TREE_NODES ? RS_FMT_TREE_NODES - n : 0, err};
    if (!rs_choices_allow(stats->choices, RS_FMT_NODE_UNION)) return RS_OK;
    return move_rare(&self, root);
}
