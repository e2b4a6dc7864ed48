/* rs_arrow_request.h: fits the types of fields to a schema that a consumer asks for, where no value can be lost. */
#pragma once

#include "arrow/rs_arrow.h"
#include "arrow/rs_arrow_field.h"

/* Changes the types of a field and of all below to those of `wanted`, by the names of fields. Integers change to other
 * integers and to float64 where all bounds allow it, floats to wider ones, text and bytes between offsets of 32 bits,
 * of 64 bits and views, lists between offsets of 32 and 64 bits, and a type of nulls to any of these. The fields keep
 * their type everywhere else, as the Arrow specification lets a producer do. Call it between rs_arrow_resolve and the
 * first batch. `wanted` is live, and is only read. Offsets of 32 bits that the export needs as 64 are widened later. */
void rs_arrow_request(rs_arrow_field *self, const struct ArrowSchema *wanted);

/* Makes text and bytes views, the offsets of lists 64 bits wide, and UTC of zones without a name, at the field and
 * below. polars keeps these types as they are, converts others, and refuses zones without a name. */
void rs_arrow_request_views(rs_arrow_field *self);
