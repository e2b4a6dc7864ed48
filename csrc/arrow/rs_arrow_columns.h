/* rs_arrow_columns.h: the buffers of one Arrow array, checked against its compiled schema. After the check, values can
 * be read by position.
 *
 * Checked here: the ranges of lengths, offsets and null counts, the numbers of buffers and children, pointers that must
 * not be NULL, the lengths of children, run ends. Checked when a value is read: offsets and sizes of lists and text,
 * positions in dictionaries and unions, type ids, the offsets of views.
 *
 * Not checked: buffer sizes, which the interface gives only for the data of views. If a buffer is too short for its
 * array, or offsets of text pass the end of its data, other memory is read. Offsets into a child array are compared
 * with its length. */
#pragma once

#include "arrow/rs_arrow.h"
#include "arrow/rs_arrow_schema.h"

/* The array of one node. Borrows everything. Position i of the array is element i + offset of each buffer. */
typedef struct rs_arrow_column {
    const uint8_t *validity; /* a bit for each value; NULL without nulls */
    const uint8_t *first;    /* the first buffer except a validity bitmap: values, offsets, views, type ids, indices */
    const uint8_t *second;   /* the next buffer: text, sizes of list views, offsets of a dense union; may be NULL */
    uint64_t offset;
    uint64_t length;
    const struct ArrowArray *array;
    const void *const *blocks;  /* of views: the data buffers */
    const uint8_t *block_sizes; /* an i64 for each */
    uint64_t n_blocks;
    uint64_t run; /* RUN_END: the last run that was read */
} rs_arrow_column;

/* Fills columns[0] to columns[n_nodes - 1] for a live array, which must stay live and unchanged while they are used.
 * RS_E_IN_BROKEN with a message that begins with the path of the type. Any thread. */
RS_NODISCARD rs_status rs_arrow_columns_bind(const rs_arrow_schema *schema, const struct ArrowArray *array,
                                             rs_arrow_column *columns, rs_error *err);

/* Returns whether value i is valid in the column's own bitmap. */
static inline bool rs_arrow_is_valid(const rs_arrow_column *column, uint64_t i) {
    const uint64_t at = i + column->offset;
    return column->validity == NULL || (column->validity[at >> 3] >> (at & 7) & 1) != 0;
}

/* Loads a signed int of `width` bytes (1, 2, 4 or 8) at element `at`. */
static inline int64_t rs_arrow_int(const uint8_t *values, uint64_t at, unsigned width) {
    switch (width) {
    case 1: return (int8_t)values[at];
    case 2: return (int16_t)rs_load_u16(values + at * 2);
    case 4: return (int32_t)rs_load_u32(values + at * 4);
    default: return (int64_t)rs_load_u64(values + at * 8);
    }
}
