/* rs_notes.h: attempts that failed for a position in one run of values, so that the next runs need not repeat them. */
#pragma once

#include "base/rs_base.h"
#include "base/rs_status.h"

/* The flags name the attempts: a dictionary of the values, a template of the strings, a symbol table that the position
 * shares with others, a map of the dicts. RS_POSITION_MAP is no failure: the dicts of the position became maps. */
enum {
    RS_POSITION_NO_DICTIONARY = 1,
    RS_POSITION_NO_TEMPLATE = 2,
    RS_POSITION_NO_SHARED_TABLE = 4,
    RS_POSITION_NO_MAP = 8,
    RS_POSITION_MAP = 16
};

typedef struct rs_position_note {
    uint64_t position_id; /* 0: an empty slot */
    uint64_t flags;
} rs_position_note;

/* A hash table by position_id of n slots, a power of two; `at` is NULL when n is 0. Zero the struct before the first
 * use and call rs_notes_clear at the end. It owns `at`. Any number of threads may read notes that no thread changes. */
typedef struct rs_notes {
    rs_position_note *at;
    uint32_t n, used;
} rs_notes;

/* Frees the memory and zeroes the struct. */
void rs_notes_clear(rs_notes *self);
/* Makes `self` a copy of `from`. Without memory it becomes empty: then attempts are repeated. */
void rs_notes_copy(rs_notes *self, const rs_notes *from);

/* Returns the flags that were noted for a position. They do not count in every 16th run, which repeats the attempts,
 * because later values may be of another kind. */
unsigned rs_notes_known(const rs_notes *self, uint64_t position_id, uint32_t run);
/* Adds flags to those of a position. Without memory it does nothing. */
void rs_notes_add(rs_notes *self, uint64_t position_id, unsigned flags);
/* Takes flags away from those of a position, after an attempt that succeeded. */
void rs_notes_drop(rs_notes *self, uint64_t position_id, unsigned flags);
