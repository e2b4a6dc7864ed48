/* rs_gather_text.h: takes texts, and the numbers of categories. */
#pragma once

#include "columns/rs_gather_field.h"

/* Takes a text, or the name of a category, at a settled place that is not None. If it does not fit the result, sets
 * stop->why. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_take_text(rs_gather_field *self, rs_cursor *cursor, const rs_place *place,
                                           rs_gather_stop *stop, rs_error *err);
/* Takes an empty text, and adds 1 to self->done. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_skip_text(rs_gather_field *self, rs_error *err);
/* Takes the name of a category that is a cached entry of a table. Returns false for an entry that is not cached as a
 * text or int, or is not one of the names. */
bool rs_gather_take_code_entry(rs_gather_field *self, const rs_entry *entry);
