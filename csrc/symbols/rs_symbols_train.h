/* rs_symbols_train.h: makes a symbol table for given strings. rs_symbols.h describes the scheme. */
#pragma once

#include "symbols/rs_symbols_encode.h"

/* Appends a symbol table for n strings with units of unit_bytes bytes to `table_out`: 1, 2, or 4 for the UTF-16 of
 * strings with such units. With `small` it reads a larger sample. Sets *coded_bytes (may be NULL) to the bytes of
 * all their codes, extrapolated from the sample. The same strings in the same order give the same table.
 * RS_E_ARG_LIMIT if table and codes take at least as many bytes as the units; RS_E_MEM. After a failure `table_out`
 * is unchanged. Any thread. */
RS_NODISCARD rs_status rs_symbols_train(const rs_symbol_string *strings, size_t n, unsigned unit_bytes, bool small,
                                        rs_buffer *table_out, uint64_t *coded_bytes, rs_error *err);
