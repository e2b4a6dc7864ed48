/* rs_gather_value.h: takes the value of one record for any form of field. */
#pragma once

#include "columns/rs_gather_field.h"

/* Each of the following takes the value of record number self->done, and adds 1 to self->done. If the value does not
 * fit the result, it sets stop->why instead. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */

/* Takes the value at a place from a walk: settled, or dict-coded. */
RS_NODISCARD rs_status rs_gather_take_value(rs_gather_field *self, rs_cursor *cursor, rs_place *place,
                                            rs_gather_stop *stop, rs_error *err);
/* Takes a record without the field or, with RS_GATHER_NONE, with the value None. */
RS_NODISCARD rs_status rs_gather_take_missing(rs_gather_field *self, int why, rs_gather_stop *stop, rs_error *err);
/* Takes a cached entry of a table. Sets *taken to false for an entry that is not fully cached or does not fit the
 * result: rs_gather_take_value then reads or reports it. */
RS_NODISCARD rs_status rs_gather_take_entry(rs_gather_field *self, const rs_entry *entry, bool *taken,
                                            rs_gather_stop *stop, rs_error *err);
