/* rs_plan.c: chooses the node of each position by the bits that its values would take under each candidate, from the
 * leaves up. A cost is the sum over all values of the position. The cost of a symbols node is an estimate, because its
 * table is made later; rs_block_encoding compares the written bytes once more as a whole. */
#include "write/rs_plan.h"

#include "format/rs_packed_ints.h"

enum {
    MAX_CONST_BYTES = 4096,                       /* a longer constant stays in the heap */
    FRUGAL_CONST_BYTES = 64,                      /* the same for a frugal plan */
    TABLE_NUMBERS = 4 * RS_FMT_DICT_CODED_TABLES, /* the most bytes of a dict-coded node's aux */
    TABLE_BITS = 8 * 240, /* cost of a table beside its entries: the element of TABLES, a tree, offsets */
    ENTRY_BITS = 17,      /* cost of an entry beside its bytes: its offset */
    FEW = 4096,           /* up to so many entries that are a small part of all bytes, no other node is tried */
    SYMBOLS_BYTES = 2048, /* the least cost of a symbol table */
    WORTH_NOTING = 1024,  /* a failed attempt is noted only for a position with so many values */
    MAX_HOPS = 3          /* the longest chain of tables that name tables */
};

typedef struct chooser {
    rs_stats *stats;
    rs_dictionaries *dictionaries;
    unsigned hops; /* number of tables between these values and a block */
    bool frugal;   /* plan as few nodes and bytes of the tree as possible */
    rs_error *err;
} chooser;

/* A candidate plan, and the bits that the values take under it. */
typedef struct arm {
    rs_plan *plan;
    uint64_t bits;
} arm;

static rs_status no_memory(chooser *self) {
    return rs_error_set(self->err, RS_E_MEM, RS_NOWHERE, "no memory to choose a schema");
}

static rs_status choose_position(chooser *self, const rs_position *at, arm *out);

/* ---- Tables ---- */

/* Returns the bits of the values that the dictionary (NULL: an empty one) does not hold yet, at `rate` bits for each
 * raw byte. *n becomes their number. */
static uint64_t new_entries(const rs_dictionary *dictionary, const rs_values *values, double rate, uint32_t *n) {
    uint64_t bytes = 0;
    uint32_t i;
    *n = 0;
    for (i = 0; i < values->n; i++) {
        if (dictionary != NULL && rs_dictionary_find(dictionary, rs_values_at(values, i)) != UINT32_MAX) continue;
        bytes += values->spans[i].size_bytes;
        ++*n;
    }
    return (uint64_t)((double)bytes * rate) + (uint64_t)*n * ENTRY_BITS + (*n > 0 ? TABLE_BITS : 0);
}

/* Returns whether a value has array data outside it. Such values cannot be in a table, because tables have no
 * arrays. */
static bool has_outside(const rs_values *values) {
    uint32_t i;
    for (i = 0; i < values->n; i++) {
        rs_budget budget = {UINT64_MAX, UINT64_MAX, RS_FMT_DEPTH};
        rs_slice value = rs_values_at(values, i);
        if (rs_any_skip(&value, 0, &budget, NULL) != RS_OK) return true;
    }
    return false;
}

/* Replaces *best by a dict-coded node with the entries `values` when that takes fewer bits for n values: entries plus n
 * numbers. It compares a new dictionary with an extension of the position's dictionary. */
static rs_status try_dict_coded(chooser *self, const rs_values *values, uint64_t n, uint64_t position_id, double rate,
                                arm *best) {
    uint32_t fresh_n, more;
    uint64_t fresh, shared = UINT64_MAX;
    const rs_dictionary *dictionary;
    rs_plan *d;
    if (values->n == 0 || self->hops >= MAX_HOPS) return RS_OK;
    fresh = new_entries(NULL, values, rate, &fresh_n) + n * rs_packed_ints_width(values->n - 1);
    dictionary = rs_dictionaries_find(self->dictionaries, position_id, 0);
    if (dictionary != NULL) {
        uint64_t entries = new_entries(dictionary, values, rate, &more);
        dictionary = rs_dictionaries_find(self->dictionaries, position_id, more);
        if (dictionary != NULL) shared = entries + n * rs_packed_ints_width((uint64_t)dictionary->entries.n + more - 1);
    }
    if ((fresh < shared ? fresh : shared) >= best->bits || has_outside(values)) return RS_OK;
    d = rs_plan_leaf(self->stats, RS_FMT_NODE_DICT_CODED, 0, NULL, 0);
    if (d == NULL) return no_memory(self);
    d->entries = *values;
    d->fresh = fresh < shared;
    d->position_id = position_id;
    d->n = n;
    best->plan = d;
    best->bits = fresh < shared ? fresh : shared;
    return RS_OK;
}

static rs_values distinct_values(const chooser *self, const rs_alternative *a) {
    rs_values values = {self->stats->values.base, NULL, 0};
    if (a->distinct == NULL) return values;
    values.spans = a->distinct->spans;
    values.n = a->distinct->n;
    return values;
}

/* ---- Leaves ---- */

static bool worth_const(const chooser *self, const rs_alternative *a) {
    rs_budget budget = {UINT64_MAX, UINT64_MAX, RS_FMT_DEPTH};
    rs_slice value = a->first;
    size_t size = rs_slice_left(&value);
    size_t most = self->frugal ? FRUGAL_CONST_BYTES : MAX_CONST_BYTES;
    if (!a->constant || size > most || (a->n < 2 && size > 2)) return false;
    return rs_any_skip(&value, 0, &budget, NULL) == RS_OK; /* fails when array data is stored outside */
}

static rs_status leaf(chooser *self, unsigned kind, unsigned param, const void *aux, size_t aux_size, arm *out) {
    out->plan = rs_plan_leaf(self->stats, kind, param, aux, aux_size);
    return out->plan == NULL ? no_memory(self) : RS_OK;
}

/* Plans the child of a concat for one part of a string template. */
static rs_status plan_part(chooser *self, const rs_template_part *part, uint64_t n, uint64_t position_id,
                           rs_plan **out) {
    arm best = {NULL, UINT64_MAX};
    switch (part->kind) {
    case RS_PART_CONST: {
        uint8_t head[11] = {RS_FMT_TAG_STR1}, *bytes;
        size_t size = rs_slice_left(&part->first), used = 1 + rs_put_varint(head + 1, size);
        RS_TRY(leaf(self, RS_FMT_NODE_CONST, 0, NULL, 0, &best));
        bytes = (uint8_t *)rs_arena_take(&self->stats->arena, used + size);
        if (bytes == NULL) return no_memory(self);
        memcpy(bytes, head, used);
        memcpy(bytes + used, part->first.ptr, size);
        best.plan->aux = rs_slice_of(bytes, used + size);
        break;
    }
    case RS_PART_SAME:
        RS_TRY(leaf(self, RS_FMT_NODE_SAME, 0, NULL, 0, &best));
        best.plan->count = part->of;
        break;
    case RS_PART_DIGITS:
        RS_TRY(leaf(self, RS_FMT_NODE_DIGITS, rs_packed_ints_width(part->max - part->min), &part->min, 8, &best));
        best.plan->count = part->count;
        break;
    case RS_PART_HEX:
        RS_TRY(leaf(self, RS_FMT_NODE_HEX, part->upper, NULL, 0, &best));
        best.plan->count = part->count;
        break;
    case RS_PART_DICT_CODED: {
        rs_values values = {part->base, part->distinct->spans, part->distinct->n};
        RS_TRY(try_dict_coded(self, &values, n, position_id, 8.0, &best));
        if (best.plan != NULL) break;
    } /* fall through */
    default: RS_TRY(leaf(self, RS_FMT_NODE_STR, 1, NULL, 0, &best)); break;
    }
    *out = best.plan;
    return RS_OK;
}

static rs_status plan_template(chooser *self, const rs_template *template, uint64_t position_id, rs_plan **out) {
    static const uint8_t classes[RS_TEMPLATE_CLASSES] = {0, RS_TEMPLATE_WORDS, RS_TEMPLATE_FINE, RS_TEMPLATE_PATHS,
                                                         RS_TEMPLATE_FIELDS};
    uint32_t i;
    rs_plan *d = rs_plan_inner(self->stats, RS_FMT_NODE_CONCAT, 0, template->n);
    if (d == NULL) return no_memory(self);
    d->link = (void *)&classes[template->classes];
    for (i = 0; i < template->n; i++) {
        uint64_t below = rs_schema_hash_key(position_id, (const uint8_t *)&i, sizeof i);
        RS_TRY(plan_part(self, &template->at[i], template->n_fits, below, &d->children[i]));
    }
    *out = d;
    return RS_OK;
}

/* Chooses among str, symbols and concat. *rest is a plan for the strings that do not fit the template, if any. */
static rs_status choose_str(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    unsigned unit = 1u << a->elements;
    uint64_t bytes = a->total * unit, coded;
    rs_template template;
    bool alike;
    RS_TRY(leaf(self, RS_FMT_NODE_STR, unit, NULL, 0, out));
    out->bits = 8 * (bytes + a->counts_bytes);
    if (unit > 2 || a->n_where < a->n) return RS_OK;
    /* An estimate from usual text. A symbol table is made, and compared, only when this node is chosen in the end. */
    coded = 8 * (bytes * (unit == 1 ? 45 : 34) / 100 + a->n + SYMBOLS_BYTES);
    if (coded < out->bits && bytes >= SYMBOLS_BYTES) {
        RS_TRY(leaf(self, RS_FMT_NODE_SYMBOLS, 0, NULL, 0, out));
        out->bits = coded;
    }
    out->plan->of = a;
    out->plan->position_id = a->position_id;
    if (unit != 1 || self->frugal) return RS_OK;
    if ((rs_dictionaries_known(self->dictionaries, a->position_id) & RS_POSITION_NO_TEMPLATE) != 0) return RS_OK;
    RS_TRY(rs_template_find(self->stats, a, &template, &alike, self->err));
    if (alike) {
        uint64_t left = a->n - template.n_fits;
        uint64_t bits = template.bits + TABLE_BITS / 2 + (left == 0 ? 0 : a->n + left * (out->bits / a->n + 1));
        /* A template that only cuts at separators must halve the bits: its parts are words, and words that do not
         * repeat take less as symbols. */
        if (bits < (template.classes < RS_TEMPLATE_PATHS ? out->bits : out->bits / 2)) {
            if (left > 0) {
                *rest = *out;
                rest->plan->n = left;
                rest->bits = left * (out->bits / a->n + 1);
            }
            out->bits = template.bits;
            RS_TRY(plan_template(self, &template, a->position_id, &out->plan));
            out->plan->n = template.n_fits;
            return RS_OK;
        }
    }
    if (a->n >= WORTH_NOTING) rs_dictionaries_note(self->dictionaries, a->position_id, RS_POSITION_NO_TEMPLATE);
    return RS_OK;
}

/* Moves the plain node in *out to *rest when `made` fits only n_fits of the values, and puts `made` into *out. Does
 * nothing when `made` is NULL. */
static void divide(const chooser *self, const rs_alternative *a, rs_plan *made, uint64_t bits, uint64_t n_fits,
                   arm *out, arm *rest) {
    if (made == NULL || (self->frugal && n_fits < a->n)) return;
    if (n_fits < a->n) {
        *rest = *out;
        rest->plan->n = a->n - n_fits;
        rest->bits = 0; /* `bits` includes these values */
    }
    out->plan = made;
    out->plan->n = n_fits;
    out->bits = bits;
}

static rs_status choose_int(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    unsigned width = rs_plan_width((uint64_t)a->max - (uint64_t)a->min);
    uint64_t bits, n_fits = a->n;
    rs_plan *made;
    arm any = {NULL, 0};
    RS_TRY(leaf(self, RS_FMT_NODE_INT, width, &a->min, 8, out));
    out->bits = bits = a->n * width;
    RS_TRY(rs_plan_ints(self->stats, a, &made, &bits, &n_fits, self->err));
    if (made != NULL && n_fits < a->n && !self->frugal) {
        RS_TRY(leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, &any));
        *out = any;
    }
    divide(self, a, made, bits, n_fits, out, rest);
    return RS_OK;
}

static rs_status choose_float(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    uint64_t bits, n_fits = a->n;
    rs_plan *made;
    RS_TRY(leaf(self, RS_FMT_NODE_FLOAT, 0, NULL, 0, out));
    out->bits = bits = a->n * 64;
    RS_TRY(rs_plan_floats(self->stats, a, &made, &bits, &n_fits, self->err));
    divide(self, a, made, bits, n_fits, out, rest);
    return RS_OK;
}

/* ---- Containers ---- */

static rs_status choose_list(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    bool fixed = a->count_min == a->count_max && a->count_max <= UINT32_MAX;
    bool floats = a->elements == RS_ELEMENTS_FLOATS, numbers = floats || a->elements == RS_ELEMENTS_INTS;
    uint64_t bits, n_fits = a->n;
    rs_plan *made;
    arm child = {NULL, 0};
    out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_LIST, a->param, 1);
    if (out->plan == NULL) return no_memory(self);
    if (floats) {
        RS_TRY(leaf(self, RS_FMT_NODE_FLOAT, 0, NULL, 0, &child));
        child.bits = a->total * 64;
    } else if (numbers) {
        int64_t least = INT64_MIN;
        RS_TRY(leaf(self, RS_FMT_NODE_INT, 64, &least, 8, &child));
        child.bits = a->total * 64;
    } else {
        RS_TRY(choose_position(self, a->children, &child));
    }
    out->plan->children[0] = child.plan;
    out->bits = bits = child.bits + (fixed ? 0 : 8 * a->counts_bytes);
    if (numbers) {
        RS_TRY(rs_plan_numbers(self->stats, a, &made, &bits, &n_fits, self->err));
        divide(self, a, made, bits, n_fits, out, rest);
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
    uint32_t i;
    for (i = 0; i < at->n; i++) n += at->alternatives[i].n;
    return n;
}

static rs_status choose_row(chooser *self, const rs_alternative *a, arm *out) {
    bool is_struct = a->kind == RS_FMT_NODE_STRUCT;
    uint32_t i;
    size_t used = 0;
    uint8_t *aux = NULL;
    out->plan = rs_plan_inner(self->stats, a->kind, a->param, a->n_children);
    if (out->plan == NULL) return no_memory(self);
    out->bits = 4 * a->n;
    for (i = 0; is_struct && i < a->n_children; i++) used += rs_slice_left(&a->keys[i]);
    if (used > RS_FMT_TREE_BYTES) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree grows too large");
    }
    if (used > 0) {
        aux = (uint8_t *)rs_arena_take(&self->stats->arena, used);
        if (aux == NULL) return no_memory(self);
        out->plan->aux = rs_slice_of(aux, used);
    }
    for (i = 0; i < a->n_children; i++) {
        size_t size = is_struct ? rs_slice_left(&a->keys[i]) : 0;
        uint64_t n = values_at(&a->children[i]);
        arm child = {NULL, 0};
        RS_TRY(choose_position(self, &a->children[i], &child));
        out->bits += child.bits;
        out->plan->children[i] = child.plan;
        if (is_struct) memcpy(aux, a->keys[i].ptr, size), aux += size;
        if (is_struct && n < a->n) {
            rs_plan *optional = rs_plan_inner(self->stats, RS_FMT_NODE_OPTIONAL, 0, 1);
            if (optional == NULL) return no_memory(self);
            optional->children[0] = child.plan;
            out->plan->children[i] = optional;
            out->plan->link = (void *)a; /* rs_infer replaces it by the hashes of its key sets */
            out->bits += a->n;
        }
    }
    return RS_OK;
}

static rs_status choose_array(chooser *self, const rs_alternative *a, arm *out) {
    size_t descriptor = rs_slice_left(&a->descriptor), shape = rs_slice_left(&a->shape);
    bool fixed = a->same_shape && (a->descriptor.ptr[0] & RS_FMT_ARRAY_SCALAR) == 0;
    uint8_t *aux = (uint8_t *)rs_arena_take(&self->stats->arena, descriptor + shape);
    if (aux == NULL) return no_memory(self);
    RS_TRY(leaf(self, RS_FMT_NODE_NDARRAY, 0, NULL, 0, out));
    memcpy(aux, a->descriptor.ptr, descriptor);
    if (fixed) memcpy(aux + descriptor, a->shape.ptr, shape);
    out->plan->aux = rs_slice_of(aux, descriptor + (fixed ? shape : 0));
    out->plan->flags = fixed ? RS_FMT_FLAG_FIXED : 0;
    out->bits = 8 * a->raw_bytes;
    return RS_OK;
}

/* Chooses the best node that is not dict-coded: *out, and *rest for the values that do not fit it. */
static rs_status choose_plain(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    switch (a->kind) {
    case RS_FMT_NODE_INT: return choose_int(self, a, out, rest);
    case RS_FMT_NODE_FLOAT: return choose_float(self, a, out, rest);
    case RS_FMT_NODE_STR: return choose_str(self, a, out, rest);
    case RS_FMT_NODE_LIST: return choose_list(self, a, out, rest);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return choose_row(self, a, out);
    case RS_FMT_NODE_NDARRAY: return choose_array(self, a, out);
    case RS_FMT_NODE_EXT: {
        arm child = {NULL, 0};
        out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_EXT, a->descriptor.ptr[0], 1);
        if (out->plan == NULL) return no_memory(self);
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

static rs_status choose_alternative(chooser *self, const rs_alternative *a, arm *out, arm *rest) {
    rs_values distinct = distinct_values(self, a);
    uint64_t whole;
    rest->plan = NULL;
    rest->bits = 0;
    out->plan = NULL;
    out->bits = UINT64_MAX;
    if (a->kind != RS_FMT_NODE_ANY && (a->kind == RS_FMT_NODE_CONST || worth_const(self, a))) {
        RS_TRY(leaf(self, RS_FMT_NODE_CONST, 0, NULL, 0, out));
        out->plan->aux = a->first;
        out->bits = 0;
        out->plan->n = a->n;
        return RS_OK;
    }
    if (distinct.n > 0 && distinct.n <= FEW && a->distinct->size_bytes <= a->raw_bytes / 64) {
        RS_TRY(try_dict_coded(self, &distinct, a->n, a->position_id, 6.0, out));
        if (out->plan != NULL) return RS_OK;
    }
    RS_TRY(choose_plain(self, a, out, rest));
    if (out->plan->n == 0) out->plan->n = a->n;
    whole = out->bits + rest->bits;
    if (distinct.n > 0) {
        arm best = {NULL, whole};
        RS_TRY(try_dict_coded(self, &distinct, a->n, a->position_id, (double)whole / (double)(a->raw_bytes + 1),
                              &best));
        if (best.plan != NULL) {
            *out = best;
            rest->plan = NULL;
            return RS_OK;
        }
    }
    if (a->n >= WORTH_NOTING) rs_dictionaries_note(self->dictionaries, a->position_id, RS_POSITION_NO_DICTIONARY);
    return RS_OK;
}

/* The rank of a node among the children of a union. The encoder takes the first child that accepts a value, so nodes
 * that accept more values come later, and `any` comes last. */
static unsigned order_of(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_DICT_CODED: return 0;
    case RS_FMT_NODE_NUMBERS:
    case RS_FMT_NODE_CONCAT: return 1;
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_STR:
    case RS_FMT_NODE_FLOAT: return 3;
    case RS_FMT_NODE_LIST:
        switch (d->children[0]->kind) {
        case RS_FMT_NODE_INT:
        case RS_FMT_NODE_DECIMAL: return 2;
        case RS_FMT_NODE_FLOAT: return 4;
        default: return 5;
        }
    case RS_FMT_NODE_ANY: return 6;
    default: return 2;
    }
}

static void sort_arms(arm *arms, uint32_t n) {
    uint32_t i, k;
    for (i = 1; i < n; i++) {
        for (k = i; k > 0 && order_of(arms[k - 1].plan) > order_of(arms[k].plan); k--) {
            arm moved = arms[k];
            arms[k] = arms[k - 1];
            arms[k - 1] = moved;
        }
    }
}

static bool is_none(const rs_plan *d) {
    return d->kind == RS_FMT_NODE_CONST && rs_slice_left(&d->aux) == 1 && *d->aux.ptr == RS_FMT_TAG_NONE;
}

static rs_status join_arms(chooser *self, arm *arms, uint32_t n, uint64_t values, arm *out) {
    uint32_t i;
    if (n == 1) {
        *out = arms[0];
        return RS_OK;
    }
    sort_arms(arms, n);
    if (n == 2 && (is_none(arms[0].plan) || is_none(arms[1].plan))) {
        const arm *other = &arms[is_none(arms[0].plan)];
        out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_OPTIONAL, 1, 1);
        if (out->plan == NULL) return no_memory(self);
        out->plan->children[0] = other->plan;
        out->bits = values + other->bits;
        out->plan->n = values;
        return RS_OK;
    }
    out->plan = rs_plan_inner(self->stats, RS_FMT_NODE_UNION, 0, n);
    if (out->plan == NULL) return no_memory(self);
    out->bits = values * rs_packed_ints_width(n - 1);
    for (i = 0; i < n; i++) {
        out->plan->children[i] = arms[i].plan;
        out->bits += arms[i].bits + arms[i].plan->n * 4;
    }
    out->plan->n = values;
    return RS_OK;
}

static rs_status choose_position(chooser *self, const rs_position *at, arm *out) {
    arm *arms;
    uint32_t i, n = 0;
    uint64_t values = values_at(at);
    out->bits = 0;
    if (at->n == 0) return leaf(self, RS_FMT_NODE_ANY, 0, NULL, 0, out);
    arms = (arm *)rs_arena_take(&self->stats->arena, (size_t)at->n * 2 * sizeof *arms);
    if (arms == NULL) return no_memory(self);
    for (i = 0; i < at->n; i++) {
        arm rest;
        RS_TRY(choose_alternative(self, &at->alternatives[i], &arms[n], &rest));
        n++;
        if (rest.plan != NULL) arms[n++] = rest;
    }
    if (n > RS_FMT_UNION_CHILDREN) return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "too many alternatives");
    return join_arms(self, arms, n, values, out);
}

/* Adds the number of nodes of a plan to *nodes, and an upper bound of their bytes to *bytes. */
static void weigh(const rs_plan *d, uint64_t *nodes, uint64_t *bytes) {
    uint32_t i;
    ++*nodes;
    *bytes += RS_FMT_NODE_SIZE + rs_slice_left(&d->aux);
    /* The numbers of its tables are not known yet, so the most that there can be are counted. */
    if (d->kind == RS_FMT_NODE_DICT_CODED || d->kind == RS_FMT_NODE_SYMBOLS) *bytes += TABLE_NUMBERS;
    for (i = 0; i < d->n_children; i++) weigh(d->children[i], nodes, bytes);
}

rs_status rs_plan_choose(rs_stats *stats, rs_dictionaries *dictionaries, unsigned hops, rs_plan **out, rs_error *err) {
    chooser self = {stats, dictionaries, hops, false, err};
    uint64_t nodes = 0, bytes = RS_FMT_TREE_HEAD_SIZE;
    arm root = {NULL, 0};
    RS_TRY(choose_position(&self, &stats->root, &root));
    weigh(root.plan, &nodes, &bytes);
    if (nodes > RS_FMT_TREE_NODES || bytes > RS_FMT_TREE_BYTES) {
        self.frugal = true;
        RS_TRY(choose_position(&self, &stats->root, &root));
    }
    *out = root.plan;
    return RS_OK;
}
