/* rs_permute.h: the order of a shuffled list, computed one position at a time and never stored.
 *
 * The permutation has the name "feistel-1". It is not part of a segment's bytes, but its results never change: the same
 * n and seed give the same order on every machine and in every version of recstore. A better method gets another name.
 *
 * All arithmetic is on u64, modulo 2^64 unless stated otherwise; `div` and `mod` are integer operations.
 *
 *     G       = 0x9E3779B97F4A7C15
 *     mix(z)  : z = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9
 *               z = (z xor (z >> 27)) * 0x94D049BB133111EB
 *               z xor (z >> 31)
 *     key[j]  = mix(seed + (j + 1) * G), j from 0 to 7
 *     a       = the least even number whose square is at least n
 *     b       = n div a, rounded up
 *     passes  = 4 if n < 4096, else 1
 *     F(k, v, m) = (mix(k + v * G) * m) div 2^64, with the full 128-bit product: a number below m
 *
 * The element at position i < n, for n > 1 (else it is i):
 *
 *     x = i
 *     do: l = x mod a, r = x div a
 *         for p from 0 to passes - 1, for j from 0 to 7:
 *             j even: l = (l + F(key[j], r + p * 2^32, a)) mod a
 *             j odd:  r = (r + F(key[j], l + p * 2^32, b)) mod b
 *         x = l + a * r
 *     while x >= n
 *
 * Sources. The rounds and the walk are the generalised Feistel cipher with cycle walking of Black and Rogaway (Ciphers
 * with Arbitrary Finite Domains, CT-RSA 2002). Every round is invertible, so the rounds permute the a * b cells. A walk
 * follows the cycle of its start, so a walk that starts below n returns below n. Because a * b < n + a, few walks take
 * a second step. mix and the keys are SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number
 * Generators, OOPSLA 2014).
 *
 * Two choices are for short lists. First, a is even. With a and b both odd, every round would be an even permutation.
 * An order of 9 elements would then never be odd. An order of 8 elements, which leaves out one of 9 cells, would be odd
 * eight times in nine. Second, short lists take 4 passes, because halves with few values mix slowly: after 8 rounds
 * some orders of 8 elements are ten times too frequent, and after 32 rounds the frequencies of all orders of up to 8
 * elements are right within 1/200. (Both figures are exact, for random rounds.) p * 2^32 separates the passes: halves
 * are below 2^25, so no two rounds use the same F.
 *
 * The permutation is for shuffling, not for secrets: a 64-bit seed can be found by search. Lists of n and n + 1
 * elements have similar orders under one seed, because a and b are mostly the same for both. */
#pragma once

#include "base/rs_base.h"

#define RS_PERMUTE_MAX (UINT64_C(1) << 48) /* the longest list; also the most records of a segment */

/* A permutation of 0 to n - 1, filled by rs_permutation_init. It has no pointers: it can be copied and needs no
 * release. No other function writes to it, so any number of threads may read it. */
typedef struct rs_permutation {
    uint64_t n;       /* number of elements */
    uint64_t a, b;    /* number of values of the low and of the high half; 1 if n is 0 or 1 */
    uint64_t keys[8]; /* one for each round */
} rs_permutation;

/* Fills `self`. An n above RS_PERMUTE_MAX counts as RS_PERMUTE_MAX. Any seed may be used. Cannot fail. */
void rs_permutation_init(rs_permutation *self, uint64_t n, uint64_t seed);

/* Returns the element at position i of the shuffled list. An i of n or more counts as i mod n. The result is below n,
 * so it may be used unchecked as an index into an array of n elements; when n is 0 it is 0. Any thread. */
uint64_t rs_permutation_at(const rs_permutation *self, uint64_t i);

/* Writes rs_permutation_at of the positions first, first + step, ... to `out`, which has room for `count` numbers and
 * may be NULL for a count of 0. Positions count modulo n after exact addition, so a run wraps at the end. Takes less
 * than half the time of single calls. Any thread. */
void rs_permutation_run(const rs_permutation *self, uint64_t first, uint64_t step, size_t count, int64_t *out);

/* The finalizer `mix` of the comment above: a permutation of the 64-bit numbers that keeps 0. */
uint64_t rs_mix64(uint64_t z);

/* The seed of a numbered order under `seed`: seed + mix(number), modulo 2^64. Number 0 keeps the seed. */
static inline uint64_t rs_permutation_seed(uint64_t seed, uint64_t number) { return seed + rs_mix64(number); }
