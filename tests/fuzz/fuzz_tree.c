/* fuzz_tree.c: the trees of a damaged segment; an input that is not a segment is one tree. */
#include "mutator.h"
#include "readers.h"

/* A tree whose last values take the rest of a record is still valid. */
static void compile(rs_slice bytes) {
    rs_tree tree, again;
    if (rs_tree_compile(bytes, 0, &tree, NULL) != RS_OK) return;
    (void)rs_tree_features(&tree);
    rs_tree_take_rests(&tree);
    FUZZ_MUST(rs_tree_compile(rs_slice_of(tree.bytes, tree.size_bytes), 0, &again, NULL) == RS_OK);
    FUZZ_MUST(again.n_nodes == tree.n_nodes && again.levels == tree.levels);
    rs_tree_clear(&again);
    rs_tree_clear(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rs_store store;
    if (size < 8 || memcmp(data, RS_FMT_MAGIC, 8) != 0) {
        if (size <= FUZZ_INPUT) compile(rs_slice_of(data, size));
        return 0;
    }
    if (!fuzz_open(&store, rs_slice_of(data, size))) return 0;
    for (uint64_t i = 0; i < store.n_tables; i++) fuzz_any(rs_store_load_table(&store, (uint32_t)i, NULL));
    for (uint64_t i = 0; i < store.n_trees; i++) {
        if (rs_store_load_tree(&store, (uint32_t)i, NULL) != RS_OK) continue;
        compile(rs_slice_of(store.trees[i].bytes, store.trees[i].size_bytes));
    }
    for (uint64_t i = 0; i < store.n_blocks; i++) fuzz_any(rs_store_load_block(&store, i, NULL));
    rs_store_close(&store);
    return 0;
}

FUZZ_MUTATED
