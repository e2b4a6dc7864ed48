/* rs_arrow_put.h: walks through the values of records with compiled ops. Before the types are known it notes the values
 * of which the tree does not tell all; afterwards it appends all values to the batch. The checks are those of decoding:
 * rules 20 to 23 and 31 of FORMAT.md. */
#ifndef RS_ARROW_PUT_H
#define RS_ARROW_PUT_H

#include "read/rs_arrow_append.h"
#include "read/rs_arrow_op.h"

enum {
    RS_ARROW_PUT = 0,      /* append */
    RS_ARROW_SEE_REST = 1, /* note the values below nodes that are not sure */
    RS_ARROW_SEE_ALL = 2   /* note all values */
};

/* The state of a walk. Borrows the ops, owns scratch. One thread at a time may use it. */
typedef struct rs_arrow_walk {
    rs_arrow_ops *ops;
    int mode;          /* RS_ARROW_PUT, SEE_REST or SEE_ALL */
    rs_buffer scratch; /* the text of a Decimal, the items of a narrow array */
} rs_arrow_walk;

/* Takes the value of op->node, which is wanted. Its body is at `body`, or at the cursor when that is NULL. Besides the
 * rules above: RS_E_ARG_TEXT for text with a lone surrogate, RS_E_ARG_LIMIT for too many fields, RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_put(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                                    uint64_t bits, rs_error *err);

/* As rs_arrow_put, for a value of the root node `op->node` that stands alone at the cursor. */
RS_NODISCARD rs_status rs_arrow_put_alone(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err);

/* As rs_arrow_put, for the any value at the cursor. */
RS_NODISCARD rs_status rs_arrow_put_any(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_error *err);

/* As rs_arrow_put, for the text at a place; `place->node` is NULL for the any value at the cursor. */
RS_NODISCARD rs_status rs_arrow_put_text(rs_arrow_field *field, rs_cursor *cursor, const rs_place *place,
                                         rs_error *err);

/* Takes the values of a fixed node that has the same offsets in all rows. `cursor` is that of a record of their block.
 * The caller has checked that bits and body lie within rows->least. */
RS_NODISCARD rs_status rs_arrow_put_rows(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                                         const rs_column_rows *rows, rs_error *err);

/* Takes the children of a struct or tuple that are not fixed, whose bodies follow one another at the cursor: those
 * before number `end`. */
RS_NODISCARD rs_status rs_arrow_put_appended(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor,
                                             const rs_slice *group, uint32_t end, rs_error *err);

/* Takes an ext value of a scalar type, of code `code`; `place` is that of its payload. *taken becomes false, and
 * nothing is taken, for another code. */
RS_NODISCARD rs_status rs_arrow_put_ext(rs_arrow_walk *self, rs_arrow_field *field, unsigned code, rs_cursor *cursor,
                                        const rs_place *payload, bool *taken, rs_error *err);

/* Takes an array of ndim dimensions, or with ndim 0 a scalar, whose data is at `data`. */
RS_NODISCARD rs_status rs_arrow_put_array(rs_arrow_walk *self, rs_arrow_field *field, const rs_array_type *type,
                                          uint32_t ndim, const uint64_t *dims, const uint8_t *data, rs_error *err);

/* Takes the any tuple at the cursor whose items are those of the op. */
RS_NODISCARD rs_status rs_arrow_put_items(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err);

/* Counts a value of a struct, and appends nulls for the fields that it does not have. */
RS_NODISCARD rs_status rs_arrow_end_struct(rs_arrow_field *field, bool whole, rs_error *err);

#endif
