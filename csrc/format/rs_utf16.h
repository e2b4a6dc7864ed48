/* rs_utf16.h: units of UTF-16 and code points. */
#pragma once

#include "base/rs_bytes.h"
#include "base/rs_status.h"

/* Returns whether one of four units is a surrogate. */
static inline bool rs_utf16_has_surrogate(uint64_t four) {
    const uint64_t other = (four & UINT64_C(0xF800F800F800F800)) ^ UINT64_C(0xD800D800D800D800); /* 0 for a surrogate */
    return ((other - UINT64_C(0x0001000100010001)) & ~other & UINT64_C(0x8000800080008000)) != 0;
}

/* Sets *n_points to the number of code points of n units of UTF-16, little-endian. RS_E_FMT_VALUE if a surrogate is not
 * in a pair. Any thread. */
RS_NODISCARD static inline rs_status rs_utf16_count(const uint8_t *units, uint64_t n, uint64_t *n_points,
                                                    rs_error *err) {
    const uint8_t *const end = units + 2 * n;
    while (units < end) {
        if (RS_LIKELY(end - units >= 8) && RS_LIKELY(!rs_utf16_has_surrogate(rs_load_u64(units)))) {
            units += 8;
            continue;
        }
        const uint32_t c = rs_load_u16(units);
        units += 2;
        if ((c & 0xF800) != 0xD800) continue;
        if (c >= 0xDC00 || units == end || (rs_load_u16(units) & 0xFC00) != 0xDC00) {
            (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a surrogate that is not in a pair");
            return RS_E_FMT_VALUE;
        }
        units += 2;
        n--;
    }
    *n_points = n;
    return RS_OK;
}

/* Writes the n code points of UTF-16 that rs_utf16_count has checked as units of 4 bytes. `to` may lie before `units`
 * in the same memory, if at least 2 n bytes are between them. */
static inline void rs_utf16_decode_unchecked(const uint8_t *units, uint64_t n, uint8_t *to) {
    while (n > 0) {
        if (RS_LIKELY(n >= 4)) {
            const uint64_t four = rs_load_u64(units);
            if (RS_LIKELY(!rs_utf16_has_surrogate(four))) {
                rs_store_u64(to, (four & 0xFFFF) | (four & 0xFFFF0000) << 16);
                rs_store_u64(to + 8, (four >> 32 & 0xFFFF) | four >> 48 << 32);
                units += 8, to += 16, n -= 4;
                continue;
            }
        }
        uint32_t c = rs_load_u16(units);
        units += 2;
        if ((c & 0xF800) == 0xD800) {
            c = 0x10000 + ((c & 0x3FF) << 10) + (rs_load_u16(units) & 0x3FFu);
            units += 2;
        }
        rs_store_u32(to, c);
        to += 4, n--;
    }
}

/* Sets *n_units to the number of units of UTF-16 of n units of 4 bytes, below 0x110000. Returns false if there is a
 * surrogate among them. Any thread. */
static inline bool rs_utf16_length(const uint8_t *points, uint64_t n, uint64_t *n_units) {
    uint64_t pairs = 0, surrogates = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t c = rs_load_u32(points + 4 * i);
        pairs += c > 0xFFFF;
        surrogates += (c & 0xFFFFF800) == 0xD800;
    }
    *n_units = n + pairs;
    return surrogates == 0;
}

/* Writes n units of 4 bytes, below 0x110000, as UTF-16 and returns the end. May overwrite 2 bytes more. */
static inline uint8_t *rs_utf16_encode_unchecked(const uint8_t *points, uint64_t n, uint8_t *to) {
    while (n > 0) {
        if (RS_LIKELY(n >= 4)) {
            const uint64_t a = rs_load_u64(points), b = rs_load_u64(points + 8);
            if (RS_LIKELY(((a | b) & UINT64_C(0xFFFF0000FFFF0000)) == 0)) {
                rs_store_u32(to, (uint32_t)(a | a >> 16));
                rs_store_u32(to + 4, (uint32_t)(b | b >> 16));
                points += 16, to += 8, n -= 4;
                continue;
            }
        }
        const uint32_t c = rs_load_u32(points);
        const bool pair = c > 0xFFFF;
        rs_store_u32(to, pair ? (0xD800 + ((c - 0x10000) >> 10)) | (0xDC00 | (c & 0x3FF)) << 16 : c);
        points += 4, to += pair ? 4 : 2, n--;
    }
    return to;
}
