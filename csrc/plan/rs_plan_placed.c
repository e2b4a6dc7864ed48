/* rs_plan_placed.c: computes the costs of runs and rising numbers, and chooses among placed nodes. */
#include "plan/rs_plan_placed.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"
#include "plan/rs_rising.h"

enum {
    PLACED_LEAST = 64,    /* fewer values get no placed nodes */
    EXCEPTION_PARTS = 32, /* exceptions are at most 1/32 of the values */
    EXCEPTION_BITS = 44,  /* cost of an exception besides its value: its mark, its end, its padding */
    TRIED_FRAMES = 16,    /* stretches of 64 values in the sample that a node is first tried on */
    RUN_PARTS = 4,        /* runs are at most 3/4 of the values */
    RARE_PARTS = 256      /* if at most 1/256 of the values are exceptions, half a bit of gain per value is enough */
};

/* Returns the bytes of the value at in.ptr: an int, a float or a str. */
static size_t size_of(rs_slice in, uint8_t kind) {
    const uint8_t *p = in.ptr++;
    if (kind == RS_FMT_NODE_INT) return rs_any_int_size(*p);
    if (kind == RS_FMT_NODE_FLOAT) return 9;
    uint64_t n = rs_scan_varint_unchecked(&in);
    return (size_t)(in.ptr - p) + (size_t)(n << (*p - RS_FMT_TAG_STR1));
}

/* Sets locals[i] to the number of the record of value i. */
static void find_locals(const rs_stats *stats, const rs_alternative *a, uint32_t *locals) {
    uint32_t local = 0;
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        while (local + 1 < stats->values.n && stats->values.spans[local + 1].off <= a->offsets[i]) local++;
        locals[i] = local;
    }
}

/* Reads value i as a number. Returns false for a float that is not a decimal of the scale. */
static bool number_of(const rs_stats *stats, const rs_alternative *a, unsigned scale, uint32_t i, uint64_t *out) {
    rs_slice in = rs_stats_from(stats, a->offsets[i]);
    int64_t m;
    if (a->kind == RS_FMT_NODE_INT) {
        *out = (uint64_t)rs_any_take_int_unchecked(&in);
        return true;
    }
    if (!rs_packed_ints_from_float(rs_load_f64(in.ptr + 1), scale, &m)) return false;
    *out = (uint64_t)m;
    return true;
}

/* Estimates the bits per value without placed nodes. Leaves out the entries of a table. */
static uint64_t usual_bits(const rs_stats *stats, const rs_alternative *a) {
    if (rs_plan_has_few(a)) return rs_bit_width(rs_plan_distinct(stats, a).n - 1);
    return a->prepared != NULL ? a->prepared->bits / a->n : 64;
}

/* Returns the number of the first value of stretch f of the sample. The stretches have RS_FMT_RISING_RECORDS values
 * each and are evenly spread. */
static uint32_t tried_first(uint32_t n, uint32_t f) {
    return (uint32_t)((uint64_t)(n - RS_FMT_RISING_RECORDS) * f / (TRIED_FRAMES - 1));
}

/* Returns whether a sample takes fewer bits as rising numbers; true for few values. */
static bool looks_rising(const rs_stats *stats, const rs_alternative *a, unsigned scale) {
    uint64_t numbers[RS_FMT_RISING_RECORDS], bits = 0;
    uint32_t n = a->n_offsets;
    if (n < TRIED_FRAMES * RS_FMT_RISING_RECORDS) return true;
    for (uint32_t f = 0; f < TRIED_FRAMES; f++) {
        rs_rising r;
        for (uint32_t k = 0; k < RS_FMT_RISING_RECORDS; k++) {
            if (!number_of(stats, a, scale, tried_first(n, f) + k, &numbers[k])) return false;
        }
        rs_rising_choose(numbers, RS_FMT_RISING_RECORDS, &r);
        bits += (r.size_bytes - RS_FMT_RISING_HEAD_SIZE) * 8;
    }
    return bits / (TRIED_FRAMES * RS_FMT_RISING_RECORDS) < usual_bits(stats, a);
}

/* Sets *bits to the bits of a rising node over the n numbers `known`. Number i belongs to record locals[i], or to
 * record i if `locals` is NULL. */
static rs_status weigh_rising(const rs_stats *stats, const uint32_t *locals, uint64_t *known, uint32_t n,
                              uint64_t *bits, rs_error *err) {
    uint64_t *numbers = known;
    rs_rising r;
    if (locals != NULL) {
        numbers = (uint64_t *)malloc(stats->values.n * sizeof *numbers);
        if (numbers == NULL) return rs_no_memory(err);
        rs_rising_fill(locals, known, n, numbers, stats->values.n);
    }
    rs_rising_choose(numbers, stats->values.n, &r);
    if (r.size_bytes < UINT64_MAX / 8) *bits = r.size_bytes * 8;
    if (numbers != known) free(numbers);
    return RS_OK;
}

/* Returns whether value i begins a run: it differs from value i - 1. */
static bool begins_run(const rs_stats *stats, const rs_alternative *a, uint32_t i) {
    const rs_slice one = rs_stats_from(stats, a->offsets[i]), before = rs_stats_from(stats, a->offsets[i - 1]);
    size_t size = size_of(one, a->kind);
    return size != size_of(before, a->kind) || !rs_equal_few(before.ptr, one.ptr, size);
}

/* Returns whether a sample has few enough runs; true for few values. */
static bool looks_like_runs(const rs_stats *stats, const rs_alternative *a) {
    uint32_t n = a->n_offsets, n_runs = 0;
    if (n < TRIED_FRAMES * RS_FMT_RISING_RECORDS) return true;
    for (uint32_t f = 0; f < TRIED_FRAMES; f++) {
        for (uint32_t k = 1; k < RS_FMT_RISING_RECORDS; k++) n_runs += begins_run(stats, a, tried_first(n, f) + k);
    }
    return n_runs <= TRIED_FRAMES * RS_FMT_RISING_RECORDS / RUN_PARTS * (RUN_PARTS - 1);
}

/* Counts the runs, and sets ranks[i] to the number of the run of value i. Returns 0 for more than max_runs. */
static uint32_t count_runs(const rs_stats *stats, const rs_alternative *a, uint32_t max_runs, uint64_t *ranks) {
    uint32_t n = 1;
    ranks[0] = 0;
    for (uint32_t i = 1; i < a->n_offsets; i++) {
        if (begins_run(stats, a, i) && ++n > max_runs) return 0;
        ranks[i] = n - 1;
    }
    return n;
}

static rs_status weigh(const rs_stats *stats, const rs_alternative *a, const uint32_t *locals, uint64_t *numbers,
                       rs_placed_weights *out, rs_error *err) {
    uint32_t n = a->n_offsets, max_runs = n / RUN_PARTS * (RUN_PARTS - 1);
    uint32_t distinct = a->distinct == NULL ? 0 : a->distinct->n;
    const rs_plan *packed = a->prepared == NULL ? NULL : a->prepared->packed;
    bool is_number = a->kind == RS_FMT_NODE_INT;
    if (packed != NULL && packed->kind == RS_FMT_NODE_DECIMAL && a->prepared->n_fits == a->n &&
        packed->aux.ptr[RS_FMT_DECIMAL_CORRECTION] == 0) {
        is_number = true;
        out->scale = packed->aux.ptr[RS_FMT_DECIMAL_SCALE];
    }
    if (distinct <= max_runs && (distinct > 0 || is_number) && looks_like_runs(stats, a)) {
        out->n_runs = count_runs(stats, a, max_runs, numbers);
    }
    if (out->n_runs > 0) {
        out->marks_bits = 8 * rs_marks_size(rs_marks_form(stats->values.n, out->n_runs), stats->values.n, out->n_runs);
        if (out->n_runs == distinct) RS_TRY(weigh_rising(stats, locals, numbers, n, &out->ranks, err));
    }
    if (!is_number || !looks_rising(stats, a, out->scale)) return RS_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (!number_of(stats, a, out->scale, i, &numbers[i])) return RS_OK;
    }
    return weigh_rising(stats, locals, numbers, n, &out->rising, err);
}

rs_status rs_plan_weigh_placed(rs_stats *stats, rs_alternative *a, rs_error *err) {
    uint32_t *locals = NULL;
    rs_status status;
    if (a->placed != NULL) return RS_OK;
    rs_placed_weights *out = (rs_placed_weights *)rs_arena_take(&stats->arena, sizeof *out);
    if (out == NULL) return rs_no_memory(err);
    out->rising = out->ranks = UINT64_MAX;
    a->placed = out;
    if (a->n_offsets < a->n || a->n < PLACED_LEAST) return RS_OK;
    uint64_t *numbers = (uint64_t *)malloc(a->n_offsets * sizeof *numbers);
    if (a->n < stats->values.n) locals = (uint32_t *)malloc(a->n_offsets * sizeof *locals);
    if (numbers == NULL || (locals == NULL && a->n < stats->values.n)) {
        status = rs_no_memory(err);
    } else {
        if (locals != NULL) find_locals(stats, a, locals);
        status = weigh(stats, a, locals, numbers, out, err);
    }
    free(locals);
    free(numbers);
    return status;
}

static bool may_be_placed(const rs_alternative *a) {
    return a->kind == RS_FMT_NODE_INT || a->kind == RS_FMT_NODE_FLOAT || a->kind == RS_FMT_NODE_STR;
}

static rs_status prepare_position(rs_stats *stats, rs_position *at, rs_error *err) {
    for (uint32_t i = 0; i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        if (rs_plan_is_constant(stats, a, RS_PLAN_CONST_BYTES) || a->kind == RS_FMT_NODE_LIST) continue;
        if (a->kind == RS_FMT_NODE_MAP) continue;
        if (may_be_placed(a)) RS_TRY(rs_plan_weigh_placed(stats, a, err));
        for (uint32_t k = 0; k < a->n_children; k++) RS_TRY(prepare_position(stats, &a->children[k], err));
    }
    return RS_OK;
}

rs_status rs_plan_prepare_placed(rs_stats *stats, rs_error *err) {
    if (!rs_choices_allow(stats->choices, RS_FMT_NODE_RUNS) && !rs_choices_allow(stats->choices, RS_FMT_NODE_RISING)) {
        return RS_OK;
    }
    return prepare_position(stats, &stats->root, err);
}

/* ---- Choosing ---- */

static rs_status leaf(rs_plan_chooser *self, unsigned kind, unsigned param, const void *aux, size_t aux_size,
                      rs_plan_candidate *out) {
    out->plan = rs_plan_leaf(self->stats, kind, param, aux, aux_size);
    return out->plan == NULL ? rs_no_memory(self->err) : RS_OK;
}

/* Returns the bits that a placed node must save, because it slows reading. */
static uint64_t least_gain(const rs_plan_chooser *self, uint64_t n) {
    switch (self->stats->choices->level) {
    case RS_LEVEL_SMALL: return n / 8 + 256;
    case RS_LEVEL_FAST: return 2 * n + 1024;
    default: return n + 1024;
    }
}

static bool may_place(const rs_plan_chooser *self, unsigned kind, uint64_t n) {
    return !self->often && self->table_depth == 0 && !self->frugal && n >= PLACED_LEAST &&
           rs_choices_allow(self->stats->choices, kind);
}

static rs_status put_placed(rs_plan_chooser *self, unsigned kind, const rs_plan_candidate *child, uint64_t n,
                            uint64_t bits, rs_plan_candidate *out) {
    out->plan = rs_plan_inner(self->stats, kind, 0, 1);
    if (out->plan == NULL) return rs_no_memory(self->err);
    out->plan->children[0] = child->plan;
    out->plan->n = n;
    out->bits = bits;
    return RS_OK;
}

/* Sets *child to the node for the values of runs, one per run, and child->bits to its bits. */
static rs_status choose_run(rs_plan_chooser *self, const rs_alternative *a, uint32_t n_runs,
                            const rs_plan_candidate *whole, rs_plan_candidate *child) {
    rs_values distinct = rs_plan_distinct(self->stats, a);
    child->plan = NULL;
    child->bits = UINT64_MAX;
    if (a->kind == RS_FMT_NODE_INT && rs_choices_allow(self->stats->choices, RS_FMT_NODE_INT)) {
        unsigned width = rs_plan_width((uint64_t)a->max - (uint64_t)a->min);
        const int64_t base = rs_plan_base(a->min, a->max, width);
        RS_TRY(leaf(self, RS_FMT_NODE_INT, width, &base, 8, child));
        child->bits = (uint64_t)n_runs * ((width + 7) / 8 * 8);
    }
    if (a->kind == RS_FMT_NODE_FLOAT && rs_choices_allow(self->stats->choices, RS_FMT_NODE_FLOAT)) {
        RS_TRY(leaf(self, RS_FMT_NODE_FLOAT, 0, NULL, 0, child));
        child->bits = (uint64_t)n_runs * 64;
    }
    /* A dict-coded number takes up to 7 bits more, because the value of a run takes whole bytes. */
    if (child->bits != UINT64_MAX)
        child->bits -= child->bits < 7 * (uint64_t)n_runs ? child->bits : 7 * (uint64_t)n_runs;
    RS_TRY(rs_plan_try_dict_coded(self, &distinct, n_runs, a->position_id,
                                  (double)whole->bits / (double)(a->raw_bytes + 1), child));
    if (child->plan != NULL) child->bits += 7 * (uint64_t)n_runs;
    return RS_OK;
}

/* Replaces *out by a rising node over the numbers of a table's entries when that takes fewer than *best bits. */
static rs_status try_ranks(rs_plan_chooser *self, const rs_alternative *a, uint64_t usual, uint64_t *best,
                           rs_plan_candidate *out) {
    rs_values distinct = rs_plan_distinct(self->stats, a);
    rs_plan_candidate number = {NULL, UINT64_MAX};
    RS_TRY(rs_plan_try_dict_coded(self, &distinct, 0, a->position_id, (double)usual / (double)(a->raw_bytes + 1),
                                  &number));
    if (number.plan == NULL || number.bits + a->placed->ranks >= *best) return RS_OK;
    *best = number.bits + a->placed->ranks;
    return put_placed(self, RS_FMT_NODE_RISING, &number, a->n, *best, out);
}

/* Puts a rising node over the values as numbers into *out, when the tree may have its child. */
static rs_status put_rising(rs_plan_chooser *self, const rs_alternative *a, rs_plan_candidate *out) {
    rs_plan_candidate number = {NULL, 0};
    int64_t base = 0;
    uint8_t aux[RS_FMT_DECIMAL_AUX_SIZE] = {0};
    if (!rs_choices_allow(self->stats->choices, a->kind == RS_FMT_NODE_INT ? RS_FMT_NODE_INT : RS_FMT_NODE_DECIMAL)) {
        return RS_OK;
    }
    aux[RS_FMT_DECIMAL_SCALE] = (uint8_t)a->placed->scale;
    if (a->kind == RS_FMT_NODE_INT) RS_TRY(leaf(self, RS_FMT_NODE_INT, 0, &base, 8, &number));
    else RS_TRY(leaf(self, RS_FMT_NODE_DECIMAL, 0, aux, sizeof aux, &number));
    return put_placed(self, RS_FMT_NODE_RISING, &number, a->n, a->placed->rising, out);
}

rs_status rs_plan_try_placed(rs_plan_chooser *self, rs_alternative *a, rs_plan_candidate *out,
                             rs_plan_candidate *rest) {
    uint64_t usual = out->bits + rest->bits, gain = least_gain(self, a->n);
    rs_plan_candidate whole = {NULL, usual}, child = {NULL, 0}, placed = {NULL, 0};
    if (out->plan->kind == RS_FMT_NODE_CONST || usual <= gain || !may_be_placed(a)) return RS_OK;
    if (!may_place(self, RS_FMT_NODE_RUNS, a->n) && !may_place(self, RS_FMT_NODE_RISING, a->n)) return RS_OK;
    RS_TRY(rs_plan_weigh_placed(self->stats, a, self->err));
    uint64_t best = usual - gain;
    if (a->placed->n_runs > 0 && may_place(self, RS_FMT_NODE_RUNS, a->n)) {
        RS_TRY(choose_run(self, a, a->placed->n_runs, &whole, &child));
        if (child.plan != NULL && child.bits + a->placed->marks_bits < best) {
            best = child.bits + a->placed->marks_bits;
            RS_TRY(put_placed(self, RS_FMT_NODE_RUNS, &child, a->n, best, &placed));
        }
    }
    if (may_place(self, RS_FMT_NODE_RISING, a->n)) {
        if (a->placed->ranks != UINT64_MAX) RS_TRY(try_ranks(self, a, usual, &best, &placed));
        if (a->placed->rising < best) RS_TRY(put_rising(self, a, &placed));
    }
    if (placed.plan == NULL) return RS_OK;
    if (rest->plan == NULL && rs_plan_group_bits(out->plan) > 0 && rs_plan_may_be_fixed(out->plan)) {
        placed.plan->replaced = out->plan;
    }
    *out = placed;
    rest->plan = NULL;
    return RS_OK;
}

void rs_plan_unplace(rs_plan *row) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < row->n_children; i++) bits += rs_plan_group_bits(row->children[i]);
    for (uint32_t i = 0; i < row->n_children; i++) {
        rs_plan *replaced = row->children[i]->replaced;
        unsigned width = replaced == NULL ? 0 : rs_plan_group_bits(replaced);
        if (replaced == NULL || (bits + width + 7) / 8 > (bits + 7) / 8) continue;
        row->children[i] = replaced;
        bits += width;
    }
}

/* Returns the padding of a value that takes whole bytes, in bits. */
static unsigned padding(const rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_DECIMAL: return (8u - d->param % 8u) % 8u;
    case RS_FMT_NODE_BOOL: return 7;
    case RS_FMT_NODE_DICT_CODED: return 4; /* its width is not known yet */
    default: return 0;
    }
}

/* Returns whether a plan has array nodes. Under an exceptions node their data would count as bytes of the record, and
 * might pass the limit in the header. */
static bool has_arrays(const rs_plan *d) {
    for (uint32_t i = 0; i < d->n_children; i++) {
        if (has_arrays(d->children[i])) return true;
    }
    return d->kind == RS_FMT_NODE_NDARRAY;
}

rs_status rs_plan_try_exceptions(rs_plan_chooser *self, const rs_plan_candidate *candidates, uint32_t n,
                                 uint64_t values, rs_plan_candidate *out) {
    uint64_t joined = out->bits;
    uint32_t usual = 0;
    rs_plan_candidate exceptions = {NULL, 0};
    if (n < 2 || !may_place(self, RS_FMT_NODE_EXCEPTIONS, values)) return RS_OK;
    for (uint32_t i = 1; i < n; i++) usual = candidates[i].plan->n > candidates[usual].plan->n ? i : usual;
    uint64_t n_exceptions = values - candidates[usual].plan->n;
    if (n_exceptions > values / EXCEPTION_PARTS) return RS_OK;
    for (uint32_t i = 0; i < n && out->plan->kind == RS_FMT_NODE_UNION; i++) {
        joined =
            joined - candidates[i].plan->n * RS_PLAN_PADDING_BITS + candidates[i].plan->n * padding(candidates[i].plan);
    }
    rs_plan_candidate *others = (rs_plan_candidate *)rs_arena_take(&self->stats->arena, n * sizeof *others);
    rs_plan *d = rs_plan_inner(self->stats, RS_FMT_NODE_EXCEPTIONS, 0, 2);
    if (others == NULL || d == NULL) return rs_no_memory(self->err);
    for (uint32_t i = 0; i + 1 < n; i++) {
        others[i] = candidates[i < usual ? i : i + 1];
        if (has_arrays(others[i].plan)) return RS_OK;
    }
    RS_TRY(rs_plan_join(self, others, n - 1, n_exceptions, &exceptions));
    uint64_t bits = candidates[usual].bits + exceptions.bits + n_exceptions * EXCEPTION_BITS + values / 16;
    /* A record with an exception also has bits and, under a fixed node, a body for the usual value. */
    if (rs_plan_may_be_fixed(candidates[usual].plan))
        bits += candidates[usual].bits / (candidates[usual].plan->n + 1) * n_exceptions;
    uint64_t gain = n_exceptions > values / RARE_PARTS ? least_gain(self, values) + 2 * values : values / 2 + 1024;
    if (bits + gain >= joined) return RS_OK;
    d->children[0] = candidates[usual].plan;
    d->children[1] = exceptions.plan;
    d->n = values;
    out->plan = d;
    out->bits = bits;
    return RS_OK;
}
