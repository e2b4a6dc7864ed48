/* rs_stats_structs.c: joins dicts to structs, which may hold dicts of several key sets in one common order. */
#include "plan/rs_stats_structs.h"

#include <stdlib.h>

enum {
    MAX_MERGED = 512,       /* the most keys of a struct that dicts of several key sets share */
    MAX_COMPARED = 1 << 25, /* keys compared for merging, which bounds the time when all key sets differ */
};

/* ---- Key sets of a position: a hash table with linear probing, at most half full ---- */

typedef struct rs_key_set_slot {
    uint64_t hash;
    uint32_t alternative; /* plus 1; 0 when the slot is empty */
} slot;

static slot *slot_of(slot *slots, uint32_t n_slots, uint64_t hash) {
    uint32_t at = (uint32_t)(hash ^ hash >> 32) & (n_slots - 1);
    while (slots[at].alternative != 0 && slots[at].hash != hash) at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static rs_status index_key_set(rs_stats *self, rs_position *at, uint64_t hash, uint32_t alternative, rs_error *err) {
    if (at->used_slots * 2 >= at->n_slots) {
        uint32_t n = at->n_slots == 0 ? 4 : at->n_slots * 2;
        slot *slots = (slot *)rs_arena_take(&self->arena, n * sizeof *slots);
        if (slots == NULL) return rs_no_memory(err);
        for (uint32_t i = 0; i < at->n_slots; i++) {
            if (at->slots[i].alternative != 0) *slot_of(slots, n, at->slots[i].hash) = at->slots[i];
        }
        at->slots = slots;
        at->n_slots = n;
    }
    slot *found = slot_of(at->slots, at->n_slots, hash);
    found->hash = hash;
    found->alternative = alternative + 1;
    at->used_slots++;
    return RS_OK;
}

rs_alternative *rs_stats_find_struct(rs_position *at, uint64_t hash) {
    if (at->n_slots == 0) return NULL;
    rs_alternative *a = &at->alternatives[at->last];
    if (a->n_key_sets > 0 && a->last_key_set == hash) return a;
    const slot *found = slot_of(at->slots, at->n_slots, hash);
    if (found->alternative == 0) return NULL;
    at->last = found->alternative - 1;
    a = &at->alternatives[at->last];
    a->last_key_set = hash;
    return a;
}

/* ---- Keys ---- */

/* Lists the n keys of a dict. */
static void read_keys(rs_slice in, uint32_t n, rs_slice *keys) {
    size_t dicts = 0;
    for (uint32_t i = 0; i < n; i++) {
        keys[i].ptr = in.ptr;
        in.ptr = rs_scan_end_unchecked(in, &dicts);
        keys[i].end = in.ptr;
        in.ptr = rs_scan_end_unchecked(in, &dicts);
    }
}

/* Returns whether all keys are plain: only such keys are sure to differ in Python if their bytes differ, as the keys of
 * a struct of several key sets must. */
static bool plain_keys(const rs_slice *keys, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!rs_tag_is_plain_key(*keys[i].ptr)) return false;
    }
    return true;
}

/* ---- The order of the keys of a struct ---- */

/* The keys that directly precede a key in some dict. Keys are numbered in the order of their arrival. */
typedef struct rs_key_order {
    uint32_t number;
    uint64_t before[MAX_MERGED / 64];
} key_order;

static bool has_bit(const uint64_t *bits, uint32_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }
static void flip_bit(uint64_t *bits, uint32_t i) { bits[i / 64] ^= UINT64_C(1) << i % 64; }

static bool all_placed(const key_order *key, const uint64_t *placed) {
    for (uint32_t i = 0; i < MAX_MERGED / 64; i++) {
        if ((key->before[i] & ~placed[i]) != 0) return false;
    }
    return true;
}

/* Sorts n keys so that each stands after the keys before it, and keeps their order otherwise: from[i] becomes the index
 * of the key at i (Kahn's algorithm). Returns false if no order suits all dicts. */
static bool sort_keys(rs_stats *self, const key_order *order, uint32_t n, uint32_t *from) {
    uint64_t placed[MAX_MERGED / 64] = {0};
    uint32_t first = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = first;
        while (k < n && (has_bit(placed, order[k].number) || !all_placed(&order[k], placed))) k++;
        self->n_compared += k - first + 1;
        if (k == n) return false;
        from[i] = k;
        flip_bit(placed, order[k].number);
        while (first < n && has_bit(placed, order[first].number)) first++;
    }
    return true;
}

/* Notes that the keys `children` follow each other, and finds an order for n keys. Returns false, with nothing noted,
 * if there is none. */
static bool add_order(rs_stats *self, key_order *order, uint32_t n, const uint32_t *children, uint32_t n_keys,
                      bool in_order, uint32_t *from) {
    uint64_t added[MAX_MERGED / 64] = {0};
    for (uint32_t i = 1; i < n_keys; i++) {
        if (has_bit(order[children[i]].before, order[children[i - 1]].number)) continue;
        flip_bit(order[children[i]].before, order[children[i - 1]].number);
        flip_bit(added, i);
    }
    if (in_order || sort_keys(self, order, n, from)) return true;
    for (uint32_t i = 1; i < n_keys; i++) {
        if (has_bit(added, i)) flip_bit(order[children[i]].before, order[children[i - 1]].number);
    }
    return false;
}

/* Appends keys to `a` without counting them, as children of the numbers a->n_children and following. */
static rs_status append_keys(rs_stats *self, rs_alternative *a, const rs_slice *keys, uint32_t n,
                             const uint32_t *children, rs_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = children[i], capacity = k * 2;
        if (k < a->n_children) continue;
        if (k >= a->keys_capacity) {
            a->keys = (rs_slice *)rs_arena_grow(&self->arena, a->keys, k, capacity, sizeof *a->keys);
            a->children = (rs_position *)rs_arena_grow(&self->arena, a->children, k, capacity, sizeof *a->children);
            a->order = (key_order *)rs_arena_grow(&self->arena, a->order, k, capacity, sizeof *a->order);
            if (a->keys == NULL || a->children == NULL || a->order == NULL) return rs_no_memory(err);
            a->keys_capacity = capacity;
        }
        a->keys[k] = keys[i];
        memset(&a->order[k], 0, sizeof *a->order);
        a->order[k].number = k;
        a->children[k].position_id = rs_schema_hash_key(a->position_id, keys[i].ptr, rs_slice_left(&keys[i]));
        a->children[k].in_row = true;
    }
    return RS_OK;
}

/* Puts the key at from[i], its child and its order at i. */
static rs_status move_keys(rs_alternative *a, const uint32_t *from, uint32_t n, rs_error *err) {
    rs_alternative old = *a;
    old.keys = (rs_slice *)malloc(n * (sizeof *a->keys + sizeof *a->children + sizeof *a->order));
    if (old.keys == NULL) return rs_no_memory(err);
    old.children = (rs_position *)(old.keys + n);
    old.order = (key_order *)(old.children + n);
    memcpy(old.keys, a->keys, n * sizeof *a->keys);
    memcpy(old.children, a->children, n * sizeof *a->children);
    memcpy(old.order, a->order, n * sizeof *a->order);
    for (uint32_t i = 0; i < n; i++) {
        a->keys[i] = old.keys[from[i]];
        a->children[i] = old.children[from[i]];
        a->order[i] = old.order[from[i]];
    }
    a->n_children = n;
    free(old.keys);
    return RS_OK;
}

/* ---- Joining structs ---- */

static rs_status add_key_set(rs_stats *self, rs_position *at, rs_alternative *a, uint64_t hash, rs_error *err) {
    if (a->n_key_sets == a->key_sets_capacity) {
        uint32_t capacity = a->key_sets_capacity == 0 ? 1 : a->key_sets_capacity * 2;
        uint64_t *grown = (uint64_t *)rs_arena_grow(&self->arena, a->key_sets, a->n_key_sets, capacity, sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        a->key_sets = grown;
        a->key_sets_capacity = capacity;
    }
    a->last_key_set = a->key_sets[a->n_key_sets++] = hash;
    self->n_key_sets++;
    return index_key_set(self, at, hash, (uint32_t)(a - at->alternatives), err);
}

/* Finds the n keys of a dict among those of `a`: children[i] becomes the index of key i, or a->n_children and following
 * for new keys, whose number it returns. Sets *in_order if none is new and all have the order of `a`. */
static uint32_t find_keys(rs_stats *self, const rs_alternative *a, const rs_slice *keys, uint32_t n, uint32_t *children,
                          bool *in_order) {
    uint32_t fresh = 0, at = 0;
    *in_order = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = at, left = a->n_children;
        for (; left > 0; left--, k++) {
            if (k == a->n_children) k = 0;
            if (rs_slice_equal(a->keys[k], keys[i])) break;
        }
        self->n_compared += a->n_children - left + 1;
        *in_order &= left > 0 && k >= at;
        children[i] = left > 0 ? k : a->n_children + fresh++;
        if (left > 0) at = k + 1;
    }
    return fresh;
}

rs_status rs_stats_join_struct(rs_stats *self, rs_position *at, const rs_stats_head *h, rs_alternative **out,
                               rs_error *err) {
    const uint32_t n = h->n_children;
    rs_slice keys[MAX_MERGED];
    uint32_t children[MAX_MERGED], from[MAX_MERGED];
    *out = NULL;
    if (!rs_choices_allow(self->choices, RS_FMT_NODE_OPTIONAL)) return RS_OK;
    if (n == 0 || n > MAX_MERGED || at->closed || self->n_key_sets >= RS_STATS_KEY_SETS) return RS_OK;
    read_keys(h->body, n, keys);
    if (!plain_keys(keys, n)) return RS_OK;
    for (uint32_t i = 0; i < at->n && self->n_compared < MAX_COMPARED; i++) {
        rs_alternative *a = &at->alternatives[i];
        bool in_order;
        if (a->order == NULL) continue;
        const uint32_t fresh = find_keys(self, a, keys, n, children, &in_order), merged = a->n_children + fresh;
        if ((n - fresh) * 2 < (n < a->n_children ? n : a->n_children) || merged > MAX_MERGED ||
            self->n_nodes + fresh * 2 + 4 > RS_FMT_TREE_NODES) {
            continue;
        }
        RS_TRY(append_keys(self, a, keys, n, children, err));
        if (!add_order(self, a->order, merged, children, n, in_order, from)) continue;
        if (!in_order) RS_TRY(move_keys(a, from, merged, err));
        at->last = i;
        *out = a;
        return add_key_set(self, at, a, h->key_set_hash, err);
    }
    return RS_OK;
}

rs_status rs_stats_begin_struct(rs_stats *self, rs_position *at, rs_alternative *a, const rs_stats_head *h,
                                rs_error *err) {
    const uint32_t n = a->n_children;
    a->keys = (rs_slice *)rs_arena_take(&self->arena, (n + 1) * sizeof *a->keys);
    if (a->keys == NULL) return rs_no_memory(err);
    read_keys(h->body, n, a->keys);
    for (uint32_t i = 0; i < n; i++) {
        a->children[i].position_id = rs_schema_hash_key(a->position_id, a->keys[i].ptr, rs_slice_left(&a->keys[i]));
    }
    if (n > 0 && n <= MAX_MERGED && plain_keys(a->keys, n)) {
        a->order = (key_order *)rs_arena_take(&self->arena, n * sizeof *a->order);
        if (a->order == NULL) return rs_no_memory(err);
        a->keys_capacity = n;
        for (uint32_t i = 0; i < n; i++) {
            a->order[i].number = i;
            if (i > 0) flip_bit(a->order[i].before, i - 1);
        }
    }
    return add_key_set(self, at, a, h->key_set_hash, err);
}
