/* rs_utf8.h: strings of a field, record after record, as UTF-8 (RFC 3629) one after another. */
#ifndef RS_UTF8_H
#define RS_UTF8_H

#include "base/rs_buffer.h"
#include "read/rs_path.h"

/* Appends the string at `place` to `out`. *taken is false, and nothing appended, for what is no str, and for one with a
 * lone surrogate, which UTF-8 does not have. Errors: rules 21 to 23 of FORMAT.md, memory. Any thread. */
RS_NODISCARD rs_status rs_utf8_take(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken,
                                    rs_error *err);

/* Appends n units of 1, 2 or 4 bytes, likewise. */
RS_NODISCARD rs_status rs_utf8_append(rs_buffer *out, const uint8_t *units, uint64_t n, unsigned unit_bytes,
                                      bool *taken, rs_error *err);

/* Copies n strings of `data`, which stand where `offsets` says, into rows of `width` bytes, zeros after each: the
 * caller has seen that none is longer. */
void rs_utf8_pad_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint8_t *out);

/* Writes them as code points into rows of `width` u32, zeros after each. The bytes are UTF-8 that rs_utf8_append made,
 * and no string has more code points. */
void rs_utf8_widen_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint32_t *out);

/* The most code points that one of n strings of such UTF-8 has. */
uint64_t rs_utf8_longest(const uint8_t *data, const int64_t *offsets, uint64_t n);

#endif
