/* rs_mixing.h: items of several sources in fixed proportions. The draws depend only on the state of the sources, so a
 * run that restores their state goes on as if it had not stopped. The results never change: all arithmetic is on
 * integers.
 *
 * Each draw takes the next item of the source that is furthest behind its share. A source that drew nothing of late
 * gains weight * length behind with each item of that length, drawn from any source; a draw from it takes off
 * RS_MIXING_WHOLE * length. Before sources are compared, a random part of the length of its next item is taken off each
 * one, or the order of equal items would repeat, and ranks that take turns would each see a few sources only. The word
 * is number `drawn` of the source's key (rs_alias_word).
 *
 * A source stays within about two of its longest items of its share; tests/c/test_mixing.c has the bounds.
 *
 * Sources. The most underserved first is the method of Tijdeman (The Chairman Assignment Problem, Discrete Mathematics
 * 32, 1980) without its deadlines. */
#pragma once

#include "base/rs_alias.h"

#define RS_MIXING_WHOLE (INT64_C(1) << 30)    /* the sum of the weights of the sources that are drawn */
#define RS_MIXING_MAX_LENGTH ((INT64_C(1) << 31) - 1) /* of an item, so that no sum overflows */

/* One source. The caller owns it and `lengths`, and sets all fields but the last two. */
typedef struct rs_mixing_source {
    int64_t weight;         /* its share of the draws in units of 1 / RS_MIXING_WHOLE; 0: not drawn */
    int64_t behind;         /* how far it is behind its share, in units of length / RS_MIXING_WHOLE; at first 0 */
    int64_t drawn;          /* the number of items drawn */
    int64_t end;            /* draws stop when `drawn` reaches it; above `drawn`, unless the weight is 0 */
    const int64_t *lengths; /* of the items from number `first` to `end` - 1; NULL: each has `length` */
    int64_t first;
    int64_t length;
    uint64_t key;
    int64_t threshold, priority; /* of rs_mixing_run */
} rs_mixing_source;

/* Draws up to `draws` items and returns the number drawn. It is smaller only if a source reached its end. Of the draws,
 * those number skip, skip + step, ... (step above 0) are written: the source to out_sources, the number of the item in
 * its source to out_numbers, which have room for them. No sources, or none with a weight: draws nothing. */
uint64_t rs_mixing_run(rs_mixing_source *sources, size_t n, uint64_t draws, uint64_t skip, uint64_t step,
                       int64_t *out_sources, int64_t *out_numbers);
