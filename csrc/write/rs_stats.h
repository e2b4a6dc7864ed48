/* rs_stats.h: what stands where in a run of values, all of which are read: nothing is sampled. A position is a
 * spot in them (the value of one key, the elements of one list); an alternative is one kind of value seen there. */
#ifndef RS_STATS_H
#define RS_STATS_H

#include "format/rs_format.h"
#include "write/rs_dictionaries.h"
#include "write/rs_scan.h"
#include "write/rs_value_set.h"

/* Memory that is freed as a whole. Zero it to begin. Not thread-safe. */
typedef struct rs_arena {
    struct rs_arena_chunk *chunks;
} rs_arena;

/* `size` zeroed bytes, 16-aligned, or NULL. They live until rs_arena_clear. */
void *rs_arena_take(rs_arena *self, size_t size);
void rs_arena_clear(rs_arena *self);

/* What the elements of a list are, all of them. Lists of different contents are different alternatives: numbers have
 * nodes of their own. */
typedef enum rs_elements {
    RS_ELEMENTS_MIXED = 0,
    RS_ELEMENTS_INTS = 1,
    RS_ELEMENTS_FLOATS = 2,
    RS_ELEMENTS_NONE = 3
} rs_elements;

/* The keys of a dict that belongs to a struct: `n` of them. */
typedef struct rs_key_set {
    uint64_t hash;
    uint32_t n;
    uint32_t *children; /* the struct's child of each key */
} rs_key_set;

/* Borrows the values; arrays are the arena's. */
typedef struct rs_alternative {
    uint8_t kind;       /* node kind that would hold it without more ado */
    uint8_t param;      /* list or tuple: the Python type */
    uint8_t elements;   /* list: rs_elements. str: 0, 1, 2 for units of 1, 2, 4 bytes, which are an alternative each */
    bool constant;      /* every value so far has the bytes of `first` */
    bool same_shape;    /* ndarray */
    uint32_t n_children;
    uint64_t n;         /* values seen */
    uint64_t raw_bytes; /* of all of them, as `any` */
    uint64_t counts_bytes; /* str, bytes, list: of their counts as varints */
    uint64_t total;     /* list: elements. str, bytes: units */
    rs_slice first;     /* the first value's bytes */
    int64_t min, max;   /* int */
    uint64_t count_min, count_max; /* list */
    rs_slice descriptor, shape;    /* ndarray; descriptor also ext: code and EXTRA */
    rs_slice *keys;     /* struct: n_children of them */
    struct rs_position *children;
    rs_key_set *key_sets;   /* struct */
    uint32_t n_key_sets, key_sets_capacity, last_key_set;
    uint32_t *where;    /* int, float, str, list of numbers: where each value begins, from the base; n_where of them */
    uint32_t n_where, where_capacity;
    rs_value_set *distinct; /* NULL: not kept, or given up because there were too many */
    bool gave_up;
    uint64_t position_id; /* the way to it from the root: the same for the same position in other runs */
} rs_alternative;

typedef struct rs_position {
    rs_alternative *alternatives;
    uint32_t n, capacity, last;
    bool payload;       /* of an ext value: never an entry of a table by itself */
    bool closed;        /* a dict had to go under `any`: no struct takes a further shape, which could be that dict's */
    uint64_t position_id;
} rs_position;

/* Owns all that was seen. Zero it but for `values`, `scan`, `dictionaries` and the root's position_id, then
 * rs_stats_collect; rs_stats_clear at the end. */
typedef struct rs_stats {
    rs_values values;
    rs_scan *scan;      /* has read the values in their order */
    const struct rs_dictionaries *dictionaries; /* knows what was not worth trying in the runs before; NULL: nothing */
    rs_arena arena;
    rs_position root;
    struct rs_kept_set *sets;
    uint64_t kept_bytes; /* by sets and offsets, which memory bounds */
    uint32_t n_nodes, n_key_sets, n_known; /* n_known: key sets of dicts */
    uint64_t n_compared; /* keys, for key sets that might join a struct */
} rs_stats;

/* The units, each of unit_bytes, of the str that begins at an offset noted in rs_alternative.where. */
static inline rs_slice rs_stats_units(const rs_stats *self, uint32_t where, unsigned unit_bytes) {
    rs_slice in = rs_slice_of(self->values.base + where + 1, UINT32_MAX);
    uint64_t n = rs_scan_varint_unchecked(&in);
    return rs_slice_of(in.ptr, (size_t)(n * unit_bytes));
}

/* Reads all values. RS_E_ARG_LIMIT: no tree within the limits describes them. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_collect(rs_stats *self, rs_error *err);
/* An empty set that lives as long as the stats; NULL without memory. */
rs_value_set *rs_stats_new_set(rs_stats *self);
void rs_stats_clear(rs_stats *self);

#endif
