/* tree_maker.h: makes valid trees of all kinds of nodes from a source of choices. */
#pragma once

#include "fuzz.h"

/* The tables and places that a tree may refer to. */
typedef struct tree_tables {
    uint32_t n_values;   /* the value tables have the numbers below this */
    uint32_t entries[4]; /* the number of entries of each */
    unsigned symbols;    /* the bytes of a unit of the symbol table, which has the next number; 0 without one */
    bool placed;         /* placed nodes are allowed */
} tree_tables;

/* Appends the bytes of a tree. `in` has the choices: equal bytes give equal trees. */
void fuzz_make_tree(rs_slice *in, const tree_tables *tables, rs_buffer *out);

/* Replaces a tree of `size` bytes by a random tree without tables, if that fits. The remaining bytes become part of
 * its aux. */
void fuzz_replace_tree(uint8_t *tree, uint64_t size, uint64_t *random);
