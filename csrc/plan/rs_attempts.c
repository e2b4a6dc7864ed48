/* rs_attempts.c: the hash table of attempts. */
#include "plan/rs_attempts.h"

#include <stdlib.h>
#include <string.h>

enum {
    REPEATING_RUNS = 16, /* every 16th run repeats all attempts */
    MAX_SLOTS = 65536
};

void rs_attempts_clear(rs_attempts *self) {
    free(self->slots);
    memset(self, 0, sizeof *self);
}

static rs_attempt *slot_of(rs_attempt *slots, uint32_t n, uint64_t position_id) {
    uint32_t at = (uint32_t)(position_id >> 32 ^ position_id) & (n - 1);
    while (slots[at].position_id != 0 && slots[at].position_id != position_id) at = (at + 1) & (n - 1);
    return &slots[at];
}

void rs_attempts_copy(rs_attempts *self, const rs_attempts *from) {
    rs_attempt *slots = self->slots;
    if (from->n == 0 || self->n != from->n) {
        rs_attempts_clear(self);
        if (from->n == 0) return;
        slots = (rs_attempt *)malloc(from->n * sizeof *slots);
        if (slots == NULL) return;
    }
    memcpy(slots, from->slots, from->n * sizeof *slots);
    self->slots = slots;
    self->n = from->n;
    self->used = from->used;
}

unsigned rs_attempts_known(const rs_attempts *self, uint64_t position_id, uint32_t run) {
    if (self->n == 0 || position_id == 0 || run % REPEATING_RUNS == 0) return 0;
    return (unsigned)slot_of(self->slots, self->n, position_id)->flags;
}

static bool grow(rs_attempts *self) {
    uint32_t n = self->n == 0 ? 256 : self->n * 2;
    rs_attempt *slots = n > MAX_SLOTS ? NULL : (rs_attempt *)calloc(n, sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = 0; i < self->n; i++) {
        if (self->slots[i].position_id != 0) *slot_of(slots, n, self->slots[i].position_id) = self->slots[i];
    }
    free(self->slots);
    self->slots = slots;
    self->n = n;
    return true;
}

void rs_attempts_add(rs_attempts *self, uint64_t position_id, unsigned flags) {
    if (position_id == 0 || (self->used * 2 >= self->n && !grow(self))) return;
    rs_attempt *attempt = slot_of(self->slots, self->n, position_id);
    if (attempt->position_id == 0) self->used++;
    attempt->position_id = position_id;
    attempt->flags |= flags;
}

void rs_attempts_drop(rs_attempts *self, uint64_t position_id, unsigned flags) {
    if (self->n == 0 || position_id == 0) return;
    slot_of(self->slots, self->n, position_id)->flags &= ~(uint64_t)flags;
}
