/* rs_unicode.c: the check of UTF-8, and its code points as units. */
#include "base/rs_unicode.h"

unsigned rs_unicode_measure(const uint8_t *p, size_t n, uint64_t *n_points) {
    const uint8_t *end = n == 0 ? p : p + n;
    uint64_t points = 0;
    uint8_t widest = 0; /* the greatest lead byte, which tells the width of its code point */
    for (; p != end; points++) {
        uint8_t lead = *p++, low = 0x80, high = 0xBF;
        unsigned more;
        if (lead < 0x80) continue;
        more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || more > (size_t)(end - p)) return 0;
        if (lead > widest) widest = lead;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
        for (; more > 0; more--, p++) {
            if (*p < low || *p > high) return 0;
            low = 0x80;
            high = 0xBF;
        }
    }
    *n_points = points;
    return widest < 0xC4 ? 1 : widest < 0xF0 ? 2 : 4;
}

/* Takes one code point of checked UTF-8. */
static inline uint32_t take_point(const uint8_t **at) {
    const uint8_t *p = *at;
    uint32_t lead = *p;
    if (lead < 0x80) {
        *at += 1;
        return lead;
    }
    if (lead < 0xE0) {
        *at += 2;
        return (lead & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (lead < 0xF0) {
        *at += 3;
        return (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *at += 4;
    return (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

void rs_unicode_widen_unchecked(const uint8_t *p, size_t n, unsigned unit_bytes, uint8_t *out) {
    const uint8_t *end = n == 0 ? p : p + n;
    if (unit_bytes == 1) {
        while (p != end) *out++ = (uint8_t)take_point(&p);
    } else if (unit_bytes == 2) {
        for (; p != end; out += 2) rs_store_u16(out, (uint16_t)take_point(&p));
    } else {
        for (; p != end; out += 4) rs_store_u32(out, take_point(&p));
    }
}
