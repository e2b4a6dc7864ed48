/* rs_symbols_match.h: finds the longest symbol at the beginning of a text. Private to the writer of symbol tables.
 *
 * For speed, few unpredictable branches and few loads that depend on each other matter more than few instructions. So
 * an array of bytes, which fits the first-level cache, has a bit for each length of 2 to 8 bytes: in the byte at the
 * hash of a symbol, the bit of its length is set. The bytes for all lengths are read independently of each other, and
 * together give the longest length that a symbol may have. One lookup in a hash table of all symbols usually confirms
 * it. A symbol longer than 8 bytes sets the last bit at the hash of its first 8 bytes, and there the bit of its length
 * in a second array. */
#pragma once

#include "format/rs_symbols.h"

enum {
    RS_MATCH_LENGTH_BITS = 5,
    RS_MATCH_FILTER_BITS = 16,
    RS_MATCH_LONGER_BITS = 12,
    RS_MATCH_ALL = 15,   /* the most symbols at the beginning of one text: one of each length */
    RS_MATCH_PROBES = 10 /* the most slots for a hash; a symbol without a free one is not found, to bound the time */
};

/* A symbol at the beginning of a text. 0 bytes mean that there is none; the number is then not used. */
typedef struct rs_match {
    uint32_t number, bytes;
} rs_match;

/* A symbol in the hash table. An entry of 0 means an empty slot. */
typedef struct rs_match_slot {
    uint64_t key;   /* the first 8 bytes; a shorter symbol has its bytes at the high end */
    uint32_t entry; /* its bytes in the lowest RS_MATCH_LENGTH_BITS bits, above them its number */
} rs_match_slot;

/* Owns its arrays. Call rs_matcher_init, and rs_matcher_clear at the end. Any number of threads may match. */
typedef struct rs_matcher {
    rs_match_slot *slots;
    uint8_t *symbols; /* RS_SYMBOLS_COPY bytes for each symbol: its units, then zeros */
    uint8_t *lengths; /* 1 << RS_MATCH_FILTER_BITS bytes: bit i for a symbol of i + 2 bytes, bit 7 for a longer one */
    uint8_t *longer;  /* 1 << RS_MATCH_LONGER_BITS bytes: bit i for a symbol of i + 9 bytes */
    uint32_t n;       /* number of symbols */
    unsigned bits;    /* binary logarithm of the number of slots, which are twice the room for symbols */
    unsigned unit_bytes;
} rs_matcher;

/* Makes an empty matcher for units of 1 or 2 bytes, with room for about `expected` symbols. After RS_E_MEM `self` owns
 * nothing. */
RS_NODISCARD rs_status rs_matcher_init(rs_matcher *self, unsigned unit_bytes, uint32_t expected, rs_error *err);
/* Adds a symbol of n units, whose number is the number of symbols before it. A symbol of 0 units is never found. Of
 * equal symbols the first is found. RS_E_MEM. */
RS_NODISCARD rs_status rs_matcher_add(rs_matcher *self, const uint8_t *units, unsigned n, rs_error *err);
/* Returns the bytes of the arrays. */
uint64_t rs_matcher_memory(const rs_matcher *self);
/* Frees the arrays and zeroes the struct. */
void rs_matcher_clear(rs_matcher *self);

/* Returns the bytes of the symbol of an entry. */
static inline uint32_t rs_match_bytes(uint32_t entry) { return entry & ((1u << RS_MATCH_LENGTH_BITS) - 1); }

/* The key of a symbol of `bytes` bytes, 1 to 8, that begins with a word. */
static inline uint64_t rs_match_key(uint64_t word, unsigned bytes) { return word << (64 - 8 * bytes); }

/* The hash of a key; only its high bits are used. rs_match_key of the hash of a word is the hash of rs_match_key of the
 * word, so one product gives the hashes for all lengths. */
static inline uint64_t rs_match_hash(uint64_t key) { return key * UINT64_C(0x9E3779B97F4A7C15); }

/* The bytes from the ninth to the last of a symbol of 9 to 16 bytes, at the high end. */
static inline uint64_t rs_match_rest(const uint8_t *p, unsigned bytes) {
    return rs_load_u64(p + 8) << (128 - 8 * bytes);
}

/* Sets *out to the match of the symbol of `bytes` bytes, 1 to 8, with this key and its hash. Returns false if there is
 * none. */
static inline bool rs_matcher_at(const rs_matcher *self, uint64_t key, uint64_t hash, unsigned bytes, rs_match *out) {
    const uint32_t mask = (1u << self->bits) - 1;
    uint32_t slot = (uint32_t)(hash >> (64 - self->bits));
    for (unsigned i = 0; i < RS_MATCH_PROBES; i++, slot = (slot + 1) & mask) {
        const rs_match_slot *found = &self->slots[slot];
        if (RS_LIKELY(found->key == key && rs_match_bytes(found->entry) == bytes)) {
            *out = (rs_match){found->entry >> RS_MATCH_LENGTH_BITS, bytes}; /* `bytes` does not wait for the slot */
            return true;
        }
        if (found->entry == 0) break;
    }
    return false;
}

/* Writes the matches of the longest symbols of 9 to `limit` bytes at the beginning of the text at p to `out`, at most
 * `most`, the longest first, and returns their number. */
static inline uint32_t rs_matcher_find_longer(const rs_matcher *self, const uint8_t *p, unsigned limit, uint32_t most,
                                              rs_match *out) {
    const uint32_t mask = (1u << self->bits) - 1;
    const uint64_t key = rs_load_u64(p), hash = rs_match_hash(key);
    uint32_t lengths = self->longer[hash >> (64 - RS_MATCH_LONGER_BITS)], n = 0;
    if (limit < 16) lengths &= (1u << (limit - 8)) - 1;
    while (lengths != 0 && n < most) {
        const unsigned bytes = 8 + rs_bit_width(lengths);
        const uint64_t rest = rs_match_rest(p, bytes);
        uint32_t slot = (uint32_t)(rs_match_hash(hash ^ rest) >> (64 - self->bits));
        lengths ^= 1u << (bytes - 9);
        for (unsigned i = 0; i < RS_MATCH_PROBES; i++, slot = (slot + 1) & mask) {
            const uint32_t entry = self->slots[slot].entry, number = entry >> RS_MATCH_LENGTH_BITS;
            if (entry == 0) break;
            if (rs_match_bytes(entry) != bytes || self->slots[slot].key != key) continue;
            if (rs_match_rest(self->symbols + (size_t)number * RS_SYMBOLS_COPY, bytes) != rest) continue;
            out[n++] = (rs_match){number, bytes};
            break;
        }
    }
    return n;
}

/* Writes the matches of the symbols of at most `limit` bytes at the beginning of the text at p to `out`, the longest
 * first and at most `most`, and returns their number. 16 bytes must be readable at p. `limit` is from unit_bytes to 16.
 * unit_bytes is the matcher's. */
static inline uint32_t rs_matcher_find_some(const rs_matcher *self, const uint8_t *p, unsigned limit,
                                            unsigned unit_bytes, uint32_t most, rs_match *out) {
    const uint64_t word = rs_load_u64(p), hash = rs_match_hash(word);
    uint32_t lengths = 0, n = 0;
    for (unsigned bytes = 2; bytes <= 8; bytes += unit_bytes) {
        const uint16_t at = (uint16_t)(hash >> (8 * bytes - RS_MATCH_FILTER_BITS));
        lengths |= self->lengths[at] & (1u << (bytes - 2) | (bytes == 8 ? 0x80 : 0));
    }
    lengths &= (1u << (limit - 1)) - 1;
    if (RS_UNLIKELY(lengths >= 0x80)) {
        n = rs_matcher_find_longer(self, p, limit, most, out);
        if (n == most) return n;
        lengths &= 0x7F;
    }
    for (;;) {
        const unsigned bytes = 1 + rs_bit_width(lengths);
        n += rs_matcher_at(self, rs_match_key(word, bytes), rs_match_key(hash, bytes), bytes, &out[n]);
        if (n == most || lengths == 0) return n;
        lengths ^= 1u << (bytes - 2);
    }
}

/* Returns the match of the longest symbol of at most `limit` bytes at the beginning of the text at p. */
static inline rs_match rs_matcher_find(const rs_matcher *self, const uint8_t *p, unsigned limit, unsigned unit_bytes) {
    rs_match match = {0, 0};
    (void)rs_matcher_find_some(self, p, limit, unit_bytes, 1, &match);
    return match;
}
