/* rs_gather_numbers.h: takes the numbers of one value. */
#pragma once

#include "columns/rs_gather_field.h"

/* Takes the value at a settled place, which is not None, for a form of numbers. If it does not fit the result, sets
 * stop->why. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_take_numbers(rs_gather_field *self, rs_cursor *cursor, const rs_place *place,
                                              rs_gather_stop *stop, rs_error *err);
/* Appends the list of numbers at a settled place to self->column. Sets stop->why to RS_GATHER_KIND for another value;
 * the column may then have some of its numbers. Errors as above. */
RS_NODISCARD rs_status rs_gather_append_list(rs_gather_field *self, rs_cursor *cursor, const rs_place *place,
                                             rs_gather_stop *stop, rs_error *err);
