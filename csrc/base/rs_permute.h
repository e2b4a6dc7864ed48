/* rs_permute.h: the order of a shuffled list, worked out one position at a time and kept nowhere.
 *
 * The permutation "feistel-1". It is not part of a segment's bytes, but results are pinned like a format: the same n
 * and seed give the same order on every machine and in every version of recstore. A better method gets another name.
 *
 * All arithmetic is on u64, modulo 2^64 unless said otherwise; `div` and `mod` are of whole numbers.
 *
 *     G       = 0x9E3779B97F4A7C15
 *     mix(z)  : z = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9
 *               z = (z xor (z >> 27)) * 0x94D049BB133111EB
 *               z xor (z >> 31)
 *     key[j]  = mix(seed + (j + 1) * G), j from 0 to 7
 *     a       = the least even number of which the square is at least n
 *     b       = n div a, rounded up
 *     passes  = 4 where n < 4096, else 1
 *     F(k, v, m) = (mix(k + v * G) * m) div 2^64, of the whole product of 128 bits: a number below m
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
 * Where it comes from. The rounds and the walk are the generalised Feistel cipher of Black and Rogaway (Ciphers with
 * Arbitrary Finite Domains, CT-RSA 2002): every round can be undone, so the rounds permute the a * b cells, and a walk
 * that starts below n comes back below n, as it goes along a cycle that holds its start. As a * b < n + a, few walks
 * take a second step. mix and the keys are SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number
 * Generators, OOPSLA 2014).
 *
 * Two choices are for short lists. a is even since with a and b both odd every round is an even permutation: one of 9
 * elements would never be odd, and one of 8, which is the other with a cell left out, would be odd eight times in nine.
 * And a half of few values mixes slowly: after 8 rounds some orders of 8 elements come ten times as often as they
 * should, after 32 no order of up to 8 is off by more than a two-hundredth. (Both are exact figures, for rounds drawn
 * at random.) p * 2^32 keeps the passes apart: halves are below 2^25, so that no two rounds read the same F.
 *
 * It is for shuffling, not for secrets: the seed has 64 bits and one can look for it. A list of n and one of n + 1
 * elements have similar orders under one seed, as they mostly have the same a and b. */
#ifndef RS_PERMUTE_H
#define RS_PERMUTE_H

#include "base/rs_base.h"

#define RS_PERMUTE_MAX (UINT64_C(1) << 48) /* the longest list; also that of a segment's records */

/* A permutation of 0 to n - 1. Plain memory without pointers, valid once rs_permutation_init has filled it: copy it
 * freely, there is nothing to release. It is never written again, so any number of threads may read it. */
typedef struct rs_permutation {
    uint64_t n;       /* elements */
    uint64_t a, b;    /* values of the low and of the high half; 1 where n is 0 or 1 */
    uint64_t keys[8]; /* of the rounds */
} rs_permutation;

/* Fills `self`, which may not be NULL. n above RS_PERMUTE_MAX counts as RS_PERMUTE_MAX; any seed is as good as
 * another. Cannot fail. */
void rs_permutation_init(rs_permutation *self, uint64_t n, uint64_t seed);

/* The element at position i. It is below n for every argument, so that it may go unchecked into an array of n: one of n
 * or more counts as itself mod n, and of no elements the answer is 0. `self` comes from rs_permutation_init. Any
 * thread. */
uint64_t rs_permutation_at(const rs_permutation *self, uint64_t i);

#endif
