/* rs_column.h: collects the numbers of a field, record after record, in one array. */
#pragma once

#include "base/rs_buffer.h"
#include "read/rs_path.h"

enum {
    RS_COLUMN_BOOL = 1,
    RS_COLUMN_INT = 2,
    RS_COLUMN_FLOAT = 4,

    RS_COLUMN_SHORT = 16 /* up to this length, element 0 of the lists of all rows is read, then element 1, ... */
};

/* An array of numbers: u8 while all are bools, i64 from the first int on, f64 from the first float on. Earlier numbers
 * are converted. Owns `values`. Zero the struct before the first use; call rs_column_clear at the end. One thread at a
 * time may use it. */
typedef struct rs_column {
    rs_buffer values;
    unsigned seen; /* mask of the types appended so far: RS_COLUMN_BOOL, INT and FLOAT */
    bool inexact;  /* an int beyond 2^53 became a float and may have been rounded */
} rs_column;

/* Returns the type of the numbers of a node; 0 for another node. */
static inline unsigned rs_column_type_of(const rs_node *node) {
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_BOOL: return RS_COLUMN_BOOL;
    case RS_FMT_NODE_INT: return RS_COLUMN_INT;
    case RS_FMT_NODE_FLOAT:
    case RS_FMT_NODE_DECIMAL: return RS_COLUMN_FLOAT;
    case RS_NODES_TEXT:
    case RS_NODES_STEP:
    case RS_NODES_LIST:
    case RS_NODES_OTHER:
    case RS_FMT_NODE_ANY:
    case RS_FMT_NODE_CONST: break;
    }
    return 0;
}

/* Returns the size of one number in bytes. */
static inline unsigned rs_column_item_bytes(const rs_column *self) { return self->seen == RS_COLUMN_BOOL ? 1 : 8; }

/* Frees the array. The column is then empty and can be used again. */
void rs_column_clear(rs_column *self);

/* Drops the numbers, and keeps the memory. */
static inline void rs_column_empty(rs_column *self) {
    self->values.size_bytes = 0;
    self->seen = 0;
    self->inexact = false;
}

/* Converts an int to a float, and sets `inexact` beyond 2^53, where not every int has an exact float. */
static inline double rs_column_float(rs_column *self, int64_t value) {
    self->inexact |= (uint64_t)value + (UINT64_C(1) << 53) > UINT64_C(1) << 54;
    return (double)value;
}

/* Takes the any value at the cursor if it is a bool, an int of 64 bits or a float: sets *type, and *bits as
 * rs_column_join_unchecked takes them. Else *type becomes 0, *bits the tag, and the cursor stays. Rules 21 to 23 of
 * FORMAT.md. */
RS_NODISCARD static inline rs_status rs_column_any(rs_cursor *cursor, unsigned *type, uint64_t *bits, rs_error *err) {
    const uint8_t *p;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    const uint8_t tag = *p;
    if (rs_tag_is_int64(tag)) {
        const unsigned size = rs_any_int_size(tag) - 1;
        RS_TRY(rs_decode_take(cursor, size, &p, err));
        *type = RS_COLUMN_INT;
        *bits = (uint64_t)(size == 0 ? rs_tag_small_value(tag) : rs_load_int_unchecked(p, size));
    } else if (tag == RS_FMT_TAG_FALSE || tag == RS_FMT_TAG_TRUE) {
        *type = RS_COLUMN_BOOL;
        *bits = tag == RS_FMT_TAG_TRUE;
    } else if (tag == RS_FMT_TAG_FLOAT) {
        RS_TRY(rs_decode_take(cursor, 8, &p, err));
        *type = RS_COLUMN_FLOAT;
        *bits = rs_load_u64(p);
    } else {
        *type = 0;
        *bits = tag;
        cursor->in.ptr--;
    }
    return RS_OK;
}

/* Appends the number at a settled place. Sets *taken to false, and appends nothing, for another value. Errors: rules 21
 * to 23 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD rs_status rs_column_take_number(rs_column *self, rs_cursor *cursor, const rs_place *place, bool *taken,
                                             rs_error *err);

/* As rs_column_take_number, for the *n numbers of a numbers node, or of a list node whose child has only numbers. The
 * caller leaves the list (rs_decode_leave). */
RS_NODISCARD rs_status rs_column_take_list(rs_column *self, rs_cursor *cursor, const rs_place *list, uint64_t *n,
                                           bool *taken, rs_error *err);

/* As rs_column_reserve, without its quick test. */
RS_NODISCARD rs_status rs_column_grow(rs_column *self, uint64_t n, rs_error *err);

/* Reserves room for n more numbers, as if each number of the column took 8 bytes. RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_column_reserve(rs_column *self, uint64_t n, rs_error *err) {
    const bool is_wide = (self->seen & ~(unsigned)RS_COLUMN_BOOL) != 0;
    if (RS_LIKELY(is_wide && n <= (self->values.capacity_bytes - self->values.size_bytes) / 8)) return RS_OK;
    return rs_column_grow(self, n, err);
}

/* Appends a number of one of the three types. `bits` is 0 or 1, the i64, or the bits of the f64. Room is reserved. */
void rs_column_join_unchecked(rs_column *self, unsigned type, uint64_t bits);

/* As rs_column_join_unchecked, and inline while all numbers are ints or all are floats. */
static inline void rs_column_put_unchecked(rs_column *self, unsigned type, uint64_t bits) {
    if (RS_LIKELY(self->seen == type && type != RS_COLUMN_BOOL)) {
        rs_store_u64(self->values.data + self->values.size_bytes, bits);
        self->values.size_bytes += 8;
    } else {
        rs_column_join_unchecked(self, type, bits);
    }
}

/* n rows that have the bits and the body of a node at the same offsets. Row k begins at records[k], or at
 * base + k * stride_bytes if `records` is NULL. */
typedef struct rs_column_rows {
    const uint8_t *base;
    int64_t stride_bytes;
    const rs_slice *records;
    uint64_t n;
    uint64_t least;    /* the least size of a row */
    uint64_t bit_off;  /* the offset of the node's bits in the row, in bits */
    uint64_t body_off; /* the offset of its body, in bytes */
    /* The number of row k in its block: locals[k], or local + k * step if `locals` is NULL. */
    const uint32_t *locals;
    int64_t local, step;
} rs_column_rows;

/* Returns the first byte of row k, which is below n. */
static inline const uint8_t *rs_column_row_at(const rs_column_rows *self, uint64_t k) {
    return self->records != NULL ? self->records[k].ptr : self->base + (int64_t)k * self->stride_bytes;
}

static inline uint32_t rs_column_local_at(const rs_column_rows *self, uint64_t k) {
    return self->locals != NULL ? self->locals[k] : (uint32_t)(self->local + (int64_t)k * self->step);
}

/* Returns rows `begin` to `end` - 1; `end` is at most n. */
static inline rs_column_rows rs_column_rows_from(const rs_column_rows *self, uint64_t begin, uint64_t end) {
    rs_column_rows out = *self;
    out.n = end - begin;
    if (out.records != NULL) out.records += begin;
    else out.base += (int64_t)begin * self->stride_bytes;
    if (out.locals != NULL) out.locals += begin;
    else out.local += (int64_t)begin * self->step;
    return out;
}

/* Returns the rows of element i of a list with a fixed body. */
static inline rs_column_rows rs_column_element_rows(const rs_node *list, const rs_column_rows *rows, uint64_t i) {
    const rs_node *child = list->children;
    rs_column_rows out = *rows;
    out.bit_off = rows->body_off * 8 + i * child->bits;
    out.body_off = rows->body_off + ((uint64_t)list->count * child->bits + 7) / 8 + i * child->size_bytes;
    return out;
}

/* Returns the rows of child i of a tuple with a fixed body. */
static inline rs_column_rows rs_column_child_rows(const rs_node *tuple, const rs_column_rows *rows, uint64_t i) {
    const rs_node *child = &tuple->children[i];
    rs_column_rows out = *rows;
    out.bit_off = (tuple->bits != 0 ? rows->bit_off : rows->body_off * 8) + child->bit_off;
    out.body_off = rows->body_off + child->body_off;
    return out;
}

/* Writes the number of each row at `to`, for an int, bool, decimal or float node. Returns true for f64, false for i64.
 * The caller has checked that bits and body are within `least`, and that there is room. */
bool rs_column_load_rows(const rs_node *node, const rs_column_rows *rows, uint8_t *to);
/* As rs_column_load_rows, with the number of row k at to + k * step. */
bool rs_column_load_rows_apart(const rs_node *node, const rs_column_rows *rows, uint8_t *to, size_t step);

/* Appends the number of each row, for a fixed node. Sets *taken to false and appends nothing if that is not a number.
 * The caller has checked that bits and body are within `least`. Errors: RS_E_MEM, RS_E_FMT_TRUNCATED. */
RS_NODISCARD rs_status rs_column_take_rows(rs_column *self, const rs_cursor *cursor, const rs_node *node,
                                           const rs_column_rows *rows, bool *taken, rs_error *err);

/* Returns the number of elements of a list with FIXED or of a tuple. */
static inline uint64_t rs_column_list_count(const rs_node *node) {
    return node->kind == RS_FMT_NODE_TUPLE ? node->n_children : node->count;
}

/* As rs_column_take_rows, for a fixed list, or a fixed tuple of few elements, of ints or of floats. Also
 * RS_E_FMT_LIMIT. */
RS_NODISCARD rs_status rs_column_take_lists(rs_column *self, const rs_cursor *cursor, const rs_node *node,
                                            const rs_column_rows *rows, bool *taken, rs_error *err);
