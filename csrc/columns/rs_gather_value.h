/* rs_gather_value.h: takes the value of one record for any form of field. */
#pragma once

#include "columns/rs_gather_field.h"

/* Each of the following takes the value of record number self->done, and adds 1 to self->done. If the value does not
 * fit the result, it sets stop->why instead. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */

/* Takes the value at a place from a walk: settled, or dict-coded. */
RS_NODISCARD rs_status rs_gather_take_value(rs_gather_field *self, rs_cursor *cursor, rs_place *place,
                                            rs_gather_stop *stop, rs_error *err);
/* Counts n records that have a value. */
static inline void rs_gather_count(rs_gather_field *self, uint64_t n) {
    if (self->valid != NULL) memset(self->valid + self->done, 1, (size_t)n);
    self->done += n;
}
/* Takes a record without the field or, with RS_GATHER_NONE, with the value None. */
RS_NODISCARD rs_status rs_gather_take_missing(rs_gather_field *self, int why, rs_gather_stop *stop, rs_error *err);
/* As rs_gather_take_entry, for an entry that is not a text for a field of texts. */
RS_NODISCARD rs_status rs_gather_take_other_entry(rs_gather_field *self, const rs_entry *entry, bool *taken,
                                                  rs_gather_stop *stop, rs_error *err);
/* Takes a cached entry of a table. Sets *taken to false for an entry that is not fully cached or does not fit the
 * result: rs_gather_take_value then reads or reports it. */
RS_NODISCARD static inline rs_status rs_gather_take_entry(rs_gather_field *self, const rs_entry *entry, bool *taken,
                                                          rs_gather_stop *stop, rs_error *err) {
    *taken = self->is_text && entry->kind == RS_ENTRY_TEXT;
    if (!*taken) return rs_gather_take_other_entry(self, entry, taken, stop, err);
    RS_TRY(rs_entries_append(&self->entries, entry, &self->values, err));
    RS_TRY(rs_buffer_append_u64(&self->ends, self->values.size_bytes, err));
    rs_gather_count(self, 1);
    return RS_OK;
}
