/* rs_arrow_walk.c: the walk through values under nodes. */
#include "arrow/rs_arrow_walk.h"

#include "format/rs_node_kinds.h"
#include "read/rs_map.h"
#include "columns/rs_placed_rows.h"
#include "columns/rs_text_rows.h"

static bool appends(const rs_arrow_walk *self) { return self->mode == RS_ARROW_PUT; }

/* ---- Leaves ---- */

static rs_status put_bytes(rs_arrow_field *field, rs_cursor *cursor, const rs_node *node, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    RS_TRY(rs_decode_bytes(cursor, node, &n, &p, err));
    return rs_arrow_append_bytes(field, p, n, err);
}

static uint64_t float_bits(double value) {
    uint8_t bytes[8];
    rs_store_f64(bytes, value);
    return rs_load_u64(bytes);
}

/* Appends the value of a leaf node. Before the types are known, adds an int, or the kind of another node. */
static rs_status put_leaf(rs_arrow_walk *self, rs_arrow_field *field, const rs_node *node, rs_cursor *cursor,
                          const uint8_t *body, uint64_t bits, rs_error *err) {
    rs_place place;
    place.node = node, place.body = body, place.bits = bits;
    if (!appends(self)) {
        if (node->kind == RS_FMT_NODE_INT) {
            /* The bounds of the node are wider than its ints, and those of a rising node are not in it. */
            const int64_t value = rs_decode_int_unchecked(node, body, bits);
            rs_arrow_add_ints(field, value, value);
            return RS_OK;
        }
        (void)rs_arrow_infer_leaf(field, node);
        return body == NULL ? rs_path_pass(cursor, node, bits, err) : RS_OK;
    }
    switch (node->kind) {
    case RS_FMT_NODE_INT:
        return rs_arrow_append_number(field, RS_ARROW_SEEN_INT, RS_COLUMN_INT,
                                      (uint64_t)rs_decode_int_unchecked(node, body, bits), err);
    case RS_FMT_NODE_FLOAT:
        return rs_arrow_append_number(field, RS_ARROW_SEEN_FLOAT, RS_COLUMN_FLOAT, rs_load_u64(body), err);
    case RS_FMT_NODE_DECIMAL:
        return rs_arrow_append_number(field, RS_ARROW_SEEN_FLOAT, RS_COLUMN_FLOAT,
                                      float_bits(rs_decode_decimal_unchecked(node, body, bits)), err);
    case RS_FMT_NODE_BOOL: return rs_arrow_append_number(field, RS_ARROW_SEEN_BOOL, RS_COLUMN_BOOL, bits, err);
    case RS_FMT_NODE_BYTES: return put_bytes(field, cursor, node, err);
    default: return rs_arrow_put_text(field, cursor, &place, err);
    }
}

/* ---- Rows ---- */

rs_status rs_arrow_put_variable(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const rs_slice *group,
                                uint32_t end, rs_error *err) {
    const rs_node *child = op->node->children;
    const rs_arrow_op *to = op->children;
    const bool put = appends(self);
    for (const rs_node *last = child + end; child < last; child++, to++) {
        if (child->fixed) continue;
        if (rs_decode_is_absent(child, group) && (put || child->param == 0)) {
            if (put && to->field != NULL) RS_TRY(rs_arrow_append_null(to->field, err));
            continue;
        }
        const uint64_t bits = rs_decode_bits_unchecked(group, child->bit_off, child->bits);
        if (to->field == NULL) {
            RS_TRY(rs_path_pass(cursor, child, bits, err));
        } else if (child->kind == RS_FMT_NODE_STR && put) {
            const rs_place place = {child, NULL, 0};
            RS_TRY(rs_arrow_put_text(to->field, cursor, &place, err));
        } else {
            RS_TRY(rs_arrow_put(self, to, cursor, NULL, bits, err));
        }
    }
    return RS_OK;
}

/* Takes a struct, or a tuple whose items are fields. */
static rs_status put_row(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *head,
                         uint64_t bits, rs_error *err) {
    const rs_node *node = op->node;
    if (appends(self) && op->field->layout != RS_ARROW_LAYOUT_STRUCT) return rs_arrow_misfit(op->field, err);
    rs_rare_group room;
    rs_slice group;
    RS_TRY(rs_decode_row(cursor, node, bits, &head, &group, &room, err));
    RS_TRY(rs_decode_enter(cursor, rs_decode_row_count(node, &group), err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        if (!child->fixed || op->children[i].field == NULL || rs_decode_lacks_key(child, &group)) continue;
        RS_TRY(rs_arrow_put(self, &op->children[i], cursor, head + child->body_off,
                            rs_decode_bits_unchecked(&group, child->bit_off, child->bits), err));
    }
    RS_TRY(rs_arrow_put_variable(self, op, cursor, &group, node->n_children, err));
    rs_decode_leave(cursor);
    return appends(self) ? rs_arrow_end_struct(op->field, op->whole, err) : RS_OK;
}

/* Takes a tuple node whose children are the elements of a list. */
static rs_status put_list_row(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *head,
                              uint64_t bits, rs_error *err) {
    const rs_node *node = op->node;
    uint8_t room[RS_CHILDREN_BITS_ROOM];
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    rs_slice group = rs_decode_children_bits(node, head, bits, room);
    RS_TRY(rs_decode_enter(cursor, node->n_children, err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        const uint64_t own = rs_decode_bits_unchecked(&group, child->bit_off, child->bits);
        if (op->children[i].field == NULL) {
            if (!child->fixed) RS_TRY(rs_path_pass(cursor, child, own, err));
            continue;
        }
        RS_TRY(rs_arrow_put(self, &op->children[i], cursor, child->fixed ? head + child->body_off : NULL, own, err));
    }
    rs_decode_leave(cursor);
    return appends(self) ? rs_arrow_end_value(op->field, op->field->element->n, err) : RS_OK;
}

/* Adds the kind of a sequence of n items or elements. */
static void add_sequence(const rs_arrow_op *op, uint64_t n) {
    if (op->named) rs_arrow_add_kind(op->field, RS_ARROW_SEEN_STRUCT);
    else if (op->node->param == 0) rs_arrow_add_kind(op->field, RS_ARROW_SEEN_LIST);
    else (void)rs_arrow_add_tuple(op->field, op->items != NULL ? n : UINT64_MAX);
}

static rs_status put_tuple(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                           uint64_t bits, rs_error *err) {
    const bool items = op->items != NULL;
    if (!appends(self)) {
        add_sequence(op, op->node->n_children);
        return items ? put_row(self, op, cursor, body, bits, err) : put_list_row(self, op, cursor, body, bits, err);
    }
    if (op->field->layout == RS_ARROW_LAYOUT_STRUCT && items) return put_row(self, op, cursor, body, bits, err);
    if (op->field->layout == RS_ARROW_LAYOUT_LIST) return put_list_row(self, op, cursor, body, bits, err);
    return rs_arrow_misfit(op->field, err);
}

/* ---- Lists ---- */

/* Returns whether rs_column can append many values of a node to a field at once. */
static bool is_plain(const rs_arrow_field *field, const rs_node *node) {
    switch (node->kind) {
    case RS_FMT_NODE_INT: return field->layout == RS_ARROW_LAYOUT_NUMBERS && (field->seen & RS_ARROW_SEEN_INT) != 0;
    case RS_FMT_NODE_FLOAT:
    case RS_FMT_NODE_DECIMAL:
        return field->layout == RS_ARROW_LAYOUT_NUMBERS && (field->seen & RS_ARROW_SEEN_FLOAT) != 0;
    case RS_FMT_NODE_BOOL: return field->layout == RS_ARROW_LAYOUT_BITS && (field->seen & RS_ARROW_SEEN_BOOL) != 0;
    default: return false;
    }
}

static rs_status put_plain_list(const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body, rs_error *err) {
    rs_arrow_field *element = op->field->element;
    const unsigned seen = element->numbers.seen;
    const rs_place place = {op->node, body, 0};
    uint64_t n;
    bool taken;
    RS_TRY(rs_column_take_list(&element->numbers, cursor, &place, &n, &taken, err));
    rs_decode_leave(cursor);
    if (!taken || (element->numbers.seen | seen) != seen) return rs_arrow_misfit(element, err);
    if (element->numbers.inexact) return rs_arrow_inexact(element, err);
    RS_TRY(rs_arrow_grown(element, n, err));
    return rs_arrow_end_value(op->field, element->n, err);
}

/* Takes the elements of a list node: with `items`, each by its own op, else all by the first op. */
static rs_status put_elements(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                              bool items, rs_error *err) {
    const rs_node *node = op->node, *child = node->children;
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_list(cursor, node, body, &n, &group, &bodies, err));
    if (items && n > op->n_children) return rs_decode_bad_value(err, "a tuple is too long");
    for (uint64_t i = 0; i < n; i++) {
        const rs_arrow_op *to = &op->children[items ? i : 0];
        const uint64_t bits = rs_decode_bits_unchecked(&group, i * child->bits, child->bits);
        if (to->field != NULL) {
            RS_TRY(rs_arrow_put(self, to, cursor, bodies == NULL ? NULL : bodies + i * child->size_bytes, bits, err));
        } else if (bodies == NULL) {
            RS_TRY(rs_path_pass(cursor, child, bits, err));
        }
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

/* Takes the elements of a numbers node. */
static rs_status put_packed(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, bool items, rs_error *err) {
    rs_packed_ints numbers;
    const int64_t *values;
    uint64_t n, at = 0;
    unsigned count;
    RS_TRY(rs_decode_numbers(cursor, op->node, &n, &numbers, err));
    if (items && n > op->n_children) return rs_decode_bad_value(err, "a tuple is too long");
    while (n != 0 && (count = rs_packed_ints_next(&numbers, &values)) != 0) {
        for (unsigned i = 0; i < count; i++, at++) {
            const rs_arrow_op *to = &op->children[items ? at : 0];
            if (to->field == NULL) continue;
            RS_TRY(rs_arrow_put(self, to, cursor, cursor->in.ptr, (uint64_t)values[i], err));
        }
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

/* Takes a list or numbers node. */
static rs_status put_list(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                          rs_error *err) {
    const bool packed = op->node->kind == RS_FMT_NODE_NUMBERS;
    bool items = op->items != NULL;
    if (!appends(self)) {
        add_sequence(op, op->n_items);
        return packed ? put_packed(self, op, cursor, items, err) : put_elements(self, op, cursor, body, items, err);
    }
    if (op->field->layout == RS_ARROW_LAYOUT_LIST) {
        if (op->n_children > 0 && is_plain(op->field->element, op->node->children)) {
            return put_plain_list(op, cursor, body, err);
        }
        if (op->n_children == 0) items = false;
    } else if (op->field->layout != RS_ARROW_LAYOUT_STRUCT || !items) {
        return rs_arrow_misfit(op->field, err);
    }
    RS_TRY(packed ? put_packed(self, op, cursor, items, err) : put_elements(self, op, cursor, body, items, err));
    if (op->field->layout == RS_ARROW_LAYOUT_STRUCT) return rs_arrow_end_struct(op->field, false, err);
    return rs_arrow_end_value(op->field, op->field->element->n, err);
}

/* ---- Nodes that lead to others ---- */

/* Appends a cached entry of a table. Sets *taken to false if the entry has to be walked. */
static rs_status put_cached(const rs_arrow_op *op, const rs_cursor *cursor, uint64_t i, bool *taken, rs_error *err) {
    rs_arrow_field *field = op->field;
    const rs_entry *entry;
    RS_TRY(rs_entries_at(&field->entries, cursor, op->node, i, &entry, err));
    *taken = true;
    if (entry->kind == RS_ENTRY_TEXT && (field->seen & RS_ARROW_SEEN_TEXT) != 0) {
        RS_TRY(rs_entries_append(&field->entries, entry, &field->bytes, err));
        return rs_arrow_end_value(field, field->bytes.size_bytes, err);
    }
    if (entry->kind == RS_ENTRY_NONE) return rs_arrow_append_null(field, err);
    if ((entry->kind & RS_ENTRY_NUMBER) != 0) return rs_arrow_append_plain(field, entry->kind, entry->bits, err);
    *taken = false;
    return RS_OK;
}

static bool is_cached(const rs_arrow_field *field) {
    return field->layout == RS_ARROW_LAYOUT_NUMBERS || field->layout == RS_ARROW_LAYOUT_BITS ||
           field->kind == RS_ARROW_KIND_TEXT;
}

static rs_status put_entry(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, uint64_t i, rs_error *err) {
    const rs_table *table;
    const rs_arrow_op *root = NULL;
    rs_outer outer;
    bool taken = false;
    if (appends(self) && is_cached(op->field)) RS_TRY(put_cached(op, cursor, i, &taken, err));
    if (taken) return RS_OK;
    RS_TRY(rs_decode_enter_entry(cursor, op->node, i, &table, &outer, err));
    for (uint32_t local = 0; root == NULL; local++) {
        if (op->node->coded->at[local].table == table) root = op->tables[local];
    }
    RS_TRY(rs_arrow_put_alone(self, root, cursor, err));
    return rs_decode_leave_entry(cursor, &outer, err);
}

static rs_status put_const(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err) {
    const rs_node *node = op->node;
    const rs_slice rest = cursor->in;
    if (rs_tag_is_compound(*node->aux)) RS_TRY(rs_decode_spend_bytes(cursor, node->aux_size_bytes, err));
    cursor->in = rs_slice_of(node->aux, node->aux_size_bytes);
    RS_TRY(rs_arrow_put_any(self, op->field, cursor, err));
    cursor->in = rest;
    return RS_OK;
}

static rs_status put_optional(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                              uint64_t bits, rs_error *err) {
    const rs_node *child = op->node->children;
    if ((bits & 1) == 0) {
        if (appends(self)) return rs_arrow_append_null(op->field, err);
        if (op->node->param == 1) rs_arrow_add_kind(op->field, RS_ARROW_SEEN_NULL);
        return RS_OK;
    }
    if (child->fixed && body == NULL) RS_TRY(rs_decode_take(cursor, child->size_bytes, &body, err));
    return rs_arrow_put(self, op->children, cursor, body, bits >> 1, err);
}

static rs_status put_union(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                           uint64_t bits, rs_error *err) {
    const rs_node *node = op->node;
    RS_TRY(rs_decode_choose(cursor, &node, &body, &bits, err));
    return rs_arrow_put(self, &op->children[node - op->node->children], cursor, body, bits, err);
}

static rs_status put_exceptions(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                                uint64_t bits, rs_error *err) {
    rs_outer outer;
    bool is_exception;
    RS_TRY(rs_decode_exception(cursor, op->node, &is_exception, &outer, err));
    if (!is_exception) return rs_arrow_put(self, op->children, cursor, body, bits, err);
    RS_TRY(rs_arrow_put_alone(self, &op->children[1], cursor, err));
    return rs_decode_leave_entry(cursor, &outer, err);
}

/* ---- Maps ---- */

/* Sets *out to the field of a key; NULL for a key that is not a str or not exported. */
static rs_status field_of_key(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_place *key,
                              bool *is_name, rs_arrow_field **out, rs_error *err) {
    bool taken = false;
    *out = NULL;
    *is_name = false;
    RS_TRY(rs_path_settle(cursor, key, err));
    if (key->node != NULL && key->node->kind == RS_FMT_NODE_EXT) return RS_OK;
    RS_TRY(rs_path_open(cursor, key, err));
    if (key->node != NULL) {
        const rs_node_kind *kind = rs_node_kind_of(key->node->kind);
        *is_name = kind->part == RS_CONCAT_PART_YES || key->node->kind == RS_FMT_NODE_CONCAT;
    } else {
        if (cursor->in.ptr == cursor->in.end) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
        *is_name = *cursor->in.ptr >= RS_FMT_TAG_STR1 && *cursor->in.ptr <= RS_FMT_TAG_STR4;
    }
    if (!*is_name) return RS_OK;
    self->scratch.size_bytes = 0;
    RS_TRY(rs_utf8_take(&self->scratch, cursor, key, &taken, err));
    if (!taken) {
        return rs_error_set(err, RS_E_ARG_TEXT, RS_NOWHERE,
                            "a key is a str with a lone surrogate, and names of Arrow fields are UTF-8");
    }
    const char *name = self->scratch.size_bytes == 0 ? "" : (const char *)self->scratch.data;
    return rs_arrow_field_child(field, name, self->scratch.size_bytes, out, err);
}

/* Takes a value of a map at `child`, the field of its key. If that is NULL, skips the value or reports a misfit. */
static rs_status put_map_value(rs_arrow_walk *self, rs_arrow_field *field, rs_arrow_field *child, const rs_map *map,
                               uint64_t i, rs_cursor *cursor, rs_error *err) {
    rs_arrow_op *op;
    rs_place value;
    if (child == NULL) {
        if (appends(self) && !field->closed) return rs_arrow_misfit(field, err);
        return rs_map_pass_value(map, cursor, i, err);
    }
    if (appends(self) && child->n != field->n) return rs_decode_bad_value(err, "a dict with a repeated key");
    RS_TRY(rs_arrow_compile_entry(self->program, map->value, child, appends(self), &op, err));
    if (op == NULL) return rs_arrow_misfit(child, err);
    rs_map_value(map, i, &value);
    return rs_arrow_put(self, op, cursor, value.body, value.bits, err);
}

/* Takes a map as a struct of its keys, like a dict in an any value. */
static rs_status put_map(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err) {
    rs_arrow_field *field = op->field;
    uint64_t n_taken = 0;
    rs_map map;
    RS_TRY(rs_map_begin(&map, cursor, op->node, err));
    if (!appends(self)) rs_arrow_add_kind(field, RS_ARROW_SEEN_STRUCT);
    else if (field->layout != RS_ARROW_LAYOUT_STRUCT) return rs_arrow_misfit(field, err);
    for (uint64_t i = 0; i < map.n; i++) {
        rs_arrow_field *child;
        rs_cursor at;
        rs_place key;
        bool is_name;
        RS_TRY(rs_map_key(&map, cursor, i, &at, &key, err));
        RS_TRY(field_of_key(self, field, &at, &key, &is_name, &child, err));
        cursor->budget = at.budget;
        if (!appends(self) && !is_name && !field->closed) rs_arrow_add_kind(field, RS_ARROW_SEEN_ODD_KEY);
        RS_TRY(put_map_value(self, field, child, &map, i, cursor, err));
        n_taken += child != NULL;
    }
    rs_decode_leave(cursor);
    return appends(self) ? rs_arrow_end_struct(field, n_taken == field->n_children, err) : RS_OK;
}

/* Takes the any value of an any node. */
static rs_status put_any_node(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err) {
    const uint8_t *begin = cursor->in.ptr;
    if (op->node->payload && begin != cursor->in.end && *begin == RS_FMT_TAG_EXT) {
        return rs_decode_bad_value(err, "the payload of an ext value is itself an ext value");
    }
    RS_TRY(rs_arrow_put_any(self, op->field, cursor, err));
    return cursor->shared ? rs_decode_spend_bytes(cursor, (uint64_t)(cursor->in.ptr - begin), err) : RS_OK;
}

/* Takes the payload of an object: a tuple, list, numbers, any or const node. */
static rs_status put_object(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                            uint64_t bits, rs_error *err) {
    switch (op->node->kind) {
    case RS_FMT_NODE_TUPLE: return put_tuple(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_NUMBERS: return put_list(self, op, cursor, body, err);
    case RS_FMT_NODE_ANY: return rs_arrow_put_items(self, op->field, op->items, op->n_items, cursor, err);
    default: break;
    }
    RS_TRY(rs_decode_spend_bytes(cursor, op->node->aux_size_bytes, err));
    rs_slice rest = cursor->in;
    cursor->in = rs_slice_of(op->node->aux, op->node->aux_size_bytes);
    RS_TRY(rs_arrow_put_items(self, op->field, op->items, op->n_items, cursor, err));
    cursor->in = rest;
    return RS_OK;
}

static rs_status put_ext_node(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                              uint64_t bits, rs_error *err) {
    bool taken;
    rs_place payload;
    payload.node = op->node->children, payload.body = body, payload.bits = bits;
    if (op->n_children > 0 && op->children->named) return put_object(self, op->children, cursor, body, bits, err);
    if (op->n_children > 0) return rs_arrow_put(self, op->children, cursor, body, bits, err);
    RS_TRY(rs_arrow_put_ext(self, op->field, op->node->param, cursor, &payload, &taken, err));
    if (taken) return RS_OK;
    if (appends(self)) return rs_arrow_misfit(op->field, err);
    rs_arrow_add_other(op->field, op->node->param);
    return body == NULL ? rs_path_pass(cursor, op->node, bits, err) : RS_OK;
}

rs_status rs_arrow_put(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *body,
                       uint64_t bits, rs_error *err) {
    const rs_node *node = op->node;
    if (self->mode == RS_ARROW_INFER_REST && op->sure) {
        return body != NULL ? RS_OK : rs_path_pass(cursor, node, bits, err);
    }
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STRUCT:
        if (!appends(self))
            rs_arrow_add_kind(op->field, RS_ARROW_SEEN_STRUCT | (op->odd_key ? RS_ARROW_SEEN_ODD_KEY : 0));
        return put_row(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_TUPLE: return put_tuple(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_NUMBERS: return put_list(self, op, cursor, body, err);
    case RS_FMT_NODE_OPTIONAL: return put_optional(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_UNION: return put_union(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
        RS_TRY(rs_decode_placed(cursor, &node, &body, &bits, err));
        return rs_arrow_put(self, op->children, cursor, body, bits, err);
    case RS_FMT_NODE_EXCEPTIONS: return put_exceptions(self, op, cursor, body, bits, err);
    case RS_FMT_NODE_DICT_CODED: return put_entry(self, op, cursor, bits, err);
    case RS_FMT_NODE_CONST: return put_const(self, op, cursor, err);
    case RS_FMT_NODE_ANY: return put_any_node(self, op, cursor, err);
    case RS_FMT_NODE_MAP: return put_map(self, op, cursor, err);
    case RS_FMT_NODE_NDARRAY: return rs_arrow_put_array(self, op->field, cursor, node, body, err);
    case RS_FMT_NODE_EXT: return put_ext_node(self, op, cursor, body, bits, err);
    case RS_NODES_NUMBER:
    case RS_NODES_TEXT:
    case RS_FMT_NODE_BYTES:
    case RS_FMT_NODE_SAME: break;
    }
    return put_leaf(self, op->field, node, cursor, body, bits, err);
}

rs_status rs_arrow_put_alone(rs_arrow_walk *self, const rs_arrow_op *op, rs_cursor *cursor, rs_error *err) {
    const uint8_t *body;
    uint64_t bits;
    RS_TRY(rs_decode_take_alone(cursor, op->node, &body, &bits, err));
    return rs_arrow_put(self, op, cursor, body, bits, err);
}

/* ---- Rows of one layout ---- */

/* Takes rows of an optional: rows with a value as rows of the child, the others as nulls. */
static rs_status put_optional_rows(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                                   const rs_column_rows *rows, rs_error *err) {
    uint64_t end;
    for (uint64_t begin = 0; begin < rows->n; begin = end) {
        const bool present = rs_load_bits_unchecked(rs_column_row_at(rows, begin), rows->least, rows->bit_off, 1) != 0;
        for (end = begin + 1; end < rows->n; end++) {
            if ((rs_load_bits_unchecked(rs_column_row_at(rows, end), rows->least, rows->bit_off, 1) != 0) != present)
                break;
        }
        if (!present) {
            for (uint64_t i = begin; i < end; i++) RS_TRY(rs_arrow_append_null(op->field, err));
            continue;
        }
        rs_column_rows run = rs_column_rows_from(rows, begin, end);
        run.bit_off++;
        RS_TRY(rs_arrow_put_rows(self, op->children, cursor, &run, err));
    }
    return RS_OK;
}

/* Takes one row. */
static rs_status put_row_at(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                            const rs_column_rows *rows, uint64_t i, rs_error *err) {
    const uint8_t *row = rs_column_row_at(rows, i);
    rs_cursor row_cursor = *cursor;
    row_cursor.local = rs_column_local_at(rows, i);
    return rs_arrow_put(self, op, &row_cursor, row + rows->body_off,
                        rs_load_bits_unchecked(row, rows->least, rows->bit_off, op->node->bits), err);
}

/* Takes rows of a placed node as rows of its child. Takes exceptions one by one. */
static rs_status put_placed_rows(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                                 const rs_column_rows *rows, rs_error *err) {
    rs_placed_rows placed;
    placed.done = 0;
    while (placed.done < rows->n) {
        RS_TRY(rs_placed_rows_next(&placed, cursor, op->node, rows, err));
        if (placed.rows.n == 0) {
            RS_TRY(put_row_at(self, op, cursor, rows, placed.done, err));
            placed.done++;
            continue;
        }
        rs_arrow_op child = *op->children;
        child.node = placed.child;
        RS_TRY(rs_arrow_put_rows(self, &child, cursor, &placed.rows, err));
        placed.done += placed.rows.n;
    }
    return RS_OK;
}

/* Returns whether the elements of a list or tuple of one length are numbers as the field has them. */
static bool has_plain_elements(const rs_arrow_field *field, const rs_node *node) {
    if (node->kind != RS_FMT_NODE_LIST && node->kind != RS_FMT_NODE_TUPLE) return false;
    if (field->layout != RS_ARROW_LAYOUT_LIST) return false;
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        if (child->kind == RS_FMT_NODE_BOOL || !is_plain(field->element, child)) return false;
    }
    return true;
}

/* Takes rows of numbers, bools or lists of numbers at once. Sets *taken to false if that is not possible. */
static rs_status put_plain_rows(const rs_arrow_op *op, const rs_cursor *cursor, const rs_column_rows *rows, bool *taken,
                                rs_error *err) {
    rs_arrow_field *field = op->field;
    *taken = false;
    if (is_plain(field, op->node)) {
        RS_TRY(rs_column_take_rows(&field->numbers, cursor, op->node, rows, taken, err));
        if (field->numbers.inexact) return rs_arrow_inexact(field, err);
        return *taken ? rs_arrow_grown(field, rows->n, err) : RS_OK;
    }
    if (!has_plain_elements(field, op->node)) return RS_OK;
    RS_TRY(rs_column_take_lists(&field->element->numbers, cursor, op->node, rows, taken, err));
    if (field->element->numbers.inexact) return rs_arrow_inexact(field->element, err);
    if (!*taken) return RS_OK;
    const uint64_t count = rs_column_list_count(op->node);
    RS_TRY(rs_arrow_grown(field->element, rows->n * count, err));
    return rs_arrow_end_even_lists(field, rows->n, count, err);
}

rs_status rs_arrow_put_rows(rs_arrow_walk *self, const rs_arrow_op *op, const rs_cursor *cursor,
                            const rs_column_rows *rows, rs_error *err) {
    const rs_node *node = op->node;
    bool taken = false;
    uint64_t n = 0;
    if (appends(self)) RS_TRY(put_plain_rows(op, cursor, rows, &taken, err));
    if (taken) return RS_OK;
    if (appends(self) && node->kind == RS_FMT_NODE_OPTIONAL) return put_optional_rows(self, op, cursor, rows, err);
    if (appends(self) && rs_node_is_placed(node)) return put_placed_rows(self, op, cursor, rows, err);
    if (appends(self) && (op->field->seen & RS_ARROW_SEEN_TEXT) != 0) {
        RS_TRY(rs_text_rows_take(&op->field->bytes, &op->field->offsets, &op->field->entries, cursor, node, rows, &n,
                                 err));
        RS_TRY(rs_arrow_grown(op->field, n, err));
    }
    for (; n < rows->n; n++) RS_TRY(put_row_at(self, op, cursor, rows, n, err));
    return RS_OK;
}
