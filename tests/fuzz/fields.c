/* fields.c: chooses fields that trees of a store have, and compiles their paths as the Python binding does. */
#include "readers.h"

/* Returns whether an any value is a str of 1-byte units, and sets its units if so. */
static bool is_text(rs_slice value, const uint8_t **units, uint64_t *n) {
    if (value.ptr == value.end || *value.ptr++ != RS_FMT_TAG_STR1 || !rs_take_varint(&value, n)) return false;
    return rs_take(&value, *n, units);
}

/* Reads the any value of a key from the aux of a struct in a compiled tree. */
static rs_slice take_key(rs_slice *aux) {
    rs_budget budget = {.values = RS_FMT_TREE_BYTES, .bytes = RS_FMT_TREE_BYTES, .depth = RS_FMT_DEPTH};
    rs_slice key = *aux;
    FUZZ_MUST(rs_any_skip(aux, 0, &budget, NULL) == RS_OK);
    key.end = aux->ptr;
    return key;
}

static bool has_key(const fuzz_fields *self, const uint8_t *units, uint64_t n) {
    for (uint32_t i = 0; i < self->n_keys; i++) {
        if (self->keys[i].n == n && memcmp(self->keys[i].units, units, (size_t)n) == 0) return true;
    }
    return false;
}

/* Adds the keys of a tree's structs. The units belong to the tree, which lives as long as the store. */
static void add_keys(fuzz_fields *self, const rs_tree *tree) {
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
        if (node->kind != RS_FMT_NODE_STRUCT) continue;
        for (uint32_t k = 0; k < node->n_children && self->n_keys + 2 < FUZZ_FIELD_KEYS; k++) {
            rs_path_key *key = &self->keys[self->n_keys];
            const uint8_t *units = NULL;
            uint64_t n = 0;
            if (!is_text(take_key(&aux), &units, &n) || has_key(self, units, n)) continue;
            key->units = units, key->n = n, key->unit_bytes = 1;
            self->n_keys++;
        }
    }
}

/* Field 0 is the whole record; the others are paths of one or two keys, some in parts. */
static void choose_paths(fuzz_fields *self) {
    self->n = 1;
    for (uint32_t f = 1; f < FUZZ_FIELDS; f++) {
        rs_path_name *names = &self->names[2 * f];
        rs_key_path *path = &self->paths[f];
        path->keys = self->keys, path->n_keys = self->n_keys;
        path->names = names, path->n_names = 1 + (f > FUZZ_FIELDS / 2);
        names[0].whole = (uint32_t)fuzz_below(&self->seed, self->n_keys);
        names[1].whole = (uint32_t)fuzz_below(&self->seed, self->n_keys);
        if (f % 2 == 0) names[0].parts = names[0].whole, names[0].n_parts = names[0].whole + 1 < self->n_keys ? 2 : 1;
        self->n++;
    }
    self->paths[0].keys = self->keys, self->paths[0].names = self->names, self->paths[0].n_keys = self->n_keys;
}

void fuzz_fields_open(fuzz_fields *self, rs_store *store, uint64_t seed) {
    static const uint8_t none[] = "no such key", zero[] = "0";
    memset(self, 0, sizeof *self);
    self->store = store;
    self->seed = seed;
    self->trees = (fuzz_tree_fields *)calloc((size_t)store->n_trees + 1, sizeof *self->trees);
    self->source.store = store;
    self->source.of_block = (const rs_tree_paths **)calloc((size_t)store->n_blocks + 1, sizeof(void *));
    FUZZ_MUST(self->trees != NULL && self->source.of_block != NULL);
    for (uint64_t i = 0; i < store->n_trees; i++) {
        if (rs_store_load_tree(store, (uint32_t)i, NULL) == RS_OK) add_keys(self, &store->trees[i]);
    }
    self->keys[self->n_keys].units = zero, self->keys[self->n_keys].n = 1, self->keys[self->n_keys].unit_bytes = 1;
    self->keys[self->n_keys].is_index = true;
    self->keys[self->n_keys++].index = (int64_t)fuzz_below(&self->seed, 5) - 2;
    self->keys[self->n_keys].units = none, self->keys[self->n_keys].n = 11, self->keys[self->n_keys++].unit_bytes = 1;
    choose_paths(self);
}

void fuzz_fields_close(fuzz_fields *self) {
    for (uint64_t i = 0; i < self->store->n_trees; i++) {
        for (uint32_t f = 0; f < self->n; f++) rs_compiled_path_clear(&self->trees[i].compiled[f]);
    }
    free(self->trees);
    free(self->source.of_block);
}

/* Returns the step of a key at a struct: the number of the child with this key, or RS_STEP_NONE. */
static int32_t step_at(const rs_node *node, const rs_path_key *key) {
    rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
    for (uint32_t k = 0; k < node->n_children; k++) {
        const uint8_t *units = NULL;
        uint64_t n = 0;
        if (is_text(take_key(&aux), &units, &n) && n == key->n && memcmp(units, key->units, (size_t)n) == 0) {
            return (int32_t)k;
        }
    }
    return RS_STEP_NONE;
}

static void set_steps(rs_compiled_path *path, const fuzz_fields *self) {
    for (size_t t = 0; t < path->n_trees; t++) {
        const rs_tree *tree = path->trees[t].tree;
        for (uint32_t i = 0; i < tree->n_nodes; i++) {
            for (uint32_t k = 0; k < self->n_keys; k++) {
                const rs_node *node = &tree->nodes[i];
                if (node->kind == RS_FMT_NODE_STRUCT) {
                    rs_compiled_path_set(path, t, k, i, step_at(node, &self->keys[k]));
                } else if (node->kind == RS_FMT_NODE_EXT) {
                    /* The binding chooses a step by code and EXTRA. Any step must be safe. */
                    rs_compiled_path_set(path, t, k, i, (int32_t)((i + k) % 6) + RS_STEP_OPEN);
                }
            }
        }
    }
}

rs_status fuzz_fields_know(fuzz_fields *self, uint64_t block) {
    RS_TRY(rs_store_load_block(self->store, block, NULL));
    const rs_tree *tree = &self->store->trees[self->store->blocks[block].tree];
    fuzz_tree_fields *t = &self->trees[self->store->blocks[block].tree];
    for (uint32_t f = 0; !t->known && f < self->n; f++) {
        RS_TRY(rs_compiled_path_open(&t->compiled[f], &self->paths[f], tree, NULL));
        set_steps(&t->compiled[f], self);
        rs_compiled_path_prepare(&t->compiled[f]);
        t->of_field[f] = &t->compiled[f];
    }
    if (!t->known) rs_tree_paths_set(&t->paths, t->of_field, t->order, self->n);
    t->known = true;
    self->source.of_block[block] = &t->paths;
    return RS_OK;
}
