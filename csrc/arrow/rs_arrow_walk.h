/* rs_arrow_walk.h: walks through the values of records with compiled ops. Before the types are known it adds the kinds
 * of the values to the fields; afterwards it appends the values to the batch. It makes the same checks as decoding:
 * rules 20 to 23 and 31 of FORMAT.md. */
#pragma once

#include "arrow/rs_arrow_program.h"

/* Takes the value of op->node; op->field is not NULL. The body is at `body`, or at the cursor if `body` is NULL.
 * Errors of the rules above; RS_E_FMT_VALUE for a value that does not match its field; RS_E_ARG_TEXT for text with a
 * lone surrogate or an int that a column of floats would round; RS_E_ARG_LIMIT for too many fields; RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_put(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                                    uint64_t bits, rs_error *err);

/* Takes the children before number `end` of a struct or tuple that are not fixed; their bodies are at the cursor.
 * `group` has the bits of all children. Appends nulls for absent optionals. Errors as above. */
RS_NODISCARD rs_status rs_arrow_put_variable(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor,
                                             const rs_slice *group, uint32_t end, rs_error *err);

/* As rs_arrow_put, for a value of the root node op->node with its bits at the cursor. */
RS_NODISCARD rs_status rs_arrow_put_alone(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err);

/* Takes the values of a fixed node that has the same offsets in all rows. `cursor` is for a record of the rows' block.
 * The caller has checked that bits and body are within rows->least. */
RS_NODISCARD rs_status rs_arrow_put_rows(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                                         const rs_column_rows *rows, rs_error *err);
