/* rs_check.h: checks a whole record without making Python values. Reading a record checks the same rules for the values
 * that it reads; this walk checks all values. */
#pragma once

#include "base/rs_watch.h"
#include "read/rs_decode.h"

/* Checks the record at the cursor, which must fill the cursor's bytes: rules 20 to 23 of FORMAT.md. When
 * they do not hold, the cursor is left where the error was found. `watch` may be NULL for a walk that nothing ends;
 * RS_E_STATE_STOPPED when it ends the walk. Any thread, each with a cursor of its own. */
RS_NODISCARD rs_status rs_check_record(rs_cursor *self, const rs_tree *tree, rs_watch *watch, rs_error *err);
