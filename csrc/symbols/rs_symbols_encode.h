/* rs_symbols_encode.h: codes strings with a symbol table. rs_symbols.h describes the scheme. */
#pragma once

#include "base/rs_buffer.h"
#include "format/rs_symbols.h"

/* The units of a string, borrowed. `units` may be NULL when n_units is 0. */
typedef struct rs_symbol_string {
    const uint8_t *units;
    uint64_t n_units;
} rs_symbol_string;

/* Codes strings with one table. Owns a copy of the symbols. */
typedef struct rs_symbols_encoder rs_symbols_encoder;

/* Makes an encoder from the bytes of a table, which it copies. With `small` it divides each string into the symbols
 * with the shortest codes; else it takes the longest symbol each time, which is several times as fast. The caller frees
 * *out with rs_symbols_encoder_close. Errors of rs_symbols_open; RS_E_ARG_RANGE for a table without an escape;
 * RS_E_MEM. Any thread. */
RS_NODISCARD rs_status rs_symbols_encoder_open(rs_slice table, bool small, rs_symbols_encoder **out, rs_error *err);

/* Appends the codes of a string whose units have the table's size. Every string can be coded. `units` may be NULL when
 * n_units is 0. RS_E_MEM leaves `out` unchanged. Several threads may use one encoder at once. */
RS_NODISCARD rs_status rs_symbols_encode(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units,
                                         rs_buffer *out, rs_error *err);

/* Returns the bytes of memory that an encoder owns; 0 for NULL. */
uint64_t rs_symbols_encoder_memory(const rs_symbols_encoder *self);
/* Frees the encoder. NULL is allowed. */
void rs_symbols_encoder_close(rs_symbols_encoder *self);
