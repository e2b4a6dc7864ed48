/* rs_symbols_match.c: adds symbols to a matcher. */
#include "symbols/rs_symbols_match.h"

#include <stdlib.h>

enum { LEAST_BITS = 9, FILTERS = (1 << RS_MATCH_FILTER_BITS) + (1 << RS_MATCH_LONGER_BITS) };

void rs_matcher_clear(rs_matcher *self) {
    free(self->slots);
    free(self->symbols);
    free(self->lengths);
    memset(self, 0, sizeof *self);
}

uint64_t rs_matcher_memory(const rs_matcher *self) {
    return ((sizeof *self->slots + RS_SYMBOLS_COPY / 2) << self->bits) + FILTERS;
}

rs_status rs_matcher_init(rs_matcher *self, unsigned unit_bytes, uint32_t expected, rs_error *err) {
    memset(self, 0, sizeof *self);
    self->unit_bytes = unit_bytes;
    self->bits = LEAST_BITS;
    while ((uint64_t)1 << self->bits < 2 * (uint64_t)expected) self->bits++;
    self->slots = (rs_match_slot *)calloc((size_t)1 << self->bits, sizeof *self->slots);
    self->symbols = (uint8_t *)malloc((size_t)RS_SYMBOLS_COPY << self->bits >> 1);
    self->lengths = (uint8_t *)calloc(1, FILTERS);
    self->longer = self->lengths + (1u << RS_MATCH_FILTER_BITS);
    if (self->slots != NULL && self->symbols != NULL && self->lengths != NULL) return RS_OK;
    rs_matcher_clear(self);
    return rs_no_memory(err);
}

/* Marks the length of a symbol at the hash of its first bytes. A length of one byte needs no mark. */
static void mark(rs_matcher *self, uint64_t hash, unsigned bytes) {
    uint8_t *lengths = &self->lengths[hash >> (64 - RS_MATCH_FILTER_BITS)];
    uint8_t *longer = &self->longer[hash >> (64 - RS_MATCH_LONGER_BITS)];
    if (bytes > 1) *lengths = (uint8_t)(*lengths | (bytes > 8 ? 1u << 7 : 1u << (bytes - 2)));
    if (bytes > 8) *longer = (uint8_t)(*longer | 1u << (bytes - 9));
}

/* Puts the entry of a symbol, which is in `symbols`, into a slot. */
static void put(rs_matcher *self, uint32_t entry) {
    const uint32_t mask = (1u << self->bits) - 1, bytes = rs_match_bytes(entry), first = bytes < 8 ? bytes : 8;
    const uint8_t *symbol = self->symbols + (size_t)(entry >> RS_MATCH_LENGTH_BITS) * RS_SYMBOLS_COPY;
    const uint64_t key = rs_match_key(rs_load_u64(symbol), first), hash = rs_match_hash(key);
    uint64_t whole = bytes <= 8 ? hash : rs_match_hash(hash ^ rs_match_rest(symbol, bytes));
    uint32_t slot = (uint32_t)(whole >> (64 - self->bits));
    for (unsigned i = 0; i < RS_MATCH_PROBES; i++, slot = (slot + 1) & mask) {
        if (self->slots[slot].entry != 0) continue;
        self->slots[slot] = (rs_match_slot){key, entry};
        mark(self, hash, bytes);
        return;
    }
}

/* Doubles the room. */
static rs_status grow(rs_matcher *self, rs_error *err) {
    const size_t n_slots = (size_t)1 << self->bits;
    uint8_t *symbols = (uint8_t *)realloc(self->symbols, n_slots * RS_SYMBOLS_COPY);
    if (symbols != NULL) self->symbols = symbols;
    rs_match_slot *old = self->slots, *slots = (rs_match_slot *)calloc(2 * n_slots, sizeof *slots);
    if (symbols == NULL || slots == NULL) {
        free(slots);
        return rs_no_memory(err);
    }
    self->slots = slots;
    self->bits++;
    for (size_t i = 0; i < n_slots; i++) {
        if (old[i].entry != 0) put(self, old[i].entry);
    }
    free(old);
    return RS_OK;
}

rs_status rs_matcher_add(rs_matcher *self, const uint8_t *units, unsigned n, rs_error *err) {
    if (2 * (uint64_t)self->n >= (uint64_t)1 << self->bits) RS_TRY(grow(self, err));
    uint8_t *copy = self->symbols + (size_t)self->n * RS_SYMBOLS_COPY;
    memset(copy, 0, RS_SYMBOLS_COPY);
    memcpy(copy, units, (size_t)n * self->unit_bytes);
    if (n > 0) put(self, self->n << RS_MATCH_LENGTH_BITS | n * self->unit_bytes);
    self->n++;
    return RS_OK;
}
