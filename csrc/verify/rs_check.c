/* rs_check.c: walks through a record and checks it (rules 20 to 23, 31, 34 and 41 of FORMAT.md). */
#include "verify/rs_check.h"

#include "read/rs_path.h"
#include "read/rs_text.h"

/* Checks a value, and skips it unless it is fixed. The body of a fixed value is at `body`, and its bytes are within
 * bounds, but union numbers, dict-coded numbers and texts may be wrong, and the budgets too small. Otherwise `body` is
 * NULL, and the body is at the cursor. */
static rs_status check_value(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits, rs_error *err);
static rs_status check_alone(rs_cursor *self, const rs_node *node, rs_error *err);

/* A walk through a record. Every function here gets the address of `cursor`. */
typedef struct walk {
    rs_cursor cursor; /* the first field, so that it has the address of the walk */
    rs_watch *watch;
} walk;

/* Counts the n elements of a container against the walk's watch. */
static rs_status count(rs_cursor *self, uint64_t n, rs_error *err) {
    return rs_watch_count(((walk *)self)->watch, n, err);
}

/* Checks entry i of a dict-coded node, as a value of the record. */
static rs_status check_entry(rs_cursor *self, const rs_node *node, uint64_t i, rs_error *err) {
    const rs_table *table;
    rs_outer outer;
    RS_TRY(rs_decode_enter_entry(self, node, i, &table, &outer, err));
    RS_TRY(check_alone(self, table->tree->nodes, err));
    return rs_decode_leave_entry(self, &outer, err);
}

static rs_status check_text(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits, rs_error *err) {
    rs_text text;
    rs_text_begin(&text);
    rs_status status = rs_text_take(&text, self, node, body, bits, err);
    rs_text_clear(&text);
    return status;
}

static rs_status check_const(rs_cursor *self, const rs_node *node, rs_error *err) {
    rs_cursor aux = *self;
    if (!rs_tag_is_compound(*node->aux)) return RS_OK;
    RS_TRY(rs_decode_spend_bytes(self, node->aux_size_bytes, err));
    aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
    return rs_any_skip(&aux.in, 0, &self->budget, err);
}

/* Checks n elements of a list, or keys or values of a map. Fixed elements are at `bodies`, others at the cursor. */
static rs_status check_elements(rs_cursor *self, const rs_node *child, uint64_t n, const rs_slice *group,
                                const uint8_t *bodies, rs_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        RS_TRY(check_value(self, child, bodies == NULL ? NULL : bodies + i * child->size_bytes,
                           rs_decode_bits_unchecked(group, i * child->bits, child->bits), err));
    }
    return RS_OK;
}

static rs_status check_list(rs_cursor *self, const rs_node *node, const uint8_t *body, rs_error *err) {
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_list(self, node, body, &n, &group, &bodies, err));
    RS_TRY(count(self, n, err));
    RS_TRY(check_elements(self, node->children, n, &group, bodies, err));
    rs_decode_leave(self);
    return RS_OK;
}

/* Checks the keys and then the values of a map. Readers check that keys can be hashed and are distinct. */
static rs_status check_map(rs_cursor *self, const rs_node *node, rs_error *err) {
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_map_head(self, &n, err));
    RS_TRY(count(self, n, err));
    for (unsigned k = 0; k < 2; k++) {
        RS_TRY(rs_decode_elements(self, &node->children[k], n, &group, &bodies, err));
        RS_TRY(check_elements(self, &node->children[k], n, &group, bodies, err));
    }
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status check_row(rs_cursor *self, const rs_node *node, const uint8_t *head, uint64_t bits, rs_error *err) {
    rs_rare_group room;
    rs_slice group;
    RS_TRY(rs_decode_row(self, node, bits, &head, &group, &room, err));
    RS_TRY(rs_decode_enter(self, rs_decode_row_count(node, &group), err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        RS_TRY(check_value(self, child, child->fixed ? head + child->body_off : NULL,
                           rs_decode_bits_unchecked(&group, child->bit_off, child->bits), err));
    }
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status check_str(rs_cursor *self, const rs_node *node, rs_error *err) {
    uint64_t n;
    unsigned unit;
    const uint8_t *units;
    RS_TRY(rs_decode_str(self, node, &n, &unit, &units, err));
    for (uint64_t i = 0; unit == 4 && i < n; i++) {
        if (rs_load_u32(units + 4 * i) > 0x10FFFF) return rs_decode_bad_value(err, "a code point above 0x10FFFF");
    }
    return RS_OK;
}

static rs_status check_array(rs_cursor *self, const rs_node *node, const uint8_t *body, rs_error *err) {
    const uint8_t *data;
    uint64_t size = node->data_bytes;
    if (body != NULL) return rs_decode_spend_shared(self, size, err);
    RS_TRY(rs_node_array_bytes(node, &self->in, &size, err));
    RS_TRY(rs_decode_array_data(self, size, &data, err));
    return rs_decode_spend_shared(self, size, err);
}

static rs_status check_letters(rs_cursor *self, const rs_node *node, const uint8_t *body, rs_error *err) {
    uint64_t n = node->count;
    if (body == NULL) RS_TRY(rs_decode_letters(self, node, &n, &body, err));
    return rs_decode_spend_bytes(self, rs_alphabet_length(node, n), err);
}

static rs_status check_any(rs_cursor *self, const rs_node *node, rs_error *err) {
    const uint8_t *begin = self->in.ptr;
    if (node->payload && begin != self->in.end && *begin == RS_FMT_TAG_EXT) {
        return rs_decode_bad_value(err, "an ext value directly within an ext value");
    }
    RS_TRY(rs_any_skip(&self->in, self->arrays_size, &self->budget, err));
    return rs_decode_spend_shared(self, (uint64_t)(self->in.ptr - begin), err);
}

static rs_status check_optional(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                                rs_error *err) {
    const rs_node *child = node->children;
    if ((bits & 1) == 0) return RS_OK;
    if (child->fixed && body == NULL) RS_TRY(rs_decode_take(self, child->size_bytes, &body, err));
    return check_value(self, child, body, bits >> 1, err);
}

/* Checks the value of an exceptions node. */
static rs_status check_exceptions(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                                  rs_error *err) {
    rs_outer outer;
    bool is_exception;
    RS_TRY(rs_decode_exception(self, node, &is_exception, &outer, err));
    if (!is_exception) return check_value(self, node->children, body, bits, err);
    RS_TRY(check_alone(self, &node->children[1], err));
    return rs_decode_leave_entry(self, &outer, err);
}

static rs_status check_value(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits, rs_error *err) {
    uint64_t n;
    const uint8_t *p;
    switch ((rs_node_code)node->kind) {
    case RS_NODES_NUMBER:
    case RS_FMT_NODE_SAME: return RS_OK;
    case RS_FMT_NODE_CONST: return check_const(self, node, err);
    case RS_FMT_NODE_ANY: return check_any(self, node, err);
    case RS_FMT_NODE_STR: return check_str(self, node, err);
    case RS_FMT_NODE_BYTES: return rs_decode_bytes(self, node, &n, &p, err);
    case RS_FMT_NODE_NUMBERS: return rs_path_pass(self, node, bits, err);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return check_letters(self, node, body, err);
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_CONCAT: return check_text(self, node, body, bits, err);
    case RS_FMT_NODE_DICT_CODED: return check_entry(self, node, bits, err);
    case RS_FMT_NODE_OPTIONAL: return check_optional(self, node, body, bits, err);
    case RS_FMT_NODE_EXCEPTIONS: return check_exceptions(self, node, body, bits, err);
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
        RS_TRY(rs_decode_placed(self, &node, &body, &bits, err));
        return check_value(self, node, body, bits, err);
    case RS_FMT_NODE_LIST: return check_list(self, node, body, err);
    case RS_FMT_NODE_MAP: return check_map(self, node, err);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return check_row(self, node, body, bits, err);
    case RS_FMT_NODE_UNION:
        RS_TRY(rs_decode_choose(self, &node, &body, &bits, err));
        return check_value(self, node, body, bits, err);
    case RS_FMT_NODE_NDARRAY: return check_array(self, node, body, err);
    case RS_FMT_NODE_EXT: return check_value(self, node->children, body, bits, err);
    }
    return rs_decode_bad_value(err, "a node of a kind that is not allowed here");
}

/* Checks and skips a value that stands alone at the cursor. */
static rs_status check_alone(rs_cursor *self, const rs_node *node, rs_error *err) {
    const uint8_t *body;
    uint64_t bits;
    RS_TRY(rs_decode_take_alone(self, node, &body, &bits, err));
    return check_value(self, node, body, bits, err);
}

rs_status rs_check_record(rs_cursor *self, const rs_tree *tree, rs_watch *watch, rs_error *err) {
    walk all = {*self, watch};
    rs_status status = check_alone(&all.cursor, &tree->nodes[0], err);
    *self = all.cursor;
    if (status == RS_OK && self->in.ptr != self->in.end) {
        return rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "%zu bytes are left after the record",
                            rs_slice_left(&self->in));
    }
    return status;
}
