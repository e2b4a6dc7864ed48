/* rs_gather_value.h: takes the value of one record, whatever the form of the field. */
#pragma once

#include "columns/rs_gather_field.h"

/* Each of the following takes the value of record number self->done, and adds 1 to it. Where the value has no place in
 * the result, it sets stop->why, and self->done stays. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */

/* Takes the value at a place that a walk found: settled, or dict-coded. */
RS_NODISCARD rs_status rs_gather_take_value(rs_gather_field *self, rs_cursor *cursor, rs_place *place,
                                            rs_gather_stop *stop, rs_error *err);
/* Takes a record that lacks the field, or, with RS_GATHER_NONE, whose value is None. */
RS_NODISCARD rs_status rs_gather_take_missing(rs_gather_field *self, int why, rs_gather_stop *stop, rs_error *err);
/* Takes a cached entry of a table. *taken becomes false for one that is not cached in full, and for one that has no
 * place in the result: rs_gather_take_value then reads or reports it. */
RS_NODISCARD rs_status rs_gather_take_entry(rs_gather_field *self, const rs_entry *entry, bool *taken,
                                            rs_gather_stop *stop, rs_error *err);
