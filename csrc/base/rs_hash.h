/* rs_hash.h: XXH64 (xxHash fast digest algorithm, Yann Collet, specification version 0.1.1), the hash of mapping keys.
 * Hashes are stored in segments, so they are the same on every machine. XXH64 alone does not protect from keys chosen
 * to collide; the random seed of each mapping does. */
#pragma once

#include "base/rs_bytes.h"

/* The most bytes of a head for rs_hash64_headed. */
enum { RS_HASH_HEAD_MAX = 16 };

/* Returns the hash of n bytes. `bytes` may be NULL when n is 0. Safe to call from any thread. */
uint64_t rs_hash64(const void *bytes, uint64_t n, uint64_t seed);

/* Returns the hash of head_n bytes (at most RS_HASH_HEAD_MAX) followed by n others, without a copy that joins them: the
 * canonical form of a str is a tag and a length, followed by characters from elsewhere. `head` may be NULL when head_n
 * is 0, `bytes` when n is 0. Any thread. */
uint64_t rs_hash64_headed(const uint8_t *head, unsigned head_n, const void *bytes, uint64_t n, uint64_t seed);

/* Returns floor(hash * n / 2^64): the first slot of a hash among n slots. */
static inline uint64_t rs_hash_scale(uint64_t hash, uint64_t n) { return rs_mul_high(hash, n); }
