/* rs_arrow_field.h: a field of the Arrow table of a store: the kinds of values at its place in the records, its Arrow
 * type, and its values in the current batch.
 *
 * Fields form a tree. It grows while trees and records are read (rs_arrow_program.h, rs_arrow_walk.h). rs_arrow_resolve
 * then fixes the type of each field, and rs_arrow_export.h makes Arrow structs of types and values. One thread at a
 * time may use a tree of fields. */
#pragma once

#include "columns/rs_entries.h"

/* The kinds of values at a place. */
enum {
    RS_ARROW_SEEN_NULL = 1 << 0,
    RS_ARROW_SEEN_BOOL = 1 << 1,
    RS_ARROW_SEEN_INT = 1 << 2,  /* an int of 64 bits */
    RS_ARROW_SEEN_UINT = 1 << 3, /* an int from 2^63 up to 2^64 - 1, or a numpy uint64 */
    RS_ARROW_SEEN_FLOAT = 1 << 4,
    RS_ARROW_SEEN_TEXT = 1 << 5,
    RS_ARROW_SEEN_BYTES = 1 << 6,
    RS_ARROW_SEEN_LIST = 1 << 7, /* also a set, a deque, a numpy array */
    RS_ARROW_SEEN_TUPLE = 1 << 8,
    RS_ARROW_SEEN_STRUCT = 1 << 9, /* a dict or an object with fields */
    RS_ARROW_SEEN_DATE = 1 << 10,
    RS_ARROW_SEEN_TIME = 1 << 11,
    RS_ARROW_SEEN_NAIVE = 1 << 12, /* a datetime without a zone */
    RS_ARROW_SEEN_AWARE = 1 << 13, /* a datetime with a zone */
    RS_ARROW_SEEN_DURATION = 1 << 14,
    RS_ARROW_SEEN_DECIMAL = 1 << 15,
    RS_ARROW_SEEN_UUID = 1 << 16,
    RS_ARROW_SEEN_INT8 = 1 << 17, /* numpy numbers, from here to FLOAT32 */
    RS_ARROW_SEEN_INT16 = 1 << 18,
    RS_ARROW_SEEN_INT32 = 1 << 19,
    RS_ARROW_SEEN_UINT8 = 1 << 20,
    RS_ARROW_SEEN_UINT16 = 1 << 21,
    RS_ARROW_SEEN_UINT32 = 1 << 22,
    RS_ARROW_SEEN_FLOAT16 = 1 << 23,
    RS_ARROW_SEEN_FLOAT32 = 1 << 24,
    RS_ARROW_SEEN_DATETIME64 = 1 << 25,
    RS_ARROW_SEEN_TIMEDELTA64 = 1 << 26,
    RS_ARROW_SEEN_BIGINT = 1 << 27, /* an int beyond 64 bits */
    RS_ARROW_SEEN_OTHER = 1 << 28,  /* a value that only Python can convert; see rs_arrow_field.others */
    RS_ARROW_SEEN_ODD_KEY = 1 << 29 /* a dict key that is not a str */
};
#define RS_ARROW_SEEN_INTS \
    (RS_ARROW_SEEN_INT | RS_ARROW_SEEN_UINT | RS_ARROW_SEEN_INT8 | RS_ARROW_SEEN_INT16 | RS_ARROW_SEEN_INT32 | \
     RS_ARROW_SEEN_UINT8 | RS_ARROW_SEEN_UINT16 | RS_ARROW_SEEN_UINT32)
#define RS_ARROW_SEEN_FLOATS (RS_ARROW_SEEN_FLOAT | RS_ARROW_SEEN_FLOAT16 | RS_ARROW_SEEN_FLOAT32)

/* The kinds of Arrow types: X(NAME, format string, bytes of a value in its buffer, layout). The export completes the
 * format strings of types with parameters, such as timestamps and decimals. */
#define RS_ARROW_KINDS(X) \
    X(NULL, "n", 0, NONE) \
    X(BOOL, "b", 0, BITS) \
    X(INT8, "c", 1, NUMBERS) \
    X(INT16, "s", 2, NUMBERS) \
    X(INT32, "i", 4, NUMBERS) \
    X(INT64, "l", 8, NUMBERS) \
    X(UINT8, "C", 1, NUMBERS) \
    X(UINT16, "S", 2, NUMBERS) \
    X(UINT32, "I", 4, NUMBERS) \
    X(UINT64, "L", 8, NUMBERS) \
    X(FLOAT16, "e", 2, NUMBERS) \
    X(FLOAT32, "f", 4, NUMBERS) \
    X(FLOAT64, "g", 8, NUMBERS) \
    X(DATE, "tdD", 4, NUMBERS) \
    X(TIME, "ttu", 8, NUMBERS) \
    X(TIMESTAMP, "ts", 8, NUMBERS) \
    X(DURATION, "tD", 8, NUMBERS) \
    X(DECIMAL, "d:", 0, FIXED) \
    X(UUID, "w:16", 16, FIXED) \
    X(TEXT, "u", 0, BYTES) \
    X(BYTES, "z", 0, BYTES) \
    X(LIST, "+l", 0, LIST) \
    X(STRUCT, "+s", 0, STRUCT)
#define RS_ARROW_KIND(name, format, width, layout) RS_ARROW_KIND_##name,
enum { RS_ARROW_KINDS(RS_ARROW_KIND) };

enum {
    RS_ARROW_LAYOUT_NONE,    /* no buffers */
    RS_ARROW_LAYOUT_BITS,    /* a bit for each value */
    RS_ARROW_LAYOUT_NUMBERS, /* numbers of up to 8 bytes */
    RS_ARROW_LAYOUT_FIXED,   /* other values of equal width */
    RS_ARROW_LAYOUT_BYTES,   /* offsets, or views, and bytes */
    RS_ARROW_LAYOUT_LIST,    /* offsets, and one child */
    RS_ARROW_LAYOUT_STRUCT,  /* children */

    /* Why a field has no type. */
    RS_ARROW_PROBLEM_NONE = 0,
    RS_ARROW_PROBLEM_MIXED = 1,  /* values of several kinds */
    RS_ARROW_PROBLEM_OTHER = 2,  /* a value that only Python can convert */
    RS_ARROW_PROBLEM_BIGINT = 3, /* an int beyond 64 bits, or both negative ints and ints from 2^63 on */
    RS_ARROW_PROBLEM_KEY = 4,    /* a key that is not a str */
    RS_ARROW_PROBLEM_DIGITS = 5, /* Decimals of more than 76 digits */
    RS_ARROW_PROBLEM_DEPTH = 6,  /* more levels than RS_ARROW_FIELD_DEPTH */

    RS_ARROW_FIELD_DEPTH = 60, /* libraries reject Arrow types of 64 or more levels */
    RS_ARROW_FIELDS = 1 << 16, /* the most fields of a table */
    RS_ARROW_TUPLE_ITEMS = 64, /* a longer tuple becomes a list, never columns */
    RS_ARROW_ITEM_LEVELS = 2,  /* so does a tuple nested in 2 or more tuples */
    RS_ARROW_DIGITS = 76,      /* of decimal256 */
    RS_ARROW_ZONE_BYTES = 36   /* the longest name of a time zone, with a NUL; longer ones become UTC */
};

typedef struct rs_arrow_field rs_arrow_field;
struct rs_arrow_field {
    /* Its place. */
    char *name; /* UTF-8 with a NUL at the end; owned. Empty for the root, "item" for the element of a list */
    size_t name_size;
    rs_arrow_field *parent;
    rs_arrow_field **children; /* of a struct, and the items of tuples; owned */
    uint32_t n_children;       /* number of leading children that are fields of the type */
    uint32_t n_known, children_capacity;
    uint32_t hint;           /* the last child that was looked up */
    uint32_t *slots;         /* by the hash of a name: 1 + the number of the child, or 0; owned; NULL at first */
    rs_arrow_field *element; /* of a list; owned; NULL before the first element */
    rs_arrow_field *alias;   /* the element that an item of tuples was merged into, or NULL */
    bool closed;             /* export only the existing children; skip others */
    bool utc;                /* datetimes of a named zone are in UTC, so their offset is not needed */
    uint32_t n_below;        /* only for the root: number of fields below it */
    bool rows;               /* only for the root: tuples of one length become structs, whatever their items are */
    bool sealed;             /* no more children may be added */
    bool present;            /* at least one record, or its tree, has the field */
    bool dropped;            /* after rs_arrow_resolve: not a field of the type, because no record has it */
    uint32_t depth;
    uint32_t item_levels; /* number of tuples whose items the field is within */
    uint64_t stamp;       /* of the last compiled struct node with the field */
    /* The kinds of values. */
    uint32_t seen;        /* mask of RS_ARROW_SEEN_* */
    uint32_t n_items;     /* SEEN_TUPLE: the length of all tuples; UINT32_MAX if they differ or must be lists */
    int64_t min, max;     /* bounds of the ints; min > max before the first */
    uint32_t scale;       /* DECIMAL: the most digits after the point */
    uint32_t digits;      /* DECIMAL: the most digits before it */
    uint64_t others;      /* SEEN_OTHER: a bit for each ext code; bit 0 for numpy dtypes without an Arrow type */
    uint8_t unit;         /* DATETIME64, TIMEDELTA64: 'D', 's', 'm', 'u' or 'n'; 1 if values differ */
    bool zone_known;      /* AWARE: zone_minutes and zone_name are set */
    int32_t zone_minutes; /* AWARE: the offset of all values; 0 also if they differ */
    char zone_name[RS_ARROW_ZONE_BYTES]; /* AWARE: the zone of all values, if it has a name; empty if they differ */
    /* The type. */
    uint8_t kind;    /* RS_ARROW_KIND_* */
    uint8_t layout;  /* RS_ARROW_LAYOUT_* */
    uint8_t problem; /* RS_ARROW_PROBLEM_* */
    uint8_t wide;    /* BYTES, LIST: 1 for offsets of 64 bits; DECIMAL: bytes of a value, 16 or 32 */
    bool views;      /* BYTES: views instead of offsets */
    /* The values of the batch. */
    uint64_t n;
    uint64_t n_null;
    rs_buffer valid;    /* a byte for each value; empty before the first null */
    rs_column numbers;  /* BITS, NUMBERS */
    rs_buffer bytes;    /* BYTES, FIXED */
    size_t last_bytes;  /* the size of `numbers` or `bytes` in the last batch */
    rs_buffer offsets;  /* BYTES, LIST: n + 1 i64 */
    rs_entries entries; /* the cache of table entries at this place */
};

/* Makes a root field, which the caller frees with rs_arrow_field_free. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_field_new(rs_arrow_field **out, rs_error *err);
/* Frees a field and its descendants. Does nothing for NULL. */
void rs_arrow_field_free(rs_arrow_field *self);

/* Sets *out to the child with a name of `size` bytes of UTF-8. Adds a missing child, but in a closed or sealed field
 * sets *out to NULL. RS_E_ARG_TEXT for a name with a NUL, RS_E_ARG_LIMIT for
 * too many fields, RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_field_child(rs_arrow_field *self, const char *name, size_t size, rs_arrow_field **out,
                                            rs_error *err);
/* As rs_arrow_field_child for a name of n units of unit_bytes. RS_E_ARG_TEXT also for a lone surrogate. */
RS_NODISCARD rs_status rs_arrow_field_named(rs_arrow_field *self, const uint8_t *units, uint64_t n, unsigned unit_bytes,
                                            rs_arrow_field **out, rs_error *err);
/* Takes a key of the any value of a dict. For a str, sets *is_name to true and *out as rs_arrow_field_named does; for
 * another key, sets them to false and NULL. Also rules 20 to 23 of FORMAT.md. */
RS_NODISCARD rs_status rs_arrow_field_of_key(rs_arrow_field *self, rs_cursor *cursor, bool *is_name,
                                             rs_arrow_field **out, rs_error *err);
/* Sets *out to item `i` of tuples, a child whose name is the number. Errors as rs_arrow_field_child. */
RS_NODISCARD rs_status rs_arrow_field_item(rs_arrow_field *self, uint32_t i, rs_arrow_field **out, rs_error *err);
/* Sets *out to the element of lists. Errors as rs_arrow_field_child. */
RS_NODISCARD rs_status rs_arrow_field_element(rs_arrow_field *self, rs_arrow_field **out, rs_error *err);

/* Writes the path of the field for messages, such as a.b[], and $ for the root; cut to `size` bytes. */
void rs_arrow_field_path(const rs_arrow_field *self, char *to, size_t size);

/* Adds kinds of values to the field. */
static inline void rs_arrow_add_kind(rs_arrow_field *self, uint32_t kinds) {
    self->seen |= kinds;
    self->present = true;
}
/* Adds ints from min to max. */
void rs_arrow_add_ints(rs_arrow_field *self, int64_t min, int64_t max);
/* Adds a tuple of n items. Returns whether each item has a field of its own; else they are elements of a list. */
bool rs_arrow_add_tuple(rs_arrow_field *self, uint64_t n);
/* Adds a value that only Python can convert, by its ext code. */
void rs_arrow_add_other(rs_arrow_field *self, unsigned code);
/* Adds the time zone of a datetime: its offset in minutes, and its name or "". */
void rs_arrow_add_zone(rs_arrow_field *self, int32_t minutes, const char *name);
/* Removes all kinds of values from the field and its descendants. The fields stay. */
void rs_arrow_clear_kinds(rs_arrow_field *self);

/* Sets the types of the field and its descendants from their kinds of values. Drops descendants that no record has. For
 * a field without a type, sets `problem`, and *whole to false. Tuples become lists if their lengths differ or their
 * items share a type, else structs; with root->rows, tuples of one length at the root always become structs. Errors of
 * rs_arrow_field_child. */
RS_NODISCARD rs_status rs_arrow_resolve(rs_arrow_field *root, bool *whole, rs_error *err);

/* Sets the type of one field. */
void rs_arrow_set_kind(rs_arrow_field *self, unsigned kind);

/* Seals the field and its descendants: new names no longer add fields. */
void rs_arrow_seal(rs_arrow_field *self);

/* Returns the field that `self` was merged into, or `self`. */
static inline rs_arrow_field *rs_arrow_resolved(rs_arrow_field *self) {
    while (self->alias != NULL) self = self->alias;
    return self;
}
