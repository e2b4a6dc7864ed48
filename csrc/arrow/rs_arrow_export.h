/* rs_arrow_export.h: makes the structs of the Arrow C data interface (arrow/rs_arrow.h) of fields. What they hold is
 * memory of their own, so they outlive fields, store and segment, and may be released in any thread. */
#pragma once

#include "arrow/rs_arrow.h"
#include "arrow/rs_arrow_field.h"

/* Fills *out with the type of a field and of all below. RS_E_MEM; *out then holds nothing. */
RS_NODISCARD rs_status rs_arrow_export_schema(const rs_arrow_field *self, struct ArrowSchema *out, rs_error *err);

/* Moves the batch of a field and of all below into *out, and empties it. RS_E_MEM, RS_E_FMT_VALUE for a batch whose
 * children have other numbers of values; *out then holds nothing, and the batch may only be begun anew. */
RS_NODISCARD rs_status rs_arrow_export_batch(rs_arrow_field *self, struct ArrowArray *out, rs_error *err);
