/* rs_arrow_schema.h: the type of an Arrow array (arrow/rs_arrow.h), compiled to nodes: the content of each buffer, how
 * its values become any values, and the keys of structs as bytes to copy.
 *
 * A schema comes from another library and is not trusted: format strings, names, numbers of children, pointers that
 * must not be NULL, and the depth are checked. The interface gives no sizes for its C strings, pointer arrays and
 * metadata, so an `n_children` that is too large or a string without an end cannot be detected. */
#pragma once

#include "base/rs_buffer.h"
#include "arrow/rs_arrow.h"
#include "arrow/rs_zones.h"

/* The kind of a node. TEXT and BYTES have offsets, their VIEW kinds views; the children of RUN_END are run ends and
 * values; the only child of DICTIONARY has the entries; the only child of MAP is a STRUCT of keys and values. */
typedef enum rs_arrow_kind {
    RS_ARROW_NULL,
    RS_ARROW_BOOL,
    RS_ARROW_INT,
    RS_ARROW_UINT,
    RS_ARROW_WIDE,  /* a 128-bit int, an extension of polars */
    RS_ARROW_FLOAT, /* width 2 (half precision), 4 or 8 */
    RS_ARROW_TEXT,
    RS_ARROW_BYTES,
    RS_ARROW_TEXT_VIEW,
    RS_ARROW_BYTES_VIEW,
    RS_ARROW_FIXED_BYTES,
    RS_ARROW_UUID,  /* the extension type arrow.uuid over 16 fixed bytes */
    RS_ARROW_BOOL8, /* the extension type arrow.bool8 over 8-bit ints */
    RS_ARROW_DECIMAL,
    RS_ARROW_DATE, /* width 4: days, 8: milliseconds */
    RS_ARROW_TIME,
    RS_ARROW_TIMESTAMP,
    RS_ARROW_DURATION,
    RS_ARROW_INTERVAL, /* width 4: months; 8: days and milliseconds; 16: months, days and nanoseconds */
    RS_ARROW_LIST,
    RS_ARROW_LIST_VIEW,
    RS_ARROW_FIXED_LIST,
    RS_ARROW_STRUCT,
    RS_ARROW_MAP,
    RS_ARROW_SPARSE_UNION,
    RS_ARROW_DENSE_UNION,
    RS_ARROW_RUN_END,
    RS_ARROW_DICTIONARY
} rs_arrow_kind;

enum {
    RS_ARROW_DEPTH = 200,       /* the deepest nesting of nodes, the same as of containers in a record */
    RS_ARROW_NODES = 1 << 20,   /* the most nodes of a schema */
    RS_ARROW_UNION_TYPES = 128, /* type ids of unions are 0 to 127 */
    RS_ARROW_PATH_SIZE = 100    /* bytes of a path in messages */
};
#define RS_ARROW_NO_ZONE UINT32_MAX
#define RS_ARROW_NO_NODE UINT32_MAX
#define RS_ARROW_NO_TYPE UINT16_MAX

/* The unit of times, timestamps and durations. */
enum { RS_ARROW_SECONDS, RS_ARROW_MILLISECONDS, RS_ARROW_MICROSECONDS, RS_ARROW_NANOSECONDS };

/* How to store timestamps and durations in nanoseconds, which Python's datetime cannot hold. */
typedef enum rs_arrow_nanoseconds {
    RS_ARROW_NANOSECONDS_EXACT, /* datetime and timedelta; a fraction of a microsecond is an error */
    RS_ARROW_NANOSECONDS_FLOOR, /* datetime and timedelta, rounded down */
    RS_ARROW_NANOSECONDS_NUMPY  /* numpy.datetime64 and timedelta64 of nanoseconds; a zone is dropped */
} rs_arrow_nanoseconds;

typedef struct rs_arrow_options {
    bool drop_missing; /* leave out null fields of structs, which are None otherwise */
    rs_arrow_nanoseconds nanoseconds;
    const rs_slice *columns; /* the fields of the outermost struct to read, in this order; NULL: all */
    size_t n_columns;
    rs_zone_finder find_zone; /* called for named zones while the schema is compiled, and while values are appended */
    void *context;            /* of find_zone */
} rs_arrow_options;

/* One type within a schema. The children of a node are adjacent. */
typedef struct rs_arrow_node {
    uint8_t kind;    /* rs_arrow_kind */
    uint8_t width;   /* bytes per element of the first data buffer; 0 for bits and fixed bytes; DICTIONARY: per index */
    uint8_t unit;    /* RS_ARROW_SECONDS and so on */
    bool is_entries; /* of STRUCT: the entries of a map, which are tuples */
    bool is_signed;  /* WIDE: whether the ints are signed; DICTIONARY: whether the indices are */
    uint16_t depth;  /* 0: the outermost */
    uint16_t level;  /* number of lists, tuples and dicts around its values */
    uint32_t parent; /* RS_ARROW_NO_NODE for the outermost */
    uint32_t source; /* its number among the children of its parent's array */
    uint32_t first_child;
    uint32_t n_children;
    uint64_t n_source_children; /* number of children of the array, including children that are not read */
    int64_t size;               /* bytes of FIXED_BYTES, elements of FIXED_LIST */
    int32_t scale;              /* of DECIMAL */
    uint32_t zone;              /* of TIMESTAMP; RS_ARROW_NO_ZONE: none */
    size_t name_off, name_size; /* the name as UTF-8, within `names` */
    size_t key_off, key_size;   /* the name as an any value, within `keys` */
    uint64_t key_set_hash;      /* of STRUCT: for rs_scan_add_key_set, if a dict has all keys */
    size_t ids_off;             /* of unions, within `ids`: RS_ARROW_UNION_TYPES u16, the child of each type id */
} rs_arrow_node;

/* A time zone of a schema. */
typedef struct rs_arrow_zone {
    bool is_fixed;
    int32_t offset_s; /* when is_fixed */
    size_t name_off, name_size;
    size_t value_off, value_size; /* the tz of a datetime as an any value, within `keys` */
    rs_zone zone;                 /* when not is_fixed; its name is set on use */
} rs_arrow_zone;

/* A compiled schema. Owns its memory and refers to nothing of the ArrowSchema. Zero the struct before the first use and
 * call rs_arrow_schema_clear at the end. One thread at a time may use it. */
typedef struct rs_arrow_schema {
    rs_arrow_node *nodes; /* breadth first; node 0 is the outermost */
    uint32_t n_nodes, nodes_capacity;
    rs_arrow_zone *zones;
    uint32_t n_zones;
    rs_buffer names, keys, ids;
    bool drop_missing;
    rs_arrow_nanoseconds nanoseconds;
    rs_zone_finder find_zone;
    void *context;
} rs_arrow_schema;

/* Frees the memory and zeroes the struct. */
void rs_arrow_schema_clear(rs_arrow_schema *self);

/* Compiles a live schema, which is only read. `self` must be zeroed; an error clears it. RS_E_IN_BROKEN and
 * RS_E_IN_TYPE, whose messages begin with the path of the type, such as "$.meta.when: "; RS_E_ARG_RANGE for a column in
 * `options` that is missing or not unique, and for columns of a schema that is not a struct; errors of rs_zone_find;
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_schema_compile(rs_arrow_schema *self, const struct ArrowSchema *schema,
                                               const rs_arrow_options *options, rs_error *err);

/* Writes the path of a node with a NUL at the end: "$" is the record, [] an element of a list, {} a key or value of a
 * map. */
void rs_arrow_path(const rs_arrow_schema *self, uint32_t node, char out[RS_ARROW_PATH_SIZE]);

/* Sets *out to the span of a named zone that includes utc_s. Errors of rs_zone_find. */
RS_NODISCARD rs_status rs_arrow_zone_find(rs_arrow_schema *self, uint32_t number, int64_t utc_s, rs_zone_span *out,
                                          rs_error *err);
