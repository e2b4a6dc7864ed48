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
    uint32_t number;      /* in rs_alternative.key_sets */
} slot;

static slot *slot_of(slot *slots, uint32_t n_slots, uint64_t hash) {
    uint32_t at = (uint32_t)(hash ^ hash >> 32) & (n_slots - 1);
    while (slots[at].alternative != 0 && slots[at].hash != hash) at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static rs_status index_key_set(rs_stats *self, rs_position *at, uint64_t hash, uint32_t alternative, uint32_t number,
                               rs_error *err) {
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
    found->number = number;
    at->used_slots++;
    return RS_OK;
}

rs_alternative *rs_stats_find_struct(rs_position *at, uint64_t hash) {
    if (at->n_slots == 0) return NULL;
    rs_alternative *a = &at->alternatives[at->last];
    if (a->n_key_sets > 0 && a->key_sets[a->last_key_set].hash == hash) return a;
    const slot *found = slot_of(at->slots, at->n_slots, hash);
    if (found->alternative == 0) return NULL;
    at->last = found->alternative - 1;
    a = &at->alternatives[at->last];
    a->last_key_set = found->number;
    return a;
}

/* ---- Joining structs ---- */

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

/* Merges n keys of a dict with the keys of `a`, so that both keep their order. children[i] becomes the index of key i
 * in the merged order, *common the number of keys in both, *merged the number of all keys. Returns false when the
 * orders disagree. */
static bool merge_order(const rs_alternative *a, const rs_slice *keys, uint32_t n, uint32_t *children, uint32_t *common,
                        uint32_t *merged) {
    uint32_t at = 0, k, fresh = 0;
    *common = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (k = at; k < a->n_children && !rs_slice_equal(a->keys[k], keys[i]); k++) continue;
        if (k < a->n_children) {
            children[i] = k + fresh;
            at = k + 1;
            ++*common;
            continue;
        }
        for (k = 0; k < at; k++) {
            if (rs_slice_equal(a->keys[k], keys[i])) return false;
        }
        children[i] = at + fresh;
        fresh++;
    }
    *merged = a->n_children + fresh;
    return true;
}

static rs_status add_key_set(rs_stats *self, rs_position *at, rs_alternative *a, uint64_t hash, uint32_t n,
                             uint32_t *children, rs_error *err) {
    if (a->n_key_sets == a->key_sets_capacity) {
        uint32_t capacity = a->key_sets_capacity == 0 ? 1 : a->key_sets_capacity * 2;
        rs_key_set *grown =
            (rs_key_set *)rs_arena_grow(&self->arena, a->key_sets, a->n_key_sets, capacity, sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        a->key_sets = grown;
        a->key_sets_capacity = capacity;
    }
    a->last_key_set = a->n_key_sets;
    a->key_sets[a->n_key_sets].hash = hash;
    a->key_sets[a->n_key_sets].n = n;
    a->key_sets[a->n_key_sets].children = children;
    a->n_key_sets++;
    self->n_key_sets++;
    return index_key_set(self, at, hash, (uint32_t)(a - at->alternatives), a->last_key_set, err);
}

static uint64_t position_id_of_key(const rs_alternative *a, const rs_slice *key) {
    return rs_schema_hash_key(a->position_id, key->ptr, rs_slice_left(key));
}

/* Inserts the new keys into `a`. children[i] is the index of key i in the merged order of `merged` keys. */
static rs_status spread_children(rs_stats *self, rs_alternative *a, const rs_slice *keys, uint32_t n,
                                 const uint32_t *children, uint32_t merged, rs_error *err) {
    rs_position *positions = (rs_position *)rs_arena_take(&self->arena, merged * sizeof *positions);
    rs_slice *names = (rs_slice *)rs_arena_take(&self->arena, merged * sizeof *names);
    uint32_t *moved = (uint32_t *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *moved);
    uint32_t old = 0, next = 0;
    if (positions == NULL || names == NULL || moved == NULL) return rs_no_memory(err);
    for (uint32_t k = 0; k < merged; k++) {
        while (next < n && children[next] < k) next++;
        if (next < n && children[next] == k && !(old < a->n_children && rs_slice_equal(a->keys[old], keys[next]))) {
            names[k] = keys[next];
            positions[k].position_id = position_id_of_key(a, &keys[next]);
            positions[k].in_row = true;
            continue;
        }
        names[k] = a->keys[old];
        positions[k] = a->children[old];
        moved[old++] = k;
    }
    for (uint32_t i = 0; i < a->n_key_sets; i++) {
        for (uint32_t k = 0; k < a->key_sets[i].n; k++) a->key_sets[i].children[k] = moved[a->key_sets[i].children[k]];
    }
    a->keys = names;
    a->children = positions;
    a->n_children = merged;
    return RS_OK;
}

rs_status rs_stats_join_struct(rs_stats *self, rs_position *at, const rs_stats_head *h, rs_alternative **out,
                               rs_error *err) {
    uint32_t n = h->n_children, *children = NULL;
    *out = NULL;
    if (!rs_choices_allow(self->choices, RS_FMT_NODE_OPTIONAL)) return RS_OK;
    if (n == 0 || n > MAX_MERGED || at->closed || self->n_key_sets >= RS_STATS_KEY_SETS ||
        self->n_compared >= MAX_COMPARED) {
        return RS_OK;
    }
    rs_slice *keys = (rs_slice *)malloc(n * sizeof *keys);
    if (keys == NULL) return rs_no_memory(err);
    read_keys(h->body, n, keys);
    if (!plain_keys(keys, n)) n = 0;
    for (uint32_t i = 0; n > 0 && i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        uint32_t common, merged, smaller = n < a->n_children ? n : a->n_children;
        if (a->kind != RS_FMT_NODE_STRUCT || a->n_children == 0 || !a->plain_keys) continue;
        self->n_compared += (uint64_t)n * a->n_children;
        if (children == NULL) children = (uint32_t *)rs_arena_take(&self->arena, n * sizeof *children);
        if (children == NULL) {
            free(keys);
            return rs_no_memory(err);
        }
        if (!merge_order(a, keys, n, children, &common, &merged) || common * 2 < smaller || merged > MAX_MERGED ||
            self->n_nodes + (merged - a->n_children) * 2 + 4 > RS_FMT_TREE_NODES) {
            continue;
        }
        if (merged > a->n_children) {
            rs_status status = spread_children(self, a, keys, n, children, merged, err);
            if (status != RS_OK) {
                free(keys);
                return status;
            }
        }
        free(keys);
        at->last = i;
        *out = a;
        return add_key_set(self, at, a, h->key_set_hash, n, children, err);
    }
    free(keys);
    return RS_OK;
}

rs_status rs_stats_begin_struct(rs_stats *self, rs_position *at, rs_alternative *a, const rs_stats_head *h,
                                rs_error *err) {
    uint32_t *children = (uint32_t *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *children);
    a->keys = (rs_slice *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *a->keys);
    if (a->keys == NULL || children == NULL) return rs_no_memory(err);
    read_keys(h->body, a->n_children, a->keys);
    a->plain_keys = plain_keys(a->keys, a->n_children);
    for (uint32_t i = 0; i < a->n_children; i++) {
        children[i] = i;
        a->children[i].position_id = position_id_of_key(a, &a->keys[i]);
    }
    return add_key_set(self, at, a, h->key_set_hash, a->n_children, children, err);
}
