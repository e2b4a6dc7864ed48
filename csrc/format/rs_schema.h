/* rs_schema.h: parses and checks the bytes of a schema tree, and compiles them into nodes for readers and writers. */
#pragma once

#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_any.h"
#include "format/rs_format.h"

enum { RS_AUX_SLACK = 16 /* readable bytes after the bytes of a tree */, RS_CACHE_LINE = 64 };

/* A compiled node. Borrows aux and children from its tree. The first 64 bytes are enough for most reads, and the nodes
 * of a tree begin at a multiple of 64, because the trees of a store of many blocks do not all fit the caches. */
typedef struct rs_node {
    uint8_t kind;
    uint8_t param;
    uint16_t flags;
    uint8_t bits;   /* the number of its bits in the parent's bit group, 0 to 64 */
    bool fixed;     /* all bodies have size_bytes bytes */
    bool payload;   /* its value is the payload of an ext node, directly or through union, optional or placed nodes */
    bool partial;   /* struct: one of its children is an optional key */
    uint32_t count; /* the field count of the stored node */
    uint32_t n_children;
    uint32_t bit_off;     /* child of tuple, struct or concat: the offset of its bits in the parent's bit group, which
                             the rare group follows */
    uint32_t body_off;    /* fixed child of such a node: the offset of its body in the parent's head */
    uint32_t group_bytes; /* tuple, struct, concat: bytes of its bit group */
    uint32_t head_bytes;  /* tuple, struct, concat: bytes of its head: the bit group and all fixed bodies */
    union {
        uint64_t base;   /* int, decimal, numbers, digits */
        uint64_t units;  /* const: the units of a str of at most 127 units of 1 byte, behind 2 bytes; else UINT64_MAX */
        uint64_t placed; /* rising, runs, exceptions: its number among the placed nodes */
        uint64_t rare_bytes;    /* tuple, struct, concat: bytes of its rare group, 0 without one */
        const uint8_t *letters; /* alphabet, hex: the 2^letter_bits characters */
    };
    uint64_t size_bytes; /* bytes of the body, when fixed */
    const uint8_t *aux;  /* RS_AUX_SLACK readable bytes follow */
    uint32_t aux_size_bytes;
    uint32_t alone_bytes;                  /* bytes of the bit group of a value that stands alone (FORMAT.md) */
    const struct rs_node *children;        /* numbers, which has no stored children: the node of its elements */
    const struct rs_dict_coded *coded;     /* dict-coded: its tables, set when the store links the tree */
    const struct rs_symbols *symbols;      /* symbols: its table, set when the store links the tree */
    void *slot;                            /* for the user; NULL after compiling. Readers of the core ignore it */
    uint32_t index;                        /* its number in the tree */
    uint8_t scale;                         /* decimal, numbers: the exponent of ten */
    uint8_t correction;                    /* decimal: number of correction bits */
    uint8_t number_kind;                   /* numbers: RS_FMT_NUMBERS_INTS or FLOATS */
    uint8_t stride, head_width, max_width; /* numbers */
    uint8_t letter_bits, letter_form;      /* alphabet, hex: bits of a character; RS_FMT_ALPHABET_* */
    uint64_t data_bytes;                   /* ndarray with FIXED, or scalar: bytes of the data */
    union {
        double divisor;        /* decimal, numbers: 10^scale */
        uint64_t item_bytes;   /* ndarray: bytes of one item */
        uint64_t key_set_hash; /* struct: rs_schema_hash_key over its keys */
    };
} rs_node;

/* A compiled tree. Owns copies of nodes and bytes, so the source bytes may change afterwards. Once compiled and linked,
 * only `slot` and `program` change, so any number of threads may read it. */
typedef struct rs_tree {
    rs_node *nodes;
    void *memory;   /* the memory of the nodes, which begin at a multiple of 64 */
    uint8_t *bytes; /* the tree as stored */
    uint32_t n_nodes;
    uint32_t size_bytes; /* of bytes */
    uint32_t levels;     /* the levels of rule 30; linking adds the levels of tables */
    uint32_t n_placed;   /* number of rising, runs and exceptions nodes */
    uint32_t n_links;    /* number of dict-coded and symbols nodes, which have tables */
    uint32_t tables_end; /* the greatest number of a table of these nodes, plus 1; set when the tree is linked */
    rs_node *elements;   /* the nodes of elements of numbers nodes; the bits of an element are its number */
    void *program;       /* the Python binding's owner of the slots; NULL after compiling. The core ignores it */
} rs_tree;

/* Compiles the bytes of a tree and checks rules 17 to 19, but not its offset and crc. Free *out with rs_tree_clear,
 * except after a failure. `offset` is the offset of the bytes in the segment, for error positions only. Any thread. */
RS_NODISCARD rs_status rs_tree_compile(rs_slice bytes, uint64_t offset, rs_tree *out, rs_error *err);
/* Sets the flag REST of all nodes in tail position that may have it, in nodes and bytes of a tree. For writers. */
void rs_tree_take_rests(rs_tree *self);
/* Returns 10^scale as f64, which is exact for a scale of 0 to RS_FMT_SCALE_MAX; 1 for others. */
double rs_schema_divisor(unsigned scale);
/* Takes the shape of an array of an ndarray node off `in`, if it is stored there, and sets *data_bytes to the bytes of
 * its data. RS_E_FMT_TRUNCATED or RS_E_FMT_VALUE for a bad shape. */
RS_NODISCARD rs_status rs_node_array_bytes(const rs_node *node, rs_slice *in, uint64_t *data_bytes, rs_error *err);
/* Returns the bits of features_required for the nodes. EXT, DTYPES and NARROW are left to the writer of the values. */
uint64_t rs_tree_features(const rs_tree *self);
/* Frees the tree and zeroes the struct. */
void rs_tree_clear(rs_tree *self);

/* Returns the number of bytes of n characters, n at most UINT64_MAX / 8. `form` is RS_FMT_ALPHABET_*. */
static inline uint64_t rs_alphabet_bytes(unsigned bits, unsigned form, uint64_t n) {
    return (n * bits + (form == RS_FMT_ALPHABET_BYTES || form == RS_FMT_ALPHABET_PADDED ? 0 : 7)) / 8;
}

/* Returns whether the aux of a node is a list of table numbers, u32 each. */
static inline bool rs_node_names_tables(const rs_node *node) {
    return node->kind == RS_FMT_NODE_DICT_CODED || node->kind == RS_FMT_NODE_SYMBOLS;
}

/* Returns whether the value of a node depends on the number of the record: rising, runs or exceptions. */
static inline bool rs_node_is_placed(const rs_node *node) {
    return node->kind >= RS_FMT_NODE_RISING && node->kind <= RS_FMT_NODE_EXCEPTIONS;
}

/* Returns whether the bits of an optional are in the rare group of its parent. */
static inline bool rs_node_is_rare(const rs_node *node) { return (node->flags & RS_FMT_FLAG_RARE) != 0; }

/* Returns whether every value of a node is a bool, int or float in its bits and body. */
static inline bool rs_node_is_number(const rs_node *node) {
    return node->kind == RS_FMT_NODE_INT || node->kind == RS_FMT_NODE_FLOAT || node->kind == RS_FMT_NODE_DECIMAL ||
           node->kind == RS_FMT_NODE_BOOL;
}
