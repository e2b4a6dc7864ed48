/* rs_alias.c: alias tables and draws from them; the comment at the top of rs_alias.h names the sources. */
#include "base/rs_alias.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- Making a table ---- */

static inline void put_other(rs_alias *self, uint64_t slot, uint64_t number) {
    if (rs_alias_width(self->n) == 4) ((uint32_t *)self->others)[slot] = (uint32_t)number;
    else ((uint64_t *)self->others)[slot] = number;
}

static inline uint64_t other(const rs_alias *self, uint64_t slot) {
    return rs_alias_width(self->n) == 4 ? ((const uint32_t *)self->others)[slot]
                                        : ((const uint64_t *)self->others)[slot];
}

/* A share of a slot, below 1, in units of 2^-64. The product is exact, so every machine truncates the same bits. */
static inline uint64_t threshold(double share) { return (uint64_t)(share * 18446744073709551616.0); }

static rs_status sum_of(const double *weights, uint64_t n, double *sum, uint64_t *heaviest, rs_error *err) {
    uint64_t max_i = 0;
    double total = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0 && weights[i] <= DBL_MAX)) {
            rs_status status = rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                                            "weight %llu is negative, infinite or not a number", (unsigned long long)i);
            if (err != NULL) err->record = i;
            return status;
        }
        if (weights[i] > weights[max_i]) max_i = i;
        total += weights[i];
    }
    if (!(total > 0)) return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "no weight is above 0");
    if (!(total <= DBL_MAX)) return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "the sum of the weights is infinite");
    *sum = total;
    *heaviest = max_i;
    return RS_OK;
}

/* Vose's pairing. `shares` are the weights in units of a slot. `stack` has room for n: numbers with a share below 1 at
 * the front, the others at the back. Each iteration fills the slot of a small share with a part of a large one. */
static void pair(rs_alias *self, double *shares, uint64_t *stack, const double *weights, uint64_t heaviest) {
    const uint64_t n = self->n;
    uint64_t small = 0, large = n;
    for (uint64_t i = 0; i < n; i++) {
        if (shares[i] < 1) stack[small++] = i;
        else stack[--large] = i;
    }
    while (small > 0 && large < n) {
        const uint64_t receiver = stack[--small], donor = stack[large];
        self->thresholds[receiver] = threshold(shares[receiver]);
        put_other(self, receiver, donor);
        shares[donor] = (shares[donor] + shares[receiver]) - 1;
        if (shares[donor] < 1) { /* the donor takes the receiver's place at the front */
            large++;
            stack[small++] = donor;
        }
    }
    /* Each number left has a share of about 1 and gets its whole slot. With weight 0, the heaviest gets the slot. */
    for (uint64_t i = 0; i < n - large + small; i++) {
        const uint64_t number = i < small ? stack[i] : stack[large + (i - small)];
        self->thresholds[number] = weights[number] > 0 ? UINT64_MAX : 0;
        put_other(self, number, weights[number] > 0 ? number : heaviest);
    }
}

static RS_COLD rs_status no_memory(uint64_t n, rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for the table of %llu weights", (unsigned long long)n);
}

static rs_status make_room(rs_alias *self, uint64_t n, rs_error *err) {
    self->n = n;
    self->thresholds = (uint64_t *)malloc((size_t)n * sizeof *self->thresholds);
    self->others = malloc((size_t)n * rs_alias_width(n));
    if (self->thresholds != NULL && self->others != NULL) return RS_OK;
    rs_alias_clear(self);
    return no_memory(n, err);
}

rs_status rs_alias_init(rs_alias *self, const double *weights, uint64_t n, rs_error *err) {
    double sum = 0;
    uint64_t heaviest = 0;
    memset(self, 0, sizeof *self);
    if (n > RS_PERMUTE_MAX) return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "more than 2^48 weights");
    RS_TRY(sum_of(weights, n, &sum, &heaviest, err));
    RS_TRY(make_room(self, n, err));
    double *shares = (double *)malloc((size_t)n * sizeof *shares);
    uint64_t *stack = (uint64_t *)malloc((size_t)n * sizeof *stack);
    if (shares == NULL || stack == NULL) {
        free(stack);
        free(shares);
        rs_alias_clear(self);
        return no_memory(n, err);
    }
    for (uint64_t i = 0; i < n; i++) shares[i] = weights[i] / sum;
    for (uint64_t i = 0; i < n; i++) shares[i] = shares[i] * (double)n;
    pair(self, shares, stack, weights, heaviest);
    free(stack);
    free(shares);
    return RS_OK;
}

rs_status rs_alias_of_bytes(rs_alias *self, uint64_t n, const void *thresholds, size_t thresholds_bytes,
                            const void *others, size_t others_bytes, rs_error *err) {
    memset(self, 0, sizeof *self);
    if (n == 0 || n > RS_PERMUTE_MAX || thresholds_bytes != n * 8 || others_bytes != n * rs_alias_width(n)) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "not the bytes of a table of weights");
    }
    RS_TRY(make_room(self, n, err));
    memcpy(self->thresholds, thresholds, thresholds_bytes);
    memcpy(self->others, others, others_bytes);
    for (uint64_t i = 0; i < n; i++) {
        if (other(self, i) < n) continue;
        rs_alias_clear(self);
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a table of weights leads out of itself");
    }
    return RS_OK;
}

void rs_alias_clear(rs_alias *self) {
    free(self->thresholds);
    free(self->others);
    memset(self, 0, sizeof *self);
}

/* ---- Draws ---- */

/* The product of word and n has the slot in its high half; its low half is the fraction within the slot. */
uint64_t rs_alias_at(const rs_alias *self, uint64_t word) {
    const uint64_t slot = rs_mul_high(word, self->n);
    return word * self->n < self->thresholds[slot] ? slot : other(self, slot);
}

/* Slots of a large table are cache misses, so the slots of WINDOW draws are prefetched. */
enum { WINDOW = 32 };

static inline uint64_t number_of(uint64_t draw, uint64_t period) { return draw < period ? draw : draw % period; }

void rs_alias_run(const rs_alias *self, uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count,
                  int64_t *out) {
    uint64_t words[WINDOW];
    for (size_t done = 0; done < count; done += WINDOW) {
        const size_t turn = count - done < WINDOW ? count - done : WINDOW;
        for (size_t k = 0; k < turn; k++) {
            words[k] = rs_alias_word(key, 2 * number_of(first + step * (done + k), period));
            RS_PREFETCH(&self->thresholds[rs_mul_high(words[k], self->n)]);
        }
        for (size_t k = 0; k < turn; k++) out[done + k] = (int64_t)rs_alias_at(self, words[k]);
    }
}

void rs_alias_below(uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count, const int64_t *bounds,
                    int64_t *out) {
    for (size_t k = 0; k < count; k++) {
        const uint64_t word = rs_alias_word(key, 2 * number_of(first + step * k, period) + 1);
        out[k] = bounds[k] > 0 ? (int64_t)rs_mul_high(word, (uint64_t)bounds[k]) : 0;
    }
}

/* -log(u) for u from 2^-54 to 1, within a few units in the last place. C libraries differ in the last place of log,
 * which would change the order of near keys. This uses only additions, multiplications and divisions, one per
 * statement, so that compilers cannot fuse them. u = m 2^-e with m from 2/3 to 4/3, and log(m) = 2 (s + s^3/3 + s^5/5 +
 * ...) with s = (m - 1) / (m + 1), from -1/5 to 1/7. */
static double minus_log(double u) {
    double m = u, e = 0, sum = 0;
    while (m < 2.0 / 3) m *= 2, e += 1;
    double s = m - 1;
    m = m + 1;
    s = s / m;
    double square = s * s;
    for (int i = 23; i >= 1; i -= 2) { /* from the smallest term on: sum = 1/i + square * sum */
        double term = square * sum;
        sum = 1.0 / i;
        sum = sum + term;
    }
    sum = sum * s;
    sum = sum * 2;
    e = e * 0.693147180559945309417232;
    return e - sum;
}

void rs_alias_keys(const double *weights, uint64_t n, uint64_t key, double *out) {
    for (uint64_t i = 0; i < n; i++) {
        const double u = ((double)(rs_alias_word(key, i) >> 11) + 0.5) * (1.0 / 9007199254740992.0);
        const double value = weights[i] > 0 ? minus_log(u) / weights[i] : HUGE_VAL;
        /* Only a weight of 0 has an infinite key: a tiny weight is drawn last, but it is drawn. */
        out[i] = weights[i] > 0 && value > DBL_MAX ? DBL_MAX : value;
    }
}
