/* rs_check.h: the walk that checks a whole record without making anything of it. Reading a record checks the same rules
 * where it meets them; this walk is for callers that want every value checked and none made. */
#ifndef RS_CHECK_H
#define RS_CHECK_H

#include "read/rs_decode.h"

/* Checks a whole record at the cursor, which must end with it: rules 20 to 23 of FORMAT.md. Any thread. */
RS_NODISCARD rs_status rs_check_record(rs_cursor *self, const rs_tree *tree, rs_error *err);

#endif
