/* rs_symbols_train.h: makes a symbol table for given strings, and codes strings with a table. rs_symbols.h describes
 * the scheme. */
#ifndef RS_SYMBOLS_TRAIN_H
#define RS_SYMBOLS_TRAIN_H

#include "base/rs_buffer.h"
#include "format/rs_symbols.h"

/* The units of a string, borrowed. `units` may be NULL when n_units is 0. */
typedef struct rs_symbol_string {
    const uint8_t *units;
    uint64_t n_units;
} rs_symbol_string;

/* Appends to `table_out` a symbol table for n strings whose units have unit_bytes bytes (1 or 2). *coded_bytes
 * (coded_bytes may be NULL) becomes the bytes of all their codes, extrapolated from a sample. The same strings in the
 * same order give the same table. RS_E_ARG_LIMIT when table and codes would take at least as many bytes as the units;
 * RS_E_MEM. After a failure `table_out` is unchanged. Safe to call from any thread. */
RS_NODISCARD rs_status rs_symbols_train(const rs_symbol_string *strings, size_t n, unsigned unit_bytes,
                                        rs_buffer *table_out, uint64_t *coded_bytes, rs_error *err);

/* Codes strings with one table. It has its own copy of the symbols. */
typedef struct rs_symbols_encoder rs_symbols_encoder;

/* Makes an encoder from the bytes of a table, which it does not keep. The caller frees *out with
 * rs_symbols_encoder_close. Errors: those of rs_symbols_open; RS_E_ARG_RANGE for a table without an escape; RS_E_MEM.
 * Safe to call from any thread. */
RS_NODISCARD rs_status rs_symbols_encoder_open(rs_slice table, rs_symbols_encoder **out, rs_error *err);

/* Appends the codes of one string. Its units have the table's unit size; every string can be coded. `units` may be NULL
 * when n_units is 0. RS_E_MEM leaves `out` unchanged. Several threads may use one encoder at once. */
RS_NODISCARD rs_status rs_symbols_encode(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units,
                                         rs_buffer *out, rs_error *err);

/* Frees the encoder. NULL is allowed. */
void rs_symbols_encoder_close(rs_symbols_encoder *self);

#endif
