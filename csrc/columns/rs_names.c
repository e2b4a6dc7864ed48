/* rs_names.c: a hash table from names to their numbers, with linear probing. */
#include "columns/rs_names.h"

#include <stdlib.h>

#include "base/rs_hash.h"

enum { SLOTS_EACH = 4, FIRST_ROOM = 16 };

/* The highest bit of an end is set if the key is an int, stored in 8 bytes. */
#define INT_KEY (UINT64_C(1) << 63)

void rs_names_clear(rs_names *self) {
    rs_buffer_clear(&self->keys);
    free(self->ends);
    free(self->slots);
    memset(self, 0, sizeof *self);
}

static uint64_t home_of(const rs_names *self, const uint8_t *key, uint64_t n, uint64_t mark) {
    return rs_hash_scale(rs_hash64(key, n, mark), self->room * SLOTS_EACH);
}

/* Returns the slot of a key, or the empty slot where it belongs. */
static uint64_t find(const rs_names *self, const uint8_t *key, uint64_t n, uint64_t mark) {
    const uint64_t n_slots = self->room * SLOTS_EACH;
    uint64_t slot = home_of(self, key, n, mark);
    for (; self->slots[slot] != 0; slot = slot + 1 == n_slots ? 0 : slot + 1) {
        const uint64_t i = self->slots[slot] - 1, end = self->ends[i];
        const uint64_t begin = i == 0 ? 0 : self->ends[i - 1] & ~INT_KEY;
        if ((end & INT_KEY) == mark && (end & ~INT_KEY) - begin == n &&
            rs_equal_few(self->keys.data + begin, key, (size_t)n)) {
            break;
        }
    }
    return slot;
}

/* Doubles the room. */
static rs_status grow(rs_names *self, rs_error *err) {
    const uint64_t room = self->room == 0 ? FIRST_ROOM : self->room * 2;
    uint64_t begin = 0;
    if (room > UINT64_C(1) << 31) return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "more than 2^31 names");
    uint32_t *slots = (uint32_t *)calloc((size_t)room * SLOTS_EACH, sizeof *slots);
    uint64_t *ends = (uint64_t *)realloc(self->ends, (size_t)room * sizeof *ends);
    if (ends != NULL) self->ends = ends;
    if (ends == NULL || slots == NULL) {
        free(slots);
        return rs_no_memory(err);
    }
    free(self->slots);
    self->slots = slots;
    self->room = room;
    for (uint64_t i = 0; i < self->n; i++) {
        const uint64_t end = ends[i] & ~INT_KEY;
        slots[find(self, self->keys.data + begin, end - begin, ends[i] & INT_KEY)] = (uint32_t)(i + 1);
        begin = end;
    }
    return RS_OK;
}

static rs_status add(rs_names *self, const uint8_t *key, uint64_t n, uint64_t mark, bool *is_new, rs_error *err) {
    if (self->n == self->room) RS_TRY(grow(self, err));
    uint64_t slot = find(self, key, n, mark);
    *is_new = self->slots[slot] == 0;
    if (!*is_new) return RS_OK;
    RS_TRY(rs_buffer_append(&self->keys, key, (size_t)n, err));
    self->ends[self->n] = self->keys.size_bytes | mark;
    self->slots[slot] = (uint32_t)++self->n;
    return RS_OK;
}

rs_status rs_names_add_text(rs_names *self, const uint8_t *text, uint64_t n, bool *is_new, rs_error *err) {
    return add(self, text, n, 0, is_new, err);
}

rs_status rs_names_add_int(rs_names *self, int64_t value, bool *is_new, rs_error *err) {
    uint8_t key[8];
    rs_store_u64(key, (uint64_t)value);
    return add(self, key, 8, INT_KEY, is_new, err);
}

static int64_t number_of(const rs_names *self, const uint8_t *key, uint64_t n, uint64_t mark) {
    return self->n == 0 ? RS_NAMES_NONE : (int64_t)self->slots[find(self, key, n, mark)] - 1;
}

int64_t rs_names_of_text(const rs_names *self, const uint8_t *text, uint64_t n) { return number_of(self, text, n, 0); }

int64_t rs_names_of_int(const rs_names *self, int64_t value) {
    uint8_t key[8];
    rs_store_u64(key, (uint64_t)value);
    return number_of(self, key, 8, INT_KEY);
}
