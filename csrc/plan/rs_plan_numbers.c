/* rs_plan_numbers.c: chooses the nodes for ints, floats and lists of numbers, by reading every number. */
#include "plan/rs_plan.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"

enum {
    STRIDES = 5,
    SCALES = 16,
    NO_SCALE = SCALES,
    MAX_CORRECTION = 16,
    TRIED_LISTS = 128,     /* approximate number of lists in the sample for choosing the stride */
    TRIED_NUMBERS = 16384, /* approximate number of numbers in it, if that takes more lists */
    KEPT_NUMBERS = 1 << 21 /* the most numbers that are kept as integers */
};

rs_plan *rs_plan_inner(rs_stats *stats, unsigned kind, unsigned param, uint32_t n_children) {
    rs_plan *d = (rs_plan *)rs_arena_take(&stats->arena, sizeof *d);
    if (d == NULL) return NULL;
    d->kind = (uint8_t)kind;
    d->param = (uint8_t)param;
    d->n_children = n_children;
    if (n_children == 0) return d;
    d->children = (rs_plan **)rs_arena_take(&stats->arena, n_children * sizeof *d->children);
    return d->children == NULL ? NULL : d;
}

rs_plan *rs_plan_leaf(rs_stats *stats, unsigned kind, unsigned param, const void *aux, size_t aux_size) {
    rs_plan *d = rs_plan_inner(stats, kind, param, 0);
    if (d == NULL || aux_size == 0) return d;
    uint8_t *copy = (uint8_t *)rs_arena_take(&stats->arena, aux_size);
    if (copy == NULL) return NULL;
    memcpy(copy, aux, aux_size);
    d->aux = rs_slice_of(copy, aux_size);
    return d;
}

unsigned rs_plan_width(uint64_t range) {
    unsigned bits = rs_bit_width(range);
    if (bits > 56) return 64;
    if (bits >= 28 && bits <= 32) return 32;
    if (bits >= 14 && bits <= 16) return 16;
    return bits;
}

int64_t rs_plan_base(int64_t min, int64_t max, unsigned width) {
    const uint64_t range = (uint64_t)max - (uint64_t)min;
    const uint64_t spare = width == 0 || width > 63 ? 0 : (UINT64_MAX >> (64 - width)) - range;
    if (min >= 0 && (uint64_t)min <= spare) return 0;
    return min < INT64_MIN + (int64_t)(spare / 2) ? min : min - (int64_t)(spare / 2);
}

/* ---- Ints ---- */

/* Finds a narrow int node for most ints if a few lie far from the rest: frame of reference with exceptions, as in
 * PFOR (Zukowski, Heman, Nes, Boncz, "Super-Scalar RAM-CPU Cache Compression", ICDE 2006). The caller stores the
 * exceptions under another child of a union. The frame begins at the minimum or ends at the maximum. */
rs_status rs_plan_ints(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits, uint64_t *n_fits,
                       rs_error *err) {
    uint64_t above[65] = {0}, below[65] = {0}, seen, best = *bits;
    unsigned full_width = rs_plan_width((uint64_t)a->max - (uint64_t)a->min), width = full_width, w;
    bool from_max = false;
    *out = NULL;
    if (a->n_offsets < a->n || a->n < 64 || full_width < 12) return RS_OK;
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        rs_slice in = rs_stats_from(stats, a->offsets[i]);
        int64_t value = rs_any_take_int_unchecked(&in);
        above[rs_bit_width((uint64_t)value - (uint64_t)a->min)]++;
        below[rs_bit_width((uint64_t)a->max - (uint64_t)value)]++;
    }
    /* A value in a union takes whole bytes, and one bit chooses the child. An int that does not fit is an any value of
     * at most 9 bytes. */
    for (unsigned end = 0; end < 2; end++) {
        for (w = 0, seen = 0; w < full_width; w++) {
            seen += end == 0 ? above[w] : below[w];
            uint64_t cost = a->n + seen * ((w + 7) / 8 * 8) + (a->n - seen) * 72;
            if (cost < best) best = cost, width = w, from_max = end == 1, *n_fits = seen;
        }
    }
    if (width == full_width) return RS_OK;
    width = rs_plan_width(width == 0 ? 0 : UINT64_MAX >> (64 - width));
    int64_t base = from_max ? (int64_t)((uint64_t)a->max - (width == 0 ? 0 : UINT64_MAX >> (64 - width))) : a->min;
    *out = rs_plan_leaf(stats, RS_FMT_NODE_INT, width, &base, 8);
    *bits = best;
    return *out == NULL ? rs_no_memory(err) : RS_OK;
}

/* ---- Floats ---- */

static double float_at(const rs_stats *stats, uint32_t where) { return rs_load_f64(stats->values.base + where + 1); }

/* Returns the bits of `value` minus the bits of `from`, both as integers. */
static int64_t ulps(double value, double from) {
    uint64_t a, b;
    memcpy(&a, &value, 8);
    memcpy(&b, &from, 8);
    return (int64_t)(a - b);
}

/* Finds the correction bits of all floats at a scale, and the range of their integers. Returns false when a float is
 * too large or needs more than MAX_CORRECTION bits. */
static bool find_correction(const rs_stats *stats, const rs_alternative *a, unsigned scale, unsigned *correction,
                            int64_t *min, int64_t *max) {
    double power = rs_schema_divisor(scale);
    uint64_t widest = 0;
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        double value = float_at(stats, a->offsets[i]), product = value * power;
        if (!(product > -9e15 && product < 9e15)) return false;
        int64_t m = rs_packed_ints_round(product);
        int64_t d = ulps(value, (double)m / power);
        widest |= d < 0 ? ~(uint64_t)d : (uint64_t)d;
        if (widest >> (MAX_CORRECTION - 1) != 0) return false;
        if (i == 0 || m < *min) *min = m;
        if (i == 0 || m > *max) *max = m;
    }
    *correction = widest == 0 && scale == 0 ? 0 : rs_bit_width(widest) + 1;
    return true;
}

static rs_plan *decimal(rs_stats *stats, unsigned width, int64_t base, unsigned scale, unsigned correction) {
    uint8_t aux[RS_FMT_DECIMAL_AUX_SIZE];
    rs_store_u64(aux, (uint64_t)base);
    aux[RS_FMT_DECIMAL_SCALE] = (uint8_t)scale;
    aux[RS_FMT_DECIMAL_CORRECTION] = (uint8_t)correction;
    return rs_plan_leaf(stats, RS_FMT_NODE_DECIMAL, width, aux, sizeof aux);
}

/* The number of floats by the least scale at which each is a decimal; NO_SCALE counts the others. */
typedef struct scales {
    uint64_t n[SCALES + 1];
} scales;

static void count_scales(const rs_stats *stats, const rs_alternative *a, scales *out) {
    unsigned scale = 0;
    uint32_t misses = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        double value = float_at(stats, a->offsets[i]);
        int64_t m;
        /* Stops early when nearly all floats so far have no scale. Most floats need the same scale as the previous one,
         * so the search starts there, unless one digit less is enough. */
        if (misses > 256 && misses > i - i / 8) {
            out->n[NO_SCALE] += a->n_offsets - i;
            return;
        }
        if (scale > 0 && rs_packed_ints_from_float(value, scale - 1, &m)) scale = 0;
        if (rs_packed_ints_find_scale(value, &scale)) {
            out->n[scale]++;
        } else {
            out->n[NO_SCALE]++;
            misses++;
            scale = 0;
        }
    }
}

/* Finds the range of the integers of the floats that are exact at a scale. Returns the number of these floats. */
static uint64_t range_at(const rs_stats *stats, const rs_alternative *a, unsigned scale, int64_t *min, int64_t *max) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        int64_t m;
        if (!rs_packed_ints_from_float(float_at(stats, a->offsets[i]), scale, &m)) continue;
        if (n == 0 || m < *min) *min = m;
        if (n == 0 || m > *max) *max = m;
        n++;
    }
    return n;
}

rs_status rs_plan_floats(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits, uint64_t *n_fits,
                         rs_error *err) {
    unsigned correction;
    uint64_t seen = 0;
    int64_t min = 0, max = 0;
    scales counts;
    *out = NULL;
    if (a->n_offsets < a->n || a->n == 0) return RS_OK;
    count_scales(stats, a, &counts);
    for (unsigned scale = 0; scale < SCALES; scale++) {
        seen += counts.n[scale];
        if (seen * 10 < a->n * 7 || counts.n[scale] == 0) continue;
        uint64_t n = range_at(stats, a, scale, &min, &max);
        unsigned width = rs_plan_width((uint64_t)max - (uint64_t)min);
        uint64_t cost = n == a->n ? n * width : a->n + n * ((width + 7) / 8 * 8) + (a->n - n) * 64;
        if (n < a->n / 2 || cost >= *bits) continue;
        *out = decimal(stats, width, rs_plan_base(min, max, width), scale, 0);
        if (*out == NULL) return rs_no_memory(err);
        *bits = cost;
        *n_fits = n;
    }
    /* If all floats are exact at a scale, corrections save nothing: at a lower scale they take too many bits. */
    const bool all_exact = *out != NULL && *n_fits == a->n;
    for (unsigned scale = 0; scale <= 9 && !all_exact && counts.n[NO_SCALE] * 4 < a->n * 5; scale++) {
        if (!find_correction(stats, a, scale, &correction, &min, &max)) continue;
        unsigned width =
            rs_plan_width(((uint64_t)max - (uint64_t)min) << correction | ((UINT64_C(1) << correction) - 1));
        if (rs_bit_width((uint64_t)max - (uint64_t)min) + correction > 56 || a->n * width >= *bits) continue;
        *out = decimal(stats, width, width == 64 ? min : rs_plan_base(min, max, width - correction), scale, correction);
        if (*out == NULL) return rs_no_memory(err);
        *bits = a->n * width;
        *n_fits = a->n;
    }
    return RS_OK;
}

/* ---- Lists ---- */

/* All lists of an alternative, and their measurements. Up to KEPT_NUMBERS numbers are kept as integers, because
 * converting them takes most of the time. */
typedef struct lists {
    rs_stats *stats;
    const rs_alternative *a;
    int64_t *numbers;          /* kept: the numbers of all lists; else of one list */
    uint32_t *starts;          /* kept: the first number of each list, and the end; else NULL */
    uint8_t *scales;           /* kept floats: the scale of each list's numbers, or NO_SCALE */
    unsigned scale;            /* the scale to try floats at */
    uint64_t n_fits, elements; /* number of lists that are exact at the scale, and of their elements */
    int64_t min, max;
    rs_packed_ints_sizes trials[STRIDES];
} lists;

/* Returns the bytes from the elements of list i on, and sets *n to the number of elements. */
static rs_slice elements_of(const lists *self, uint32_t i, uint64_t *n) {
    rs_slice in = rs_stats_from(self->stats, self->a->offsets[i]);
    in.ptr++;
    *n = rs_scan_varint_unchecked(&in);
    return in;
}

static void take_ints(rs_slice in, uint64_t n, int64_t *out) {
    for (uint64_t k = 0; k < n; k++) out[k] = rs_any_take_int_unchecked(&in);
}

/* Multiplies the kept numbers of a list to bring them to a higher scale. Returns false and changes nothing when one
 * would pass 2^50: beyond it, rs_packed_ints_from_float may find another integer. */
static bool raise(int64_t *numbers, uint64_t n, unsigned by) {
    const int64_t factor = (int64_t)rs_schema_divisor(by), most = (INT64_C(1) << 50) / factor;
    bool fits = true;
    for (uint64_t k = 0; k < n; k++) fits = fits & (numbers[k] >= -most) & (numbers[k] <= most);
    for (uint64_t k = 0; fits && k < n; k++) numbers[k] *= factor;
    return fits;
}

/* Returns the numbers of list i at the current scale; NULL when one of its floats is not a decimal of that scale. They
 * are valid until the next call. */
static const int64_t *numbers_of(lists *self, uint32_t i, uint64_t *n) {
    if (self->starts != NULL) {
        int64_t *numbers = self->numbers + self->starts[i];
        *n = self->starts[i + 1] - self->starts[i];
        if (self->scales == NULL || self->scales[i] == self->scale) return numbers;
        if (self->scales[i] > self->scale) return NULL;
        if (!raise(numbers, *n, self->scale - self->scales[i])) {
            rs_slice in = elements_of(self, i, n);
            self->scales[i] = NO_SCALE;
            if (rs_packed_ints_from_floats(in.ptr, *n, self->scale, numbers) < *n) return NULL;
        }
        self->scales[i] = (uint8_t)self->scale;
        return numbers;
    }
    rs_slice in = elements_of(self, i, n);
    if (self->a->elements == RS_ELEMENTS_INTS) {
        take_ints(in, *n, self->numbers);
    } else if (rs_packed_ints_from_floats(in.ptr, *n, self->scale, self->numbers) < *n) {
        return NULL;
    }
    return self->numbers;
}

static void widen_range(lists *self, const int64_t *numbers, uint64_t n) {
    int64_t min = self->min, max = self->max;
    for (uint64_t k = 0; k < n; k++) {
        min = numbers[k] < min ? numbers[k] : min;
        max = numbers[k] > max ? numbers[k] : max;
    }
    self->min = min;
    self->max = max;
}

static void measure_range(lists *self) {
    uint64_t n;
    self->min = INT64_MAX;
    self->max = INT64_MIN;
    self->n_fits = self->elements = 0;
    if (self->starts != NULL && self->scales == NULL) {
        self->n_fits = self->a->n_offsets;
        self->elements = self->a->total;
        widen_range(self, self->numbers, self->elements);
        return;
    }
    for (uint32_t i = 0; i < self->a->n_offsets; i++) {
        const int64_t *numbers = numbers_of(self, i, &n);
        if (numbers == NULL) continue;
        widen_range(self, numbers, n);
        self->elements += n;
        self->n_fits++;
    }
}

/* Measures every step-th list with each stride from `first` to `end` - 1. */
static void measure(lists *self, unsigned first, unsigned end, uint32_t step) {
    uint64_t n;
    for (unsigned s = first; s < end; s++) {
        memset(&self->trials[s], 0, sizeof self->trials[s]);
        self->trials[s].stride = s;
    }
    for (uint32_t i = 0; i < self->a->n_offsets; i += step) {
        const int64_t *numbers = numbers_of(self, i, &n);
        if (numbers == NULL) continue;
        for (unsigned s = first; s < end; s++) rs_packed_ints_measure(&self->trials[s], numbers, n, self->min);
    }
}

/* Returns the stride that takes the fewest bytes, and measures trials[stride] over all lists. Returns STRIDES when the
 * sample shows that the lists take far more than `limit` bits. */
static unsigned choose_stride(lists *self, uint64_t limit) {
    uint32_t step = self->a->n_offsets / TRIED_LISTS + 1;
    unsigned best = 0;
    if (self->a->total / TRIED_NUMBERS + 1 < step) step = (uint32_t)(self->a->total / TRIED_NUMBERS + 1);
    if (self->stats->choices->level == RS_LEVEL_SMALL) step = 1;
    measure(self, 0, STRIDES, step);
    for (unsigned s = 1; s < STRIDES; s++) {
        if (rs_packed_ints_size(&self->trials[s]) < rs_packed_ints_size(&self->trials[best])) best = s;
    }
    if (step == 1) return best;
    if (rs_packed_ints_size(&self->trials[best]) * step > limit / 8 + limit / 32) return STRIDES;
    measure(self, best, best + 1, 1);
    return best;
}

/* Returns whether n floats are all exact at a scale. */
static bool exact_at(const uint8_t *in, uint64_t n, unsigned scale) {
    int64_t m;
    uint64_t k;
    for (k = 0; k < n && rs_packed_ints_from_float(rs_load_f64(in + 9 * k + 1), scale, &m); k++) continue;
    return k == n;
}

/* Returns the least scale at which n floats are all exact, or NO_SCALE, and sets their integers. The search begins at
 * `scale`, since most lists need the same scale as the previous one. */
static unsigned least_scale(const uint8_t *in, uint64_t n, unsigned scale, int64_t *out) {
    const unsigned first = scale;
    uint64_t done = rs_packed_ints_from_floats(in, n, scale, out);
    if (done == n) {
        while (scale > 0 && exact_at(in, n, scale - 1)) scale--;
    } else {
        /* A large float has no integer at a scale that is too high, so the search restarts at 0. */
        for (scale = 0, done = 0; done < n;) {
            if (!rs_packed_ints_find_scale(rs_load_f64(in + 9 * done + 1), &scale)) return NO_SCALE;
            done += rs_packed_ints_from_floats(in + 9 * done, n - done, scale, out + done);
        }
    }
    if (scale != first && rs_packed_ints_from_floats(in, n, scale, out) < n) return NO_SCALE;
    return scale;
}

/* Reads all lists. Returns the least scale at which nine in ten lists of floats are exact, or NO_SCALE; 0 for ints.
 * Sets *top_scale to the scale at which all lists with a scale are exact; it is unchanged when no list has one. */
static unsigned read_lists(lists *self, unsigned *top_scale) {
    uint64_t n[SCALES + 1] = {0}, seen = 0, all = self->a->n_offsets, count;
    const bool floats = self->a->elements == RS_ELEMENTS_FLOATS;
    unsigned scale = 0, need;
    uint32_t end = 0;
    if (!floats && self->starts == NULL) return 0;
    for (uint32_t i = 0; i < all; i++) {
        rs_slice in = elements_of(self, i, &count);
        int64_t *to = self->numbers;
        if (self->starts != NULL) to += end, self->starts[i] = end, end += (uint32_t)count, self->starts[i + 1] = end;
        if (!floats) {
            take_ints(in, count, to);
            continue;
        }
        need = count == 0 ? 0 : least_scale(in.ptr, count, scale, to);
        if (count != 0 && need != NO_SCALE) scale = need;
        if (self->scales != NULL) self->scales[i] = (uint8_t)need;
        n[need]++;
        if (i == 255 && n[NO_SCALE] > 192) return NO_SCALE;
    }
    for (scale = 0, need = floats ? NO_SCALE : 0; floats && scale < SCALES; scale++) {
        seen += n[scale];
        if (n[scale] != 0) *top_scale = scale;
        if (need == NO_SCALE && seen * 10 >= all * 9) need = scale;
    }
    return need;
}

static rs_status begin_lists(lists *self, rs_stats *stats, const rs_alternative *a, rs_error *err) {
    bool kept = a->total <= KEPT_NUMBERS, floats = a->elements == RS_ELEMENTS_FLOATS;
    memset(self, 0, sizeof *self);
    self->stats = stats;
    self->a = a;
    self->numbers = (int64_t *)malloc((size_t)(kept ? a->total : a->count_max) * sizeof *self->numbers);
    if (kept) self->starts = (uint32_t *)malloc(((size_t)a->n_offsets + 1) * sizeof *self->starts);
    if (kept && floats) self->scales = (uint8_t *)malloc(a->n_offsets);
    return self->numbers == NULL || (kept && self->starts == NULL) || (kept && floats && self->scales == NULL)
               ? rs_no_memory(err)
               : RS_OK;
}

static rs_status plan_list(lists *self, rs_plan **out, uint64_t *bits, uint64_t *n_fits, rs_error *err) {
    const rs_alternative *a = self->a;
    bool floats = a->elements == RS_ELEMENTS_FLOATS;
    uint64_t counts = a->count_min == a->count_max ? 0 : 8 * a->counts_bytes;
    measure_range(self);
    /* Lists that do not fit stay lists of floats of 8 bytes. */
    uint64_t rest = self->n_fits == a->n ? 0 : a->n + (a->total - self->elements) * 64;
    if (self->elements == 0) return RS_OK;
    unsigned width = rs_plan_width((uint64_t)self->max - (uint64_t)self->min);
    uint64_t cost = counts + rest + self->elements * width + (width % 8 == 0 ? 0 : 4 * self->n_fits);
    if (cost < *bits) {
        *out = rs_plan_inner(self->stats, RS_FMT_NODE_LIST, a->param, 1);
        rs_plan *child = floats ? decimal(self->stats, width, self->min, self->scale, 0)
                                : rs_plan_leaf(self->stats, RS_FMT_NODE_INT, width, &self->min, 8);
        if (*out == NULL || child == NULL) return rs_no_memory(err);
        (*out)->children[0] = child;
        *bits = cost;
        *n_fits = self->n_fits;
    }
    unsigned best = choose_stride(self, *bits);
    if (best == STRIDES) return RS_OK;
    cost = counts + rest + 8 * rs_packed_ints_size(&self->trials[best]);
    /* Reading chunks takes a little longer, so they must save more than 1/64. */
    if (cost + cost / 64 < *bits) {
        uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE];
        rs_packed_ints_aux(&self->trials[best], floats ? RS_FMT_NUMBERS_FLOATS : RS_FMT_NUMBERS_INTS,
                           floats ? self->scale : 0, self->min, aux);
        *out = rs_plan_leaf(self->stats, RS_FMT_NODE_NUMBERS, a->param, aux, sizeof aux);
        if (*out == NULL) return rs_no_memory(err);
        *bits = cost;
        *n_fits = self->n_fits;
    }
    return RS_OK;
}

rs_status rs_plan_numbers(rs_stats *stats, const rs_alternative *a, rs_plan **out, uint64_t *bits, uint64_t *n_fits,
                          rs_error *err) {
    unsigned top_scale = NO_SCALE;
    *out = NULL;
    if (a->n_offsets < a->n || a->total == 0) return RS_OK;
    lists *self = (lists *)malloc(sizeof *self);
    if (self == NULL) return rs_no_memory(err);
    rs_status status = begin_lists(self, stats, a, err);
    if (status == RS_OK) self->scale = read_lists(self, &top_scale);
    if (status == RS_OK && self->scale != NO_SCALE) status = plan_list(self, out, bits, n_fits, err);
    if (status == RS_OK && top_scale != NO_SCALE && top_scale != self->scale && self->scale != NO_SCALE) {
        self->scale = top_scale;
        status = plan_list(self, out, bits, n_fits, err);
    }
    free(self->numbers);
    free(self->starts);
    free(self->scales);
    free(self);
    return status;
}
