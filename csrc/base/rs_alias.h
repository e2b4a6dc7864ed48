/* rs_alias.h: random draws by weight. Draw number i depends only on the weights, the key and i, so a run of draws can
 * be distributed or resumed at any number. The results never change: the same weights, key and number give the same
 * draw on every machine with IEEE 754 doubles.
 *
 * With replacement, by alias tables. The n weights are divided among n slots of equal size, so that each slot has parts
 * of at most two numbers. A draw takes one slot and one of its two numbers, whatever n is.
 *
 * Without replacement, by keys. Each number gets the key -log(u) / weight, with u from 0 to 1. The numbers in the order
 * of their keys are successive draws without replacement.
 *
 * Sources. The tables come from Walker (An Efficient Method for Generating Discrete Random Variables with General
 * Distributions, ACM TOMS 3, 1977). Vose makes them in linear time (A Linear Algorithm for Generating Random Numbers
 * with a Given Distribution, IEEE TSE 17, 1991). The keys come from Efraimidis and Spirakis (Weighted Random Sampling
 * with a Reservoir, IPL 97, 2006). Random word i is output i of SplitMix64, see rs_permute.h. */
#pragma once

#include "base/rs_permute.h"
#include "base/rs_status.h"

/* An alias table over the numbers 0 to n - 1. Owns both arrays. Draws only read it, so any threads may draw. */
typedef struct rs_alias {
    uint64_t n;
    uint64_t *thresholds; /* of each slot: the share of its own number, in units of 2^-64 */
    void *others;         /* of each slot: the other number; u32 if n is at most 2^32, else u64 */
} rs_alias;

/* The bytes of one entry of `others`. */
static inline unsigned rs_alias_width(uint64_t n) { return n <= UINT64_C(1) << 32 ? 4 : 8; }

/* Makes the table of `n` weights (not NULL, not retained). RS_E_ARG_RANGE, with its number in err->record, for a weight
 * that is negative, infinite or not a number; without a number for more than RS_PERMUTE_MAX weights, and if no weight
 * is above 0 or their sum is infinite. RS_E_MEM. On failure `self` owns nothing. A number of weight 0 is never drawn.
 * Weights below 2^-64 / n of the sum may count as 0. Release with rs_alias_clear. */
RS_NODISCARD rs_status rs_alias_init(rs_alias *self, const double *weights, uint64_t n, rs_error *err);

/* Makes a table from copies of the two arrays of another table. RS_E_ARG_RANGE for wrong sizes and for an entry of
 * `others` that is not below n; RS_E_MEM. On failure `self` owns nothing. */
RS_NODISCARD rs_status rs_alias_of_bytes(rs_alias *self, uint64_t n, const void *thresholds, size_t thresholds_bytes,
                                         const void *others, size_t others_bytes, rs_error *err);

/* Frees the arrays. A cleared or zeroed table may be cleared again. */
void rs_alias_clear(rs_alias *self);

/* Random word number i of `key`: 64 bits. */
static inline uint64_t rs_alias_word(uint64_t key, uint64_t i) {
    return rs_mix64(key + (i + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

/* Returns the number that a random word draws from the table, which is not empty. */
uint64_t rs_alias_at(const rs_alias *self, uint64_t word);

/* Writes draws number first, first + step, ..., each modulo `period` (above 0), to `out`, which has room for `count`.
 * first + (count - 1) * step must not overflow. Draw i uses word 2 i of `key`. */
void rs_alias_run(const rs_alias *self, uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count,
                  int64_t *out);

/* Writes a second, uniform number below bounds[k] for the same draws to out[k]. Draw i uses word 2 i + 1 of `key`. A
 * bound of 0 gives 0; `bounds` may be `out`. */
void rs_alias_below(uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count, const int64_t *bounds,
                    int64_t *out);

/* Writes the keys of `n` numbers to `out`, which may be `weights`: the smallest key is the first draw. A weight of 0
 * gives an infinite key. Weights are as for rs_alias_init. Number i uses word i of `key`. */
void rs_alias_keys(const double *weights, uint64_t n, uint64_t key, double *out);
