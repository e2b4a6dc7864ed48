/* rs_survey.h: what stands where in a run of values, read whole: exact, nothing sampled. A position is a place in them
 * (the value of one key, the elements of one list); an alternative is one kind of value seen there. */
#ifndef RS_SURVEY_H
#define RS_SURVEY_H

#include "format/rs_format.h"
#include "write/rs_packer.h"
#include "write/rs_scan.h"
#include "write/rs_value_set.h"

/* Memory that is freed as a whole. Zero it to begin. Not thread-safe. */
typedef struct rs_arena {
    struct rs_arena_chunk *chunks;
} rs_arena;

/* `size` zeroed bytes, 16-aligned, or NULL. They live until rs_arena_clear. */
void *rs_arena_take(rs_arena *self, size_t size);
void rs_arena_clear(rs_arena *self);

/* What the elements of a list are, all of them. Lists of different contents are different alternatives: numbers have a
 * form of their own. */
typedef enum rs_elements {
    RS_ELEMENTS_MIXED = 0,
    RS_ELEMENTS_INTS = 1,
    RS_ELEMENTS_FLOATS = 2,
    RS_ELEMENTS_NONE = 3
} rs_elements;

/* The keys of a dict that belongs to a struct: `n` of them. */
typedef struct rs_shape {
    uint64_t hash;
    uint32_t n;
    uint32_t *children; /* the struct's child of each key */
} rs_shape;

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
    rs_shape *shapes;   /* struct */
    uint32_t n_shapes, shapes_capacity, last_shape;
    uint32_t *where;    /* int, float, str, list of numbers: where each value begins, from the base; n_where of them */
    uint32_t n_where, where_capacity;
    rs_value_set *distinct; /* NULL: not kept, or given up because there were too many */
    bool gave_up;
    uint64_t path;      /* the way to it from the root: the same for the same place in other runs */
} rs_alternative;

typedef struct rs_position {
    rs_alternative *alternatives;
    uint32_t n, capacity, last;
    bool payload;       /* of an ext value: never an entry of a table by itself */
    bool closed;        /* a dict had to go under `any`: no struct takes a further shape, which could be that dict's */
    uint64_t path;
} rs_position;

/* Owns all that was seen. Zero it but for `values`, `scan`, `packer` and the root's path, then rs_survey_run;
 * rs_survey_clear at the end. */
typedef struct rs_survey {
    rs_values values;
    rs_scan *scan;      /* has read the values in their order */
    const struct rs_packer *packer; /* knows what was not worth trying in the runs before; NULL: nothing */
    rs_arena arena;
    rs_position root;
    struct rs_kept_set *sets;
    uint64_t kept_bytes; /* by sets and places, which memory bounds */
    uint32_t n_nodes, n_shapes, n_known; /* n_known: shapes of dicts */
    uint64_t n_compared; /* keys, for shapes that might join a struct */
} rs_survey;

/* The units, each of unit_bytes, of the str that begins at a place noted in rs_alternative.where. */
static inline rs_slice rs_survey_units(const rs_survey *self, uint32_t where, unsigned unit_bytes) {
    rs_slice in = rs_slice_of(self->values.base + where + 1, UINT32_MAX);
    uint64_t n = rs_scan_varint_unchecked(&in);
    return rs_slice_of(in.ptr, (size_t)(n * unit_bytes));
}

/* Reads all values. RS_E_ARG_LIMIT: no tree within the limits describes them. RS_E_MEM. */
RS_NODISCARD rs_status rs_survey_run(rs_survey *self, rs_error *err);
/* An empty set that lives as long as the survey; NULL without memory. */
rs_value_set *rs_survey_new_set(rs_survey *self);
void rs_survey_clear(rs_survey *self);

#endif
