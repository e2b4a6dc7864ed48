/* rs_plan_candidates.c: computes the cost of dict-coded nodes, and joins the candidates of a position. */
#include "plan/rs_plan_candidates.h"

enum {
    ENTRY_BITS = 17,    /* cost of an entry besides its bytes: its offset */
    NONE_BITS = 512,    /* least gain of None as an entry */
    MAX_TABLE_DEPTH = 3 /* the longest chain of tables that name tables */
};

typedef rs_plan_chooser chooser;
typedef rs_plan_candidate candidate;

/* Returns whether the tree may have nodes of this kind. */
static bool allowed(const chooser *self, unsigned kind) { return rs_choices_allow(self->stats->choices, kind); }

/* ---- Tables ---- */

/* Counts in *n the values that the dictionary (NULL: empty) lacks. Returns the bits of a table of them, at `rate` bits
 * per raw byte. */
static uint64_t new_entries(const rs_dictionary *dictionary, const rs_values *values, double rate, uint32_t *n) {
    uint64_t bytes = 0;
    *n = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        if (dictionary != NULL && rs_dictionary_find(dictionary, rs_values_at(values, i)) != UINT32_MAX) continue;
        bytes += values->spans[i].size_bytes;
        ++*n;
    }
    return (uint64_t)((double)bytes * rate) + (uint64_t)*n * ENTRY_BITS + (*n > 0 ? RS_PLAN_TABLE_BITS : 0);
}

/* Returns whether a value has array data outside it. Such values cannot be in a table, which has no arrays. */
static bool has_outside(const rs_values *values) {
    for (uint32_t i = 0; i < values->n; i++) {
        rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH};
        rs_slice value = rs_values_at(values, i);
        if (rs_any_skip(&value, 0, &budget, NULL) != RS_OK) return true;
    }
    return false;
}

/* Compares a new dictionary with an extension of the position's dictionary. */
rs_status rs_plan_try_dict_coded(chooser *self, const rs_values *values, uint64_t n, uint64_t position_id, double rate,
                                 candidate *best) {
    uint32_t n_new, more;
    uint64_t extended_bits = UINT64_MAX;
    if (values->n == 0 || self->table_depth >= MAX_TABLE_DEPTH || !allowed(self, RS_FMT_NODE_DICT_CODED)) return RS_OK;
    uint64_t fresh_bits = new_entries(NULL, values, rate, &n_new) + n * rs_bit_width(values->n - 1);
    const rs_dictionary *dictionary = rs_dictionaries_find(self->dictionaries, position_id, 0);
    if (dictionary != NULL) {
        uint64_t entries = new_entries(dictionary, values, rate, &more);
        dictionary = rs_dictionaries_find(self->dictionaries, position_id, more);
        if (dictionary != NULL) {
            extended_bits = entries + n * rs_bit_width((uint64_t)dictionary->entries.n + more - 1);
        }
    }
    const uint64_t bits = fresh_bits < extended_bits ? fresh_bits : extended_bits;
    if (bits >= best->bits || has_outside(values)) return RS_OK;
    rs_plan *d = rs_plan_leaf(self->stats, RS_FMT_NODE_DICT_CODED, 0, NULL, 0);
    if (d == NULL) return rs_no_memory(self->err);
    d->entries = *values;
    d->fresh = fresh_bits < extended_bits;
    d->position_id = position_id;
    d->n = n;
    best->plan = d;
    best->bits = bits;
    return RS_OK;
}

/* ---- Words of several kinds in one table ---- */

static bool is_str(uint8_t tag) { return tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_STR4; }

/* Returns the distinct values of a candidate for strings, none for another candidate. */
static rs_values words_of(const chooser *self, const candidate *c, rs_span *constant) {
    const rs_plan *d = c->plan;
    rs_values words = {self->stats->values.base, NULL, 0};
    if (d->kind == RS_FMT_NODE_DICT_CODED && is_str(rs_values_at(&d->entries, 0).ptr[0])) return d->entries;
    if (d->of != NULL && d->of->n == d->n && !d->of->constant) return rs_plan_distinct(self->stats, d->of);
    if (d->of != NULL && d->of->constant) {
        words.spans = &d->of->first_span;
        words.n = 1;
        return words;
    }
    if (d->kind != RS_FMT_NODE_CONST || !is_str(d->aux.ptr[0])) return words;
    constant->off = (uint32_t)(d->aux.ptr - words.base);
    constant->size_bytes = (uint32_t)rs_slice_left(&d->aux);
    words.spans = constant;
    words.n = 1;
    return words;
}

rs_status rs_plan_merge_words(chooser *self, candidate *candidates, uint32_t *n, uint64_t values) {
    uint64_t n_words = 0, bytes = 0, bits = 0, most = 0;
    rs_values words[3];
    rs_span constants[3];
    uint32_t major = *n;
    if (*n < 2 || *n > 3) return RS_OK; /* a str has units of three sizes */
    for (uint32_t i = 0; i < *n; i++) {
        words[i] = words_of(self, &candidates[i], &constants[i]);
        if (words[i].n == 0) return RS_OK;
        n_words += words[i].n;
        bits += candidates[i].bits;
        if (candidates[i].plan->kind != RS_FMT_NODE_DICT_CODED || candidates[i].plan->n <= most) continue;
        major = i;
        most = candidates[i].plan->n;
    }
    if (major == *n || n_words > RS_FMT_BLOCK_RECORDS) return RS_OK;
    rs_plan *d = candidates[major].plan;
    const unsigned before = rs_bit_width(d->entries.n - 1), after = rs_bit_width(n_words - 1);
    rs_span *spans = (rs_span *)rs_arena_take(&self->stats->arena, n_words * sizeof *spans);
    if (spans == NULL) return rs_no_memory(self->err);
    rs_span *end = spans;
    for (uint32_t k = 0; k < *n; k++) { /* the entries of the major candidate come first */
        const uint32_t i = k == 0 ? major : k <= major ? k - 1 : k;
        memcpy(end, words[i].spans, words[i].n * sizeof *spans);
        end += words[i].n;
        for (uint32_t w = 0; i != major && w < words[i].n; w++) bytes += words[i].spans[w].size_bytes;
    }
    /* In a union, a number takes whole bytes. */
    const uint64_t apart = bits + values * rs_bit_width(*n - 1) + most * ((8 - before % 8) % 8);
    const uint64_t merged = candidates[major].bits + most * (after - before) + (values - most) * after + 8 * bytes +
                            (n_words - d->entries.n) * ENTRY_BITS + RS_PLAN_TABLE_BITS;
    if (merged >= apart) return RS_OK;
    d->entries.spans = spans;
    d->entries.n = (uint32_t)n_words;
    d->n = values;
    candidates[0].plan = d;
    candidates[0].bits = merged;
    *n = 1;
    return RS_OK;
}

/* ---- Joining ---- */

/* The rank of a node among the children of a union. The encoder uses the first child that accepts a value, so nodes
 * that accept more values come later, and `any` comes last. */
static unsigned order_of(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_DICT_CODED: return 0;
    case RS_FMT_NODE_TUPLE: return 1; /* a row has all lists of its length */
    case RS_FMT_NODE_NUMBERS:
    case RS_FMT_NODE_CONCAT: return 2;
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_STR:
        if (d->of != NULL) return d->of->elements == 2 ? 5 : 4; /* UTF-16 may use the table of UCS-2 */
        return d->kind == RS_FMT_NODE_STR && d->param == 4 ? 6 : 4;
    case RS_FMT_NODE_FLOAT: return 4;
    case RS_FMT_NODE_LIST:
        switch (d->children[0]->kind) {
        case RS_FMT_NODE_INT:
        case RS_FMT_NODE_DECIMAL: return 3;
        case RS_FMT_NODE_FLOAT: return 5;
        default: return 6;
        }
    case RS_FMT_NODE_ANY: return 7;
    default: return 3;
    }
}

static void sort_candidates(candidate *candidates, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = i; k > 0 && order_of(candidates[k - 1].plan) > order_of(candidates[k].plan); k--) {
            candidate moved = candidates[k];
            candidates[k] = candidates[k - 1];
            candidates[k - 1] = moved;
        }
    }
}

static bool is_none(const rs_plan *d) {
    return d->kind == RS_FMT_NODE_CONST && rs_slice_left(&d->aux) == 1 && *d->aux.ptr == RS_FMT_TAG_NONE;
}

/* Makes None an entry of the other candidate's table if its numbers stay as wide: that saves the bit of an optional. A
 * rare value is better as an optional, which rs_plan_move_rare moves out of the bit group. */
static rs_status merge_none(chooser *self, const candidate *candidates, uint64_t values, candidate *out, bool *merged) {
    const candidate *none = &candidates[is_none(candidates[1].plan)],
                    *words = &candidates[!is_none(candidates[1].plan)];
    rs_plan *d = words->plan;
    *merged = false;
    if (!is_none(none->plan) || d->kind != RS_FMT_NODE_DICT_CODED) return RS_OK;
    const uint64_t n = d->entries.n, width = rs_bit_width(n - 1);
    if (rs_bit_width(n) != width || values < 8 * n + NONE_BITS) return RS_OK;
    if (values * width > d->n * ((width + 7) / 8 * 8 + 16)) return RS_OK;
    rs_span *spans = (rs_span *)rs_arena_take(&self->stats->arena, (n + 1) * sizeof *spans);
    if (spans == NULL) return rs_no_memory(self->err);
    memcpy(spans, d->entries.spans, n * sizeof *spans);
    spans[n].off = (uint32_t)(none->plan->aux.ptr - d->entries.base);
    spans[n].size_bytes = 1;
    d->entries.spans = spans;
    d->entries.n++;
    out->bits = words->bits + none->plan->n * width;
    out->plan = d;
    d->n = values;
    *merged = true;
    return RS_OK;
}

/* Returns the number of the candidate that is None, if the position is an optional of the others; else n. Two or more
 * others take as few bits in a union with None, unless most values are None: then rs_plan_move_rare moves the others
 * out of the bit group. */
static uint32_t find_none(const candidate *candidates, uint32_t n, uint64_t values) {
    uint32_t i = 0;
    while (i < n && !is_none(candidates[i].plan)) i++;
    return i < n && (n == 2 || candidates[i].plan->n >= values / 4 * 3) ? i : n;
}

/* Plans an optional over the node that joins all candidates but number `none`. */
static rs_status join_optional(chooser *self, const candidate *candidates, uint32_t n, uint32_t none, uint64_t values,
                               candidate *out) {
    candidate *others = (candidate *)rs_arena_take(&self->stats->arena, n * sizeof *others), joined;
    rs_plan *optional = rs_plan_inner(self->stats, RS_FMT_NODE_OPTIONAL, 1, 1);
    if (others == NULL || optional == NULL) return rs_no_memory(self->err);
    memcpy(others, candidates, none * sizeof *others);
    memcpy(others + none, candidates + none + 1, (n - none - 1) * sizeof *others);
    RS_TRY(rs_plan_join(self, others, n - 1, values - candidates[none].plan->n, &joined));
    optional->children[0] = joined.plan;
    optional->n = values;
    out->plan = optional;
    out->bits = values + joined.bits;
    return RS_OK;
}

rs_status rs_plan_join(chooser *self, candidate *candidates, uint32_t n, uint64_t values, candidate *out) {
    if (n == 1) {
        *out = candidates[0];
        return RS_OK;
    }
    sort_candidates(candidates, n);
    if (n == 2) {
        bool merged;
        RS_TRY(merge_none(self, candidates, values, out, &merged));
        if (merged) return RS_OK;
    }
    if (allowed(self, RS_FMT_NODE_OPTIONAL)) {
        const uint32_t none = find_none(candidates, n, values);
        if (none < n) return join_optional(self, candidates, n, none, values, out);
    }
    out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_UNION, 0, n);
    if (out->plan == NULL) return rs_no_memory(self->err);
    out->bits = values * rs_bit_width(n - 1);
    for (uint32_t i = 0; i < n; i++) {
        out->plan->children[i] = candidates[i].plan;
        out->bits += candidates[i].bits + candidates[i].plan->n * RS_PLAN_PADDING_BITS;
    }
    out->plan->n = values;
    return RS_OK;
}
