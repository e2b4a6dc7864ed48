/* rs_hash.c: XXH64, in the numbered steps of its specification. */
#include "base/rs_hash.h"

static const uint64_t PRIME_1 = UINT64_C(0x9E3779B185EBCA87);
static const uint64_t PRIME_2 = UINT64_C(0xC2B2AE3D27D4EB4F);
static const uint64_t PRIME_3 = UINT64_C(0x165667B19E3779F9);
static const uint64_t PRIME_4 = UINT64_C(0x85EBCA77C2B2AE63);
static const uint64_t PRIME_5 = UINT64_C(0x27D4EB2F165667C5);

enum { STRIPE = 32 };

static inline uint64_t rotate(uint64_t v, unsigned bits) { return v << bits | v >> (64 - bits); }

static inline uint64_t one_round(uint64_t accumulator, uint64_t lane) {
    return rotate(accumulator + lane * PRIME_2, 31) * PRIME_1;
}

static inline void take_stripe(uint64_t accumulators[4], const uint8_t *p) {
    for (unsigned i = 0; i < 4; i++) accumulators[i] = one_round(accumulators[i], rs_load_u64(p + 8 * i));
}

/* Step 3 of the specification, accumulator convergence. */
static uint64_t converge(const uint64_t accumulators[4]) {
    uint64_t all = rotate(accumulators[0], 1) + rotate(accumulators[1], 7) + rotate(accumulators[2], 12) +
                   rotate(accumulators[3], 18);
    for (unsigned i = 0; i < 4; i++) all = (all ^ one_round(0, accumulators[i])) * PRIME_1 + PRIME_4;
    return all;
}

/* Steps 5 and 6 of the specification, remaining input and final mix. n is below STRIPE. */
static inline uint64_t finish(uint64_t all, const uint8_t *p, uint64_t n) {
    for (; n >= 8; n -= 8, p += 8) all = rotate(all ^ one_round(0, rs_load_u64(p)), 27) * PRIME_1 + PRIME_4;
    if (n >= 4) {
        all = rotate(all ^ (rs_load_u32(p) * PRIME_1), 23) * PRIME_2 + PRIME_3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++) all = rotate(all ^ (*p * PRIME_5), 11) * PRIME_1;
    all = (all ^ all >> 33) * PRIME_2;
    all = (all ^ all >> 29) * PRIME_3;
    return all ^ all >> 32;
}

uint64_t rs_hash64_headed(const uint8_t *head, unsigned head_n, const void *bytes, uint64_t n, uint64_t seed) {
    const uint8_t *p = (const uint8_t *)bytes;
    uint8_t first[STRIPE];
    uint64_t total = head_n + n;
    uint64_t accumulators[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
    RS_ASSERT(head_n <= RS_HASH_HEAD_MAX);
    if (head_n != 0) memcpy(first, head, head_n);
    if (total < STRIPE) {
        if (n != 0) memcpy(first + head_n, p, (size_t)n);
        return finish(seed + PRIME_5 + total, first, total);
    }
    if (head_n != 0) {
        memcpy(first + head_n, p, STRIPE - head_n);
        take_stripe(accumulators, first);
        p += STRIPE - head_n;
        n -= STRIPE - head_n;
    }
    for (; n >= STRIPE; n -= STRIPE, p += STRIPE) take_stripe(accumulators, p);
    return finish(converge(accumulators) + total, p, n);
}

uint64_t rs_hash64(const void *bytes, uint64_t n, uint64_t seed) { return rs_hash64_headed(NULL, 0, bytes, n, seed); }
