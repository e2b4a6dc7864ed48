/* rs_symbols_trie.h: longest match while symbols are still being found, private to the trainer of symbol tables.
 *
 * A trie whose edges lie in one hash table, keyed by node and unit. Most of the time goes into the chain of loads from
 * node to node, so a match jumps over its beginning: a second hash table leads from 4 bytes straight to their node,
 * and where those 4 are not in the trie, plain arrays lead from the first unit, or the first two of one byte each.
 * Every node knows the longest symbol that ends at it or above it, so nothing but the walk is needed: those that are
 * added later are not told to nodes that lie below them already, which only makes a match shorter than it could be. */
#ifndef RS_SYMBOLS_TRIE_H
#define RS_SYMBOLS_TRIE_H

#include "format/rs_symbols.h"

enum { RS_TRIE_BEST_BITS = RS_SYMBOLS_LENGTH_BITS };

typedef struct rs_trie_map { /* owns `slots`; 0 is an empty one */
    uint64_t *slots;
    unsigned shift; /* 64 less the logarithm of the slots */
    uint32_t used;
} rs_trie_map;

/* Owning. Zero it, then rs_trie_init, rs_trie_clear in the end. Node 0 is the root. */
typedef struct rs_trie {
    rs_trie_map edges;  /* node (24 bits), unit (16 bits), child (24 bits) */
    rs_trie_map jumps;  /* 4 bytes, node */
    uint32_t *first;    /* node of a first unit: by byte, or by unit of two bytes */
    uint32_t *pairs;    /* node of two first units of one byte; NULL for two */
    uint32_t *best;     /* of each node: number + 1 of its longest symbol, and the units of that; 0: none */
    uint32_t n_nodes, capacity;
    unsigned unit_bytes;
} rs_trie;

RS_NODISCARD rs_status rs_trie_init(rs_trie *self, unsigned unit_bytes, rs_error *err);
void rs_trie_clear(rs_trie *self);
/* Puts a symbol of n units in. RS_E_MEM. */
RS_NODISCARD rs_status rs_trie_add(rs_trie *self, const uint8_t *units, unsigned n, uint32_t number, rs_error *err);

static inline uint32_t rs_trie_unit(const uint8_t *units, uint64_t i, unsigned unit_bytes) {
    return unit_bytes == 1 ? units[i] : rs_load_u16(units + 2 * i);
}

static inline uint64_t rs_trie_slot(const rs_trie_map *map, uint64_t key) {
    return key * UINT64_C(0x9E3779B97F4A7C15) >> map->shift;
}

/* The child of a node, 0 where there is none. */
static inline uint32_t rs_trie_child(const rs_trie *self, uint32_t node, uint32_t unit) {
    uint64_t key = (uint64_t)node << 16 | unit, mask = UINT64_MAX >> self->edges.shift, slot;
    for (slot = rs_trie_slot(&self->edges, key);; slot = (slot + 1) & mask) {
        uint64_t found = self->edges.slots[slot];
        if (found >> 24 == key) return (uint32_t)found & 0xFFFFFF;
        if (found == 0) return 0;
    }
}

static inline uint32_t rs_trie_jump(const rs_trie *self, uint32_t key) {
    uint64_t mask = UINT64_MAX >> self->jumps.shift, slot;
    for (slot = rs_trie_slot(&self->jumps, key);; slot = (slot + 1) & mask) {
        uint64_t found = self->jumps.slots[slot];
        if (found >> 32 == key) return (uint32_t)found;
        if (found == 0) return 0;
    }
}

/* The longest symbol that n > 0 units begin with, as `best` says. unit_bytes is the trie's. */
static inline uint32_t rs_trie_match(const rs_trie *self, const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    uint32_t node = 0;
    uint64_t i = 4 / unit_bytes;
    if (RS_LIKELY(n >= i)) node = rs_trie_jump(self, rs_load_u32(units));
    if (node == 0) {
        i = 1;
        if (unit_bytes == 1 && n >= 2) {
            node = self->pairs[rs_load_u16(units)];
            i = 2;
        }
        if (node == 0) {
            i = 1;
            node = self->first[rs_trie_unit(units, 0, unit_bytes)];
            if (node == 0 || unit_bytes == 1) return self->best[node];
        }
    }
    for (; i < n; i++) {
        uint32_t child = rs_trie_child(self, node, rs_trie_unit(units, i, unit_bytes));
        if (child == 0) break;
        node = child;
    }
    return self->best[node];
}

#endif
