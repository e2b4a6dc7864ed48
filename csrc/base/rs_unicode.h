/* rs_unicode.h: checks UTF-8 (RFC 3629) and converts it to units of equal width, as the format stores text. */
#pragma once

#include "base/rs_bytes.h"

/* Returns whether all n bytes are below 0x80. `p` may be NULL when n is 0. Any thread. */
static inline bool rs_unicode_is_ascii(const uint8_t *p, size_t n) {
    const uint64_t high = UINT64_C(0x8080808080808080);
    uint64_t seen = 0;
    if (n < 8) return n == 0 || (rs_load_few_unchecked(p, n) & high) == 0;
    for (size_t i = 0; i + 8 <= n; i += 8) seen |= rs_load_u64(p + i);
    return ((seen | rs_load_u64(p + n - 8)) & high) == 0;
}

/* Checks n bytes as UTF-8: shortest form, no surrogates (RFC 3629, section 4). Returns the bytes of the narrowest unit
 * that holds all code points (1, 2 or 4) and sets *n_points to their number; returns 0 for bytes that are not UTF-8.
 * `p` may be NULL when n is 0. Any thread. */
unsigned rs_unicode_measure(const uint8_t *p, size_t n, uint64_t *n_points);

/* Writes the code points of n bytes as units of unit_bytes (1, 2 or 4) to `out`. The caller has measured the bytes,
 * and `out` has room for all units. Any thread. */
void rs_unicode_widen_unchecked(const uint8_t *p, size_t n, unsigned unit_bytes, uint8_t *out);
