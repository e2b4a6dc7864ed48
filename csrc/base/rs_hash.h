/* rs_hash.h: XXH64 (xxHash fast digest algorithm, Yann Collet, specification version 0.1.1), the hash of mapping keys.
 * Hashes are stored in segments, so they are the same on every machine. XXH64 alone does not protect against keys that
 * are chosen to collide; the random seed of each mapping does. */
#pragma once

#include "base/rs_bytes.h"

/* The largest head that rs_hash64_headed accepts, in bytes. */
enum { RS_HASH_HEAD_MAX = 16 };

/* Returns the hash of n bytes. `bytes` may be NULL when n is 0. Safe to call from any thread. */
uint64_t rs_hash64(const void *bytes, uint64_t n, uint64_t seed);

/* Returns the hash of head_n bytes (at most RS_HASH_HEAD_MAX) followed by n bytes, without joining them in a buffer.
 * For a str, the head is the tag and length of the canonical form, and the bytes are its characters. `head` may be NULL
 * when head_n is 0, `bytes` when n is 0. Safe to call from any thread. */
uint64_t rs_hash64_headed(const uint8_t *head, unsigned head_n, const void *bytes, uint64_t n, uint64_t seed);

/* Returns floor(hash * n / 2^64): the slot among n where the search for a hash begins. */
static inline uint64_t rs_hash_scale(uint64_t hash, uint64_t n) { return rs_mul_high(hash, n); }
