/* rs_text_rows.h: reads strings that are made of parts, digits or letters in many rows at once, as UTF-8. */
#pragma once

#include "columns/rs_entries.h"

/* Appends the text of each row to `out` and its end, a u64, to `ends`, for a fixed node at the same offset in all rows.
 * Sets *n to the number of rows taken: 0 for a node of another kind, or up to a str that rs_utf8_take does not take.
 * `cursor` is of any of the records. The caller has checked that bits and body are within `least`. Errors of
 * rs_utf8_take and rs_entries_at. */
RS_NODISCARD rs_status rs_text_rows_take(rs_buffer *out, rs_buffer *ends, rs_entries *entries, const rs_cursor *cursor,
                                         const rs_node *node, const rs_column_rows *rows, uint64_t *n, rs_error *err);
