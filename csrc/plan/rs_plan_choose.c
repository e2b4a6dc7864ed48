/* rs_plan_choose.c: chooses the node of each position by its cost, from the leaves up. A cost is the number of bits of
 * all values of the position. The cost of a symbols node is an estimate, because its table is made later;
 * rs_block_encoding compares the written bytes of the whole block. */
#include "plan/rs_plan_choose.h"

#include <stdlib.h>

#include "plan/rs_plan_placed.h"

enum {
    FRUGAL_CONST_BYTES = 64,                      /* the longest constant of a frugal plan */
    TABLE_NUMBERS = 4 * RS_FMT_DICT_CODED_TABLES, /* the most bytes of a dict-coded node's aux */
    TEXT_PARTS_BITS = 24,                         /* least gain of a text in parts, which takes longer to read */
    SYMBOLS_BYTES = 2048,                         /* the least cost of a symbol table */
    MIN_RECORDED = 1024                           /* the fewest values for which a failed attempt is recorded */
};

/* The cost of an entry that an earlier block had too, as a share of its bytes: it is likely to repeat. */
static const double SEEN_COST = 0.25;

typedef rs_plan_chooser chooser;
typedef rs_plan_candidate candidate;

/* Returns whether the tree may have nodes of this kind. */
static bool allowed(const chooser *self, unsigned kind) { return rs_choices_allow(self->stats->choices, kind); }

/* Returns whether to allow a node that fits only some of the values. The others take another child of a union. */
static bool may_divide(const chooser *self) { return !self->frugal && allowed(self, RS_FMT_NODE_UNION); }

static rs_status choose_position(chooser *self, const rs_position *at, candidate *out);

/* ---- Leaves ---- */

static rs_status leaf(chooser *self, unsigned kind, unsigned param, const void *aux, size_t aux_size, candidate *out) {
    out->plan = rs_plan_leaf(self->stats, kind, param, aux, aux_size);
    return out->plan == NULL ? rs_no_memory(self->err) : RS_OK;
}

/* Plans an `any` node for values of raw_bytes bytes. */
static rs_status choose_any(chooser *self, uint64_t raw_bytes, candidate *out) {
    out->bits = 8 * raw_bytes;
    return leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, out);
}

/* ---- Strings ---- */

/* Plans the child of a concat for a text: symbols if they may save bytes, else str. */
static rs_status plan_text(chooser *self, const rs_alternative *a, const rs_template *template,
                           const rs_template_part *part, uint64_t position_id, candidate *out) {
    unsigned unit = rs_alternative_unit_bytes(a);
    bool symbols = part->kind == RS_PART_TEXT && part->units * unit >= SYMBOLS_BYTES;
    if (!symbols || !allowed(self, RS_FMT_NODE_SYMBOLS)) return leaf(self, RS_FMT_NODE_STR, unit, NULL, 0, out);
    RS_TRY(leaf(self, RS_FMT_NODE_SYMBOLS, 0, NULL, 0, out));
    out->plan->texts = part->texts;
    out->plan->n = template->n_fits;
    out->plan->unit_bytes = (uint8_t)unit;
    out->plan->position_id = position_id;
    return RS_OK;
}

/* Plans a node for texts of an alphabet. */
static rs_status plan_alphabet(chooser *self, const rs_alphabet *alphabet, candidate *out) {
    if (alphabet->kind == RS_FMT_NODE_HEX) {
        RS_TRY(leaf(self, RS_FMT_NODE_HEX, alphabet->letters[15] == 'F', NULL, 0, out));
    } else {
        RS_TRY(leaf(self, RS_FMT_NODE_ALPHABET, alphabet->form, alphabet->letters, (size_t)1 << alphabet->bits, out));
        if (alphabet->count != 0) out->plan->flags = RS_FMT_FLAG_FIXED;
    }
    out->plan->count = alphabet->count;
    out->plan->link = (void *)(uintptr_t)alphabet;
    return RS_OK;
}

/* Returns the kind of node that stores a part of a string template. */
static unsigned kind_of_part(const rs_template_part *part) {
    switch (part->kind) {
    case RS_PART_CONST: return RS_FMT_NODE_CONST;
    case RS_PART_SAME: return RS_FMT_NODE_SAME;
    case RS_PART_DIGITS: return RS_FMT_NODE_DIGITS;
    case RS_PART_ALPHABET: return part->alphabet->kind;
    case RS_PART_DICT_CODED: return RS_FMT_NODE_DICT_CODED;
    default: return RS_FMT_NODE_STR;
    }
}

static rs_status plan_digits(chooser *self, const rs_template_part *part, candidate *out) {
    const unsigned width = rs_bit_width(part->max - part->min);
    const int64_t base = rs_plan_base((int64_t)part->min, (int64_t)part->max, width);
    RS_TRY(leaf(self, RS_FMT_NODE_DIGITS, width, &base, 8, out));
    out->plan->count = part->count;
    return RS_OK;
}

/* Plans the child of a concat for one part of a string template. */
static rs_status plan_part(chooser *self, const rs_alternative *a, const rs_template *template, uint32_t number,
                           uint64_t position_id, rs_plan **out) {
    const rs_template_part *part = &template->at[number];
    candidate best = {NULL, UINT64_MAX};
    switch (allowed(self, kind_of_part(part)) ? (int)part->kind : RS_PART_TEXT) {
    case RS_PART_CONST: {
        uint8_t head[11] = {RS_FMT_TAG_STR1};
        size_t size = rs_slice_left(&part->first), head_size = 1 + rs_put_varint(head + 1, size);
        RS_TRY(leaf(self, RS_FMT_NODE_CONST, 0, NULL, 0, &best));
        uint8_t *bytes = (uint8_t *)rs_arena_take(&self->stats->arena, head_size + size);
        if (bytes == NULL) return rs_no_memory(self->err);
        memcpy(bytes, head, head_size);
        memcpy(bytes + head_size, part->first.ptr, size);
        best.plan->aux = rs_slice_of(bytes, head_size + size);
        break;
    }
    case RS_PART_SAME:
        RS_TRY(leaf(self, RS_FMT_NODE_SAME, 0, NULL, 0, &best));
        best.plan->count = part->of;
        break;
    case RS_PART_DIGITS: RS_TRY(plan_digits(self, part, &best)); break;
    case RS_PART_ALPHABET: RS_TRY(plan_alphabet(self, part->alphabet, &best)); break;
    case RS_PART_DICT_CODED: {
        rs_values values = {part->base, part->distinct->spans, part->distinct->n};
        RS_TRY(rs_plan_try_dict_coded(self, &values, template->n_fits, position_id, 8.0, &best));
        if (best.plan != NULL) break;
    } /* fall through */
    default: RS_TRY(plan_text(self, a, template, part, position_id, &best)); break;
    }
    *out = best.plan;
    return RS_OK;
}

static rs_status plan_template(chooser *self, const rs_alternative *a, const rs_template *template, rs_plan **out) {
    if (template->cut == NULL) return plan_part(self, a, template, 0, a->position_id, out);
    rs_plan *d = rs_plan_inner(self->stats, RS_FMT_NODE_CONCAT, 0, template->n);
    if (d == NULL) return rs_no_memory(self->err);
    d->link = template->cut;
    for (uint32_t i = 0; i < template->n; i++) {
        uint64_t below = rs_schema_hash_key(a->position_id, (const uint8_t *)&i, sizeof i);
        RS_TRY(plan_part(self, a, template, i, below, &d->children[i]));
    }
    *out = d;
    return RS_OK;
}

static bool has_text(const rs_template *template) {
    for (uint32_t i = 0; i < template->n; i++) {
        if (template->at[i].kind == RS_PART_TEXT) return true;
    }
    return false;
}

/* Chooses among str, symbols and concat. *rest is the plan for strings that do not fit the template. */
static rs_status choose_str(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    unsigned unit = rs_alternative_unit_bytes(a);
    RS_TRY(leaf(self, RS_FMT_NODE_STR, unit, NULL, 0, out));
    out->bits = 8 * (a->total * unit + a->counts_bytes);
    if (a->n_offsets < a->n) return RS_OK;
    if (unit > 2) {
        RS_TRY(rs_plan_prepare_alternative(self->stats, a, self->err));
        if (a->prepared->pairs == NULL) return RS_OK;
    }
    /* An estimate for usual text. A symbol table is made and compared only if this node is chosen. */
    uint64_t coded = allowed(self, RS_FMT_NODE_SYMBOLS) ? rs_text_bits(a->total, 0, a->n, unit) : UINT64_MAX;
    if (coded < out->bits) {
        RS_TRY(leaf(self, RS_FMT_NODE_SYMBOLS, 0, NULL, 0, out));
        out->bits = coded;
    }
    out->plan->of = a;
    out->plan->position_id = unit > 2 ? a->position_id ^ RS_PAIRS_POSITION : a->position_id;
    if (unit > 2 || self->frugal || !allowed(self, RS_FMT_NODE_CONCAT) || !allowed(self, RS_FMT_NODE_CONST))
        return RS_OK;
    if ((a->known & RS_POSITION_NO_TEMPLATE) != 0) return RS_OK;
    RS_TRY(rs_plan_prepare_alternative(self->stats, a, self->err));
    const rs_template *template = a->prepared->template;
    if (template != NULL && (template->n_fits == a->n || may_divide(self))) {
        uint64_t left = a->n - template->n_fits;
        bool guessed = out->plan->kind == RS_FMT_NODE_SYMBOLS && self->stats->choices->level != RS_LEVEL_SMALL;
        /* `plain` considers the digits, and the characters that are drawn at random. */
        if ((guessed || template->cut == NULL) && template->plain > out->bits) out->bits = template->plain;
        uint64_t bits =
            template->bits + RS_PLAN_TABLE_BITS / 2 + (left == 0 ? 0 : a->n + left * (out->bits / a->n + 1));
        /* The cost of symbols for a part of a text is a rough guess, so the template must save a tenth. */
        if (has_text(template)) bits += out->bits / 10 + TEXT_PARTS_BITS * (uint64_t)a->n;
        if (bits < out->bits) {
            if (left > 0) {
                *rest = *out;
                rest->plan->n = left;
                rest->plan->without = template;
                rest->bits = left * (out->bits / a->n + 1);
            }
            out->bits = template->bits;
            RS_TRY(plan_template(self, a, template, &out->plan));
            out->plan->n = template->n_fits;
            rs_attempts_drop(&self->dictionaries->attempts, a->position_id, RS_POSITION_NO_TEMPLATE);
            return RS_OK;
        }
    }
    if (a->n >= MIN_RECORDED) rs_attempts_add(&self->dictionaries->attempts, a->position_id, RS_POSITION_NO_TEMPLATE);
    return RS_OK;
}

/* For the level SMALL: replaces the estimate of a symbols node by the bits with a table made for these strings. Comes
 * after the choice of a template, which compares two such estimates. */
static rs_status measure_symbols(chooser *self, const rs_alternative *a, candidate *out) {
    unsigned unit = rs_alternative_unit_bytes(a);
    rs_buffer table = {0};
    uint64_t coded;
    if (out->plan->kind != RS_FMT_NODE_SYMBOLS || self->stats->choices->level != RS_LEVEL_SMALL) return RS_OK;
    rs_symbol_string *strings = (rs_symbol_string *)malloc(((size_t)a->n_offsets + 1) * sizeof *strings);
    if (strings == NULL) return rs_no_memory(self->err);
    rs_plan_strings(self->stats, a, strings);
    rs_status status = rs_symbols_train(strings, a->n_offsets, unit, true, &table, &coded, self->err);
    if (status == RS_OK) out->bits = 8 * (coded + a->n + table.size_bytes);
    if (status == RS_E_ARG_LIMIT) out->bits = 8 * (a->total * unit + a->counts_bytes); /* it will become a str */
    rs_buffer_clear(&table);
    free(strings);
    return status == RS_E_ARG_LIMIT ? RS_OK : status;
}

/* Returns whether the tree may have all nodes of a plan. */
static bool all_allowed(const chooser *self, const rs_plan *d) {
    for (uint32_t i = 0; i < d->n_children; i++) {
        if (!all_allowed(self, d->children[i])) return false;
    }
    return allowed(self, d->kind);
}

/* Puts the packed node into *out, if the tree may have one. Moves the plain node to *rest when the packed node fits
 * only some of the values. */
static void divide(chooser *self, const rs_alternative *a, candidate *out, candidate *rest) {
    rs_plan *packed = a->prepared->packed;
    uint64_t n_fits = a->prepared->n_fits;
    if (packed == NULL || (n_fits < a->n && !may_divide(self)) || !all_allowed(self, packed)) return;
    if (n_fits < a->n) {
        *rest = *out;
        rest->plan->n = a->n - n_fits;
        rest->bits = 0; /* the bits of the packed node include these values */
    }
    out->plan = packed;
    out->plan->n = n_fits;
    out->bits = a->prepared->bits;
}

/* Plans one int node for all ints of an alternative. */
static rs_status plan_int(chooser *self, const rs_alternative *a, rs_plan **out) {
    const unsigned width = rs_plan_width((uint64_t)a->max - (uint64_t)a->min);
    const int64_t base = rs_plan_base(a->min, a->max, width);
    *out = rs_plan_leaf(self->stats, RS_FMT_NODE_INT, width, &base, 8);
    if (*out == NULL) return rs_no_memory(self->err);
    (*out)->n = a->n;
    return RS_OK;
}

static rs_status choose_int(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    candidate any = {NULL, 0};
    RS_TRY(plan_int(self, a, &out->plan));
    out->bits = a->n * out->plan->param;
    RS_TRY(rs_plan_prepare_alternative(self->stats, a, self->err));
    if (a->prepared->packed != NULL && a->prepared->n_fits < a->n && may_divide(self)) {
        RS_TRY(leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, &any));
        *out = any;
    }
    divide(self, a, out, rest);
    return RS_OK;
}

static rs_status choose_float(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    RS_TRY(leaf(self, RS_FMT_NODE_FLOAT, 0, NULL, 0, out));
    out->bits = a->n * 64;
    RS_TRY(rs_plan_prepare_alternative(self->stats, a, self->err));
    divide(self, a, out, rest);
    return RS_OK;
}

/* ---- Containers ---- */

static rs_status choose_list(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    bool fixed = a->count_min == a->count_max && a->count_max <= UINT32_MAX;
    bool floats = a->elements == RS_ELEMENTS_FLOATS, numbers = floats || a->elements == RS_ELEMENTS_INTS;
    candidate child = {NULL, 0};
    out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_LIST, a->param, 1);
    if (out->plan == NULL) return rs_no_memory(self->err);
    if (numbers && !allowed(self, floats ? RS_FMT_NODE_FLOAT : RS_FMT_NODE_INT)) {
        RS_TRY(leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, &child));
        child.bits = 8 * (a->raw_bytes - a->counts_bytes);
    } else if (floats) {
        RS_TRY(leaf(self, RS_FMT_NODE_FLOAT, 0, NULL, 0, &child));
        child.bits = a->total * 64;
    } else if (numbers) {
        int64_t least = INT64_MIN;
        RS_TRY(leaf(self, RS_FMT_NODE_INT, 64, &least, 8, &child));
        child.bits = a->total * 64;
    } else {
        bool often = self->often;
        self->often = true;
        RS_TRY(choose_position(self, a->children, &child));
        self->often = often;
    }
    out->plan->children[0] = child.plan;
    out->bits = child.bits + (fixed ? 0 : 8 * a->counts_bytes);
    if (numbers) {
        RS_TRY(rs_plan_prepare_alternative(self->stats, a, self->err));
        divide(self, a, out, rest);
    }
    if (fixed) {
        out->plan->flags = RS_FMT_FLAG_FIXED;
        out->plan->count = (uint32_t)a->count_max;
        if (rest->plan != NULL && rest->plan != out->plan) {
            rest->plan->flags = RS_FMT_FLAG_FIXED;
            rest->plan->count = (uint32_t)a->count_max;
        }
    }
    return RS_OK;
}

static uint64_t values_at(const rs_position *at) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < at->n; i++) n += at->alternatives[i].n;
    return n;
}

/* Replaces unions of ints by plain ints if the row then has a fixed size, so that it needs no offset, and that takes
 * less than half a byte. */
static void fix_ints(candidate *row, uint64_t n, uint64_t plain_bits, uint64_t union_bits) {
    if (plain_bits > union_bits + 4 * n) return;
    for (uint32_t i = 0; i < row->plan->n_children; i++) {
        const rs_plan *child = row->plan->children[i];
        if (child->plain == NULL && !rs_plan_may_be_fixed(child)) return;
    }
    for (uint32_t i = 0; i < row->plan->n_children; i++) {
        if (row->plan->children[i]->plain != NULL) row->plan->children[i] = row->plan->children[i]->plain;
    }
    row->bits += plain_bits - union_bits;
}

static rs_status choose_row(chooser *self, const rs_alternative *a, candidate *out) {
    bool is_struct = a->kind == RS_FMT_NODE_STRUCT;
    size_t keys_size = 0;
    uint64_t group = 0, plain_bits = 0, union_bits = 0;
    uint8_t *aux = NULL;
    out->plan = rs_plan_inner(self->stats, a->kind, a->param, a->n_children);
    if (out->plan == NULL) return rs_no_memory(self->err);
    out->bits = 0;
    for (uint32_t i = 0; is_struct && i < a->n_children; i++) keys_size += rs_slice_left(&a->keys[i]);
    if (keys_size > RS_FMT_TREE_BYTES) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree grows too large");
    }
    if (keys_size > 0) {
        aux = (uint8_t *)rs_arena_take(&self->stats->arena, keys_size);
        if (aux == NULL) return rs_no_memory(self->err);
        out->plan->aux = rs_slice_of(aux, keys_size);
    }
    for (uint32_t i = 0; i < a->n_children; i++) {
        size_t size = is_struct ? rs_slice_left(&a->keys[i]) : 0;
        uint64_t n = values_at(&a->children[i]);
        candidate child = {NULL, 0};
        RS_TRY(choose_position(self, &a->children[i], &child));
        out->bits += child.bits;
        group += rs_plan_group_bits(child.plan);
        if (child.plan->plain != NULL) {
            plain_bits += n * child.plan->plain->param;
            union_bits += child.bits;
        }
        out->plan->children[i] = child.plan;
        if (is_struct) memcpy(aux, a->keys[i].ptr, size), aux += size;
        if (is_struct && n < a->n) {
            rs_plan *optional = rs_plan_inner(self->stats, RS_FMT_NODE_OPTIONAL, 0, 1);
            if (optional == NULL) return rs_no_memory(self->err);
            optional->children[0] = child.plan;
            optional->n = a->n;
            out->plan->children[i] = optional;
            out->plan->link = (void *)a; /* rs_infer replaces it by the hashes of its key sets */
            out->bits += a->n + rs_plan_unused_bits(optional);
            group++;
        }
    }
    out->bits += (8 - group % 8) % 8 * a->n;
    if (out->plan->link != NULL) out->bits -= rs_plan_rare_gain(out->plan, a->n);
    if (union_bits > 0) fix_ints(out, a->n, plain_bits, union_bits);
    rs_plan_unplace(out->plan);
    return RS_OK;
}

static rs_status choose_map(chooser *self, rs_alternative *a, candidate *out) {
    const bool often = self->often;
    out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_MAP, 0, 2);
    if (out->plan == NULL) return rs_no_memory(self->err);
    out->bits = 8 * a->counts_bytes + 8 * a->n; /* two bit groups, each padded by 4 bits on average */
    self->often = true;
    for (unsigned k = 0; k < 2; k++) {
        candidate child = {NULL, 0};
        RS_TRY(choose_position(self, &a->children[k], &child));
        out->plan->children[k] = child.plan;
        out->bits += child.bits;
    }
    self->often = often;
    return RS_OK;
}

static rs_status choose_array(chooser *self, const rs_alternative *a, candidate *out) {
    size_t descriptor = rs_slice_left(&a->descriptor), shape = rs_slice_left(&a->shape);
    bool fixed = a->same_shape && (a->descriptor.ptr[0] & RS_FMT_ARRAY_SCALAR) == 0;
    uint8_t *aux = (uint8_t *)rs_arena_take(&self->stats->arena, descriptor + shape);
    if (aux == NULL) return rs_no_memory(self->err);
    RS_TRY(leaf(self, RS_FMT_NODE_NDARRAY, 0, NULL, 0, out));
    memcpy(aux, a->descriptor.ptr, descriptor);
    if (fixed) memcpy(aux + descriptor, a->shape.ptr, shape);
    out->plan->aux = rs_slice_of(aux, descriptor + (fixed ? shape : 0));
    out->plan->flags = fixed ? RS_FMT_FLAG_FIXED : 0;
    out->bits = 8 * a->raw_bytes;
    return RS_OK;
}

/* Chooses the best node that is not dict-coded: *out, and *rest for the values that do not fit it. */
static rs_status choose_plain(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    if (!allowed(self, a->kind)) return choose_any(self, a->raw_bytes, out);
    switch (a->kind) {
    case RS_FMT_NODE_INT: return choose_int(self, a, out, rest);
    case RS_FMT_NODE_FLOAT: return choose_float(self, a, out, rest);
    case RS_FMT_NODE_STR: RS_TRY(choose_str(self, a, out, rest)); return measure_symbols(self, a, out);
    case RS_FMT_NODE_LIST: return choose_list(self, a, out, rest);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return choose_row(self, a, out);
    case RS_FMT_NODE_MAP: return choose_map(self, a, out);
    case RS_FMT_NODE_NDARRAY: return choose_array(self, a, out);
    case RS_FMT_NODE_EXT: {
        candidate child = {NULL, 0};
        out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_EXT, a->descriptor.ptr[0], 1);
        if (out->plan == NULL) return rs_no_memory(self->err);
        out->plan->aux = a->descriptor;
        out->plan->aux.ptr++;
        RS_TRY(choose_position(self, a->children, &child));
        out->plan->children[0] = child.plan;
        out->bits = child.bits;
        return RS_OK;
    }
    default:
        out->bits = 8 * (a->kind == RS_FMT_NODE_BOOL ? (a->n + 7) / 8 : a->raw_bytes);
        return leaf(self, a->kind, 0, NULL, 0, out);
    }
}

static rs_status weigh_alternative(chooser *self, rs_alternative *a, candidate *out, candidate *rest) {
    rs_values distinct = rs_plan_distinct(self->stats, a);
    rest->plan = NULL;
    rest->bits = 0;
    out->plan = NULL;
    out->bits = UINT64_MAX;
    if (rs_plan_is_constant(self->stats, a, self->frugal ? FRUGAL_CONST_BYTES : RS_PLAN_CONST_BYTES)) {
        RS_TRY(leaf(self, RS_FMT_NODE_CONST, 0, NULL, 0, out));
        out->plan->aux = a->first;
        out->bits = 0;
        out->plan->n = a->n;
        return RS_OK;
    }
    if (rs_plan_has_few(a)) {
        RS_TRY(rs_plan_try_dict_coded(self, &distinct, a->n, a->position_id, 6.0, out));
        if (out->plan != NULL) {
            rs_attempts_drop(&self->dictionaries->attempts, a->position_id, RS_POSITION_NO_DICTIONARY);
            return RS_OK;
        }
    }
    RS_TRY(choose_plain(self, a, out, rest));
    if (out->plan->n == 0) out->plan->n = a->n;
    uint64_t whole = out->bits + rest->bits;
    if (distinct.n > 0) {
        candidate best = {NULL, whole};
        double rate = (double)whole / (double)(a->raw_bytes + 1);
        if (rs_alternative_is_large(a)) {
            uint64_t seen;
            RS_TRY(rs_dictionaries_remember_large(self->dictionaries, a->position_id, &distinct, &seen, self->err));
            rate *= 1 - (1 - SEEN_COST) * (double)seen / (double)a->raw_bytes;
        }
        RS_TRY(rs_plan_try_dict_coded(self, &distinct, a->n, a->position_id, rate, &best));
        if (best.plan != NULL) {
            *out = best;
            rest->plan = NULL;
            rs_attempts_drop(&self->dictionaries->attempts, a->position_id, RS_POSITION_NO_DICTIONARY);
            return RS_OK;
        }
    }
    if (a->n >= MIN_RECORDED && !rs_alternative_is_large(a) && (a->known & RS_POSITION_NO_DICTIONARY) == 0) {
        rs_attempts_add(&self->dictionaries->attempts, a->position_id, RS_POSITION_NO_DICTIONARY);
    }
    return RS_OK;
}

/* Returns whether a position has None and one other alternative, so that it needs no union. */
static bool is_optional(const chooser *self, const rs_position *at) {
    if (at->n != 2 || !allowed(self, RS_FMT_NODE_OPTIONAL)) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const rs_alternative *a = &at->alternatives[i];
        if (a->kind == RS_FMT_NODE_CONST && *a->first.ptr == RS_FMT_TAG_NONE) return true;
    }
    return false;
}

/* Adds the candidates of an alternative: its plan, and one for the values that do not fit it. */
static rs_status add_candidates(chooser *self, rs_alternative *a, candidate *candidates, uint32_t *n) {
    candidate rest;
    RS_TRY(weigh_alternative(self, a, &candidates[*n], &rest));
    RS_TRY(rs_plan_try_placed(self, a, &candidates[*n], &rest));
    ++*n;
    if (rest.plan != NULL) candidates[(*n)++] = rest;
    return RS_OK;
}

/* Returns the bits of the nodes of a plan. */
static uint64_t tree_bits(const rs_plan *d) {
    uint64_t bits = 8 * (RS_FMT_NODE_SIZE + (uint64_t)rs_slice_left(&d->aux));
    for (uint32_t i = 0; i < d->n_children; i++) bits += tree_bits(d->children[i]);
    return bits;
}

/* Replaces the plan of a position with many key sets by a plan with maps, when values and tree together then take fewer
 * bytes. */
static rs_status try_map(chooser *self, const rs_position *at, uint64_t values, candidate *out) {
    const size_t capacity = ((size_t)at->n + 1) * 2;
    candidate *candidates = (candidate *)rs_arena_take(&self->stats->arena, capacity * sizeof *candidates), best;
    uint32_t n = 0;
    rs_attempts *attempts = &self->dictionaries->attempts;
    if (candidates == NULL) return rs_no_memory(self->err);
    for (uint32_t i = 0; i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        if (a->kind == RS_FMT_NODE_STRUCT) continue;
        if (a->kind == RS_FMT_NODE_ANY) {
            if (a->n == at->map->any_dicts) continue;
            RS_TRY(choose_any(self, a->raw_bytes - at->map->any_dict_bytes, &candidates[n]));
            candidates[n++].plan->n = a->n - at->map->any_dicts;
        } else {
            RS_TRY(add_candidates(self, a, candidates, &n));
        }
    }
    RS_TRY(add_candidates(self, &at->map->as_map, candidates, &n));
    RS_TRY(rs_plan_join(self, candidates, n, values, &best));
    if (best.bits + tree_bits(best.plan) >= out->bits + tree_bits(out->plan)) {
        if (values >= MIN_RECORDED) rs_attempts_add(attempts, at->position_id, RS_POSITION_NO_MAP);
        return RS_OK;
    }
    rs_attempts_drop(attempts, at->position_id, RS_POSITION_NO_MAP);
    rs_attempts_add(attempts, at->position_id, RS_POSITION_MAP);
    self->has_maps = true;
    *out = best;
    return RS_OK;
}

static rs_status choose_position(chooser *self, const rs_position *at, candidate *out) {
    uint32_t n = 0;
    uint64_t values = values_at(at), raw_bytes = 0;
    out->bits = 0;
    if (at->n == 0) return leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, out);
    if (at->n > 1 && !allowed(self, RS_FMT_NODE_UNION) && !is_optional(self, at)) {
        out->plan = NULL;
        for (uint32_t i = 0; i < at->n; i++) raw_bytes += at->alternatives[i].raw_bytes;
        RS_TRY(choose_any(self, raw_bytes, out));
        out->plan->n = values;
        return RS_OK;
    }
    candidate *candidates = (candidate *)rs_arena_take(&self->stats->arena, (size_t)at->n * 2 * sizeof *candidates);
    if (candidates == NULL) return rs_no_memory(self->err);
    for (uint32_t i = 0; i < at->n; i++) RS_TRY(add_candidates(self, &at->alternatives[i], candidates, &n));
    if (n > RS_FMT_UNION_CHILDREN) return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "too many alternatives");
    RS_TRY(rs_plan_merge_words(self, candidates, &n, values));
    RS_TRY(rs_plan_join(self, candidates, n, values, out));
    RS_TRY(rs_plan_try_exceptions(self, candidates, n, values, out));
    if (at->n == 1 && at->alternatives[0].kind == RS_FMT_NODE_INT && out->plan->kind == RS_FMT_NODE_UNION) {
        RS_TRY(plan_int(self, &at->alternatives[0], &out->plan->plain));
    }
    if (at->maps == RS_MAPS_MAY) rs_attempts_drop(&self->dictionaries->attempts, at->position_id, RS_POSITION_MAP);
    return at->map == NULL || self->no_maps ? RS_OK : try_map(self, at, values, out);
}

/* Adds the number of nodes of a plan to *nodes, and an upper bound on their bytes to *bytes. */
static void weigh(const rs_plan *d, uint64_t *nodes, uint64_t *bytes) {
    ++*nodes;
    *bytes += RS_FMT_NODE_SIZE + rs_slice_left(&d->aux);
    /* The number of its tables is not known yet, so this is the maximum. */
    if (d->kind == RS_FMT_NODE_DICT_CODED || d->kind == RS_FMT_NODE_SYMBOLS) *bytes += TABLE_NUMBERS;
    for (uint32_t i = 0; i < d->n_children; i++) weigh(d->children[i], nodes, bytes);
}

rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned table_depth, rs_plan **out,
                         rs_error *err) {
    chooser self = {0};
    uint64_t nodes = 0, bytes = RS_FMT_TREE_HEAD_SIZE;
    candidate root = {NULL, 0};
    self.stats = stats;
    self.dictionaries = dictionaries;
    self.table_depth = table_depth;
    self.err = err;
    RS_TRY(choose_position(&self, &stats->root, &root));
    weigh(root.plan, &nodes, &bytes);
    if (self.has_maps && (nodes > RS_FMT_TREE_NODES || bytes > RS_FMT_TREE_BYTES)) {
        self.no_maps = true;
        RS_TRY(choose_position(&self, &stats->root, &root));
        nodes = 0, bytes = RS_FMT_TREE_HEAD_SIZE;
        weigh(root.plan, &nodes, &bytes);
    }
    if (nodes > RS_FMT_TREE_NODES || bytes > RS_FMT_TREE_BYTES) {
        self.frugal = true;
        RS_TRY(choose_position(&self, &stats->root, &root));
    }
    *out = root.plan;
    return RS_OK;
}
