/* rs_stats.h: statistics of a run of values, from which a tree is planned. Every value is read; nothing is sampled. A
 * *position* is a location within the values, such as the value of one key or the elements of a list. An *alternative*
 * is one kind of value at a position. */
#ifndef RS_STATS_H
#define RS_STATS_H

#include "format/rs_format.h"
#include "write/rs_dictionaries.h"
#include "write/rs_scan.h"
#include "write/rs_value_set.h"

/* Memory that is freed as a whole. Zero the struct before the first use. One thread at a time may use it. */
typedef struct rs_arena {
    struct rs_arena_chunk *chunks;
} rs_arena;

/* Returns `size` zeroed bytes, aligned to 16, that live until rs_arena_clear; NULL without memory. */
void *rs_arena_take(rs_arena *self, size_t size);
void rs_arena_clear(rs_arena *self);

/* What all elements of a list are. Lists of ints, of floats and of other values are different alternatives, because
 * lists of numbers have nodes of their own. */
typedef enum rs_elements {
    RS_ELEMENTS_MIXED = 0,
    RS_ELEMENTS_INTS = 1,
    RS_ELEMENTS_FLOATS = 2,
    RS_ELEMENTS_NONE = 3
} rs_elements;

/* The key set of dicts that are stored under one struct node. */
typedef struct rs_key_set {
    uint64_t hash;
    uint32_t n;         /* number of keys */
    uint32_t *children; /* for each key, the number of the struct's child */
} rs_key_set;

/* One kind of value at a position. It borrows the bytes of the values; its arrays lie in the arena. */
typedef struct rs_alternative {
    uint8_t kind;     /* the node kind that stores such values plainly */
    uint8_t param;    /* list or tuple: the Python type */
    uint8_t elements; /* list: rs_elements. str: 0, 1, 2 for units of 1, 2, 4 bytes, each its own alternative */
    bool constant;    /* every value so far has the bytes of `first` */
    bool same_shape;  /* ndarray: all values so far have the same shape */
    uint32_t n_children;
    uint64_t n;                    /* number of values so far */
    uint64_t raw_bytes;            /* bytes of all values as any values */
    uint64_t counts_bytes;         /* str, bytes, list: bytes of all counts as varints */
    uint64_t total;                /* list: number of all elements. str, bytes: number of all units */
    rs_slice first;                /* the bytes of the first value */
    int64_t min, max;              /* int */
    uint64_t count_min, count_max; /* list */
    rs_slice descriptor, shape;    /* ndarray; descriptor also ext: code and EXTRA */
    rs_slice *keys;                /* struct: the key of each child */
    struct rs_position *children;
    rs_key_set *key_sets; /* struct */
    uint32_t n_key_sets, key_sets_capacity, last_key_set;
    uint32_t *where; /* int, float, str, list of numbers: the offset of each value from the base of the run */
    uint32_t n_where, where_capacity; /* n_where is below n when memory for the offsets ran out */
    rs_value_set *distinct;           /* the distinct values; NULL when they are not kept */
    bool gave_up;         /* distinct values are not collected (any more): too many, or known to be of no use */
    uint64_t position_id; /* a hash of the path from the root: the same for the same position in other runs */
} rs_alternative;

/* A location within the values, with the alternatives that occur there. */
typedef struct rs_position {
    rs_alternative *alternatives;
    uint32_t n, capacity, last; /* last: the alternative of the last value */
    bool payload;               /* the payload of an ext value, which alone is never a value of a table */
    bool closed; /* a dict was put under `any`: no struct may take its key set, or any new one, afterwards */
    uint64_t position_id;
} rs_position;

/* The statistics of a run of values. Zero the struct and set `values`, `scan`, `dictionaries` and root.position_id.
 * Then call rs_stats_collect, and rs_stats_clear at the end. It owns the arena and borrows the rest. */
typedef struct rs_stats {
    rs_values values;
    rs_scan *scan;                              /* has scanned the values in their order */
    const struct rs_dictionaries *dictionaries; /* its notes say which attempts failed in earlier runs; may be NULL */
    rs_arena arena;
    rs_position root;
    struct rs_kept_set *sets;
    uint64_t kept_bytes; /* bytes of sets and offsets, which are limited */
    uint32_t n_nodes;    /* an upper bound of the nodes of the tree so far */
    uint32_t n_key_sets; /* number of structs */
    uint32_t n_known;    /* number of key sets in all structs */
    uint64_t n_compared; /* number of keys that were compared to let dicts join structs */
} rs_stats;

/* Returns the units, of unit_bytes each, of the str at an offset of rs_alternative.where. They borrow the values. */
static inline rs_slice rs_stats_units(const rs_stats *self, uint32_t where, unsigned unit_bytes) {
    rs_slice in = rs_slice_of(self->values.base + where + 1, UINT32_MAX);
    uint64_t n = rs_scan_varint_unchecked(&in);
    return rs_slice_of(in.ptr, (size_t)(n * unit_bytes));
}

/* Reads all values. RS_E_ARG_LIMIT when no tree within the limits describes them; RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_collect(rs_stats *self, rs_error *err);
/* Returns an empty set that lives as long as the stats; NULL without memory. */
rs_value_set *rs_stats_new_set(rs_stats *self);
void rs_stats_clear(rs_stats *self);

#endif
