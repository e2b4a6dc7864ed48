/* rs_positions.h: numbers of any integer type as checked positions in a sequence.
 *
 * Another thread may write to the caller's array at any time, so the numbers are copied first, and only the copy is
 * checked and used. */
#pragma once

#include "base/rs_base.h"

/* Integers in memory, `stride_bytes` apart, aligned or not. Borrows them. */
typedef struct rs_integers {
    const uint8_t *first;
    int64_t stride_bytes; /* may be negative or 0 */
    uint64_t n;
    unsigned item_bytes; /* 1, 2, 4 or 8 */
    bool is_signed;
    bool is_swapped; /* big-endian */
} rs_integers;

/* Copies n integers to `out`. Unsigned numbers from 2^63 on keep their bits and become negative. Any thread. */
void rs_positions_copy(const rs_integers *from, int64_t *out);

/* Turns n numbers into positions in a sequence of `length` elements (at most INT64_MAX): a negative number counts from
 * the end, unless `is_unsigned`. Returns n, or the index of the first number that is out of range. rs_positions_undo
 * restores that number; the other numbers are then not usable. */
uint64_t rs_positions_settle(int64_t *io, uint64_t n, int64_t length, bool is_unsigned);

/* As rs_positions_settle, but a number that is out of range becomes -1. */
void rs_positions_settle_or_drop(int64_t *io, uint64_t n, int64_t length, bool is_unsigned);

/* Restores the number that rs_positions_settle found out of range, from its result `settled`. */
static inline int64_t rs_positions_undo(int64_t settled, int64_t length, bool is_unsigned) {
    return settled < 0 && !is_unsigned ? settled - length : settled;
}

/* Writes start, start + step, ... to out[0 .. n). No number may overflow. */
void rs_positions_steps(int64_t *out, uint64_t n, int64_t start, int64_t step);

/* Returns the number of bytes that are not 0. */
uint64_t rs_positions_count(const uint8_t *mask, uint64_t n);
/* Writes the positions of the bytes that are not 0 to `out`, and returns their count. `out` does not overlap the mask,
 * and has room for one more position, which may be overwritten. */
uint64_t rs_positions_of_mask(const uint8_t *mask, uint64_t n, int64_t *out);

/* Copies n positions, each below 2^32, as numbers of 32 bits. */
void rs_positions_narrow(const int64_t *from, uint64_t n, uint8_t *out);
