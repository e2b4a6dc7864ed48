/* rs_schema.h: schema trees: parse the bytes of one, check every rule, and compile it into an array of nodes
 * that encode, decode and verify walk. */
#ifndef RS_SCHEMA_H
#define RS_SCHEMA_H

#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_any.h"
#include "format/rs_format.h"

/* One compiled node. Borrows aux and children from the tree that holds it. */
typedef struct rs_node {
    uint8_t kind;
    uint8_t param;
    uint16_t flags;
    uint8_t bits;         /* what it puts into its parent's bit group, 0 to 64 */
    bool fixed;           /* every body has size_bytes */
    bool payload;         /* its value is the payload of an ext node, perhaps by way of unions */
    uint32_t index;       /* its number in the tree */
    uint32_t n_children;
    uint32_t count;       /* list with the fixed flag */
    uint32_t aux_size_bytes;
    uint32_t bit_off;     /* child of tuple or struct: where its bits begin in the parent's group */
    uint32_t body_off;    /* fixed child of tuple or struct: where its body begins in the parent's */
    uint32_t group_bytes; /* tuple, struct: own bit group */
    uint32_t head_bytes;  /* tuple, struct: bit group and the bodies of the fixed children */
    uint32_t alone_bytes; /* bit group of this node standing alone */
    uint64_t size_bytes;  /* body, when fixed */
    uint64_t item_bytes;  /* ndarray: size of one item */
    uint64_t data_bytes;  /* ndarray of fixed shape, or scalar: size of the data */
    uint64_t base;        /* int */
    uint64_t key_set_hash;  /* struct: rs_schema_hash_key over its keys */
    const struct rs_node *children; /* of numbers, which has none: its element */
    const uint8_t *aux;
    uint8_t scale;        /* decimal, numbers: the power of ten */
    uint8_t correction;   /* decimal: bits of it */
    uint8_t number_kind;  /* numbers: RS_FMT_NUMBERS_INTS or FLOATS */
    uint8_t stride, head_width, max_width; /* numbers */
    bool partial;         /* struct: one of its children is an optional key */
    double divisor;       /* decimal, numbers: 10^scale */
    const struct rs_dict_coded *coded;   /* dict-coded: its tables, set when the store links the tree */
    const struct rs_symbols *symbols;   /* symbols: its table, likewise */
    void *slot;           /* the binding's: what it keeps for this node; NULL when compiled. The core ignores it */
} rs_node;

/* Owns copies of nodes and bytes: what it was compiled from may change afterwards. Linked and compiled, it no longer
 * changes but for `slot` and `program`, so threads may read it together. */
typedef struct rs_tree {
    rs_node *nodes;
    uint8_t *bytes; /* the tree as stored */
    uint32_t n_nodes;
    uint32_t size_bytes;
    uint32_t levels;     /* of nodes with children, those of the trees of its tables added once it is linked */
    uint32_t n_links;    /* dict-coded and symbols nodes: they need tables */
    uint32_t tables_end; /* above the number of every table that they name; set when the tree is linked */
    rs_node *elements;   /* what the children of numbers nodes stand in for: ints or decimals whose value is its bits */
    void *program;  /* the binding's: what owns the slots of the nodes; NULL when compiled. The core ignores it */
} rs_tree;

/* Rules 17 to 19. On failure nothing is held; else free with rs_tree_clear. `offset` is where the bytes
 * stand in the segment, for error positions only. Any thread. */
RS_NODISCARD rs_status rs_tree_compile(rs_slice bytes, uint64_t offset, rs_tree *out, rs_error *err);
/* Lets str, bytes and symbols in tail position take the rest (flag 2): in nodes and bytes of a compiled tree. */
void rs_tree_take_rests(rs_tree *self);
/* 10^scale as f64, exact for a scale of 0 to RS_FMT_SCALE_MAX; 1 beyond. */
double rs_schema_divisor(unsigned scale);
/* Bits of features_required that the nodes need. */
uint64_t rs_tree_features(const rs_tree *self);
void rs_tree_clear(rs_tree *self);

#endif
