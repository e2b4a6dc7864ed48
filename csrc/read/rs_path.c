/* rs_path.c: skips values, and takes the steps of a walk. */
#include "read/rs_path.h"

static rs_status pass_appended(rs_cursor *self, const rs_node *node, uint64_t bits, rs_error *err);

/* Skips a list at the cursor, in one step if its child is fixed. The elements are counted against the budget first, so
 * the loop is bounded even if elements have no bytes. */
static rs_status pass_list(rs_cursor *self, const rs_node *node, rs_error *err) {
    const rs_node *child = node->children;
    rs_slice group;
    uint64_t n;
    const uint8_t *bodies;
    RS_TRY(rs_decode_list(self, node, NULL, &n, &group, &bodies, err));
    for (uint64_t i = 0; bodies == NULL && i < n; i++) {
        RS_TRY(pass_appended(self, child, rs_decode_bits_unchecked(&group, i * child->bits, child->bits), err));
    }
    rs_decode_leave(self);
    return RS_OK;
}

/* Skips a map at the cursor: its keys, then its values. */
static rs_status pass_map(rs_cursor *self, const rs_node *node, rs_error *err) {
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_map_head(self, &n, err));
    for (unsigned k = 0; k < 2; k++) {
        const rs_node *child = &node->children[k];
        RS_TRY(rs_decode_elements(self, child, n, &group, &bodies, err));
        for (uint64_t i = 0; i < n && bodies == NULL; i++) {
            RS_TRY(pass_appended(self, child, rs_decode_bits_unchecked(&group, i * child->bits, child->bits), err));
        }
    }
    rs_decode_leave(self);
    return RS_OK;
}

/* Most children that are not fixed are str or have no value, and are skipped here: a function call for each took twice
 * as long. */
rs_status rs_path_pass_children_from(rs_cursor *self, const rs_node *node, const rs_slice *group, uint32_t begin,
                                     uint32_t end, rs_error *err) {
    const rs_node *child = node->children + begin, *last = node->children + end;
    for (; child < last; child++) {
        if (child->fixed) continue;
        if (child->kind == RS_FMT_NODE_STR) {
            uint64_t n;
            unsigned unit;
            const uint8_t *p;
            RS_TRY(rs_decode_str(self, child, &n, &unit, &p, err));
            continue;
        }
        if (rs_decode_is_absent(child, group)) continue;
        RS_TRY(pass_appended(self, child, rs_decode_bits_unchecked(group, child->bit_off, child->bits), err));
    }
    return RS_OK;
}

static rs_status pass_row(rs_cursor *self, const rs_node *node, uint64_t bits, rs_error *err) {
    const uint8_t *head = NULL;
    rs_rare_group room;
    rs_slice group;
    RS_TRY(rs_decode_row(self, node, bits, &head, &group, &room, err));
    RS_TRY(rs_decode_enter(self, rs_decode_row_count(node, &group), err));
    RS_TRY(rs_path_pass_children(self, node, &group, node->n_children, err));
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status pass_parts(rs_cursor *self, const rs_node *node, rs_error *err) {
    const uint8_t *head;
    RS_TRY(rs_decode_take(self, node->head_bytes, &head, err));
    rs_slice group = rs_slice_of(head, node->group_bytes);
    return rs_path_pass_children(self, node, &group, node->n_children, err);
}

static rs_status pass_numbers(rs_cursor *self, const rs_node *node, rs_error *err) {
    rs_packed_ints numbers;
    uint64_t n;
    RS_TRY(rs_decode_numbers(self, node, &n, &numbers, err));
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status pass_union(rs_cursor *self, const rs_node *node, uint64_t bits, rs_error *err) {
    const uint8_t *body = NULL;
    RS_TRY(rs_decode_choose(self, &node, &body, &bits, err));
    return body != NULL ? RS_OK : pass_appended(self, node, bits, err);
}

/* Skips the body of an exceptions node that is not fixed. An exception is in the places and has no body here. */
static rs_status pass_exceptions(rs_cursor *self, const rs_node *node, uint64_t bits, rs_error *err) {
    rs_slice value;
    bool is_exception;
    RS_TRY(rs_placed_exception(&self->placed[node->placed], self->local, &is_exception, &value, err));
    return is_exception ? RS_OK : pass_appended(self, node->children, bits, err);
}

static rs_status pass_array(rs_cursor *self, const rs_node *node, rs_error *err) {
    uint64_t size, outside;
    RS_TRY(rs_node_array_bytes(node, &self->in, &size, err));
    RS_TRY(rs_array_data_skip(&self->in, size, self->arrays_size, &outside, err));
    rs_budget_add_array(&self->budget, outside, size);
    return RS_OK;
}

/* Skips the body of a node that is not fixed. The recursion is as deep as the tree; any values have a limit. */
static rs_status pass_appended(rs_cursor *self, const rs_node *node, uint64_t bits, rs_error *err) {
    uint64_t n;
    unsigned unit;
    const uint8_t *p;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_ANY: return rs_path_any_pass(self, err);
    case RS_FMT_NODE_STR: return rs_decode_str_units(self, node, &n, &unit, &p, err);
    case RS_FMT_NODE_BYTES:
    case RS_FMT_NODE_SYMBOLS: return rs_decode_counted(self, node, &n, &p, err);
    case RS_FMT_NODE_ALPHABET: return rs_decode_letters(self, node, &n, &p, err);
    case RS_FMT_NODE_NUMBERS: return pass_numbers(self, node, err);
    case RS_FMT_NODE_CONCAT: return pass_parts(self, node, err);
    case RS_FMT_NODE_OPTIONAL:
        if ((bits & 1) == 0) return RS_OK;
        if (!node->children->fixed) return pass_appended(self, node->children, bits >> 1, err);
        return rs_decode_take(self, node->children->size_bytes, &p, err);
    case RS_FMT_NODE_EXCEPTIONS: return pass_exceptions(self, node, bits, err);
    case RS_FMT_NODE_LIST: return pass_list(self, node, err);
    case RS_FMT_NODE_MAP: return pass_map(self, node, err);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return pass_row(self, node, bits, err);
    case RS_FMT_NODE_UNION: return pass_union(self, node, bits, err);
    case RS_FMT_NODE_NDARRAY: return pass_array(self, node, err);
    case RS_FMT_NODE_EXT: return pass_appended(self, node->children, bits, err);
    case RS_NODES_FIXED: break;
    }
    return rs_decode_bad_value(err, "a node of a kind that is not allowed here");
}

rs_status rs_path_pass(rs_cursor *cursor, const rs_node *node, uint64_t bits, rs_error *err) {
    return pass_appended(cursor, node, bits, err);
}

/* Steps from an optional to its value. Sets *absent to whether it has none: the place then becomes the any value None
 * or, if param is 0, does not change. */
static rs_status settle_optional(rs_cursor *self, rs_place *place, bool *absent, rs_error *err) {
    static const uint8_t none[1] = {RS_FMT_TAG_NONE};
    const rs_node *child = place->node->children;
    *absent = (place->bits & 1) == 0;
    if (*absent) {
        if (place->node->param == 0) return RS_OK;
        self->in = rs_slice_of(none, sizeof none);
        place->node = NULL;
        return RS_OK;
    }
    place->bits >>= 1;
    place->node = child;
    if (child->fixed && place->body == NULL) return rs_decode_take(self, child->size_bytes, &place->body, err);
    return RS_OK;
}

/* Sets *out to the place of a value that stands alone at the cursor. */
static rs_status place_alone(rs_cursor *self, const rs_node *root, rs_place *out, rs_error *err) {
    out->node = root;
    return rs_decode_take_alone(self, root, &out->body, &out->bits, err);
}

/* Steps from a dict-coded node to its entry. */
static rs_status settle_dict_coded(rs_cursor *self, rs_place *place, rs_error *err) {
    const rs_table *table;
    RS_TRY(rs_dict_coded_find(place->node, place->bits, &table, &self->in, err));
    self->arrays_size = 0;
    self->shared = true;
    return place_alone(self, table->tree->nodes, place, err);
}

/* Steps from an exceptions node to its usual value or its exception. */
static rs_status settle_exceptions(rs_cursor *self, rs_place *place, rs_error *err) {
    const rs_node *children = place->node->children;
    rs_outer outer;
    bool is_exception;
    RS_TRY(rs_decode_exception(self, place->node, &is_exception, &outer, err));
    if (is_exception) return place_alone(self, &children[1], place, err);
    place->node = &children[0];
    return RS_OK;
}

rs_status rs_path_settle_near(rs_cursor *self, rs_place *place, rs_error *err) {
    bool absent = false;
    while (place->node != NULL && !absent) {
        switch ((rs_node_code)place->node->kind) {
        case RS_FMT_NODE_UNION: RS_TRY(rs_decode_choose(self, &place->node, &place->body, &place->bits, err)); break;
        case RS_FMT_NODE_OPTIONAL: RS_TRY(settle_optional(self, place, &absent, err)); break;
        case RS_FMT_NODE_ANY: place->node = NULL; break;
        case RS_FMT_NODE_EXCEPTIONS: RS_TRY(settle_exceptions(self, place, err)); break;
        case RS_FMT_NODE_RISING:
        case RS_FMT_NODE_RUNS: RS_TRY(rs_decode_placed(self, &place->node, &place->body, &place->bits, err)); break;
        case RS_NODES_NUMBER:
        case RS_NODES_TEXT:
        case RS_NODES_LIST:
        case RS_NODES_OTHER:
        case RS_FMT_NODE_CONST:
        case RS_FMT_NODE_DICT_CODED: return RS_OK;
        }
    }
    return RS_OK;
}

rs_status rs_path_settle(rs_cursor *self, rs_place *place, rs_error *err) {
    RS_TRY(rs_path_settle_near(self, place, err));
    while (place->node != NULL && place->node->kind == RS_FMT_NODE_DICT_CODED) {
        RS_TRY(settle_dict_coded(self, place, err));
        RS_TRY(rs_path_settle_near(self, place, err));
    }
    return RS_OK;
}

rs_status rs_path_settle_element(rs_cursor *self, rs_place *place, rs_outer *outer, bool *left, rs_error *err) {
    *outer = rs_decode_outer(self);
    while (place->node != NULL && place->node->kind == RS_FMT_NODE_UNION) {
        RS_TRY(rs_decode_choose(self, &place->node, &place->body, &place->bits, err));
        outer->in = self->in; /* after the bit group of the child, which may be an optional without a value */
    }
    RS_TRY(rs_path_settle_near(self, place, err));
    /* Only the None of an optional and an exception give the cursor another end: they are not part of the record. */
    *left = self->in.end != outer->in.end;
    if (*left || place->node == NULL || place->node->kind != RS_FMT_NODE_DICT_CODED) return RS_OK;
    *left = true;
    outer->in = self->in;
    return rs_path_settle(self, place, err);
}

rs_status rs_path_begin(rs_cursor *cursor, const rs_node *root, rs_place *out, rs_error *err) {
    RS_TRY(place_alone(cursor, root, out, err));
    return rs_path_settle(cursor, out, err);
}

rs_status rs_path_open(rs_cursor *cursor, rs_place *place, rs_error *err) {
    const rs_node *node = place->node;
    if (node == NULL) return RS_OK;
    if (node->kind == RS_FMT_NODE_CONST) {
        if (rs_tag_is_compound(*node->aux)) RS_TRY(rs_decode_spend_bytes(cursor, node->aux_size_bytes, err));
        cursor->in = rs_slice_of(node->aux, node->aux_size_bytes);
        place->node = NULL;
    } else if (node->kind == RS_FMT_NODE_EXT) {
        place->node = node->children; /* bits and body are the same */
        return rs_path_settle(cursor, place, err);
    }
    return RS_OK;
}

rs_status rs_path_child(rs_cursor *cursor, rs_place *place, uint32_t i, rs_error *err) {
    const rs_node *node = place->node, *child = &node->children[i];
    const uint8_t *head = place->body;
    rs_rare_group room;
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    rs_slice group = rs_decode_children_bits(node, head, place->bits, room.bytes);
    if (node->rare_bytes != 0 && (node->partial || !child->fixed)) {
        RS_TRY(rs_decode_rare(cursor, node, &group, &room, err));
    }
    RS_TRY(rs_decode_enter(cursor, rs_decode_row_count(node, &group), err));
    if (child->fixed) {
        place->body = head + child->body_off;
    } else {
        RS_TRY(rs_path_pass_children(cursor, node, &group, i, err));
        place->body = NULL;
    }
    place->node = child;
    place->bits = rs_decode_bits_unchecked(&group, child->bit_off, child->bits);
    return rs_path_settle(cursor, place, err);
}

/* Sets *out to index i, counted from the end if negative. Returns false if it is out of range. */
static bool within(int64_t i, uint64_t n, uint64_t *out) {
    *out = i >= 0 ? (uint64_t)i : n - (0 - (uint64_t)i);
    return i >= 0 ? *out < n : 0 - (uint64_t)i <= n;
}

static rs_status list_element(rs_cursor *cursor, rs_place *place, int64_t i, bool *found, rs_error *err) {
    const rs_node *node = place->node, *child = node->children;
    rs_slice group;
    uint64_t n, at;
    const uint8_t *bodies;
    RS_TRY(rs_decode_list(cursor, node, place->body, &n, &group, &bodies, err));
    *found = within(i, n, &at);
    if (!*found) return RS_OK;
    if (child->fixed) {
        place->body = bodies + at * child->size_bytes;
    } else {
        for (uint64_t k = 0; k < at; k++) {
            RS_TRY(pass_appended(cursor, child, rs_decode_bits_unchecked(&group, k * child->bits, child->bits), err));
        }
        place->body = NULL;
    }
    place->node = child;
    place->bits = rs_decode_bits_unchecked(&group, at * child->bits, child->bits);
    return rs_path_settle(cursor, place, err);
}

/* Steps to an element of packed numbers: a place of the elements' node, with the number as its bits. */
static rs_status number_element(rs_cursor *cursor, rs_place *place, int64_t i, bool *found, rs_error *err) {
    const rs_node *node = place->node;
    const int64_t *chunk;
    rs_packed_ints numbers;
    uint64_t n, at;
    unsigned count;
    RS_TRY(rs_decode_numbers(cursor, node, &n, &numbers, err));
    *found = within(i, n, &at);
    if (!*found) return RS_OK;
    while ((count = rs_packed_ints_next(&numbers, &chunk)) != 0 && at >= count) at -= count;
    place->node = node->children;
    place->body = cursor->in.ptr; /* the body has no bytes */
    place->bits = (uint64_t)chunk[at];
    return RS_OK;
}

rs_status rs_path_any_enter(rs_cursor *cursor, uint64_t per_element, uint64_t *n, rs_error *err) {
    RS_TRY(rs_decode_varint(cursor, n, err));
    RS_TRY(rs_decode_enter(cursor, *n, err));
    if (*n > rs_slice_left(&cursor->in) / per_element) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    return RS_OK;
}

rs_status rs_path_element(rs_cursor *cursor, rs_place *place, int64_t i, bool *found, rs_error *err) {
    uint64_t n, at;
    *found = false;
    if (place->node != NULL) {
        if (place->node->kind == RS_FMT_NODE_LIST) return list_element(cursor, place, i, found, err);
        if (place->node->kind == RS_FMT_NODE_NUMBERS) return number_element(cursor, place, i, found, err);
        if (place->node->kind != RS_FMT_NODE_TUPLE) return RS_OK;
        *found = within(i, place->node->n_children, &at);
        return *found ? rs_path_child(cursor, place, (uint32_t)at, err) : RS_OK;
    }
    if (cursor->in.ptr == cursor->in.end) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    uint8_t tag = *cursor->in.ptr;
    if (tag != RS_FMT_TAG_LIST && tag != RS_FMT_TAG_TUPLE) return RS_OK;
    cursor->in.ptr++;
    RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
    *found = within(i, n, &at);
    for (uint64_t k = 0; *found && k < at; k++) RS_TRY(rs_path_any_pass(cursor, err));
    return RS_OK;
}
