/* rs_column.h: numbers of a field, record after record, into one array. */
#ifndef RS_COLUMN_H
#define RS_COLUMN_H

#include "base/rs_buffer.h"
#include "read/rs_path.h"

enum {
    RS_COLUMN_OTHER = 0,    /* neither of these: nothing was appended */
    RS_COLUMN_SCALAR = 1,   /* a bool, an int of 64 bits or a float */
    RS_COLUMN_SEQUENCE = 2, /* a list or tuple of such */

    RS_COLUMN_BOOL = 1,
    RS_COLUMN_INT = 2,
    RS_COLUMN_FLOAT = 4
};

/* Numbers: u8 while all are bools, i64 from the first int on, f64 from the first float on, when those before are
 * converted. Owns `values`. Zero it to begin, rs_column_clear at the end. Not thread-safe. */
typedef struct rs_column {
    rs_buffer values;
    unsigned seen; /* RS_COLUMN_BOOL, INT and FLOAT, of what was appended */
} rs_column;

/* Bytes of one number. */
static inline unsigned rs_column_item_bytes(const rs_column *self) { return self->seen == RS_COLUMN_BOOL ? 1 : 8; }

void rs_column_clear(rs_column *self);

/* Appends the value at `place`: *kind says what it is, *n how many numbers it has. Errors: rules 21 to 23 of
 * FORMAT.md, memory; what was appended is then unspecified. */
RS_NODISCARD rs_status rs_column_take(rs_column *self, rs_cursor *cursor, const rs_place *place, int *kind,
                                      uint64_t *n, rs_error *err);

/* Room for n more numbers, of 8 bytes if need be. */
RS_NODISCARD rs_status rs_column_reserve(rs_column *self, uint64_t n, rs_error *err);

/* Appends a number of one of the three types by its bits: 0 or 1, an i64, an f64. The caller has reserved room. */
void rs_column_join_unchecked(rs_column *self, unsigned type, uint64_t bits);

/* The same, inline for a number that is like all before. */
static inline void rs_column_put_unchecked(rs_column *self, unsigned type, uint64_t bits) {
    if (RS_LIKELY(self->seen == type && type != RS_COLUMN_BOOL)) {
        rs_store_u64(self->values.data + self->values.size_bytes, bits);
        self->values.size_bytes += 8;
    } else {
        rs_column_join_unchecked(self, type, bits);
    }
}

/* n rows, in each of which a node's body begins at one offset. Row k is at records[k], or, where that is NULL, at
 * base + k * stride. */
typedef struct rs_column_rows {
    const uint8_t *base;
    int64_t stride_bytes;
    const rs_slice *records;
    uint64_t n;
    uint64_t least;    /* bytes that every row has */
    uint64_t bit_off;  /* the node's bits, from the row's start */
    uint64_t body_off;
} rs_column_rows;

/* Appends the numbers of a node that is fixed. *taken is false, and nothing appended, where the node is none that this
 * does. The caller has checked that bits and body lie within `least`. Errors: memory, RS_E_FMT_TRUNCATED. */
RS_NODISCARD rs_status rs_column_take_rows(rs_column *self, const rs_cursor *cursor, const rs_node *node,
                                           const rs_column_rows *rows, bool *taken, rs_error *err);

/* The same for a node that is a list of node->count numbers. Errors: RS_E_FMT_LIMIT too. */
RS_NODISCARD rs_status rs_column_take_lists(rs_column *self, const rs_cursor *cursor, const rs_node *node,
                                            const rs_column_rows *rows, bool *taken, rs_error *err);

#endif
