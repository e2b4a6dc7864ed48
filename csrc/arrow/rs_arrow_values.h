/* rs_arrow_values.h: one value of a bound Arrow array as an any value. Value and type are as from pyarrow's
 * `to_pylist()`, except for the differences that docs/tables.md lists. */
#pragma once

#include "arrow/rs_arrow_writer.h"

/* Appends value i of the outermost array to `raw`, and sets `counts`. RS_E_IN_BROKEN, RS_E_IN_VALUE; RS_E_IN_TYPE for a
 * record of more values or bytes than readers accept; errors of rs_zone_find; RS_E_MEM. After an error `raw` may hold
 * part of the value. Messages begin with the path of a type, except those of rs_zone_find and RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_append_value(rs_arrow_writer *self, uint64_t i);
