/* rs_block_parcel.h: block parcels: blocks that a build worker (another process) has compressed, with their tables and
 * trees. The worker takes them out of its own builders, and the builder's process places them. Each shard has its own
 * tables and trees, so the bytes of the store depend on the shards, but not on the number of workers or on where
 * parcels begin. A block parcel is a run of bytes for the builder's process. It is never stored and not a part of the
 * format. */
#pragma once

#include "write/rs_builder.h"

/* The most stores of one segment: the values and the keys of a mapping. */
enum { RS_BLOCK_PARCEL_STORES = 2 };

/* Appends to `out` the blocks that the n builders have written since the last call, and removes them from their
 * segment. The builders must be open on one writer, share one pipeline or have none, and be unfinished. Open blocks,
 * and closed blocks that the pipeline has not written yet, stay in the builders; after rs_builder_flush there are none.
 * On failure the builders may only be closed. Returns the error of a block that could not be written, or RS_E_MEM,
 * RS_E_SYS, RS_E_SPACE. */
RS_NODISCARD rs_status rs_block_parcel_take(rs_builder *const *stores, unsigned n, rs_buffer *out, rs_error *err);

/* Maps the tables and trees of one shard to those of the store that receives its blocks. Zero it before the first
 * parcel of each shard, and call rs_placing_clear after the last one. */
typedef struct rs_placing {
    bool begun;
    uint32_t first_table; /* the store's number for the shard's table 0 */
    uint32_t n_tables;    /* the shard's tables so far */
    rs_buffer trees;      /* u32: the store's number for each tree of the shard */
} rs_placing;

/* Frees the memory and zeroes the struct. */
void rs_placing_clear(rs_placing *self);

/* Flushes n builders that share a writer, then appends the blocks of the parcel to the builders' stores. Checks the
 * parcel as a reader checks a segment on opening and on the first use of a tree, table or block, with two exceptions
 * that are left to the reader: the places of a block (rs_places.h), and the kind and size of the tables that a tree
 * names. RS_E_FMT_* for a parcel that breaks a rule; nothing is placed then. On any other failure the builders may only
 * be closed. RS_E_MEM, the errors of the writer and of rs_builder_flush. Needs no lock. */
RS_NODISCARD rs_status rs_block_parcel_place(rs_slice packed, rs_builder *const *stores, rs_placing *placings,
                                             unsigned n, rs_error *err);
