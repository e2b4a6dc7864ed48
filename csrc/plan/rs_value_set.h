/* rs_value_set.h: a set of distinct any values, numbered in order of insertion. It is a hash table over spans of bytes
 * that the caller owns. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"

/* The bytes of a value, as an offset from a base that the caller knows. */
typedef struct rs_span {
    uint32_t off;
    uint32_t size_bytes;
} rs_span;

/* A run of n values that are encoded together. Borrows base and spans. */
typedef struct rs_values {
    const uint8_t *base;
    const rs_span *spans;
    uint32_t n;
} rs_values;

static inline rs_slice rs_values_at(const rs_values *values, uint32_t i) {
    return rs_slice_of(values->base + values->spans[i].off, values->spans[i].size_bytes);
}

/* Owns slots and spans. Zero it before the first use; call rs_value_set_clear at the end. One thread at a time. */
typedef struct rs_value_set {
    uint64_t *slots;  /* low half: the number of a value + 1; high half: the high half of its hash. 0 when empty */
    uint64_t n_slots; /* a power of two; 0 at first */
    rs_span *spans;
    uint32_t n, capacity;
    uint64_t size_bytes; /* bytes of all values */
} rs_value_set;

/* Frees the memory and zeroes the struct. */
void rs_value_set_clear(rs_value_set *self);

/* Odd constants: about the fractions of the square roots of 2, 3 and 5, times 2^64. */
#define RS_MIX_1 UINT64_C(0x6A09E667F3BCC909)
#define RS_MIX_2 UINT64_C(0xBB67AE8584CAA73B)
#define RS_MIX_3 UINT64_C(0x3C6EF372FE94F82B)

/* Multiplies to 128 bits and folds the halves, which is how wyhash (Wang Yi) mixes 16 bytes at once. */
static inline uint64_t rs_value_set_fold(uint64_t a, uint64_t b) { return (a * b) ^ rs_mul_high(a, b); }

/* rs_value_set_hash for 16 bytes or more. */
uint64_t rs_value_set_hash_long(rs_slice value);

/* Returns a hash of a value for rs_value_set_find and rs_value_set_add. Such hashes are never written to a segment. */
static inline uint64_t rs_value_set_hash(rs_slice value) {
    size_t n = rs_slice_left(&value);
    uint64_t a = RS_MIX_1, b = RS_MIX_2 ^ n;
    if (n >= 16) return rs_value_set_hash_long(value);
    if (n >= 8) {
        a ^= rs_load_u64(value.ptr);
        b ^= rs_load_u64(value.end - 8);
    } else {
        a ^= rs_load_few_unchecked(value.ptr, n);
    }
    return rs_value_set_fold(rs_value_set_fold(a, b) ^ RS_MIX_3, RS_MIX_2 ^ n);
}

/* Combines a hash with the hash of a part. A caller that hashes a container by the hashes of its elements, to hash
 * their bytes once, must do so for all values of a set. */
static inline uint64_t rs_value_set_hash_with(uint64_t hash, uint64_t part) {
    return rs_value_set_fold(hash ^ RS_MIX_1, part ^ RS_MIX_3);
}

/* Returns the number of the value with these bytes, or UINT32_MAX if it is missing. Spans count from `base`. */
static inline uint32_t rs_value_set_find(const rs_value_set *self, const uint8_t *base, rs_slice value, uint64_t hash) {
    uint64_t mask = self->n_slots - 1, slot, size = rs_slice_left(&value);
    if (self->n_slots == 0) return UINT32_MAX;
    for (uint64_t at = hash >> 32 & mask; (slot = self->slots[at]) != 0; at = (at + 1) & mask) {
        const rs_span *span = &self->spans[(uint32_t)slot - 1];
        if (slot >> 32 == hash >> 32 && span->size_bytes == size && rs_equal_few(base + span->off, value.ptr, size)) {
            return (uint32_t)slot - 1;
        }
    }
    return UINT32_MAX;
}

/* Adds a new value. Its number is the set's n before the call. RS_E_MEM. */
RS_NODISCARD rs_status rs_value_set_add(rs_value_set *self, rs_span span, uint64_t hash, rs_error *err);
