/* rs_symbols_trie.c: builds the trie that finds symbols in the first pass of training. */
#include "symbols/rs_symbols_trie.h"

#include <stdlib.h>

enum { FIRST_BITS = 10, FIRST_NODES = 1024 };

static rs_status map_init(rs_trie_map *map, unsigned bits, rs_error *err) {
    map->slots = (uint64_t *)calloc((size_t)1 << bits, sizeof *map->slots);
    if (map->slots == NULL) return rs_no_memory(err);
    map->shift = 64 - bits;
    map->used = 0;
    return RS_OK;
}

/* Adds an entry with a new key. */
static void map_put(rs_trie_map *map, uint64_t key, uint64_t entry) {
    uint64_t mask = UINT64_MAX >> map->shift, slot = rs_trie_slot(map, key);
    while (map->slots[slot] != 0) slot = (slot + 1) & mask;
    map->slots[slot] = entry;
    map->used++;
}

/* Makes room for one more entry: doubles the table if it is half full. */
static rs_status map_reserve(rs_trie_map *map, unsigned value_bits, rs_error *err) {
    rs_trie_map wider;
    uint64_t n = (uint64_t)1 << (64 - map->shift);
    if (map->used < n / 2) return RS_OK;
    RS_TRY(map_init(&wider, 64 - map->shift + 1, err));
    for (uint64_t i = 0; i < n; i++) {
        if (map->slots[i] != 0) map_put(&wider, map->slots[i] >> value_bits, map->slots[i]);
    }
    free(map->slots);
    *map = wider;
    return RS_OK;
}

void rs_trie_clear(rs_trie *self) {
    free(self->edges.slots);
    free(self->jumps.slots);
    free(self->first);
    free(self->pairs);
    free(self->best);
    memset(self, 0, sizeof *self);
}

rs_status rs_trie_init(rs_trie *self, unsigned unit_bytes, rs_error *err) {
    memset(self, 0, sizeof *self);
    self->unit_bytes = unit_bytes;
    self->first = (uint32_t *)calloc(unit_bytes == 1 ? 256 : 65536, sizeof *self->first);
    self->best = (uint32_t *)calloc(FIRST_NODES, sizeof *self->best);
    if (unit_bytes == 1) self->pairs = (uint32_t *)calloc(65536, sizeof *self->pairs);
    self->n_nodes = 1;
    self->capacity = FIRST_NODES;
    if (self->first == NULL || self->best == NULL || (unit_bytes == 1 && self->pairs == NULL) ||
        map_init(&self->edges, FIRST_BITS, err) != RS_OK || map_init(&self->jumps, FIRST_BITS, err) != RS_OK) {
        rs_trie_clear(self);
        return rs_no_memory(err);
    }
    return RS_OK;
}

/* Makes a node below `parent`, with the longest symbol of its parent for now. */
static rs_status new_node(rs_trie *self, uint32_t parent, uint32_t *out, rs_error *err) {
    if (self->n_nodes == self->capacity) {
        uint32_t capacity = 2 * self->capacity;
        uint32_t *grown = (uint32_t *)realloc(self->best, capacity * sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        self->best = grown;
        self->capacity = capacity;
    }
    self->best[self->n_nodes] = self->best[parent];
    *out = self->n_nodes++;
    return RS_OK;
}

/* Sets *out to the child of `node` along unit i of a symbol, and makes the child if it is missing. */
static rs_status descend(rs_trie *self, const uint8_t *units, unsigned i, uint32_t node, uint32_t *out, rs_error *err) {
    uint32_t unit = rs_trie_unit(units, i, self->unit_bytes);
    uint64_t key = (uint64_t)node << 16 | unit;
    uint32_t *direct = i == 0 ? &self->first[unit] : NULL;
    if (i == 1 && self->unit_bytes == 1) direct = &self->pairs[rs_load_u16(units)];
    *out = direct != NULL ? *direct : rs_trie_child(self, node, unit);
    if (*out != 0) return RS_OK;
    RS_TRY(map_reserve(&self->edges, 24, err));
    RS_TRY(map_reserve(&self->jumps, 32, err));
    RS_TRY(new_node(self, node, out, err));
    if (direct != NULL) {
        *direct = *out;
    } else {
        map_put(&self->edges, key, key << 24 | *out);
    }
    if ((i + 1) * self->unit_bytes == 4) {
        uint32_t head = rs_load_u32(units);
        map_put(&self->jumps, head, (uint64_t)head << 32 | *out);
    }
    return RS_OK;
}

rs_status rs_trie_add(rs_trie *self, const uint8_t *units, unsigned n, uint32_t number, rs_error *err) {
    uint32_t at = 0;
    for (unsigned i = 0; i < n; i++) RS_TRY(descend(self, units, i, at, &at, err));
    self->best[at] = (number + 1) << RS_TRIE_BEST_BITS | n;
    return RS_OK;
}
