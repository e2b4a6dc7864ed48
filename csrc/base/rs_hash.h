/* rs_hash.h: XXH64 (xxHash fast digest algorithm, Yann Collet, specification version 0.1.1), the hash of mapping
 * keys. Its values are stored, so it is what the specification says on every machine. Not a defence against chosen
 * keys by itself: the seed is. */
#ifndef RS_HASH_H
#define RS_HASH_H

#include "base/rs_bytes.h"

/* Bytes of a head given to rs_hash64_headed. */
enum { RS_HASH_HEAD_MAX = 16 };

/* The hash of n bytes. `bytes` may be NULL when n is 0. Any thread. */
uint64_t rs_hash64(const void *bytes, uint64_t n, uint64_t seed);

/* The hash of head_n (at most RS_HASH_HEAD_MAX) bytes followed by n others, without copying those together: a tag
 * and a length stand before characters that lie elsewhere. Any thread. */
uint64_t rs_hash64_headed(const uint8_t *head, unsigned head_n, const void *bytes, uint64_t n, uint64_t seed);

/* floor(hash * n / 2^64): spreads a hash over n places. */
static inline uint64_t rs_hash_scale(uint64_t hash, uint64_t n) { return rs_mul_high(hash, n); }

#endif
