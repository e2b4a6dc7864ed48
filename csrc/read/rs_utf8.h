/* rs_utf8.h: collects the strings of a field, record after record, as UTF-8 (RFC 3629). */
#pragma once

#include "base/rs_buffer.h"
#include "read/rs_path.h"

/* Appends the str at `place` to `out`. Sets *taken to false and appends nothing for a value that is not a str and for a
 * str with a surrogate, which UTF-8 cannot express. Errors: rules 21 to 23, 31 and 34 of FORMAT.md, RS_E_MEM. Any
 * thread, each with buffer and cursor of its own. */
RS_NODISCARD rs_status rs_utf8_take(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken,
                                    rs_error *err);

/* As rs_utf8_take, for n units of 1, 2 or 4 bytes. */
RS_NODISCARD rs_status rs_utf8_append(rs_buffer *out, const uint8_t *units, uint64_t n, unsigned unit_bytes,
                                      bool *taken, rs_error *err);

/* Copies n strings into rows of `width` bytes, padded with zeros. String i is the bytes of `data` from offsets[i] to
 * offsets[i + 1]. The caller has checked that no string is longer than `width`. */
void rs_utf8_pad_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint8_t *out);

/* Writes n strings as code points into rows of `width` u32, padded with zeros. The bytes are UTF-8 from rs_utf8_append,
 * and no string has more than `width` code points. */
void rs_utf8_widen_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint32_t *out);

/* Returns the number of code points in the longest of n UTF-8 strings from rs_utf8_append. */
uint64_t rs_utf8_longest(const uint8_t *data, const int64_t *offsets, uint64_t n);
