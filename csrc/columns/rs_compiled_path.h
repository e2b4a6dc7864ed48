/* rs_compiled_path.h: a path of keys compiled for one tree, to find fields without the interpreter. The caller looks up
 * each key in each struct once. A walk through a record then follows child numbers, and compares keys only within
 * `any` values. The first steps that all records share become one offset, so a field at the same offset in every record
 * needs no walk. */
#pragma once

#include "read/rs_path.h"
#include "columns/rs_cell.h"

enum {
    /* A step for a key and a node: the number of a child or element, or one of these. */
    RS_STEP_NONE = -1, /* the node has no such key */
    RS_STEP_ASK = -2,  /* only the caller knows */
    RS_STEP_OPEN = -3, /* of an ext node: look up the same key in its payload */

    /* The results of a walk. */
    RS_WALK_FOUND = 0,
    RS_WALK_LACKING = 1, /* the record does not have the value */
    RS_WALK_UNSURE = 2   /* the caller must look up the path in this record itself */
};

/* A key. Borrows the units of a str key; `units` is NULL for other keys. */
typedef struct rs_path_key {
    const uint8_t *units;
    uint64_t n; /* number of units */
    unsigned unit_bytes;
    bool is_index; /* the key may also be the index of an element of a list or tuple */
    int64_t index; /* counted from the end when negative */
} rs_path_key;

/* A name of a path. It leads to the value of key number `whole`. In records without that key it follows the `n_parts`
 * keys from number `parts` on, one after another. */
typedef struct rs_path_name {
    uint32_t whole;
    uint32_t parts;
    uint32_t n_parts;
} rs_path_name;

/* A path. Borrows keys and names, which must outlive the paths compiled from it. Without names, the whole record. */
typedef struct rs_key_path {
    const rs_path_key *keys;
    const rs_path_name *names;
    uint32_t n_keys;
    uint32_t n_names;
} rs_key_path;

/* A tree of a walk, with its table of steps: steps[key * n_nodes + node]. */
typedef struct rs_compiled_tree {
    const rs_tree *tree;
    int32_t *steps;
} rs_compiled_tree;

/* A compiled path. Owns `trees`, borrows the path and the trees of the store. Walks do not change it, so several
 * threads may walk with one prepared path. */
typedef struct rs_compiled_path {
    const rs_key_path *keys;
    rs_compiled_tree *trees; /* the tree of the records, then the trees of all tables below it, each once */
    size_t n_trees;
    /* The shared beginning of all walks: the node at its end, and the rest of the path. */
    const rs_node *node;
    uint64_t group_off; /* the offset in the record of the bit group with the node's bits */
    uint64_t group_bytes;
    uint64_t bit_off;   /* the offset of the node's bits in the group */
    uint64_t body_off;  /* the offset of the node's body or, with `row`, of the bodies that are not fixed */
    uint64_t least;     /* a record of fewer bytes is truncated */
    const rs_node *row; /* NULL, or the parent of `node`. Then `node` is its child number n_before, and a walk skips the
                             earlier children that are not fixed */
    uint32_t n_before;
    uint32_t name, part; /* the next key: names[name].whole when part is 0, else its part number part - 1 */
    rs_cell cell;        /* of the node, when the shared beginning is the whole path */
    bool placed;         /* values of the node may come from the places of a block, so rows of several blocks differ */
} rs_compiled_path;

/* Compiles a path for a linked tree, with all steps RS_STEP_ASK. Free it with rs_compiled_path_clear. RS_E_MEM. */
RS_NODISCARD rs_status rs_compiled_path_open(rs_compiled_path *self, const rs_key_path *path, const rs_tree *tree,
                                             rs_error *err);
/* Frees the tables and zeroes the struct. */
void rs_compiled_path_clear(rs_compiled_path *self);

/* Sets the step of key number `key` at the struct or ext node number `node` of tree number `tree`. `to` is the number
 * of a child, the number of an element of the ext's payload, or an RS_STEP code. */
static inline void rs_compiled_path_set(rs_compiled_path *self, size_t tree, uint32_t key, uint32_t node, int32_t to) {
    self->trees[tree].steps[(size_t)key * self->trees[tree].tree->n_nodes + node] = to;
}

/* Computes the shared beginning of all walks. Call it after the last rs_compiled_path_set. */
void rs_compiled_path_prepare(rs_compiled_path *self);

/* Returns whether the shared beginning is the whole path and ends at a fixed body at one offset. */
static inline bool rs_compiled_path_is_fixed(const rs_compiled_path *self) {
    if (self->name != self->keys->n_names || self->row != NULL) return false;
    return self->node->fixed && self->node->kind != RS_FMT_NODE_UNION;
}

/* Walks through a record; the cursor has exactly its bytes. Sets *found to an RS_WALK code. *place is valid only with
 * RS_WALK_FOUND, and may be a dict-coded node with the number of the entry as its bits. Errors: rules 21, 22 and 31 of
 * FORMAT.md. Any thread, each with a cursor of its own. */
RS_NODISCARD rs_status rs_compiled_path_walk(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place,
                                             int *found, rs_error *err);

/* The progress of the walks of several paths through one record: the children of `row` before number n have been
 * skipped, and end at `at`. Set `row` to NULL for each record. */
typedef struct rs_passed {
    const rs_node *row;
    uint32_t n;
    const uint8_t *at;
} rs_passed;

/* As rs_compiled_path_walk, for one of several paths through the same record: begins at *passed, and adds the children
 * that it skips. */
RS_NODISCARD rs_status rs_compiled_path_walk_on(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor,
                                                rs_place *place, int *found, rs_error *err);

/* Takes only the shared beginning of the walk. *place is not settled. Errors as above. */
RS_NODISCARD rs_status rs_compiled_path_begin(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor,
                                              rs_place *place, rs_error *err);
