/* rs_value_set.c: a hash table with open addressing and linear probing, at most half full. */
#include "plan/rs_value_set.h"

#include <stdlib.h>

void rs_value_set_clear(rs_value_set *self) {
    free(self->slots);
    free(self->spans);
    memset(self, 0, sizeof *self);
}

uint64_t rs_value_set_hash_long(rs_slice value) {
    const uint8_t *p = value.ptr;
    size_t n = rs_slice_left(&value), left = n;
    uint64_t a = RS_MIX_1, b = RS_MIX_2 ^ n;
    RS_ASSERT(n >= 16);
    for (; left > 32; left -= 32, p += 32) { /* two lanes, since a multiplication takes several cycles */
        a = rs_value_set_fold(rs_load_u64(p) ^ a, rs_load_u64(p + 8) ^ RS_MIX_2);
        b = rs_value_set_fold(rs_load_u64(p + 16) ^ b, rs_load_u64(p + 24) ^ RS_MIX_3);
    }
    if (left > 16) a = rs_value_set_fold(rs_load_u64(p) ^ a, rs_load_u64(p + 8) ^ RS_MIX_3);
    a ^= rs_load_u64(value.end - 16);
    b ^= rs_load_u64(value.end - 8);
    return rs_value_set_fold(rs_value_set_fold(a, b) ^ RS_MIX_3, RS_MIX_2 ^ n);
}

static uint64_t slot_of(uint64_t hash, uint32_t number) { return (hash & ~(uint64_t)UINT32_MAX) | (number + 1u); }

/* Puts a slot into the table. Its place depends on the high half of the hash, which the slot holds, so that the table
 * can grow without reading the values. */
static void place(uint64_t *slots, uint64_t n_slots, uint64_t high, uint64_t slot) {
    uint64_t at = high & (n_slots - 1);
    while (slots[at] != 0) at = (at + 1) & (n_slots - 1);
    slots[at] = slot;
}

static rs_status grow(rs_value_set *self, rs_error *err) {
    uint32_t capacity = self->capacity == 0 ? 64 : self->capacity * 2;
    uint64_t n_slots = (uint64_t)capacity * 2;
    rs_span *spans = (rs_span *)realloc(self->spans, capacity * sizeof *spans);
    if (spans != NULL) self->spans = spans;
    uint64_t *slots = (uint64_t *)calloc((size_t)n_slots, sizeof *slots);
    if (spans == NULL || slots == NULL) {
        free(slots);
        return rs_no_memory(err);
    }
    for (uint64_t i = 0; i < self->n_slots; i++) {
        if (self->slots[i] != 0) place(slots, n_slots, self->slots[i] >> 32, self->slots[i]);
    }
    free(self->slots);
    self->slots = slots;
    self->n_slots = n_slots;
    self->capacity = capacity;
    return RS_OK;
}

rs_status rs_value_set_add(rs_value_set *self, rs_span span, uint64_t hash, rs_error *err) {
    if (self->n == self->capacity) RS_TRY(grow(self, err));
    self->spans[self->n] = span;
    self->size_bytes += span.size_bytes;
    place(self->slots, self->n_slots, hash >> 32, slot_of(hash, self->n));
    self->n++;
    return RS_OK;
}
