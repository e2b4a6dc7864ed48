/* rs_placed_rows.h: reads a placed node in many rows at once, as rows of its child. */
#pragma once

#include "columns/rs_column.h"

enum { RS_PLACED_ROWS = 256 }; /* the most rows at once */

/* Rows of the child of a placed node. They borrow from places, records and this struct, so do not copy it. */
typedef struct rs_placed_rows {
    const rs_node *child;
    rs_column_rows rows;
    uint64_t done; /* rows of the placed node before these */
    rs_node copy;  /* the child of a rising node, changed to read numbers from the rows */
    uint64_t numbers[RS_PLACED_ROWS];
    rs_slice values[RS_PLACED_ROWS];
    uint32_t locals[RS_PLACED_ROWS];
} rs_placed_rows;

/* Sets child and rows for at most RS_PLACED_ROWS rows of the placed node, from number self->done on. self->rows.n
 * becomes 0 at the end of the rows, or at an exception of an exceptions node, which the caller must read by
 * itself. `cursor` is of any of the records. Errors: rule 41 of FORMAT.md. */
RS_NODISCARD rs_status rs_placed_rows_next(rs_placed_rows *self, const rs_cursor *cursor, const rs_node *node,
                                           const rs_column_rows *rows, rs_error *err);
