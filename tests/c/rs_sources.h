/* rs_sources.h: a store with a source over it. Loading a block compiles the paths of its tree, as the binding does. */
#pragma once

#include "rs_built.h"
#include "columns/rs_window.h"

enum { SOURCES_KEYS = 16, SOURCES_TREES = 64 };

typedef struct sources_tree {
    rs_compiled_path compiled[SOURCES_KEYS];
    const rs_compiled_path *of_field[SOURCES_KEYS];
    uint32_t order[SOURCES_KEYS];
    rs_tree_paths paths;
} sources_tree;

/* Owns everything but the bytes of the store. */
typedef struct sources {
    rs_store store;
    rs_source source;
    uint32_t n;
    rs_path_key keys[SOURCES_KEYS];
    rs_path_name names[SOURCES_KEYS];
    rs_key_path paths[SOURCES_KEYS];
    sources_tree trees[SOURCES_TREES];
    const rs_tree_paths *by_block[SOURCES_TREES];
} sources;

/* Opens a store for the fields with these keys. */
static inline rs_status sources_open(sources *s, rs_slice bytes, const char *const *keys, uint32_t n, rs_error *err) {
    memset(s, 0, sizeof *s);
    RS_TRY(rs_store_open(&s->store, bytes, NULL, err));
    if (s->store.n_blocks > SOURCES_TREES || s->store.n_trees > SOURCES_TREES || n > SOURCES_KEYS) {
        rs_store_close(&s->store);
        return RS_E_FMT_BLOCK;
    }
    s->n = n;
    for (uint32_t f = 0; f < n; f++) {
        s->keys[f].units = (const uint8_t *)keys[f], s->keys[f].n = strlen(keys[f]), s->keys[f].unit_bytes = 1;
        s->paths[f].keys = &s->keys[f], s->paths[f].names = &s->names[f];
        s->paths[f].n_keys = s->paths[f].n_names = 1;
    }
    s->source.store = &s->store, s->source.of_block = s->by_block;
    return RS_OK;
}

static inline void sources_close(sources *s) {
    for (unsigned t = 0; t < SOURCES_TREES; t++) {
        for (unsigned f = 0; f < s->n; f++) rs_compiled_path_clear(&s->trees[t].compiled[f]);
    }
    rs_store_close(&s->store);
}

/* Compiles a path of one key for a tree. Compares the bytes of the key with those of each struct key. */
static inline rs_status sources_compile(rs_compiled_path *out, const rs_key_path *path, const rs_tree *tree,
                                        rs_error *err) {
    const rs_path_key *key = path->keys;
    RS_TRY(rs_compiled_path_open(out, path, tree, err));
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        const uint8_t *at = node->aux;
        if (node->kind != RS_FMT_NODE_STRUCT) continue;
        rs_compiled_path_set(out, 0, 0, i, RS_STEP_NONE);
        for (uint32_t k = 0; k < node->n_children; k++, at += 2 + at[1]) {
            if (at[1] == key->n && memcmp(at + 2, key->units, at[1]) == 0) {
                rs_compiled_path_set(out, 0, 0, i, (int32_t)k);
            }
        }
    }
    rs_compiled_path_prepare(out);
    return RS_OK;
}

/* Loads a block and compiles its paths. */
static inline rs_status sources_load_block(sources *s, uint64_t block, rs_error *err) {
    RS_TRY(rs_store_load_block(&s->store, block, err));
    sources_tree *t = &s->trees[s->store.blocks[block].tree];
    for (uint32_t f = 0; t->paths.n == 0 && f < s->n; f++) {
        const rs_tree *tree = &s->store.trees[s->store.blocks[block].tree];
        if (t->compiled[f].n_trees == 0) RS_TRY(sources_compile(&t->compiled[f], &s->paths[f], tree, err));
        t->of_field[f] = &t->compiled[f];
    }
    rs_tree_paths_set(&t->paths, t->of_field, t->order, s->n);
    s->by_block[block] = &t->paths;
    return RS_OK;
}
