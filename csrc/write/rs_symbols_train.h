/* rs_symbols_train.h: writing side of strings that are coded with a symbol table: makes a table for given strings, and
 * codes strings with one. See rs_symbols.h for the scheme. */
#ifndef RS_SYMBOLS_TRAIN_H
#define RS_SYMBOLS_TRAIN_H

#include "base/rs_buffer.h"
#include "format/rs_symbols.h"

/* Non-owning: the units of a string. `units` may be NULL when n_units is 0. */
typedef struct rs_symbol_string {
    const uint8_t *units;
    uint64_t n_units;
} rs_symbol_string;

/* Appends to `table_out` a table for n strings of units of unit_bytes (1 or 2). *coded_bytes (NULL is allowed) becomes
 * what their codes will take, extrapolated from a sample. The same strings in the same order give the same bytes.
 * RS_E_ARG_LIMIT when table and codes would not be smaller than the units; `table_out` is then as it was. RS_E_MEM.
 * Keeps nothing; any thread. */
RS_NODISCARD rs_status rs_symbols_train(const rs_symbol_string *strings, size_t n, unsigned unit_bytes,
                                        rs_buffer *table_out, uint64_t *coded_bytes, rs_error *err);

/* Codes strings. Owning; its own copy of what it needs of the table. */
typedef struct rs_symbols_encoder rs_symbols_encoder;

/* Makes an encoder from a table; release it with rs_symbols_encoder_close. Errors: those of rs_symbols_open,
 * RS_E_ARG_RANGE for a table without an escape, RS_E_MEM. Any thread. */
RS_NODISCARD rs_status rs_symbols_encoder_open(rs_slice table, rs_symbols_encoder **out, rs_error *err);

/* Appends the codes of one string of the table's unit. Any string can be coded. RS_E_MEM leaves `out` as it was.
 * Writes to `out` alone: threads may share an encoder. `units` may be NULL when n_units is 0. */
RS_NODISCARD rs_status rs_symbols_encode(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units,
                                         rs_buffer *out, rs_error *err);

/* Frees it; NULL is allowed. */
void rs_symbols_encoder_close(rs_symbols_encoder *self);

#endif
