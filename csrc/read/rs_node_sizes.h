/* rs_node_sizes.h: counts the bits of each node of a tree in the records of a block, or the entries of a table. */
#pragma once

#include "read/rs_store.h"

/* What one node takes. Zero it before the first block. The bits of all nodes of a tree together are the bytes of the
 * heaps, and of the arrays that ndarray nodes name. */
typedef struct rs_node_size {
    uint64_t values; /* number of its values */
    uint64_t bits;   /* its own bits, without those of its children: of a struct, concat or list what rounds up its
                        bit group, of a list also the count, of a union the tag, of a placed node what it has in
                        the places */
} rs_node_size;

/* Adds the values of all records of a block to `sizes`, which has an element for each node of the block's tree. The
 * block and all trees and tables of the store are loaded. Errors: rules 13, 15, 16 and 20 to 23 of FORMAT.md; the
 * elements then have part of the block. Any thread, beside other readers of the store. */
RS_NODISCARD rs_status rs_node_sizes_add_block(const rs_store *store, const rs_block *block, rs_node_size *sizes,
                                               rs_error *err);
/* The same for the entries of a value table. */
RS_NODISCARD rs_status rs_node_sizes_add_table(const rs_store *store, const rs_table *table, rs_node_size *sizes,
                                               rs_error *err);
