/* rs_alternatives.h: the structure of the statistics of a run of values. A *position* is a location within the values,
 * such as the value of one key or the elements of a list. An *alternative* is one kind of value at a position. */
#pragma once

#include "format/rs_format.h"
#include "plan/rs_arena.h"
#include "plan/rs_choices.h"
#include "plan/rs_attempts.h"
#include "plan/rs_scan.h"
#include "plan/rs_value_set.h"

/* The kind of all elements of a list. Lists of ints, of floats and of other values are different alternatives, because
 * lists of numbers have nodes of their own. */
typedef enum rs_elements {
    RS_ELEMENTS_MIXED = 0,
    RS_ELEMENTS_INTS = 1,
    RS_ELEMENTS_FLOATS = 2,
    RS_ELEMENTS_NONE = 3
} rs_elements;

/* Changes the position id of strings with units of 4 bytes. Without it, the id finds the symbol tables of strings with
 * units of 2 bytes, which they may use. */
#define RS_PAIRS_POSITION UINT64_C(0x7061697273)

enum { RS_LARGE_VALUE = 1024 /* the least average bytes of large values, as any values */ };

/* One kind of value at a position. It borrows the bytes of the values; its arrays are in the arena. */
typedef struct rs_alternative {
    uint8_t kind;     /* the node kind that stores such values plainly */
    uint8_t param;    /* list or tuple: the Python type */
    uint8_t elements; /* list: rs_elements. str: 0, 1, 2 for units of 1, 2, 4 bytes, 3 for 4 with surrogates */
    bool constant;    /* every value so far has the bytes of `first` */
    bool same_shape;  /* ndarray: all values so far have the same shape */
    uint32_t n_children;
    uint64_t n;                    /* number of values so far */
    uint64_t raw_bytes;            /* bytes of all values as any values */
    uint64_t counts_bytes;         /* str, bytes, list, map: bytes of all counts as varints */
    uint64_t total;                /* list: elements of all values. map: entries. str, bytes: units */
    rs_slice first;                /* the bytes of the first value */
    rs_span first_span;            /* the same as a span of the values */
    uint64_t first_hash;           /* its hash */
    int64_t min, max;              /* int */
    uint64_t count_min, count_max; /* list */
    rs_slice descriptor, shape;    /* ndarray; descriptor also ext: code and EXTRA */
    rs_slice *keys;                /* struct: the key of each child; each dict has some of them, in this order */
    struct rs_position *children;
    struct rs_key_order *order; /* struct: the order of the keys in the dicts; NULL if no other key set joins it */
    uint32_t keys_capacity;
    uint64_t *key_sets; /* struct: the hashes of the key sets of its dicts */
    uint64_t last_key_set;
    uint32_t n_key_sets, key_sets_capacity;
    uint32_t *offsets; /* int, float, str, some lists: the offset of each value from the base of the run */
    uint32_t n_offsets, offsets_capacity; /* n_offsets is below n if the offsets reached their limit */
    rs_value_set *distinct;               /* the distinct values; NULL when they are not kept */
    bool gave_up;                         /* distinct values are not collected: too many, or not worth a table */
    uint8_t known;                        /* RS_POSITION_*: the results of attempts in earlier runs */
    uint64_t position_id;         /* a hash of the path from the root: the same for the same position in other runs */
    struct rs_prepared *prepared; /* NULL before rs_plan_prepare_alternative */
    const struct rs_placed_weights *placed; /* NULL before rs_plan_weigh_placed */
} rs_alternative;

/* Returns the bytes of a unit of an alternative of strings. */
static inline unsigned rs_alternative_unit_bytes(const rs_alternative *a) {
    return a->elements < 2 ? 1u + a->elements : 4;
}

/* Whether the dicts of a position may be stored as maps. */
typedef enum rs_maps {
    RS_MAPS_UNKNOWN = 0, /* no dict so far */
    RS_MAPS_MAY,         /* all dicts so far have a struct */
    RS_MAPS_NEVER,
    RS_MAPS_BOTH, /* each dict is filed twice: the planner compares maps with structs and `any` */
    RS_MAPS_ONLY  /* maps took fewer bytes in an earlier run, so dicts are filed as maps alone */
} rs_maps;

/* A location within the values, with the alternatives that occur there. */
typedef struct rs_position {
    rs_alternative *alternatives;
    uint32_t n, capacity, last; /* last: the alternative of the last value */
    /* The key sets by hash (rs_stats_structs.c). */
    struct rs_key_set_slot *slots;
    uint32_t n_slots, used_slots;
    bool payload;      /* the payload of an ext value, which is never a value of a table by itself */
    bool in_row;       /* its values are children of structs or tuples */
    bool closed;       /* a dict was put under `any`, so structs take no more new key sets */
    uint8_t maps;      /* rs_maps */
    uint8_t row_count; /* lists of this length are filed as rows: tuples of param 0; 0: none are */
    uint16_t n_lists;  /* the lists so far, up to RS_ROWS_SAMPLE, where it is decided whether they become rows */
    uint64_t position_id;
    uint32_t *dicts; /* RS_MAPS_MAY: the offsets of all dicts so far from the base of the run */
    uint32_t n_dicts, dicts_capacity;
    struct rs_dict_map *map; /* RS_MAPS_BOTH: all dicts of the position as maps */
} rs_position;

/* Returns whether the values are on average so large that each is worth an entry of a table when it repeats. */
static inline bool rs_alternative_is_large(const rs_alternative *a) {
    return a->n > 0 && a->raw_bytes / a->n >= RS_LARGE_VALUE;
}

/* The dicts of a position as maps: an alternative of kind `map`, whose children are the keys and the values. */
typedef struct rs_dict_map {
    rs_alternative as_map;
    uint64_t any_dicts, any_dict_bytes;      /* number and bytes of the dicts that are also under `any` */
    uint32_t n_nodes, n_structs, n_key_sets; /* as in rs_stats, for a tree with maps in place of the structs */
} rs_dict_map;

/* The statistics of a run of values. Zero the struct and set `values`, `scan`, `choices`, `hints`, `run` and
 * root.position_id. Then call rs_stats_collect, and rs_stats_clear at the end. It owns the arena and the sets, and
 * borrows the rest. One thread at a time may use it; each thread may collect stats of its own. */
typedef struct rs_stats {
    rs_values values;
    rs_scan *scan;             /* has scanned the values in their order */
    const rs_choices *choices; /* never NULL */
    const rs_attempts *hints;  /* the results of attempts in earlier runs; NULL if none are known */
    uint32_t run;              /* the number of this run of values, for rs_attempts_known */
    rs_arena arena;
    rs_position root;
    struct rs_kept_set *sets;
    uint64_t raw_bytes;  /* bytes of all values */
    uint64_t kept_bytes; /* bytes of sets and offsets, which are limited */
    uint32_t n_nodes;    /* an upper bound on the number of nodes of the tree so far */
    uint32_t n_structs;  /* number of structs */
    uint32_t n_key_sets; /* number of key sets in all structs */
    uint64_t n_compared; /* number of keys compared to join dicts to structs */
} rs_stats;

/* Returns the bytes from the value at offset `where` to the end of the run. They borrow the values. */
static inline rs_slice rs_stats_from(const rs_stats *self, uint32_t where) {
    const rs_span *last = &self->values.spans[self->values.n - 1];
    RS_ASSERT(where < last->off + last->size_bytes);
    return rs_slice_of(self->values.base + where, last->off + last->size_bytes - where);
}

enum { RS_STATS_KEY_SETS = 65536 /* the most key sets of all structs of a run */ };

/* The properties of a value that decide to which alternative it belongs. */
typedef struct rs_stats_head {
    uint8_t tag, kind, param, elements;
    uint32_t n_children; /* of the alternative */
    uint64_t count;      /* number of elements of this value */
    uint64_t key_set_hash;
    rs_slice descriptor;        /* as in rs_alternative */
    rs_slice body;              /* list, tuple, dict: the bytes after tag and count */
    const uint8_t *numbers_end; /* list of numbers: the end of its last element */
} rs_stats_head;
