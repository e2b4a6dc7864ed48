/* rs_plan_in_bits.c: moves the bits of rows within rows to the bit group of the outer row.
 *
 * The bit group of each row ends with unused bits, up to seven. If an inner row has no group of its own, they are lost
 * once. An optional inner row then takes its bits in the records without it too. */
#include "plan/rs_plan.h"

enum { GROUP_BITS = 57 /* a larger group is not loaded at once */ };

static bool is_row(const rs_plan *d) { return d->kind == RS_FMT_NODE_STRUCT || d->kind == RS_FMT_NODE_TUPLE; }

/* Returns the row that is child i of `row`, or the value of that child if it is an optional. Returns NULL if there is
 * none, or its bits may not be in the group of `row`. */
static rs_plan *inner_row(const rs_plan *row, uint32_t i) {
    rs_plan *d = row->children[i];
    if ((d->flags & RS_FMT_FLAG_RARE) != 0) return NULL;
    if (d->kind == RS_FMT_NODE_OPTIONAL) d = d->children[0];
    if (!is_row(d)) return NULL;
    for (uint32_t k = 0; k < d->n_children; k++) {
        if ((d->children[k]->flags & RS_FMT_FLAG_RARE) != 0) return NULL;
    }
    return d;
}

/* Returns the bits of the bit groups of all values of a row, if each group has `bits`. */
static uint64_t groups(const rs_plan *row, unsigned bits) { return row->n * ((bits + 7) / 8 * 8); }

void rs_plan_join_bits(rs_plan *d) {
    for (uint32_t i = 0; i < d->n_children; i++) rs_plan_join_bits(d->children[i]);
    if (!is_row(d)) return;
    unsigned bits = rs_plan_children_bits(d);
    for (uint32_t i = 0; i < d->n_children; i++) {
        rs_plan *inner = inner_row(d, i);
        const unsigned more = inner == NULL ? 0 : rs_plan_children_bits(inner);
        if (more == 0 || bits + more > GROUP_BITS) continue;
        inner->flags |= RS_FMT_FLAG_IN_BITS;
        bits += more;
    }
    /* Rows that filled up only unused bits may leave again. */
    for (uint32_t i = d->n_children; i-- > 0;) {
        rs_plan *inner = inner_row(d, i);
        if (inner == NULL || (inner->flags & RS_FMT_FLAG_IN_BITS) == 0) continue;
        const unsigned own = rs_plan_children_bits(inner);
        if (groups(d, bits - own) + groups(inner, own) > groups(d, bits)) continue;
        inner->flags &= (uint16_t)~RS_FMT_FLAG_IN_BITS;
        bits -= own;
    }
}
