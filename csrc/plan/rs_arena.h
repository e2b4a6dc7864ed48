/* rs_arena.h: memory for stats and plans, freed as a whole. */
#pragma once

#include "base/rs_base.h"

/* Zero the struct before the first use. One thread at a time may use it. */
typedef struct rs_arena {
    struct rs_arena_chunk *chunks;
    uint64_t size_bytes; /* bytes of all chunks */
} rs_arena;

/* Returns `size` zeroed bytes, aligned to 16, that live until rs_arena_clear; NULL without memory. */
void *rs_arena_take(rs_arena *self, size_t size);
void rs_arena_clear(rs_arena *self);

/* Copies n items of `item` bytes to a new array in the arena with room for `capacity` items, and returns it; NULL
 * without memory. The old array stays until the arena is cleared. */
void *rs_arena_grow(rs_arena *self, const void *old, size_t n, size_t capacity, size_t item);
/* Moves all memory of `part` to `self`, and leaves `part` empty. */
void rs_arena_join(rs_arena *self, rs_arena *part);
