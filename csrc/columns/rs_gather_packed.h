/* rs_gather_packed.h: packs documents, lists of tokens, into rows of one length. */
#pragma once

#include "columns/rs_gather_field.h"

/* Places each of the n documents of a packed field, and counts rows and pieces. RS_E_ARG_RANGE for a given row that is
 * longer than `length`; RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_pack(rs_gather_field *self, uint64_t n, rs_error *err);
/* Returns the number of tokens of document i that are kept. */
uint64_t rs_gather_packed_tokens(const rs_gather_field *self, uint64_t i);
/* Returns the first number of the run of document i that is kept. */
static inline uint64_t rs_gather_packed_first(const rs_gather_field *self, uint64_t i) {
    return self->given == NULL || self->given->cut ? 0 : (uint64_t)self->given->starts[i];
}
/* Writes positions, documents and boundaries, and the fill into the padding. */
void rs_gather_fill_packed(const rs_gather_field *self, uint64_t n, uint8_t *buffer);
