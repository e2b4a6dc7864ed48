/* tree_maker.h: makes valid trees of all kinds of nodes from a source of choices. */
#pragma once

#include "fuzz.h"

/* What a tree may refer to. */
typedef struct tree_tables {
    uint32_t n_values;   /* value tables are the numbers from 0 on */
    uint32_t entries[4]; /* the number of entries of each */
    bool symbols;        /* the table after them is a symbol table */
    bool placed;         /* placed nodes are allowed */
} tree_tables;

/* Appends the bytes of a tree. `in` decides: the same bytes give the same tree. */
void fuzz_make_tree(rs_slice *in, const tree_tables *tables, rs_buffer *out);

/* Writes a made tree without tables over a tree of `size` bytes, when there is room: the remaining bytes become part
 * of its aux. */
void fuzz_replace_tree(uint8_t *tree, uint64_t size, uint64_t *random);
