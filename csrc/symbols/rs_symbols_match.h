/* rs_symbols_match.h: finds the longest symbol of a finished table at the beginning of a text. Private to the writer of
 * symbol tables.
 *
 * For speed, few unpredictable branches matter more than few comparisons. So there is one hash table, keyed by the
 * first bytes of the text. It leads to all symbols with these first bytes, which are adjacent, the longest first. They
 * are compared until one fits; the last always fits. If no symbol has these first bytes, an array gives the symbol for
 * the first two bytes.
 *
 * To bound the time of a match, only the RS_MATCH_MAX lowest-numbered symbols with the same first bytes are used. A
 * coder need not use all symbols of a table. */
#pragma once

#include "format/rs_symbols.h"

/* The fields of a match, from the lowest bit on: the number of bytes of the symbol; the shift for a comparison with
 * `low`, 63 minus the number of bits to compare, at least 0; RS_MATCH_LONG if there are more bits to compare; the
 * number of the symbol. 0 bytes means no match; the number is then not used. */
enum {
    RS_MATCH_LENGTH_BITS = 5,
    RS_MATCH_SHIFT_BITS = 6,
    RS_MATCH_LONG = 1 << 11,
    RS_MATCH_NUMBER_SHIFT = 12,
    RS_MATCH_MAX = 64,
    RS_MATCH_ALL = RS_MATCH_MAX + 2 /* the most symbols at the beginning of one text */
};

/* The bytes of a symbol after its first bytes, followed by zeros. */
typedef struct rs_match_entry {
    uint64_t low;
    uint32_t high;
    uint32_t match;
} rs_match_entry;

/* Owns its arrays. Call rs_matcher_init, and rs_matcher_clear at the end. Any number of threads may match. */
typedef struct rs_matcher {
    uint64_t *heads; /* hash table: first bytes (high 32 bits), number of the first entry + 1; 0 when empty */
    rs_match_entry *entries;
    /* For the first two bytes: a match of one or two bytes, or none. A page has the 256 matches of one high byte of
     * the index. High bytes without a match share page 0, to save memory: each table of a store keeps an encoder. */
    uint32_t *shorts;
    uint16_t pages[256];
    uint32_t *singles; /* for the first byte: a match of one byte, or none; used for units of one byte */
    unsigned shift;    /* 64 minus the binary logarithm of the number of slots */
    unsigned unit_bytes;
    uint64_t memory_bytes; /* of the arrays */
} rs_matcher;

/* Makes a matcher of n symbols. Symbol i has the n_units[i] units at units[i]; symbols with 0 units are left out. The
 * symbols are copied. After RS_E_MEM `self` owns nothing. */
RS_NODISCARD rs_status rs_matcher_init(rs_matcher *self, const uint8_t *const *units, const uint8_t *n_units,
                                       uint32_t n, unsigned unit_bytes, rs_error *err);
/* Frees the arrays and zeroes the struct. */
void rs_matcher_clear(rs_matcher *self);

/* Returns the number of first bytes in the keys of the hash table. */
static inline unsigned rs_matcher_head_bytes(unsigned unit_bytes) { return unit_bytes == 1 ? 3 : 4; }

static inline uint32_t rs_match_bytes(uint32_t match) { return match & ((1u << RS_MATCH_LENGTH_BITS) - 1); }
static inline uint32_t rs_match_number(uint32_t match) { return match >> RS_MATCH_NUMBER_SHIFT; }

/* Returns the match for the first two bytes of a text. For units of one byte, the first byte is the high byte of the
 * index: all texts that begin with it then have their matches in one page. */
static inline uint32_t rs_matcher_short(const rs_matcher *self, const uint8_t *p, unsigned unit_bytes) {
    const uint8_t high = unit_bytes == 1 ? p[0] : p[1], low = unit_bytes == 1 ? p[1] : p[0];
    return self->shorts[(uint32_t)self->pages[high] << 8 | low];
}

/* Compares all bits of an RS_MATCH_LONG symbol. p is the text after the first bytes. */
static inline bool rs_match_is_whole(const rs_match_entry *entry, const uint8_t *p, unsigned head_bytes) {
    unsigned more = rs_match_bytes(entry->match) - head_bytes - 8;
    uint32_t high = more == 0 ? 0 : rs_load_u32(p + 8) << 8 * (4 - more) >> 8 * (4 - more);
    return rs_load_u64(p) == entry->low && high == entry->high;
}

static inline uint64_t rs_matcher_slot(const rs_matcher *self, uint32_t head) {
    return head * UINT64_C(0x9E3779B97F4A7C15) >> self->shift;
}

/* Returns the match of the longest symbol of at most `limit` bytes at the beginning of the text at p, or no match. 16
 * bytes must be readable at p. `limit` is from unit_bytes to 16. unit_bytes is the matcher's. */
static inline uint32_t rs_matcher_find(const rs_matcher *self, const uint8_t *p, unsigned limit, unsigned unit_bytes) {
    const unsigned head_bytes = rs_matcher_head_bytes(unit_bytes);
    const uint32_t head = rs_load_u32(p) & (unit_bytes == 1 ? 0xFFFFFF : UINT32_MAX);
    uint64_t mask = UINT64_MAX >> self->shift, slot = rs_matcher_slot(self, head), found;
    while ((found = self->heads[slot]) != 0) {
        if (RS_LIKELY(found >> 32 == head)) {
            const uint64_t low = rs_load_u64(p + head_bytes);
            const rs_match_entry *entry = &self->entries[(uint32_t)found - 1];
            for (;; entry++) {
                uint32_t match = entry->match;
                if ((low ^ entry->low) << 1 << (match >> RS_MATCH_LENGTH_BITS & 63) != 0) continue;
                if (RS_UNLIKELY((match & RS_MATCH_LONG) != 0) &&
                    !rs_match_is_whole(entry, p + head_bytes, head_bytes)) {
                    continue;
                }
                if (limit == 16 || rs_match_bytes(match) <= limit) return match;
                if (rs_match_bytes(match) <= head_bytes) break;
            }
            break;
        }
        slot = (slot + 1) & mask;
    }
    uint32_t match = rs_matcher_short(self, p, unit_bytes);
    if (unit_bytes == 1 && rs_match_bytes(match) > limit) match = self->singles[*p];
    return match;
}

/* Writes the matches of all symbols of at most `limit` bytes at the beginning of the text at p, the longest first, and
 * returns their number. Otherwise as rs_matcher_find. */
static inline uint32_t rs_matcher_find_all(const rs_matcher *self, const uint8_t *p, unsigned limit,
                                           unsigned unit_bytes, uint32_t out[RS_MATCH_ALL]) {
    const unsigned head_bytes = rs_matcher_head_bytes(unit_bytes);
    const uint32_t head = rs_load_u32(p) & (unit_bytes == 1 ? 0xFFFFFF : UINT32_MAX);
    uint64_t mask = UINT64_MAX >> self->shift, slot = rs_matcher_slot(self, head), found;
    uint32_t match, n = 0;
    while ((found = self->heads[slot]) != 0 && found >> 32 != head) slot = (slot + 1) & mask;
    if (found != 0) {
        const uint64_t low = rs_load_u64(p + head_bytes);
        const rs_match_entry *entry = &self->entries[(uint32_t)found - 1];
        for (; rs_match_bytes(match = entry->match) >= head_bytes; entry++) {
            if ((low ^ entry->low) << 1 << (match >> RS_MATCH_LENGTH_BITS & 63) != 0) continue;
            if ((match & RS_MATCH_LONG) != 0 && !rs_match_is_whole(entry, p + head_bytes, head_bytes)) continue;
            if (rs_match_bytes(match) <= limit) out[n++] = match;
        }
    }
    match = rs_matcher_short(self, p, unit_bytes);
    if (rs_match_bytes(match) > 1 && rs_match_bytes(match) <= limit) out[n++] = match;
    if (unit_bytes == 1) {
        match = self->singles[*p];
        if (rs_match_bytes(match) != 0) out[n++] = match;
    }
    return n;
}
