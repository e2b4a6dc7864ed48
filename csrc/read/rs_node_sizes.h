/* rs_node_sizes.h: counts the bits of each node of a tree in the records of a block or the entries of a table. */
#pragma once

#include "read/rs_store.h"

/* The size of one node. Zero it before the first block. The bits of all nodes of a tree add up to the size of the heaps
 * and of the arrays of ndarray nodes. */
typedef struct rs_node_size {
    uint64_t values; /* number of its values */
    uint64_t bits;   /* its own bits, without its children: a container has its count and the padding of its bit group,
                        a union its tag, a placed node its section in the places */
} rs_node_size;

/* Adds the values of all records of a block to `sizes`, which has an element for each node of the block's tree. The
 * block and all trees and tables of the store must be loaded. Errors: rules 15, 20 to 23, 31 and 41 of FORMAT.md, after
 * which `sizes` has part of the block. Any thread, while others read the store. */
RS_NODISCARD rs_status rs_node_sizes_add_block(const rs_store *store, const rs_block *block, rs_node_size *sizes,
                                               rs_error *err);
/* The same for the entries of a value table. */
RS_NODISCARD rs_status rs_node_sizes_add_table(const rs_store *store, const rs_table *table, rs_node_size *sizes,
                                               rs_error *err);
