/* rs_window.h: locates many records at once, a window of them, and prefetches their memory: first all offsets, then all
 * bytes. So the cache misses of a window overlap, while a reader that goes record by record waits for each.
 *
 * Only one thread at a time may fill the caches of an rs_store, but windows are located while other threads read. So a
 * window uses only loaded blocks with compiled paths and stops at any other; the caller loads that block under its
 * lock, compiles the paths for its tree, and continues. */
#pragma once

#include "read/rs_store.h"
#include "columns/rs_column.h"
#include "columns/rs_compiled_path.h"

enum { RS_WINDOW_RECORDS = 256 }; /* the most records of a window */

/* The compiled paths of one tree, one for each field. Borrows them. */
typedef struct rs_tree_paths {
    const rs_compiled_path *const *of_field;
    uint32_t *order;  /* the numbers of the fields, in the order of a walk through a record */
    uint32_t n;       /* number of fields */
    uint32_t n_fixed; /* number of leading fields of `order` with fixed bodies, which need no walk */
    uint64_t from;    /* the offset of the first byte that reading a field may load */
    uint64_t reach;   /* the end of these bytes; UINT64_MAX for the end of the record */
} rs_tree_paths;

/* Sets the prepared paths of a tree. They and `order`, which has room for n numbers, must outlive `self`. */
void rs_tree_paths_set(rs_tree_paths *self, const rs_compiled_path *const *of_field, uint32_t *order, uint32_t n);

/* A store, with the paths of the tree of each of its blocks. of_block[b] is NULL if block b has none; other blocks are
 * loaded. Borrows everything. One thread at a time may use it. */
typedef struct rs_source {
    const rs_store *store;
    const rs_tree_paths **of_block;
} rs_source;

/* Some located records. Borrows from store and segment. One thread at a time may use it. */
typedef struct rs_window {
    uint64_t n; /* number of records */
    rs_slice records[RS_WINDOW_RECORDS];
    const rs_block *blocks[RS_WINDOW_RECORDS];
    const rs_tree_paths *paths[RS_WINDOW_RECORDS]; /* the paths of the block */
    uint32_t locals[RS_WINDOW_RECORDS];            /* the number of the record within its block */
} rs_window;

/* Why a window is empty. */
typedef struct rs_window_stop {
    uint64_t index; /* the number of the record where it stopped */
    uint64_t block; /* the number of a block without paths; RS_NOWHERE after an error */
} rs_window_stop;

/* Returns the record number of position k: start + step * positions[k], or start + step * k if `positions` is NULL.
 * The arithmetic is unsigned, so any position is allowed; rs_source_find_block checks the number. */
static inline uint64_t rs_window_index_at(const int64_t *positions, int64_t start, int64_t step, uint64_t k) {
    return (uint64_t)start + (uint64_t)step * (positions != NULL ? (uint64_t)positions[k] : k);
}

/* Returns the number of record i of the window. Does not read its position again: another thread may change it. */
static inline uint64_t rs_window_index(const rs_window *self, uint64_t i) {
    return self->blocks[i]->first_record + self->locals[i];
}

/* Returns the rows of at most `left` steps from record `index` of a block on, as many as are within the block. If it
 * has rows of one size, they are located. */
static inline rs_column_rows rs_window_rows(const rs_store *store, const rs_block *block, uint64_t index, int64_t step,
                                            uint64_t left) {
    const uint64_t local = index - block->first_record, size = block->row_size_bytes;
    const uint64_t count = step == 0  ? left
                           : step > 0 ? (block->n_records - 1 - local) / (uint64_t)step + 1
                                      : local / (0 - (uint64_t)step) + 1;
    rs_column_rows rows = {.n = count < left ? count : left, .least = size, .local = (int64_t)local, .step = step};
    if (block->index_width != 0) return rows;
    rows.base = store->segment.ptr + block->heap_off + local * size;
    rows.stride_bytes = rows.n > 1 ? step * (int64_t)size : 0;
    return rows;
}

/* Returns the number of the first record from `begin` on and before `end` of fewer than `size` bytes, else `end`. Sets
 * *least to the least size of the records before it. */
static inline uint64_t rs_window_long_end(const rs_window *self, uint64_t begin, uint64_t end, uint64_t size,
                                          uint64_t *least) {
    *least = UINT64_MAX;
    for (; begin < end; begin++) {
        const uint64_t left = rs_slice_left(&self->records[begin]);
        if (left < size) break;
        if (left < *least) *least = left;
    }
    return begin;
}

/* Returns how many consecutive records of the window, from `begin` on and before `end`, are in one block. */
static inline uint64_t rs_window_of_block(const rs_window *self, uint64_t begin, uint64_t end) {
    uint64_t i = begin + 1;
    while (i < end && self->blocks[i] == self->blocks[begin]) i++;
    return i - begin;
}

/* Sets *out to the block of record stop->index, and *paths to its paths. If the search meets a block without paths,
 * *out becomes NULL and stop->block becomes its number. RS_E_ARG_RANGE if the record does not exist; rule 13 of
 * FORMAT.md. */
RS_NODISCARD rs_status rs_source_find_block(const rs_source *self, rs_window_stop *stop, const rs_block **out,
                                            const rs_tree_paths **paths, rs_error *err);

/* Locates the records at positions `begin` to `end` - 1, at most RS_WINDOW_RECORDS, and prefetches their memory, except
 * without `positions` at steps of -8 to 8. Ends before a record that it cannot locate. If that is the first, self->n is
 * 0 and *stop or the status has the reason. Another thread may change `positions` during the call: each position is
 * loaded once and checked. Errors of rs_source_find_block, and rule 15. */
RS_NODISCARD rs_status rs_window_locate(rs_window *self, const rs_source *source, const int64_t *positions,
                                        int64_t start, int64_t step, uint64_t begin, uint64_t end, rs_window_stop *stop,
                                        rs_error *err);
