/* rs_check.h: checks a whole record without making Python values. Reading a record checks the same rules, but only for
 * the values that it reads. */
#pragma once

#include "base/rs_watch.h"
#include "read/rs_decode.h"

/* Checks rules 20 to 23, 31, 34 and 41 of FORMAT.md for the record at the cursor, which must fill the cursor's bytes.
 * After an error the cursor is at the error. `watch` may be NULL for a walk that cannot be stopped; RS_E_STATE_STOPPED
 * if it stops the walk; RS_E_MEM. Any thread, each with a cursor of its own. */
RS_NODISCARD rs_status rs_check_record(rs_cursor *self, const rs_tree *tree, rs_watch *watch, rs_error *err);
