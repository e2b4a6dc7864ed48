/* rs_unicode.c: checks UTF-8, and converts it to units. */
#include "base/rs_unicode.h"

/* Takes one code point of two to four bytes and checks it. Returns false for bytes that are not UTF-8. */
static inline bool pass_point(const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    const uint8_t lead = *p;
    const size_t left = (size_t)(end - p);
    if (lead >= 0xE0 && lead < 0xF0) {
        if (left < 3 || (rs_load_u16(p + 1) & 0xC0C0) != 0x8080) return false;
        if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F)) return false;
        *at = p + 3;
        return true;
    }
    if (lead < 0xE0) {
        if (lead < 0xC2 || left < 2 || (p[1] & 0xC0) != 0x80) return false;
        *at = p + 2;
        return true;
    }
    if (lead > 0xF4 || left < 4 || (p[1] & 0xC0) != 0x80 || (rs_load_u16(p + 2) & 0xC0C0) != 0x8080) return false;
    if ((lead == 0xF0 && p[1] < 0x90) || (lead == 0xF4 && p[1] > 0x8F)) return false;
    *at = p + 4;
    return true;
}

unsigned rs_unicode_measure(const uint8_t *p, size_t n, uint64_t *n_points) {
    const uint8_t *end = n == 0 ? p : p + n;
    uint64_t points = 0;
    uint8_t widest = 0; /* the greatest lead byte, which determines the widest code point */
    while (p != end) {
        const uint8_t lead = *p;
        points++;
        if (lead >= 0x80) {
            if (!pass_point(&p, end)) return 0;
            if (lead > widest) widest = lead;
            continue;
        }
        for (p++; (size_t)(end - p) >= 8 && (rs_load_u64(p) & UINT64_C(0x8080808080808080)) == 0; p += 8) points += 8;
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
