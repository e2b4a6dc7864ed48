/* rs_arrow_program.h: a schema tree compiled for the export to Arrow: for each node the field that its values belong
 * to. Compiling notes at the fields all that the tree alone tells about the values, so most records need not be looked
 * at before the types are known. */
#pragma once

#include "arrow/rs_arrow_infer.h"

typedef struct rs_arrow_op rs_arrow_op;
typedef struct rs_arrow_part rs_arrow_part; /* of rs_arrow_concat.c */

/* A node at a field. Lives in an rs_arrow_program; borrows node and fields. */
struct rs_arrow_op {
    const rs_node *node;
    rs_arrow_field *field; /* NULL when its values are not wanted: they are passed */
    rs_arrow_op *children; /* one for each child of the node; of a list that gives tuples of one length, one for each
                               item; NULL for none */
    rs_arrow_op **tables;  /* dict-coded: the root of each table's tree */
    rs_arrow_field *
        *items;           /* numbers that give a tuple, and consts of objects: the fields of the items; NULL for none */
    rs_arrow_part *parts; /* concat: its parts once they are prepared; NULL where it has parts of other kinds */
    uint32_t n_children;
    uint32_t n_items;
    bool prepared; /* concat: parts is set */
    bool sure;     /* the tree told all about the values below, so records need not be looked at */
    bool named;    /* the items are the fields of an object */
    bool odd_key;  /* struct: a wanted key is no str */
    bool whole;    /* struct: every field of the type has a child here, and no key is absent */
};

/* The op of a tree, or of a node where a walk ended, at a field. */
typedef struct rs_arrow_known {
    const void *at; /* the tree, the node, or a table whose entries were noted */
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
    uint32_t n_fields; /* of the tree of fields */
    bool shares;       /* keys of a map have one node, which may tell more about the values of a key than there is */
} rs_arrow_program;

/* Frees all ops and zeroes the struct. */
void rs_arrow_program_clear(rs_arrow_program *self);

/* Compiles a linked tree for a field: *out becomes the op of its root. What the tree tells is noted at the fields.
 * Compiling it again for the field gives the same op. RS_E_ARG_LIMIT for too many fields, RS_E_FMT_LIMIT for too many
 * ops, rules 21 to 23 for keys and consts, RS_E_MEM. After an error the ops may only be cleared. */
RS_NODISCARD rs_status rs_arrow_compile(rs_arrow_program *self, const rs_tree *tree, rs_arrow_field *field,
                                        rs_arrow_op **out, rs_error *err);

/* As rs_arrow_compile for any node of a linked tree. */
RS_NODISCARD rs_status rs_arrow_compile_node(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                             rs_arrow_op **out, rs_error *err);
/* As rs_arrow_compile_node. With `known` it compiles nothing: *out becomes NULL for a node that is not compiled. */
RS_NODISCARD rs_status rs_arrow_compile_place(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                              bool known, rs_arrow_op **out, rs_error *err);

/* As rs_arrow_compile_place for a map's values, at the field of a key; after rs_arrow_program_settle that of a type. */
RS_NODISCARD rs_status rs_arrow_compile_entry(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field,
                                              bool known, rs_arrow_op **out, rs_error *err);

/* Allocates n zeroed items of `size` bytes that live as long as the ops, and sets the pointer at `out`. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_allot(rs_arrow_program *self, size_t n, size_t size, void *out, rs_error *err);

/* Makes the ops refer to the fields of the types. Call it after the last rs_arrow_resolve. */
void rs_arrow_program_settle(rs_arrow_program *self);
