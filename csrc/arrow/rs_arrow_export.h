/* rs_arrow_export.h: makes the structs of the Arrow C data interface (arrow/rs_arrow.h) from fields. The structs
 * own their memory, so they may outlive fields, store and segment, and may be released on any thread. */
#pragma once

#include "arrow/rs_arrow.h"
#include "arrow/rs_arrow_field.h"

/* Fills *out with the type of a field and its descendants. RS_E_MEM; *out is then released. */
RS_NODISCARD rs_status rs_arrow_export_schema(const rs_arrow_field *self, struct ArrowSchema *out, rs_error *err);

/* Moves the batch of a field and its descendants into *out. RS_E_MEM; RS_E_FMT_VALUE if children differ
 * in length or the values exceed 32-bit offsets. *out is then released, and rs_arrow_begin must restart the batch. */
RS_NODISCARD rs_status rs_arrow_export_batch(rs_arrow_field *self, struct ArrowArray *out, rs_error *err);
