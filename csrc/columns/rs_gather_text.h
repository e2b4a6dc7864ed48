/* rs_gather_text.h: takes texts, and the numbers of categories. */
#pragma once

#include "columns/rs_gather_field.h"

/* Takes a text, or the name of a category, at a settled place that is not None. If it does not fit the result, sets
 * stop->why. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_take_text(rs_gather_field *self, rs_cursor *cursor, const rs_place *place,
                                           rs_gather_stop *stop, rs_error *err);
/* Takes an empty text, and adds 1 to self->done. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_skip_text(rs_gather_field *self, rs_error *err);
/* As rs_gather_take_text, for a cached entry of a table. Sets *taken to false for an entry that is not cached as a text
 * or number, or does not fit the result. */
RS_NODISCARD rs_status rs_gather_take_text_entry(rs_gather_field *self, const rs_entry *entry, bool *taken,
                                                 rs_error *err);
