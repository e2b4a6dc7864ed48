/* rs_column.c: the bulk of a numeric column. Bounds are those of the walk; each number is looked at once. */
#include "rs_column.h"

void rs_column_clear(rs_column *self) {
    rs_buffer_clear(&self->values);
    self->seen = 0;
}

/* From now on the numbers are floats. */
static void turn_float(rs_column *self) {
    size_t i;
    if ((self->seen & RS_COLUMN_FLOAT) != 0) return;
    for (i = 0; i < self->values.size_bytes; i += 8) {
        rs_store_f64(self->values.data + i, (double)(int64_t)rs_load_u64(self->values.data + i));
    }
    self->seen |= RS_COLUMN_FLOAT;
}

/* The caller has reserved 8 bytes for each of these two. */
static void put_int(rs_column *self, int64_t value, unsigned type) {
    uint8_t *to = self->values.data + self->values.size_bytes;
    self->seen |= type;
    if ((self->seen & RS_COLUMN_FLOAT) != 0) {
        rs_store_f64(to, (double)value);
    } else {
        rs_store_u64(to, (uint64_t)value);
    }
    self->values.size_bytes += 8;
}

static void put_float(rs_column *self, const uint8_t *from) {
    turn_float(self);
    memcpy(self->values.data + self->values.size_bytes, from, 8);
    self->values.size_bytes += 8;
}

/* An `any` value at the cursor; *taken is false, and nothing consumed, for what is no number. */
static rs_status take_any(rs_column *self, rs_cursor *cursor, bool *taken, rs_error *err) {
    const uint8_t *p;
    uint8_t tag;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    tag = *p;
    *taken = true;
    if (rs_tag_is_small(tag)) {
        put_int(self, rs_tag_small_value(tag), RS_COLUMN_INT);
    } else if (tag == RS_FMT_TAG_FALSE || tag == RS_FMT_TAG_TRUE) {
        put_int(self, tag == RS_FMT_TAG_TRUE, RS_COLUMN_BOOL);
    } else if (tag >= RS_FMT_TAG_INT8 && tag <= RS_FMT_TAG_INT64) {
        unsigned size = rs_tag_int_size(tag);
        RS_TRY(rs_decode_take(cursor, size, &p, err));
        put_int(self, rs_load_int_unchecked(p, size), RS_COLUMN_INT);
    } else if (tag == RS_FMT_TAG_FLOAT) {
        RS_TRY(rs_decode_take(cursor, 8, &p, err));
        put_float(self, p);
    } else {
        cursor->in.ptr--;
        *taken = false;
    }
    return RS_OK;
}

/* One number at a place. Room for it is reserved. */
static rs_status take_number(rs_column *self, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    const rs_node *node = place->node;
    *taken = true;
    if (node == NULL) return take_any(self, cursor, taken, err);
    switch (node->kind) {
    case RS_FMT_NODE_INT:
        put_int(self, rs_decode_int_unchecked(node, place->body, place->bits), RS_COLUMN_INT);
        return RS_OK;
    case RS_FMT_NODE_FLOAT: put_float(self, place->body); return RS_OK;
    case RS_FMT_NODE_BOOL: put_int(self, place->bits != 0, RS_COLUMN_BOOL); return RS_OK;
    case RS_FMT_NODE_CONST: {
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        return take_any(self, &aux, taken, err);
    }
    default: *taken = false; return RS_OK;
    }
}

static rs_status reserve(rs_column *self, uint64_t n, rs_error *err) {
    if (n > SIZE_MAX / 8) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a column of too many numbers");
    return rs_buffer_reserve(&self->values, (size_t)n * 8, err);
}

/* One of several numbers. Settling may lead the cursor to an entry of a table: it comes back for the next one, or, where
 * it cannot tell how far it was, gives up. */
static rs_status take_element(rs_column *self, rs_cursor *cursor, rs_place *place, bool fixed, bool *taken,
                              rs_error *err) {
    rs_slice before = cursor->in;
    uint64_t arrays_size = cursor->arrays_size;
    RS_TRY(rs_path_settle(cursor, place, err));
    RS_TRY(take_number(self, cursor, place, taken, err));
    if (cursor->in.end == before.end) return RS_OK;
    if (!fixed) *taken = false;
    cursor->in = before;
    cursor->arrays_size = arrays_size;
    return RS_OK;
}

/* A list whose elements have one size: they lie side by side. */
static rs_status take_fixed(rs_column *self, rs_cursor *cursor, const rs_node *child, uint64_t n, const rs_slice *group,
                            const uint8_t *bodies, bool *taken, rs_error *err) {
    uint64_t i;
    *taken = true;
    if (n > 0 && child->kind == RS_FMT_NODE_FLOAT) {
        turn_float(self);
        memcpy(self->values.data + self->values.size_bytes, bodies, (size_t)n * 8);
        self->values.size_bytes += (size_t)n * 8;
        return RS_OK;
    }
    for (i = 0; *taken && i < n; i++) {
        rs_place place;
        place.node = child;
        place.body = bodies + i * child->size_bytes;
        place.bits = rs_decode_bits_unchecked(group, i * child->bits, child->bits);
        RS_TRY(take_element(self, cursor, &place, child->fixed, taken, err));
    }
    return RS_OK;
}

static rs_status take_list(rs_column *self, rs_cursor *cursor, const rs_place *list, uint64_t *n, bool *taken,
                           rs_error *err) {
    const rs_node *node = list->node, *child = node->children;
    const uint8_t *bodies = NULL;
    rs_slice group;
    uint64_t i;
    if (list->body != NULL) {
        *n = node->count;
        RS_TRY(rs_decode_enter(cursor, *n, err));
        bodies = list->body + (*n * child->bits + 7) / 8;
        group.ptr = list->body, group.end = bodies;
    } else {
        RS_TRY(rs_decode_list_head(cursor, node, n, &group, err));
        if (child->fixed) RS_TRY(rs_decode_fixed_elements(cursor, child, *n, &bodies, err));
    }
    RS_TRY(reserve(self, *n, err));
    if (child->fixed) return take_fixed(self, cursor, child, *n, &group, bodies, taken, err);
    *taken = true;
    for (i = 0; *taken && i < *n; i++) {
        rs_place place;
        place.node = child, place.body = NULL;
        place.bits = rs_decode_bits_unchecked(&group, i * child->bits, child->bits);
        RS_TRY(take_element(self, cursor, &place, child->fixed, taken, err));
    }
    return RS_OK;
}

/* A tuple node: all its children are tried, the fixed ones stand before the others. */
static rs_status take_row(rs_column *self, rs_cursor *cursor, const rs_place *row, uint64_t *n, bool *taken,
                          rs_error *err) {
    const rs_node *node = row->node;
    const uint8_t *head = row->body;
    rs_slice group;
    uint32_t i;
    *n = node->n_children;
    RS_TRY(rs_decode_enter(cursor, *n, err));
    RS_TRY(reserve(self, *n, err));
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    group = rs_slice_of(head, node->group_bytes);
    *taken = true;
    for (i = 0; *taken && i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        rs_place place;
        place.node = child;
        place.body = child->fixed ? head + child->body_off : NULL;
        place.bits = rs_decode_bits_unchecked(&group, child->bit_off, child->bits);
        RS_TRY(take_element(self, cursor, &place, child->fixed, taken, err));
    }
    return RS_OK;
}

static rs_status take_any_sequence(rs_column *self, rs_cursor *cursor, uint64_t *n, bool *taken, rs_error *err) {
    uint64_t i;
    *taken = cursor->in.ptr != cursor->in.end &&
             (*cursor->in.ptr == RS_FMT_TAG_LIST || *cursor->in.ptr == RS_FMT_TAG_TUPLE);
    if (!*taken) return RS_OK;
    cursor->in.ptr++;
    RS_TRY(rs_path_any_enter(cursor, 1, n, err));
    RS_TRY(reserve(self, *n, err));
    for (i = 0; *taken && i < *n; i++) RS_TRY(take_any(self, cursor, taken, err));
    return RS_OK;
}

rs_status rs_column_take(rs_column *self, rs_cursor *cursor, const rs_place *place, int *shape, uint64_t *n,
                         rs_error *err) {
    size_t before = self->values.size_bytes;
    rs_place at = *place;
    bool taken;
    *n = 1;
    RS_TRY(reserve(self, 1, err));
    RS_TRY(take_number(self, cursor, &at, &taken, err));
    *shape = taken ? RS_COLUMN_SCALAR : RS_COLUMN_OTHER;
    if (taken) return RS_OK;
    *n = 0;
    if (at.node != NULL && at.node->kind == RS_FMT_NODE_CONST) RS_TRY(rs_path_open(cursor, &at, err));
    if (at.node == NULL) {
        RS_TRY(take_any_sequence(self, cursor, n, &taken, err));
    } else if (at.node->kind == RS_FMT_NODE_LIST) {
        RS_TRY(take_list(self, cursor, &at, n, &taken, err));
    } else if (at.node->kind == RS_FMT_NODE_TUPLE) {
        RS_TRY(take_row(self, cursor, &at, n, &taken, err));
    }
    if (taken) {
        *shape = RS_COLUMN_SEQUENCE;
    } else {
        self->values.size_bytes = before;
    }
    return RS_OK;
}
