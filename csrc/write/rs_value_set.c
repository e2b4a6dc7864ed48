/* rs_value_set.c: the set of values, a hash table with open addressing and linear probing, at most half full. */
#include "write/rs_value_set.h"

#include <stdlib.h>

#include "base/rs_hash.h"

void rs_value_set_clear(rs_value_set *self) {
    free(self->slots);
    free(self->spans);
    memset(self, 0, sizeof *self);
}

uint64_t rs_value_set_hash(rs_slice value) { return rs_hash64(value.ptr, rs_slice_left(&value), 0); }

static uint64_t slot_of(uint64_t hash, uint32_t number) { return (hash & ~(uint64_t)UINT32_MAX) | (number + 1u); }

uint32_t rs_value_set_find(const rs_value_set *self, const uint8_t *base, rs_slice value, uint64_t hash) {
    uint64_t mask = self->n_slots - 1, at, size = rs_slice_left(&value);
    if (self->n_slots == 0) return UINT32_MAX;
    for (at = hash >> 32 & mask; self->slots[at] != 0; at = (at + 1) & mask) {
        uint64_t slot = self->slots[at];
        const rs_span *span = &self->spans[(uint32_t)slot - 1];
        if (slot >> 32 == hash >> 32 && span->size_bytes == size && rs_equal_few(base + span->off, value.ptr, size)) {
            return (uint32_t)slot - 1;
        }
    }
    return UINT32_MAX;
}

/* Puts a slot into the table. Its home depends on the high half of the hash, which the slot holds, so that the table
 * can grow without the values. */
static void place(uint64_t *slots, uint64_t n_slots, uint64_t high, uint64_t slot) {
    uint64_t at = high & (n_slots - 1);
    while (slots[at] != 0) at = (at + 1) & (n_slots - 1);
    slots[at] = slot;
}

static rs_status grow(rs_value_set *self, rs_error *err) {
    uint32_t capacity = self->capacity == 0 ? 64 : self->capacity * 2;
    uint64_t n_slots = (uint64_t)capacity * 2, i;
    rs_span *spans = (rs_span *)realloc(self->spans, capacity * sizeof *spans);
    uint64_t *slots;
    if (spans != NULL) self->spans = spans;
    slots = (uint64_t *)calloc((size_t)n_slots, sizeof *slots);
    if (spans == NULL || slots == NULL) {
        free(slots);
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for distinct values");
    }
    for (i = 0; i < self->n_slots; i++) {
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
