/* rs_route.h: a path of keys compiled for one tree, so that records are walked without an interpreter. Whoever makes
 * one looks every key up in every struct once; a walk then follows numbers, and compares bytes only within `any`
 * values. The part of the way that is the same in all records becomes one offset: a field that every record has at the
 * same place costs no walk. */
#ifndef RS_ROUTE_H
#define RS_ROUTE_H

#include "read/rs_path.h"

enum {
    /* What the table says of a key and a node, where it is no number of a child or element. */
    RS_ROUTE_NONE = -1,  /* the node has no such key */
    RS_ROUTE_ASK = -2,   /* only the caller can tell */
    RS_ROUTE_OPEN = -3,  /* ext: its payload is looked into with the same key */

    /* How a walk ends. */
    RS_ROUTE_FOUND = 0,
    RS_ROUTE_LACKING = 1, /* the record has no such place */
    RS_ROUTE_UNSURE = 2   /* the caller has to walk this record itself */
};

/* One key. Borrows the units of a str; `units` is NULL for a key that is none. */
typedef struct rs_route_key {
    const uint8_t *units;
    uint64_t n;
    unsigned unit_bytes;
    bool is_index;        /* leads into lists and tuples, to element `index`, negative from the end */
    int64_t index;
} rs_route_key;

/* A name of a path: the key `whole` or, where a record has none such, the `n_parts` keys from `parts` on in turn. */
typedef struct rs_route_name {
    uint32_t whole;
    uint32_t parts;
    uint32_t n_parts;
} rs_route_name;

/* Borrows keys and names, which outlive the routes made of it. No names: the whole record. */
typedef struct rs_route_path {
    const rs_route_key *keys;
    const rs_route_name *names;
    uint32_t n_keys;
    uint32_t n_names;
} rs_route_path;

/* A tree whose structs and ext values a walk may meet, and what keys lead to there, by key, then by node. */
typedef struct rs_route_tree {
    const rs_tree *tree;
    int32_t *table;
} rs_route_tree;

/* Owns `trees`; borrows path and trees. Not changed by walks, so any number of threads may share a prepared one. */
typedef struct rs_route {
    const rs_route_path *path;
    rs_route_tree *trees; /* that of the records, then those of the tables below it, each once */
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
} rs_route;

/* Of a linked tree, with RS_ROUTE_ASK for all. RS_E_MEM; nothing is held then. Else free with rs_route_clear. */
RS_NODISCARD rs_status rs_route_open(rs_route *self, const rs_route_path *path, const rs_tree *tree, rs_error *err);
void rs_route_clear(rs_route *self);

/* What key `key` leads to in struct or ext node `node` of tree `tree`, numbers within the route's: a child below
 * n_children, an element of the ext's payload, or one of the codes above. */
static inline void rs_route_set(rs_route *self, size_t tree, uint32_t key, uint32_t node, int32_t to) {
    self->trees[tree].table[(size_t)key * self->trees[tree].tree->n_nodes + node] = to;
}

/* Finds the part that all records share, once the tables are filled. */
void rs_route_prepare(rs_route *self);

/* Whether the shared part is the whole way and ends at a body of one size at one offset. */
static inline bool rs_route_is_fixed(const rs_route *self) {
    if (self->name != self->path->n_names || self->row != NULL) return false;
    return self->node->fixed && self->node->kind != RS_FMT_NODE_UNION;
}

/* Walks a record, whose bytes and nothing else stand at the cursor. *found is one of the codes above, and the place of
 * use only when it is RS_ROUTE_FOUND; it may then be that of a dict node, with its number as the bits. Errors: rules 21
 * and 22 of FORMAT.md, and 31. */
RS_NODISCARD rs_status rs_route_walk(const rs_route *self, rs_cursor *cursor, rs_place *place, int *found,
                                     rs_error *err);

#endif
