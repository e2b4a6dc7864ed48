/* rs_arrow_concat.h: strings made of parts (concat nodes), joined as UTF-8 in the batch of a field. Constant parts and
 * the entries of tables are converted once, and copied for each value. */
#pragma once

#include "arrow/rs_arrow_builder.h"
#include "arrow/rs_arrow_program.h"

/* Appends the text of the concat of `op` with its head at `head`. Sets *taken to false and appends nothing if the
 * concat is not fixed or a part has a lone surrogate. Errors: rules 21 to 23 and 31 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_put_concat(rs_arrow_program *program, const rs_arrow_op *op, rs_cursor *cursor,
                                           const uint8_t *head, bool *taken, rs_error *err);
