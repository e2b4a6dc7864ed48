/* rs_arrow_program.h: a schema tree compiled for the export to Arrow: the field of each node. Compiling adds the kinds
 * of values of the tree to the fields, so most records need not be read to know the types. */
#pragma once

#include "arrow/rs_arrow_walk_any.h"

typedef struct rs_arrow_op rs_arrow_op;

/* A node compiled for a field. Lives in an rs_arrow_program; borrows node and fields. */
struct rs_arrow_op {
    const rs_node *node;
    rs_arrow_field *field; /* NULL to skip the values */
    rs_arrow_op *children; /* one for each child of the node, or for each item of tuples of one length; NULL for none */
    rs_arrow_op **tables;  /* dict-coded: the op of the root of each table's tree */
    rs_arrow_field **items; /* tuples and objects: the fields of the items; NULL for none */
    uint32_t n_children;
    uint32_t n_items;
    bool sure;    /* the tree gives all kinds of values, so records need not be read */
    bool named;   /* the items are the fields of an object */
    bool odd_key; /* struct: a key is not a str */
    bool whole;   /* struct: every field of the type has a child here, and no key is optional */
};

/* An op that can be looked up by its tree, node or table and its field. */
typedef struct rs_arrow_known {
    const void *owner; /* the tree, the node, or a table after its entries were read */
    const rs_arrow_field *field;
    rs_arrow_op *op;
} rs_arrow_known;

/* All ops of an export. Owns them. Zero the struct before the first use; rs_arrow_program_clear frees it. One thread at
 * a time may use it. */
typedef struct rs_arrow_program {
    void **chunks; /* blocks of memory */
    size_t n_chunks, chunks_capacity;
    rs_arrow_op **arrays; /* every array of ops, with its length, to visit all ops */
    uint32_t *lengths;
    size_t n_arrays, arrays_capacity;
    rs_arrow_known *known; /* a hash table; open addressing */
    size_t n_known, known_capacity;
    uint64_t n_ops;
    bool shares; /* keys of a map share a node, which may have more kinds of values than one key */
} rs_arrow_program;

/* Frees all ops and zeroes the struct. */
void rs_arrow_program_clear(rs_arrow_program *self);

/* Allocates n zeroed items of `size` bytes that live as long as the ops, and sets the pointer at `out`. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_program_alloc(rs_arrow_program *self, size_t n, size_t size, void *out, rs_error *err);

/* Compiles a linked tree for a field. Sets *out to the op of its root. Adds the kinds of values of the tree to the
 * fields. A second call for the field gives the same op. RS_E_ARG_LIMIT for too many fields, RS_E_FMT_LIMIT for too
 * many ops, errors of rules 20 to 23 and 31 for keys, consts and entries of tables, RS_E_MEM. After an error the ops
 * may only be cleared. */
RS_NODISCARD rs_status rs_arrow_compile(rs_arrow_program *self, const rs_tree *tree, rs_arrow_field *field,
                                        rs_arrow_op **out, rs_error *err);

/* As rs_arrow_compile for any node of a linked tree. */
RS_NODISCARD rs_status rs_arrow_compile_node(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                             rs_arrow_op **out, rs_error *err);
/* As rs_arrow_compile_node. With `only_known`, compiles nothing and sets *out to NULL for a node that is not compiled
 * yet. */
RS_NODISCARD rs_status rs_arrow_compile_place(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                              bool only_known, rs_arrow_op **out, rs_error *err);

/* As rs_arrow_compile_place, for a map's values at the field of a key. */
RS_NODISCARD rs_status rs_arrow_compile_entry(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                              bool only_known, rs_arrow_op **out, rs_error *err);

/* Makes the ops refer to the resolved fields, and sets `whole`. Call it after the last rs_arrow_resolve. */
void rs_arrow_program_settle(rs_arrow_program *self);
