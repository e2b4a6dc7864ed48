/* rs_value_set.h: distinct `any` values by their bytes, numbered in the order in which they came. A hash table over
 * spans of bytes that somebody else holds. */
#ifndef RS_VALUE_SET_H
#define RS_VALUE_SET_H

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"

/* Where a value's bytes stand from some base on. */
typedef struct rs_span {
    uint32_t off;
    uint32_t size_bytes;
} rs_span;

/* A run of values that are to be encoded together. Borrows all of it. */
typedef struct rs_values {
    const uint8_t *base;
    const rs_span *spans;
    uint32_t n;
} rs_values;

static inline rs_slice rs_values_at(const rs_values *values, uint32_t i) {
    return rs_slice_of(values->base + values->spans[i].off, values->spans[i].size_bytes);
}

/* Owns slots and spans. Zero it to begin, rs_value_set_clear at the end. Not thread-safe. */
typedef struct rs_value_set {
    uint64_t *slots;  /* number of a value + 1 below, the high bits of its hash above; 0: empty */
    uint64_t n_slots; /* a power of two */
    rs_span *spans;
    uint32_t n, capacity;
    uint64_t size_bytes; /* of all values */
} rs_value_set;

void rs_value_set_clear(rs_value_set *self);

/* The hash that find and add want. */
uint64_t rs_value_set_hash(rs_slice value);

/* The number of a value whose span and those of the set count from `base`; UINT32_MAX when it is not there. */
uint32_t rs_value_set_find(const rs_value_set *self, const uint8_t *base, rs_slice value, uint64_t hash);

/* Adds a value that is not there; its number is n before. RS_E_MEM. */
RS_NODISCARD rs_status rs_value_set_add(rs_value_set *self, rs_span span, uint64_t hash, rs_error *err);

#endif
