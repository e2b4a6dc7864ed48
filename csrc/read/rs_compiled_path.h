/* rs_compiled_path.h: a path of keys compiled for one tree, so that records are walked without an interpreter.
 * Whoever makes one looks every key up in every struct once; a walk then follows numbers, and compares bytes only
 * within `any` values. The part of the way that is the same in all records becomes one offset: a field that every
 * record has at the same place costs no walk. */
#ifndef RS_COMPILED_PATH_H
#define RS_COMPILED_PATH_H

#include "read/rs_path.h"

enum {
    /* What the table says of a key and a node, where it is no number of a child or element. */
    RS_STEP_NONE = -1,  /* the node has no such key */
    RS_STEP_ASK = -2,   /* only the caller can tell */
    RS_STEP_OPEN = -3,  /* ext: its payload is looked into with the same key */

    /* How a walk ends. */
    RS_WALK_FOUND = 0,
    RS_WALK_LACKING = 1, /* the record has no such place */
    RS_WALK_UNSURE = 2   /* the caller has to walk this record itself */
};

/* One key. Borrows the units of a str; `units` is NULL for a key that is none. */
typedef struct rs_path_key {
    const uint8_t *units;
    uint64_t n;
    unsigned unit_bytes;
    bool is_index;        /* leads into lists and tuples, to element `index`, negative from the end */
    int64_t index;
} rs_path_key;

/* A name of a path: the key `whole` or, where a record has none such, the `n_parts` keys from `parts` on in turn. */
typedef struct rs_path_name {
    uint32_t whole;
    uint32_t parts;
    uint32_t n_parts;
} rs_path_name;

/* Borrows keys and names, which outlive the compiled paths made of it. No names: the whole record. */
typedef struct rs_key_path {
    const rs_path_key *keys;
    const rs_path_name *names;
    uint32_t n_keys;
    uint32_t n_names;
} rs_key_path;

/* A tree whose structs and ext values a walk may meet, and what keys lead to there, by key, then by node. */
typedef struct rs_compiled_tree {
    const rs_tree *tree;
    int32_t *steps;
} rs_compiled_tree;

/* Owns `trees`; borrows path and trees. Not changed by walks, so any number of threads may share a prepared one. */
typedef struct rs_compiled_path {
    const rs_key_path *keys;
    rs_compiled_tree *trees; /* that of the records, then those of the tables below it, each once */
    size_t n_trees;
    /* Where every walk begins: the place and what is left of the path there. */
    const rs_node *node;
    uint64_t group_off;   /* the bit group with the node's bits, from the record's start */
    uint64_t group_bytes;
    uint64_t bit_off;     /* within the group */
    uint64_t body_off;
    uint64_t least;       /* a record of fewer bytes is truncated */
    const rs_node *row;   /* NULL, or `node` is its child n_before, and at body_off stand the bodies of those of its
                             children that have no one size: the earlier ones are passed in each record */
    uint32_t n_before;
    uint32_t name, part;  /* the next key: names[name].whole when part is 0, else its part number part - 1 */
} rs_compiled_path;

/* Of a linked tree, with RS_STEP_ASK for all. RS_E_MEM; nothing is held then. Else free with rs_compiled_path_clear. */
RS_NODISCARD rs_status rs_compiled_path_open(rs_compiled_path *self, const rs_key_path *path, const rs_tree *tree,
                                             rs_error *err);
void rs_compiled_path_clear(rs_compiled_path *self);

/* What key `key` leads to in struct or ext node `node` of tree `tree`, numbers within the compiled path's: a child
 * below n_children, an element of the ext's payload, or one of the codes above. */
static inline void rs_compiled_path_set(rs_compiled_path *self, size_t tree, uint32_t key, uint32_t node, int32_t to) {
    self->trees[tree].steps[(size_t)key * self->trees[tree].tree->n_nodes + node] = to;
}

/* Finds the part that all records share, once the tables are filled. */
void rs_compiled_path_prepare(rs_compiled_path *self);

/* Whether the shared part is the whole way and ends at a body of one size at one offset. */
static inline bool rs_compiled_path_is_fixed(const rs_compiled_path *self) {
    if (self->name != self->keys->n_names || self->row != NULL) return false;
    return self->node->fixed && self->node->kind != RS_FMT_NODE_UNION;
}

/* Walks a record, whose bytes and nothing else stand at the cursor. *found is one of the codes above, and the
 * place of use only when it is RS_WALK_FOUND; it may then be that of a dict-coded node, with its number as the
 * bits. Errors: rules 21 and 22 of FORMAT.md, and 31. */
RS_NODISCARD rs_status rs_compiled_path_walk(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place,
                                             int *found,
                                     rs_error *err);

#endif
