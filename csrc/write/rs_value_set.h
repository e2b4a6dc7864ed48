/* rs_value_set.h: a set of distinct any values, numbered in the order in which they were added. It is a hash table over
 * spans of bytes that the caller owns. */
#ifndef RS_VALUE_SET_H
#define RS_VALUE_SET_H

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"

/* The bytes of a value, as an offset from a base that the user of the span knows. */
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

/* Owns slots and spans. Zero the struct before the first use; call rs_value_set_clear at the end. One thread at a time
 * may use it. */
typedef struct rs_value_set {
    uint64_t *slots;  /* low half: the number of a value + 1; high half: that of its hash. 0 when empty */
    uint64_t n_slots; /* a power of two */
    rs_span *spans;
    uint32_t n, capacity;
    uint64_t size_bytes; /* bytes of all values */
} rs_value_set;

/* Frees the memory and zeroes the struct. */
void rs_value_set_clear(rs_value_set *self);

/* Returns the hash of a value for rs_value_set_find and rs_value_set_add (XXH64 with seed 0). */
uint64_t rs_value_set_hash(rs_slice value);

/* Returns the number of the value with the bytes of `value`; UINT32_MAX when it is not there. The spans of the set
 * count from `base`. */
uint32_t rs_value_set_find(const rs_value_set *self, const uint8_t *base, rs_slice value, uint64_t hash);

/* Adds a value that is not there. Its number is the set's n before the call. RS_E_MEM. */
RS_NODISCARD rs_status rs_value_set_add(rs_value_set *self, rs_span span, uint64_t hash, rs_error *err);

#endif
