/* rs_window.h: locates many records at once, a window of them, and prefetches their memory: first the offsets of all,
 * then the bytes of all. So the cache misses of a window overlap, where a reader that goes record by record waits for
 * each.
 *
 * Only one thread at a time may fill the caches of an rs_store, but windows are located at the same time as other
 * threads read. So a window uses only blocks that are loaded and have compiled paths. At any other block it stops. The
 * caller then loads the block under its lock, compiles the paths for its tree, and continues. */
#pragma once

#include "read/rs_store.h"
#include "columns/rs_compiled_path.h"

enum { RS_WINDOW_RECORDS = 256 }; /* the most records of a window */

/* The compiled paths of one tree, one for each field that is read. Borrows them. */
typedef struct rs_tree_paths {
    const rs_compiled_path *const *of_field;
    uint32_t *order;  /* the numbers of the fields, in the order in which a walk through a record comes to them */
    uint32_t n;       /* number of fields */
    uint32_t n_fixed; /* so many fields at the beginning of `order` have fixed bodies, and need no walk */
    uint64_t from;    /* the fields begin at this byte of a record at the earliest */
    uint64_t reach;   /* no byte from this one on is loaded for them; UINT64_MAX: anywhere */
} rs_tree_paths;

/* Sets the prepared paths of a tree. They outlive `self`, as does `order`, which has room for n numbers. */
void rs_tree_paths_set(rs_tree_paths *self, const rs_compiled_path *const *of_field, uint32_t *order, uint32_t n);

/* A store, with the paths of the tree of each of its blocks. of_block[b] is NULL when block b has none; the other
 * blocks are loaded. Borrows everything. One thread at a time may use it. */
typedef struct rs_source {
    const rs_store *store;
    const rs_tree_paths **of_block;
} rs_source;

/* Some located records. Borrows from store and segment. One thread at a time may use it. */
typedef struct rs_window {
    uint64_t n; /* number of records */
    rs_slice records[RS_WINDOW_RECORDS];
    const rs_block *blocks[RS_WINDOW_RECORDS];
    const rs_tree_paths *paths[RS_WINDOW_RECORDS]; /* those of the block */
    uint32_t locals[RS_WINDOW_RECORDS];            /* the number of the record within its block */
} rs_window;

/* Why a window is empty. */
typedef struct rs_window_stop {
    uint64_t index; /* the number of the record at which it stopped */
    uint64_t block; /* the number of a block without paths; RS_NOWHERE after an error */
} rs_window_stop;

/* Returns the record number for position k: start + step * positions[k], or start + step * k when `positions` is NULL.
 * The arithmetic is unsigned, so that any position gives some number, which rs_source_find_block checks. */
static inline uint64_t rs_window_index_at(const int64_t *positions, int64_t start, int64_t step, uint64_t k) {
    return (uint64_t)start + (uint64_t)step * (positions != NULL ? (uint64_t)positions[k] : k);
}

/* The number of record i of the window. It is not read from positions again, which another thread may change. */
static inline uint64_t rs_window_index(const rs_window *self, uint64_t i) {
    return self->blocks[i]->first_record + self->locals[i];
}

/* Returns how many records from number `begin` up to `end` of the window are of the block of the first. */
static inline uint64_t rs_window_of_block(const rs_window *self, uint64_t begin, uint64_t end) {
    uint64_t i = begin + 1;
    while (i < end && self->blocks[i] == self->blocks[begin]) i++;
    return i - begin;
}

/* Sets *out to the block of record stop->index, and *paths to its paths. *out becomes NULL, and stop->block is set,
 * when the block has no paths. RS_E_ARG_RANGE for a number without a record; else rule 13 of FORMAT.md. */
RS_NODISCARD rs_status rs_source_find_block(const rs_source *self, rs_window_stop *stop, const rs_block **out,
                                            const rs_tree_paths **paths, rs_error *err);

/* Locates the records at the positions from `begin` up to `end`, at most RS_WINDOW_RECORDS, and prefetches their
 * memory. It ends before a record that it cannot locate. When that is the first, self->n is 0 and *stop or the status
 * gives the reason. Another thread may change `positions` meanwhile: each position is loaded once and checked. Errors
 * are those of rs_source_find_block, and rule 15. */
RS_NODISCARD rs_status rs_window_locate(rs_window *self, const rs_source *source, const int64_t *positions,
                                        int64_t start, int64_t step, uint64_t begin, uint64_t end, rs_window_stop *stop,
                                        rs_error *err);
