/* rs_arrow_infer.h: adds the kinds of leaves of trees and of numpy arrays to fields. */
#pragma once

#include "arrow/rs_arrow_ext.h"
#include "arrow/rs_arrow_field.h"

/* Adds the kinds of the values of a node of ints, floats, bools, text or bytes. Returns false for another node. */
bool rs_arrow_infer_leaf(rs_arrow_field *field, const rs_node *node);

/* Adds the kinds of an array of ndim dimensions, or of a scalar for ndim 0. */
RS_NODISCARD rs_status rs_arrow_infer_array(rs_arrow_field *field, const rs_array_type *type, uint32_t ndim,
                                            rs_error *err);

/* Takes the next name from `names`, which rs_arrow_names sets, and sets *out to the child with this name. */
RS_NODISCARD rs_status rs_arrow_next_name(rs_slice *names, rs_arrow_field *field, rs_arrow_field **out, rs_error *err);

/* Returns the kind of values of a dtype, one bit; 0 for a dtype without an Arrow type. */
uint32_t rs_arrow_dtype_seen(const rs_array_type *type);
