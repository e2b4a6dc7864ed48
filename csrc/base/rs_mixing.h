/* rs_mixing.h: items of several sources in fixed proportions. The draws depend only on the state of the sources, so a
 * run that restores their state goes on as if it had not stopped. The results never change: all arithmetic is on
 * integers.
 *
 * Each draw takes the next item of the source that is furthest behind its share. With each item, a source with a weight
 * gets weight * length further behind, for the length of that item, and the source that it came from comes
 * RS_MIXING_WHOLE * length forward. For each comparison, the middle of a source's next item counts, moved by a random
 * amount. Without it the order would repeat, and ranks that take turns would each see a few sources only:
 *
 *     random   = length if all items of the source have one length, else min(length, RS_MIXING_RANDOM)
 *     behind - (RS_MIXING_WHOLE * (length - random) / 2 + word div 2^34 * random)
 *
 * where word is rs_alias_word of the source's key and the number of the item. The first of equal sources is drawn.
 *
 * So over any run of draws each source stays within three items of its share, or, with lengths, within the longest item
 * and two times RS_MIXING_RANDOM; tests/c/test_mixing.c tries both.
 *
 * Sources. The most underserved first is the method of Tijdeman (The Chairman Assignment Problem, Discrete Mathematics
 * 32, 1980) without its deadlines. */
#pragma once

#include "base/rs_alias.h"

#define RS_MIXING_WHOLE (INT64_C(1) << 30)            /* the sum of the weights of the sources that are drawn */
#define RS_MIXING_RANDOM INT64_C(512)                 /* the most of an item's length that its place moves by */
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
