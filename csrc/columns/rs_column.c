/* rs_column.c: appends numbers to a column, one value at a time or many rows at once. */
#include "columns/rs_column.h"

#include "columns/rs_run.h"

void rs_column_clear(rs_column *self) {
    rs_buffer_clear(&self->values);
    self->seen = 0;
    self->inexact = false;
}

/* Converts the numbers so far to a column that also has `type`. The room is reserved. */
static void widen(rs_column *self, unsigned type) {
    size_t i = self->values.size_bytes;
    uint8_t *data = self->values.data;
    if (self->seen == RS_COLUMN_BOOL && type != RS_COLUMN_BOOL) {
        self->values.size_bytes *= 8;
        /* From the end, so that no number is overwritten before it is read. */
        while (i-- > 0) rs_store_u64(data + 8 * i, data[i]);
    }
    if (type == RS_COLUMN_FLOAT && (self->seen & RS_COLUMN_FLOAT) == 0) {
        for (i = 0; i < self->values.size_bytes; i += 8)
            rs_store_f64(data + i, rs_column_float(self, (int64_t)rs_load_u64(data + i)));
    }
    self->seen |= type;
}

rs_status rs_column_grow(rs_column *self, uint64_t n, rs_error *err) {
    uint64_t before = self->values.size_bytes / rs_column_item_bytes(self);
    if (n > SIZE_MAX / 16 - before) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a column has too many numbers");
    return rs_buffer_reserve(&self->values, (size_t)((before + n) * 8 - self->values.size_bytes), err);
}

/* The put_ functions append one number. The room is reserved. put_wide appends to a column of 8-byte numbers. */
static void put_wide(rs_column *self, int64_t value) {
    uint8_t *to = self->values.data + self->values.size_bytes;
    if ((self->seen & RS_COLUMN_FLOAT) != 0) {
        rs_store_f64(to, rs_column_float(self, value));
    } else {
        rs_store_u64(to, (uint64_t)value);
    }
    self->values.size_bytes += 8;
}

static void put_int(rs_column *self, int64_t value) {
    if (self->seen == RS_COLUMN_BOOL) widen(self, RS_COLUMN_INT);
    self->seen |= RS_COLUMN_INT;
    put_wide(self, value);
}

static void put_bool(rs_column *self, bool value) {
    const bool narrow = (self->seen & ~(unsigned)RS_COLUMN_BOOL) == 0;
    self->seen |= RS_COLUMN_BOOL;
    if (narrow) {
        self->values.data[self->values.size_bytes++] = value;
    } else {
        put_wide(self, value);
    }
}

static void put_float(rs_column *self, const uint8_t *from) {
    if ((self->seen & RS_COLUMN_FLOAT) == 0) widen(self, RS_COLUMN_FLOAT);
    memcpy(self->values.data + self->values.size_bytes, from, 8);
    self->values.size_bytes += 8;
}

/* Appends the any value at the cursor. Sets *taken to false and takes nothing if it is not a number. */
static rs_status take_any(rs_column *self, rs_cursor *cursor, bool *taken, rs_error *err) {
    unsigned type;
    uint64_t bits;
    RS_TRY(rs_column_any(cursor, &type, &bits, err));
    *taken = type != 0;
    if (*taken) rs_column_put_unchecked(self, type, bits);
    return RS_OK;
}

rs_status rs_column_take_number(rs_column *self, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    const rs_node *node = place->node;
    *taken = true;
    RS_TRY(rs_column_reserve(self, 1, err));
    if (node == NULL) return take_any(self, cursor, taken, err);
    switch (node->kind) {
    case RS_FMT_NODE_INT: put_int(self, rs_decode_int_unchecked(node, place->body, place->bits)); return RS_OK;
    case RS_FMT_NODE_FLOAT: put_float(self, place->body); return RS_OK;
    case RS_FMT_NODE_DECIMAL: {
        uint8_t bytes[8];
        rs_store_f64(bytes, rs_decode_decimal_unchecked(node, place->body, place->bits));
        put_float(self, bytes);
        return RS_OK;
    }
    case RS_FMT_NODE_BOOL: put_bool(self, place->bits != 0); return RS_OK;
    case RS_FMT_NODE_CONST: {
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        return take_any(self, &aux, taken, err);
    }
    default: *taken = false; return RS_OK;
    }
}

/* ---- Many rows at once ---- */

/* Runs a statement for each row, with its number `k` and its first byte `row`. Locals, because the compiler would load
 * the fields of `rows` again after each store. */
#define FOR_ROWS(rows, statement) \
    do { \
        const rs_slice *const records = (rows)->records; \
        const uint8_t *const base = (rows)->base; \
        const int64_t stride = (rows)->stride_bytes; \
        const uint64_t n = (rows)->n; \
        for (uint64_t k = 0; records != NULL && k < n; k++) { \
            const uint8_t *row = records[k].ptr; \
            statement; \
        } \
        for (uint64_t k = 0; records == NULL && k < n; k++) { \
            const uint8_t *row = base + (int64_t)k * stride; \
            statement; \
        } \
    } while (0)

/* Writes the stored numbers of an int or decimal node, plus `plus`. One loop for each width avoids a test in each
 * row. */
RS_INLINE void load_stored(const rs_node *node, uint64_t plus, const rs_column_rows *rows, uint8_t *to, size_t step) {
    const uint64_t at = rows->body_off, byte = rows->bit_off >> 3, shift = rows->bit_off & 7;
    const unsigned bits = node->bits;
    switch (node->size_bytes) {
    case 1: FOR_ROWS(rows, rs_store_u64(to + step * k, plus + row[at])); return;
    case 2: FOR_ROWS(rows, rs_store_u64(to + step * k, plus + rs_load_u16(row + at))); return;
    case 4: FOR_ROWS(rows, rs_store_u64(to + step * k, plus + rs_load_u32(row + at))); return;
    case 8: FOR_ROWS(rows, rs_store_u64(to + step * k, plus + rs_load_u64(row + at))); return;
    default: break;
    }
    if (bits > 0 && shift + bits <= 64 && rows->least - byte >= 8) {
        const uint64_t mask = UINT64_MAX >> (64 - bits);
        FOR_ROWS(rows, rs_store_u64(to + step * k, plus + (rs_load_u64(row + byte) >> shift & mask)));
    } else {
        const uint64_t least = rows->least, off = rows->bit_off;
        FOR_ROWS(rows, rs_store_u64(to + step * k, plus + rs_load_bits_unchecked(row, least, off, bits)));
    }
}

/* As rs_column_load_rows_apart. If `step` is a constant, so is it in the loops. */
RS_INLINE bool load_rows(const rs_node *node, const rs_column_rows *rows, uint8_t *to, size_t step) {
    const uint64_t byte = rows->bit_off >> 3, shift = rows->bit_off & 7, at = rows->body_off;
    switch (node->kind) {
    case RS_FMT_NODE_BOOL: FOR_ROWS(rows, rs_store_u64(to + step * k, row[byte] >> shift & 1)); return false;
    case RS_FMT_NODE_INT: load_stored(node, node->base, rows, to, step); return false;
    case RS_FMT_NODE_FLOAT: FOR_ROWS(rows, memcpy(to + step * k, row + at, 8)); return true;
    default: break;
    }
    load_stored(node, node->correction == 0 ? node->base : 0, rows, to, step);
    const double divisor = node->divisor;
    if (node->correction == 0) {
        for (uint64_t k = 0; k < rows->n; k++)
            rs_store_f64(to + step * k, (double)(int64_t)rs_load_u64(to + step * k) / divisor);
    } else {
        for (uint64_t k = 0; k < rows->n; k++)
            rs_store_f64(to + step * k, rs_packed_ints_decimal(node, rs_load_u64(to + step * k)));
    }
    return true;
}

bool rs_column_load_rows(const rs_node *node, const rs_column_rows *rows, uint8_t *to) {
    return load_rows(node, rows, to, 8);
}

bool rs_column_load_rows_apart(const rs_node *node, const rs_column_rows *rows, uint8_t *to, size_t step) {
    return load_rows(node, rows, to, step);
}

/* Converts the column to one that has numbers of `type`. Returns its end, where the caller writes n numbers of 8 bytes,
 * for which there is room, and then calls end_numbers. */
static uint8_t *begin_numbers(rs_column *self, unsigned type) {
    widen(self, type);
    return self->values.data + self->values.size_bytes;
}

static void end_numbers(rs_column *self, unsigned type, uint64_t n) {
    uint8_t *to = self->values.data + self->values.size_bytes;
    self->values.size_bytes += (size_t)n * 8;
    if (type == RS_COLUMN_FLOAT || (self->seen & RS_COLUMN_FLOAT) == 0) return;
    for (uint64_t k = 0; k < n; k++) rs_store_f64(to + 8 * k, rs_column_float(self, (int64_t)rs_load_u64(to + 8 * k)));
}

/* Appends the number of a const n times. */
static rs_status take_const(rs_column *self, const rs_cursor *cursor, const rs_node *node, uint64_t n, bool *taken,
                            rs_error *err) {
    *taken = true;
    for (uint64_t k = 0; *taken && k < n; k++) {
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        RS_TRY(take_any(self, &aux, taken, err));
    }
    return RS_OK;
}

rs_status rs_column_take_rows(rs_column *self, const rs_cursor *cursor, const rs_node *node, const rs_column_rows *rows,
                              bool *taken, rs_error *err) {
    const unsigned type = rs_column_type_of(node);
    *taken = true;
    if (rows->n == 0) return RS_OK;
    RS_TRY(rs_column_reserve(self, rows->n, err));
    if (node->kind == RS_FMT_NODE_CONST) return take_const(self, cursor, node, rows->n, taken, err);
    *taken = type != 0;
    if (!*taken) return RS_OK;
    uint8_t *to = begin_numbers(self, type);
    if (self->seen == RS_COLUMN_BOOL) {
        const uint64_t byte = rows->bit_off >> 3, shift = rows->bit_off & 7;
        FOR_ROWS(rows, to[k] = row[byte] >> shift & 1);
        self->values.size_bytes += (size_t)rows->n;
        return RS_OK;
    }
    (void)rs_column_load_rows(node, rows, to);
    end_numbers(self, type, rows->n);
    return RS_OK;
}

void rs_column_join_unchecked(rs_column *self, unsigned type, uint64_t bits) {
    if (type == RS_COLUMN_BOOL) {
        put_bool(self, bits != 0);
    } else if (type == RS_COLUMN_INT) {
        put_int(self, (int64_t)bits);
    } else {
        uint8_t bytes[8];
        rs_store_u64(bytes, bits);
        put_float(self, bytes);
    }
}

/* ---- Lists ---- */

/* Loads rows of float lists. Short lists, such as boxes, are copied without a memcpy of variable size. */
static void load_float_lists(const rs_column_rows *rows, uint64_t count, uint8_t *to) {
    const uint64_t at = rows->body_off;
    if (count == 4) {
        FOR_ROWS(rows, memcpy(to + 32 * k, row + at, 32));
    } else if (count < 16) {
        FOR_ROWS(rows, for (uint64_t j = 0; j < count; j++) memcpy(to + 8 * (k * count + j), row + at + 8 * j, 8));
    } else {
        FOR_ROWS(rows, memcpy(to + 8 * k * count, row + at, (size_t)count * 8));
    }
}

/* Returns the type of the elements of a tuple of few, if all are ints or all are floats; else 0. */
static unsigned type_of_elements(const rs_node *tuple) {
    unsigned type = 0;
    for (uint32_t i = 0; i < tuple->n_children && tuple->n_children <= RS_COLUMN_SHORT; i++) {
        const rs_node *child = &tuple->children[i];
        if (!rs_node_is_number(child) || child->kind == RS_FMT_NODE_BOOL) return 0;
        if (i > 0 && rs_column_type_of(child) != type) return 0;
        type = rs_column_type_of(child);
    }
    return type;
}

/* Reserves room for `count` numbers of each row, and sets *n to the number of all. */
static rs_status reserve_lists(rs_column *self, const rs_cursor *cursor, uint64_t count, const rs_column_rows *rows,
                               uint64_t *n, rs_error *err) {
    rs_cursor own = *cursor;
    RS_TRY(rs_decode_enter(&own, count, err));
    if (rs_mul_overflows(count, rows->n, n)) *n = UINT64_MAX;
    return rs_column_reserve(self, *n, err);
}

static rs_status take_tuples(rs_column *self, const rs_cursor *cursor, const rs_node *node, const rs_column_rows *rows,
                             bool *taken, rs_error *err) {
    const unsigned type = type_of_elements(node);
    const uint64_t count = node->n_children;
    uint64_t n_numbers;
    *taken = type != 0;
    if (!*taken) return RS_OK;
    RS_TRY(reserve_lists(self, cursor, count, rows, &n_numbers, err));
    uint8_t *to = begin_numbers(self, type);
    for (uint64_t i = 0; i < count; i++) {
        const rs_column_rows elements = rs_column_child_rows(node, rows, i);
        (void)rs_column_load_rows_apart(&node->children[i], &elements, to + 8 * i, (size_t)count * 8);
    }
    end_numbers(self, type, n_numbers);
    return RS_OK;
}

rs_status rs_column_take_lists(rs_column *self, const rs_cursor *cursor, const rs_node *node,
                               const rs_column_rows *rows, bool *taken, rs_error *err) {
    if (node->kind == RS_FMT_NODE_TUPLE) return take_tuples(self, cursor, node, rows, taken, err);
    const rs_node *child = node->children;
    const uint64_t count = node->count;
    uint64_t n_numbers;
    *taken = node->kind == RS_FMT_NODE_LIST && rs_node_is_number(child) && child->kind != RS_FMT_NODE_BOOL;
    if (!*taken) return RS_OK;
    RS_TRY(reserve_lists(self, cursor, count, rows, &n_numbers, err));
    if (n_numbers == 0) return RS_OK;
    uint8_t *to = begin_numbers(self, rs_column_type_of(child));
    if (child->kind == RS_FMT_NODE_FLOAT) {
        load_float_lists(rows, count, to);
    } else if (count <= RS_COLUMN_SHORT && rows->n > 1) {
        for (uint64_t i = 0; i < count; i++) {
            const rs_column_rows elements = rs_column_element_rows(node, rows, i);
            (void)rs_column_load_rows_apart(child, &elements, to + 8 * i, (size_t)count * 8);
        }
    } else {
        for (uint64_t k = 0; k < rows->n; k++)
            (void)rs_run_load_list(child, count, rs_column_row_at(rows, k) + rows->body_off, 0, count,
                                   to + 8 * k * count);
    }
    end_numbers(self, rs_column_type_of(child), n_numbers);
    return RS_OK;
}

/* Appends a packed list of numbers. */
static rs_status take_packed(rs_column *self, rs_cursor *cursor, const rs_node *node, uint64_t *n, rs_error *err) {
    const unsigned type = node->number_kind == RS_FMT_NUMBERS_FLOATS ? RS_COLUMN_FLOAT : RS_COLUMN_INT;
    const int64_t *chunk;
    rs_packed_ints numbers;
    unsigned count;
    RS_TRY(rs_decode_numbers(cursor, node, n, &numbers, err));
    if (*n == 0) return RS_OK;
    RS_TRY(rs_column_reserve(self, *n, err));
    uint8_t *to = begin_numbers(self, type);
    while ((count = rs_packed_ints_next(&numbers, &chunk)) != 0) {
        if (type == RS_COLUMN_FLOAT) {
            for (unsigned i = 0; i < count; i++) rs_store_f64(to + 8 * i, rs_packed_ints_float(node, chunk[i]));
        } else {
            memcpy(to, chunk, count * sizeof *chunk);
        }
        to += (size_t)count * 8;
    }
    end_numbers(self, type, *n);
    return RS_OK;
}

rs_status rs_column_take_list(rs_column *self, rs_cursor *cursor, const rs_place *list, uint64_t *n, bool *taken,
                              rs_error *err) {
    const rs_node *node = list->node;
    const uint8_t *bodies;
    rs_slice group;
    *taken = node != NULL && (node->kind == RS_FMT_NODE_NUMBERS ||
                              (node->kind == RS_FMT_NODE_LIST && rs_node_is_number(node->children)));
    if (!*taken) return RS_OK;
    if (node->kind == RS_FMT_NODE_NUMBERS) return take_packed(self, cursor, node, n, err);
    RS_TRY(rs_decode_list(cursor, node, list->body, n, &group, &bodies, err));
    RS_TRY(rs_column_reserve(self, *n, err));
    if (*n == 0) return RS_OK;
    const unsigned type = rs_column_type_of(node->children);
    uint8_t *to = begin_numbers(self, type);
    if (self->seen == RS_COLUMN_BOOL) {
        for (uint64_t i = 0; i < *n; i++) to[i] = group.ptr[i / 8] >> i % 8 & 1;
        self->values.size_bytes += (size_t)*n;
        return RS_OK;
    }
    (void)rs_run_load_list(node->children, *n, group.ptr, 0, *n, to);
    end_numbers(self, type, *n);
    return RS_OK;
}
