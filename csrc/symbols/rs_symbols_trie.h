/* rs_symbols_trie.h: finds the longest symbol at the beginning of a text while symbols are still being added. Private
 * to the trainer of symbol tables.
 *
 * It is a trie. Plain arrays lead from the first unit, and from the first two units of one byte, to their node. All
 * other edges are in one hash table, keyed by node and unit. Most of the time of a match goes to the chain of loads
 * from node to node, so a match skips the first nodes: a second hash table leads from 4 bytes straight to their node. A
 * match uses the arrays only if that table gives no node. Every node keeps the longest symbol at or above it, so the
 * walk need not look back. A node does not learn of symbols that are added above it later, so a match may be shorter
 * than possible. */
#pragma once

#include "format/rs_symbols.h"

enum { RS_TRIE_BEST_BITS = RS_SYMBOLS_LENGTH_BITS };

/* A hash table. Owns `slots`. */
typedef struct rs_trie_map {
    uint64_t *slots; /* 0 when empty */
    unsigned shift;  /* 64 minus the binary logarithm of the number of slots */
    uint32_t used;   /* number of used slots */
} rs_trie_map;

/* Owns its arrays. Call rs_trie_init, and rs_trie_clear at the end. Node 0 is the root. One thread at a time. */
typedef struct rs_trie {
    rs_trie_map edges; /* slots of node (24 bits), unit (16 bits) and child (24 bits) */
    rs_trie_map jumps; /* slots of the first 4 bytes and their node */
    uint32_t *first;   /* the node of each first unit, or 0 */
    uint32_t *pairs;   /* the node of each pair of first one-byte units; NULL for units of two bytes */
    uint32_t *best;    /* the longest symbol at or above each node: its number + 1 and number of units; or 0 */
    uint32_t n_nodes, capacity;
    unsigned unit_bytes;
} rs_trie;

/* Makes an empty trie for units of 1 or 2 bytes. After RS_E_MEM `self` owns nothing. */
RS_NODISCARD rs_status rs_trie_init(rs_trie *self, unsigned unit_bytes, rs_error *err);
/* Frees the arrays and zeroes the struct. */
void rs_trie_clear(rs_trie *self);
/* Adds symbol number `number`, which has n units. RS_E_MEM. */
RS_NODISCARD rs_status rs_trie_add(rs_trie *self, const uint8_t *units, unsigned n, uint32_t number, rs_error *err);

static inline uint32_t rs_trie_unit(const uint8_t *units, uint64_t i, unsigned unit_bytes) {
    return unit_bytes == 1 ? units[i] : rs_load_u16(units + 2 * i);
}

static inline uint64_t rs_trie_slot(const rs_trie_map *map, uint64_t key) {
    return key * UINT64_C(0x9E3779B97F4A7C15) >> map->shift;
}

/* Returns the child of a node along a unit, or 0. */
static inline uint32_t rs_trie_child(const rs_trie *self, uint32_t node, uint32_t unit) {
    uint64_t key = (uint64_t)node << 16 | unit, mask = UINT64_MAX >> self->edges.shift;
    for (uint64_t slot = rs_trie_slot(&self->edges, key);; slot = (slot + 1) & mask) {
        uint64_t found = self->edges.slots[slot];
        if (found >> 24 == key) return (uint32_t)found & 0xFFFFFF;
        if (found == 0) return 0;
    }
}

/* Returns the node of the first 4 bytes, or 0. */
static inline uint32_t rs_trie_jump(const rs_trie *self, uint32_t key) {
    uint64_t mask = UINT64_MAX >> self->jumps.shift;
    for (uint64_t slot = rs_trie_slot(&self->jumps, key);; slot = (slot + 1) & mask) {
        uint64_t found = self->jumps.slots[slot];
        if (found >> 32 == key) return (uint32_t)found;
        if (found == 0) return 0;
    }
}

/* Returns the longest symbol at the beginning of n units, n at least 1, in the form of `best`. unit_bytes is the
 * trie's. */
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
