/* rs_arrow_infer.h: notes at fields which kinds of values there are: any values, leaves of trees, numpy arrays. */
#pragma once

#include "arrow/rs_arrow_ext.h"
#include "arrow/rs_arrow_field.h"

/* Notes and takes the any value at the cursor. Rules 20 to 23 of FORMAT.md; RS_E_ARG_LIMIT (fields); RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_see_any(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err);

/* Notes the values of a node that holds no others: numbers, text, bytes. Returns false for another node. */
bool rs_arrow_see_leaf(rs_arrow_field *field, const rs_node *node);

/* Notes an array of ndim dimensions, or with ndim 0 a scalar. */
RS_NODISCARD rs_status rs_arrow_see_array(rs_arrow_field *field, const rs_array_type *type, uint32_t ndim,
                                          uint32_t *n_fields, rs_error *err);

/* Notes a datetime or a time, by its zone. */
void rs_arrow_see_moment(rs_arrow_field *field, const rs_arrow_moment *moment);
/* Notes a Decimal. */
void rs_arrow_see_decimal(rs_arrow_field *field, const rs_arrow_decimal *decimal);

/* Takes one str off `names`, which rs_arrow_names set, and sets *out to the child of that name. */
RS_NODISCARD rs_status rs_arrow_next_name(rs_slice *names, rs_arrow_field *field, uint32_t *n_fields,
                                          rs_arrow_field **out, rs_error *err);

/* Returns the kind of elements of a dtype, a mask of one bit; 0 for a dtype without an Arrow type. */
uint32_t rs_arrow_dtype_seen(const rs_array_type *type);
