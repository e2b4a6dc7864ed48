/* rs_gather_rows.h: takes the values of many rows at once. */
#pragma once

#include "columns/rs_gather_field.h"

/* Takes rows of a node that has the same offset in all of them, up to the first row that needs rs_gather_take_value or
 * sets stop->why. Adds their number to self->done. */
RS_NODISCARD rs_status rs_gather_take_rows(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                                           const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err);
/* Appends the ends of n lists of `count` numbers. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_put_even_ends(rs_gather_field *self, uint64_t n, uint64_t count, rs_error *err);
