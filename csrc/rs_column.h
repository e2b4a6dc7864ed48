/* rs_column.h: numbers of a field, record after record, into one array. */
#ifndef RS_COLUMN_H
#define RS_COLUMN_H

#include "rs_buffer.h"
#include "rs_path.h"

enum {
    RS_COLUMN_OTHER = 0,    /* neither of these: nothing was appended */
    RS_COLUMN_SCALAR = 1,   /* a bool, an int of 64 bits or a float */
    RS_COLUMN_SEQUENCE = 2, /* a list or tuple of such */

    RS_COLUMN_BOOL = 1,
    RS_COLUMN_INT = 2,
    RS_COLUMN_FLOAT = 4
};

/* Numbers of 8 bytes: i64 (bools are 0 and 1), or all f64 from the first float on, when those before were converted.
 * Owns `values`. Zero it to begin, rs_column_clear at the end. Not thread-safe. */
typedef struct rs_column {
    rs_buffer values;
    unsigned seen; /* RS_COLUMN_BOOL, INT and FLOAT, of what was appended */
} rs_column;

void rs_column_clear(rs_column *self);

/* Appends the value at `place`: *shape says what it is, *n how many numbers it has. Errors: rules 21 to 23 of
 * FORMAT.md, memory; what was appended is then unspecified. */
RS_NODISCARD rs_status rs_column_take(rs_column *self, rs_cursor *cursor, const rs_place *place, int *shape,
                                      uint64_t *n, rs_error *err);

#endif
