/* rs_arrow_infer.h: adds the kinds of values to fields. Values are any values, leaves of trees or numpy arrays. */
#pragma once

#include "arrow/rs_arrow_ext.h"
#include "arrow/rs_arrow_field.h"

/* Takes the any value at the cursor and adds its kinds. Rules 20 to 23 of FORMAT.md; errors of rs_arrow_field_named. */
RS_NODISCARD rs_status rs_arrow_infer_any(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err);

/* Adds the kinds of the values of a node of ints, floats, bools, text or bytes. Returns false for another node. */
bool rs_arrow_infer_leaf(rs_arrow_field *field, const rs_node *node);

/* Adds the kinds of an array of ndim dimensions, or of a scalar for ndim 0. */
RS_NODISCARD rs_status rs_arrow_infer_array(rs_arrow_field *field, const rs_array_type *type, uint32_t ndim,
                                            uint32_t *n_fields, rs_error *err);

/* Adds the kind of a datetime, which depends on its time zone. */
void rs_arrow_infer_moment(rs_arrow_field *field, const rs_arrow_moment *moment);
/* Adds the kind of a Decimal. */
void rs_arrow_infer_decimal(rs_arrow_field *field, const rs_arrow_decimal *decimal);

/* Takes the next name from `names`, which rs_arrow_names sets, and sets *out to the child with this name. */
RS_NODISCARD rs_status rs_arrow_next_name(rs_slice *names, rs_arrow_field *field, uint32_t *n_fields,
                                          rs_arrow_field **out, rs_error *err);

/* Returns the kind of values of a dtype, one bit; 0 for a dtype without an Arrow type. */
uint32_t rs_arrow_dtype_seen(const rs_array_type *type);
