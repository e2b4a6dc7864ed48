/* rs_rows.h: decides by a sample whether lists of one length are stored as rows: tuples with a node for each place. */
#pragma once

#include "plan/rs_alternatives.h"

enum {
    RS_ROWS_SAMPLE = 256, /* lists of a position after which the decision is made */
    RS_ROWS_LEAST = 64,   /* the fewest lists for which it is made at the end of a run */
    RS_ROWS_PLACES = 32   /* the most elements of a list that becomes a row */
};

/* Sets order[] to the offsets of the position's lists in their order, and returns their number, at most
 * RS_ROWS_SAMPLE. Returns 0 if they cannot be rows: the position has other values than lists of one length and None, or
 * the lists hold dicts. */
uint32_t rs_rows_list(const rs_position *at, uint32_t *order);

/* Returns whether n lists of `count` elements each, at the offsets `order`, seem to take fewer bytes as rows: the
 * places have values of different types, or numbers of different sizes. Also false if memory runs out. */
bool rs_rows_promise(const rs_stats *stats, const uint32_t *order, uint32_t n, uint32_t count, bool in_row);
