/* rs_arrow_request.h: changes the types of fields as a consumer's schema requests, if this loses no value. */
#pragma once

#include "arrow/rs_arrow.h"
#include "arrow/rs_arrow_field.h"

/* Changes the types of a field and its descendants to the types of `requested`, by the names of fields. Integers change
 * to other integers and to float64 if their bounds allow it, floats to wider floats, text and bytes between 32-bit
 * offsets, 64-bit offsets and views, lists between 32-bit and 64-bit offsets, and nulls to bools, numbers, text and
 * bytes. Other fields keep their types, as the Arrow specification allows a producer. Call it between rs_arrow_resolve
 * and the first batch. `requested` is live and only read. The export later widens 32-bit offsets if it needs to. */
void rs_arrow_request(rs_arrow_field *self, const struct ArrowSchema *requested);

/* In the field and its descendants, changes text and bytes to views, offsets of lists to 64 bits, and zones without a
 * name to UTC. polars takes these types as they are, converts others, and rejects zones without a name. */
void rs_arrow_request_views(rs_arrow_field *self);
