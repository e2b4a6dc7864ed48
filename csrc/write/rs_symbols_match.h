/* rs_symbols_match.h: longest match of a table's symbols, private to the writing side of symbol tables.
 *
 * Text is matched faster with few branches that cannot be foretold than with few comparisons. So there is one hash
 * table, keyed by the first bytes, which leads to all symbols that begin with them, the longest first; they lie one
 * after another and are compared until one fits, which the last always does. Where no symbol has these first bytes, an
 * array tells the symbol for the first two.
 *
 * Only RS_MATCH_MAX symbols with the same first bytes are found, those with the lowest numbers, so that no text takes
 * long. The others are never used: a coder may leave out what it likes. */
#ifndef RS_SYMBOLS_MATCH_H
#define RS_SYMBOLS_MATCH_H

#include "format/rs_symbols.h"

/* A match, from the lowest bit on: the symbol's bytes; 63 less the bits of it that a comparison of `low` takes, 63 at
 * most; whether that leaves bits out; its number. No match has no bytes, and the rest of it means nothing. */
enum {
    RS_MATCH_LENGTH_BITS = 5,
    RS_MATCH_SHIFT_BITS = 6,
    RS_MATCH_LONG = 1 << 11,
    RS_MATCH_NUMBER_SHIFT = 12,
    RS_MATCH_MAX = 64
};

/* A symbol without its first bytes, zeros after it. */
typedef struct rs_match_entry {
    uint64_t low;
    uint32_t high;
    uint32_t match;
} rs_match_entry;

/* Owning. Zero it, rs_matcher_init, rs_matcher_clear in the end. In between any number of threads may match. */
typedef struct rs_matcher {
    uint64_t *heads;         /* hash table: first bytes (32 bits), first entry + 1; 0 is an empty slot */
    rs_match_entry *entries;
    uint32_t *shorts;        /* by the first two bytes: a match of one or two bytes, or none */
    uint32_t *singles;       /* of units of one byte, by the byte: a match of one byte, or none */
    unsigned shift;          /* 64 less the logarithm of the slots */
    unsigned unit_bytes;
} rs_matcher;

/* Makes a matcher of n symbols: symbol i is the first n_units[i] units at units[i], none where that is 0. Bytes at
 * units[i] are read up to RS_SYMBOLS_COPY. The symbols are copied. RS_E_MEM. */
RS_NODISCARD rs_status rs_matcher_init(rs_matcher *self, const uint8_t *const *units, const uint8_t *n_units,
                                       uint32_t n, unsigned unit_bytes, rs_error *err);
void rs_matcher_clear(rs_matcher *self);

/* First bytes that the hash table is keyed by. */
static inline unsigned rs_matcher_head_bytes(unsigned unit_bytes) { return unit_bytes == 1 ? 3 : 4; }

static inline uint32_t rs_match_bytes(uint32_t match) { return match & ((1u << RS_MATCH_LENGTH_BITS) - 1); }
static inline uint32_t rs_match_number(uint32_t match) { return match >> RS_MATCH_NUMBER_SHIFT; }

/* Compares a symbol that goes on beyond `low`. Its bytes after those of `low` are followed by zeros. */
static inline bool rs_match_is_whole(const rs_match_entry *entry, const uint8_t *p, unsigned head_bytes) {
    unsigned more = rs_match_bytes(entry->match) - head_bytes - 8;
    uint32_t high = more == 0 ? 0 : rs_load_u32(p + 8) << 8 * (4 - more) >> 8 * (4 - more);
    return rs_load_u64(p) == entry->low && high == entry->high;
}

static inline uint64_t rs_matcher_slot(const rs_matcher *self, uint32_t head) {
    return head * UINT64_C(0x9E3779B97F4A7C15) >> self->shift;
}

/* The longest symbol that the bytes begin with and that has at most `limit` of them, or no match. 16 bytes
 * must be readable, and `limit` be from unit_bytes (the matcher's) to 16. */
static inline uint32_t rs_matcher_find(const rs_matcher *self, const uint8_t *p, unsigned limit, unsigned unit_bytes) {
    const unsigned head_bytes = rs_matcher_head_bytes(unit_bytes);
    const uint32_t head = rs_load_u32(p) & (unit_bytes == 1 ? 0xFFFFFF : UINT32_MAX);
    uint64_t mask = UINT64_MAX >> self->shift, slot = rs_matcher_slot(self, head), found;
    uint32_t match;
    while ((found = self->heads[slot]) != 0) {
        if (RS_LIKELY(found >> 32 == head)) {
            const uint64_t low = rs_load_u64(p + head_bytes);
            const rs_match_entry *entry = &self->entries[(uint32_t)found - 1];
            for (;; entry++) {
                match = entry->match;
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
    match = self->shorts[rs_load_u16(p)];
    if (unit_bytes == 1 && rs_match_bytes(match) > limit) match = self->singles[*p];
    return match;
}

#endif
