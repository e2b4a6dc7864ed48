/* rs_notes.c: the hash table of notes. */
#include "plan/rs_notes.h"

#include <stdlib.h>
#include <string.h>

enum {
    REPEATING_RUNS = 16, /* every run whose number is a multiple of it repeats all attempts */
    MAX_NOTES = 65536
};

void rs_notes_clear(rs_notes *self) {
    free(self->at);
    memset(self, 0, sizeof *self);
}

static rs_position_note *place_of(rs_position_note *notes, uint32_t n, uint64_t position_id) {
    uint32_t at = (uint32_t)(position_id >> 32 ^ position_id) & (n - 1);
    while (notes[at].position_id != 0 && notes[at].position_id != position_id) at = (at + 1) & (n - 1);
    return &notes[at];
}

void rs_notes_copy(rs_notes *self, const rs_notes *from) {
    rs_position_note *at = self->at;
    if (from->n == 0 || self->n != from->n) {
        rs_notes_clear(self);
        if (from->n == 0) return;
        at = (rs_position_note *)malloc(from->n * sizeof *at);
        if (at == NULL) return;
    }
    memcpy(at, from->at, from->n * sizeof *at);
    self->at = at;
    self->n = from->n;
    self->used = from->used;
}

unsigned rs_notes_known(const rs_notes *self, uint64_t position_id, uint32_t run) {
    if (self->n == 0 || position_id == 0 || run % REPEATING_RUNS == 0) return 0;
    return (unsigned)place_of(self->at, self->n, position_id)->flags;
}

static bool grow(rs_notes *self) {
    uint32_t n = self->n == 0 ? 256 : self->n * 2;
    rs_position_note *notes = n > MAX_NOTES ? NULL : (rs_position_note *)calloc(n, sizeof *notes);
    if (notes == NULL) return false;
    for (uint32_t i = 0; i < self->n; i++) {
        if (self->at[i].position_id != 0) *place_of(notes, n, self->at[i].position_id) = self->at[i];
    }
    free(self->at);
    self->at = notes;
    self->n = n;
    return true;
}

void rs_notes_add(rs_notes *self, uint64_t position_id, unsigned flags) {
    if (position_id == 0 || (self->used * 2 >= self->n && !grow(self))) return;
    rs_position_note *note = place_of(self->at, self->n, position_id);
    if (note->position_id == 0) self->used++;
    note->position_id = position_id;
    note->flags |= flags;
}

void rs_notes_drop(rs_notes *self, uint64_t position_id, unsigned flags) {
    if (self->n == 0 || position_id == 0) return;
    place_of(self->at, self->n, position_id)->flags &= ~(uint64_t)flags;
}
