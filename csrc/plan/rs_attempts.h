/* rs_attempts.h: the attempts that failed for each position, so that later runs need not repeat them. */
#pragma once

#include "base/rs_base.h"
#include "base/rs_status.h"

/* The failed attempts: a dictionary of the values, a template of the strings, a symbol table that the position shares
 * with others, a map of the dicts. RS_POSITION_MAP records a success: the dicts of the position became maps. */
enum {
    RS_POSITION_NO_DICTIONARY = 1,
    RS_POSITION_NO_TEMPLATE = 2,
    RS_POSITION_NO_SHARED_TABLE = 4,
    RS_POSITION_NO_MAP = 8,
    RS_POSITION_MAP = 16
};

typedef struct rs_attempt {
    uint64_t position_id; /* 0: an empty slot */
    uint64_t flags;
} rs_attempt;

/* A hash table by position_id. `slots` has n elements, a power of two, and is NULL when n is 0. Zero the struct before
 * the first use and call rs_attempts_clear at the end. It owns `slots`. Several threads may read it while none
 * changes it. */
typedef struct rs_attempts {
    rs_attempt *slots;
    uint32_t n, used;
} rs_attempts;

/* Frees the memory and zeroes the struct. */
void rs_attempts_clear(rs_attempts *self);
/* Makes `self` a copy of `from`. Without memory it becomes empty, so attempts are repeated. */
void rs_attempts_copy(rs_attempts *self, const rs_attempts *from);

/* Returns the flags of a position; 0 in every 16th run, which repeats the attempts because the values may have
 * changed. */
unsigned rs_attempts_known(const rs_attempts *self, uint64_t position_id, uint32_t run);
/* Adds flags to the flags of a position. Does nothing without memory, or if the table is full. */
void rs_attempts_add(rs_attempts *self, uint64_t position_id, unsigned flags);
/* Removes flags of a position that no longer hold. */
void rs_attempts_drop(rs_attempts *self, uint64_t position_id, unsigned flags);
