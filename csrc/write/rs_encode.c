/* rs_encode.c: walks a raw value and a tree side by side. A container first reserves room for its bit group and for the
 * fixed bodies of its children, which are written there. All other bodies are appended. */
#include "write/rs_encode.h"

#include "format/rs_packed_ints.h"
#include "format/rs_utf16.h"

typedef struct encoder {
    rs_scan *scan;
    rs_buffer *out;
    rs_places_part *places; /* NULL for a tree without placed nodes */
    rs_error *err;
} encoder;

static rs_status misfit(encoder *self) {
    return rs_error_set(self->err, RS_E_ARG_RANGE, RS_NOWHERE, "a value does not fit the schema tree");
}

static bool take_int(rs_slice *in, int64_t *out) {
    if (!rs_tag_is_int64(*in->ptr)) return false;
    *out = rs_any_take_int_unchecked(in);
    return true;
}

static bool int_fits(const rs_node *node, int64_t value, uint64_t *stored) {
    *stored = (uint64_t)value - node->base;
    return node->param == 64 || *stored >> node->param == 0;
}

/* The aux of an ndarray node is the descriptor and, with FIXED, the shape: the same bytes as after the tag. */
static bool array_fits(const rs_node *node, rs_slice in) {
    rs_array_type type;
    rs_slice rest = in, aux = rs_slice_of(node->aux, node->aux_size_bytes);
    if (*rest.ptr++ != RS_FMT_TAG_NDARRAY || !rs_slice_starts_with(rest, aux.ptr, rs_slice_left(&aux))) return false;
    if ((node->flags & RS_FMT_FLAG_FIXED) != 0) return true;
    /* A longer descriptor could begin with the same bytes. */
    return rs_array_type_take(&rest, &type, NULL) == RS_OK && rs_slice_left(&type.descriptor) == node->aux_size_bytes;
}

/* Takes tag, code and EXTRA if they equal the node's. Comparing bytes is enough, because no any value is a prefix of
 * another. */
static bool take_ext_head(const rs_node *node, rs_slice *in) {
    if (rs_slice_left(in) < 2 || in->ptr[0] != RS_FMT_TAG_EXT || in->ptr[1] != node->param) return false;
    in->ptr += 2;
    if (!rs_slice_starts_with(*in, node->aux, node->aux_size_bytes)) return false;
    in->ptr += node->aux_size_bytes;
    return true;
}

static bool accepts(const encoder *self, const rs_node *node, rs_slice in);

/* Sets *number to the number of a value among the entries of a dict-coded node. Returns false if it is missing. */
static bool find_entry(const rs_node *node, rs_slice value, uint64_t *number) {
    if (node->slot == NULL) return false;
    *number = rs_dictionary_find((const rs_dictionary *)node->slot, value);
    return *number < node->count;
}

static bool has_key_set(const rs_node *node, uint64_t hash) {
    const rs_key_set_hashes *set = (const rs_key_set_hashes *)node->slot;
    uint32_t low = 0, high = set == NULL ? 0 : set->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->hashes[middle] == hash) return true;
        if (set->hashes[middle] < hash) low = middle + 1;
        else high = middle;
    }
    return false;
}

/* Returns the whole value at in.ptr. */
static rs_slice whole_of(rs_slice in) {
    size_t dicts = 0;
    in.end = rs_scan_end_unchecked(in, &dicts);
    return in;
}

/* Sets *number to the number that the child of a rising node stores for the value `in`. Returns whether it fits. */
static bool find_number(const rs_node *child, rs_slice in, uint64_t *number) {
    int64_t value;
    if (child->kind == RS_FMT_NODE_DICT_CODED) return find_entry(child, in, number);
    if (child->kind == RS_FMT_NODE_INT) {
        if (!take_int(&in, &value)) return false;
    } else if (child->kind != RS_FMT_NODE_DECIMAL || *in.ptr != RS_FMT_TAG_FLOAT ||
               !rs_packed_ints_from_float(rs_load_f64(in.ptr + 1), child->scale, &value)) {
        return false;
    }
    *number = (uint64_t)value - child->base;
    return true;
}

static bool symbols_fit(const rs_node *node, rs_slice in) {
    const rs_symbol_table *table = (const rs_symbol_table *)node->slot;
    const uint8_t tag = *in.ptr++;
    if (table == NULL || table->encoder == NULL) return false;
    if (node->param != RS_FMT_SYMBOLS_PAIRS) {
        return tag == (table->unit_bytes == 1 ? RS_FMT_TAG_STR1 : RS_FMT_TAG_STR2);
    }
    if (tag != RS_FMT_TAG_STR4) return false;
    uint64_t n = rs_scan_varint_unchecked(&in);
    return rs_utf16_length(in.ptr, n, &n);
}

/* Returns whether a list node accepts the n elements. Several children of a union may take lists of numbers, so each
 * number must fit. Other elements are not checked. */
static bool accepts_elements(const encoder *self, const rs_node *node, rs_slice in, uint64_t n) {
    const rs_node *child = node->children;
    if (child->kind != RS_FMT_NODE_INT && child->kind != RS_FMT_NODE_FLOAT && child->kind != RS_FMT_NODE_DECIMAL) {
        return true;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t tag = *in.ptr;
        if (!accepts(self, child, in)) return false;
        in.ptr += tag == RS_FMT_TAG_FLOAT ? 9 : rs_any_int_size(tag);
    }
    return true;
}

/* Returns whether a map accepts the n entries: all keys must be plain. The scan counts dicts in the order of their
 * bytes, but a map stores all keys before the values. */
static bool accepts_keys(rs_slice in, uint64_t n) {
    size_t dicts = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!rs_tag_is_plain_key(*in.ptr)) return false;
        in.ptr = rs_scan_plain_end_unchecked(in);
        in.ptr = rs_scan_end_unchecked(in, &dicts);
    }
    return true;
}

/* Returns whether `node` accepts the value at in.ptr. The encoder uses the first child of a union that does. */
static bool accepts(const encoder *self, const rs_node *node, rs_slice in) {
    uint8_t tag = *in.ptr;
    int64_t value;
    uint64_t n;
    switch (node->kind) {
    case RS_FMT_NODE_ANY: return true;
    case RS_FMT_NODE_CONST: return rs_slice_starts_with(in, node->aux, node->aux_size_bytes);
    case RS_FMT_NODE_INT: return take_int(&in, &value) && int_fits(node, value, &n);
    case RS_FMT_NODE_FLOAT: return tag == RS_FMT_TAG_FLOAT;
    case RS_FMT_NODE_BOOL: return tag == RS_FMT_TAG_FALSE || tag == RS_FMT_TAG_TRUE;
    case RS_FMT_NODE_STR:
        if (tag < RS_FMT_TAG_STR1 || tag > RS_FMT_TAG_STR4) return false;
        return node->param == 0 || node->param == 1u << (tag - RS_FMT_TAG_STR1);
    case RS_FMT_NODE_BYTES: return tag == RS_FMT_TAG_BYTES;
    case RS_FMT_NODE_LIST:
        if (tag != (node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) return false;
        in.ptr++;
        n = rs_scan_varint_unchecked(&in);
        if ((node->flags & RS_FMT_FLAG_FIXED) != 0 && n != node->count) return false;
        return accepts_elements(self, node, in, n);
    case RS_FMT_NODE_TUPLE:
        if (tag != (node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) return false;
        in.ptr++;
        return rs_scan_varint_unchecked(&in) == node->n_children;
    case RS_FMT_NODE_STRUCT:
        if (tag != RS_FMT_TAG_DICT) return false;
        if (node->partial) return has_key_set(node, self->scan->key_sets[self->scan->next]);
        if (self->scan->key_sets[self->scan->next] != node->key_set_hash) return false;
        in.ptr++;
        return rs_scan_varint_unchecked(&in) == node->n_children;
    case RS_FMT_NODE_MAP:
        if (tag != RS_FMT_TAG_DICT) return false;
        in.ptr++;
        n = rs_scan_varint_unchecked(&in);
        return accepts_keys(in, n);
    case RS_FMT_NODE_NDARRAY: return array_fits(node, in);
    case RS_FMT_NODE_EXT: return take_ext_head(node, &in);
    case RS_FMT_NODE_DECIMAL: return tag == RS_FMT_TAG_FLOAT && rs_encode_decimal(node, rs_load_f64(in.ptr + 1), &n);
    case RS_FMT_NODE_NUMBERS: return rs_encode_numbers_fit(node, in);
    case RS_FMT_NODE_DICT_CODED: return find_entry(node, whole_of(in), &n);
    case RS_FMT_NODE_SYMBOLS: return symbols_fit(node, in);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET:
    case RS_FMT_NODE_CONCAT: return rs_encode_parts(node, in, NULL, 0, NULL) == RS_OK;
    case RS_FMT_NODE_OPTIONAL: return (node->param == 1 && tag == RS_FMT_TAG_NONE) || accepts(self, node->children, in);
    case RS_FMT_NODE_UNION:
        for (n = 0; n < node->n_children; n++) {
            if (accepts(self, &node->children[n], in)) return true;
        }
        return false;
    case RS_FMT_NODE_RISING: return find_number(node->children, whole_of(in), &n);
    case RS_FMT_NODE_RUNS: return accepts(self, node->children, in);
    case RS_FMT_NODE_EXCEPTIONS: return accepts(self, node->children, in) || accepts(self, &node->children[1], in);
    default: return false;
    }
}

static rs_status put_appended(encoder *self, const rs_node *node, rs_slice *in, uint64_t *bits);

/* put_fixed and put_appended take a value off `in`, and set *bits if the node has bits in the bit group of its parent.
 * put_fixed writes a fixed body at `at`, where the buffer has room for it; put_appended appends any other body. */
static rs_status put_fixed(encoder *self, const rs_node *node, rs_slice *in, size_t at, uint64_t *bits);

/* Appends a value of `node` with its bits in whole bytes before the body. */
static rs_status put_alone(encoder *self, const rs_node *node, rs_slice *in) {
    size_t at = self->out->size_bytes;
    uint64_t bits = 0;
    RS_TRY(rs_buffer_append_zeros(self->out, node->alone_bytes + (node->fixed ? (size_t)node->size_bytes : 0),
                                  self->err));
    if (node->fixed) {
        RS_TRY(put_fixed(self, node, in, at + node->alone_bytes, &bits));
    } else {
        RS_TRY(put_appended(self, node, in, &bits));
    }
    rs_store_bits(rs_buffer_at(self->out, at), 0, node->bits, bits);
    return RS_OK;
}

/* Takes the next key of a struct off the node's aux, which rs_tree_compile has checked. */
static inline rs_status skip_key(encoder *self, rs_slice *keys) {
    rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH};
    if (keys->ptr[0] == RS_FMT_TAG_STR1 && keys->ptr[1] < 0x80) {
        keys->ptr += 2 + keys->ptr[1];
        return RS_OK;
    }
    return rs_any_skip(keys, 0, &budget, self->err);
}

/* Removes the zero bytes of the rare group of a struct whose head is at `at`, and sets the bits of the others. */
static void pack_rare(encoder *self, const rs_node *node, size_t at) {
    uint8_t *rare = self->out->data + at + node->head_bytes, *to = rare, *end = self->out->data + self->out->size_bytes;
    for (unsigned k = 0; k < node->rare_bytes; k++) {
        if (rare[k] == 0) continue;
        rs_store_bits(self->out->data + at, k, 1, 1);
        *to++ = rare[k];
    }
    memmove(to, rare + node->rare_bytes, (size_t)(end - (rare + node->rare_bytes)));
    self->out->size_bytes -= (size_t)(node->rare_bytes - (uint64_t)(to - rare));
}

/* Writes the children of a tuple or struct. The zeroed head (bit group and fixed bodies) is at `at`. Sets *bits if
 * the node has bits, which are those of the children. */
static rs_status put_row(encoder *self, const rs_node *node, rs_slice *in, size_t at, uint64_t *bits) {
    rs_slice keys = rs_slice_of(node->aux, node->aux_size_bytes);
    bool is_struct = node->kind == RS_FMT_NODE_STRUCT;
    if (*in->ptr != (is_struct ? RS_FMT_TAG_DICT : node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) {
        return misfit(self);
    }
    in->ptr++;
    uint64_t n = rs_scan_varint_unchecked(in);
    if (!node->partial && n != node->n_children) return misfit(self);
    if (is_struct && self->scan->key_sets[self->scan->next++] != node->key_set_hash && !node->partial) {
        return misfit(self);
    }
    if (node->rare_bytes != 0) RS_TRY(rs_buffer_append_zeros(self->out, (size_t)node->rare_bytes, self->err));
    if (node->bits != 0) *bits = 0;
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        const size_t group = at + (rs_node_is_rare(child) ? node->head_bytes - node->group_bytes : 0);
        uint64_t own = 0;
        if (is_struct) {
            const uint8_t *key = keys.ptr;
            RS_TRY(skip_key(self, &keys));
            size_t size = (size_t)(keys.ptr - key);
            if (n == 0 || !rs_slice_starts_with(*in, key, size)) {
                if (child->kind != RS_FMT_NODE_OPTIONAL || child->param != 0) return misfit(self);
                continue; /* the absent key has bits 0 and no body */
            }
            in->ptr += size;
            n--;
        }
        if (child->fixed) {
            RS_TRY(put_fixed(self, child, in, at + child->body_off, &own));
        } else {
            RS_TRY(put_appended(self, child, in, &own));
        }
        if (child->bits == 0) continue;
        if (node->bits != 0) *bits |= own << child->bit_off;
        else rs_encode_bits(self->out, group, child->bit_off, child->bits, own);
    }
    if (node->rare_bytes != 0) pack_rare(self, node, at);
    return is_struct && n != 0 ? misfit(self) : RS_OK;
}

/* Writes the elements of a list whose child is fixed. The zeroed room for bit group and bodies is at `at`. */
static rs_status put_fixed_elements(encoder *self, const rs_node *child, uint64_t n, rs_slice *in, size_t at) {
    uint64_t bits = 0;
    size_t body = at + (size_t)((n * child->bits + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        RS_TRY(put_fixed(self, child, in, body + (size_t)(i * child->size_bytes), &bits));
        if (child->bits != 0) rs_encode_bits(self->out, at, i * child->bits, child->bits, bits);
    }
    return RS_OK;
}

static rs_status list_head(encoder *self, const rs_node *node, rs_slice *in, uint64_t *n) {
    if (*in->ptr != (node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) return misfit(self);
    in->ptr++;
    *n = rs_scan_varint_unchecked(in);
    return (node->flags & RS_FMT_FLAG_FIXED) != 0 && *n != node->count ? misfit(self) : RS_OK;
}

static rs_status put_list(encoder *self, const rs_node *node, rs_slice *in) {
    const rs_node *child = node->children;
    uint64_t n = 0, bits = 0, size;
    RS_TRY(list_head(self, node, in, &n));
    if ((node->flags & RS_FMT_FLAG_FIXED) == 0) RS_TRY(rs_buffer_append_varint(self->out, n, self->err));
    size_t at = self->out->size_bytes;
    uint64_t group = (n * child->bits + 7) / 8;
    if (rs_mul_overflows(n, child->fixed ? child->size_bytes : 0, &size)) return misfit(self);
    /* A row with many optional keys may be large even if most keys are absent. This bounds the memory for lists of such
     * rows, and for a list that does not fit this tree. */
    if (size / 2048 > rs_slice_left(in)) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the rows of a list would take too many bytes");
    }
    RS_TRY(rs_buffer_append_zeros(self->out, (size_t)(group + size), self->err));
    if (child->fixed) return put_fixed_elements(self, child, n, in, at);
    for (uint64_t i = 0; i < n; i++) {
        RS_TRY(put_appended(self, child, in, &bits));
        if (child->bits != 0) rs_encode_bits(self->out, at, i * child->bits, child->bits, bits);
    }
    return RS_OK;
}

/* Appends the keys of n entries, or their values, and skips the others. */
static rs_status put_entries(encoder *self, const rs_node *child, bool keys, uint64_t n, rs_slice *in) {
    size_t at = self->out->size_bytes, group = (size_t)((n * child->bits + 7) / 8), body = at + group, dicts = 0;
    uint64_t size, bits = 0;
    if (rs_mul_overflows(n, child->fixed ? child->size_bytes : 0, &size)) return misfit(self);
    if (size / 2048 > rs_slice_left(in)) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the rows of a map would take too many bytes");
    }
    RS_TRY(rs_buffer_append_zeros(self->out, (size_t)(group + size), self->err));
    for (uint64_t i = 0; i < n; i++) {
        if (!keys) in->ptr = rs_scan_plain_end_unchecked(*in);
        if (child->fixed) {
            RS_TRY(put_fixed(self, child, in, body + (size_t)(i * child->size_bytes), &bits));
        } else {
            RS_TRY(put_appended(self, child, in, &bits));
        }
        if (child->bits != 0) rs_encode_bits(self->out, at, i * child->bits, child->bits, bits);
        if (keys) in->ptr = rs_scan_end_unchecked(*in, &dicts);
    }
    return RS_OK;
}

/* Appends a dict as a map: its keys, then its values. */
static rs_status put_map(encoder *self, const rs_node *node, rs_slice *in) {
    if (!accepts(self, node, *in)) return misfit(self);
    in->ptr++;
    uint64_t n = rs_scan_varint_unchecked(in);
    self->scan->next++;
    rs_slice entries = *in;
    RS_TRY(rs_buffer_append_varint(self->out, n, self->err));
    RS_TRY(put_entries(self, &node->children[0], true, n, &entries));
    return put_entries(self, &node->children[1], false, n, in);
}

/* Returns whether writing a value tells whether the node accepts it: accepts() would cut the str once more. A failed
 * write takes nothing off the input. */
static bool is_cut(const rs_node *node) {
    return node->kind == RS_FMT_NODE_CONCAT || node->kind == RS_FMT_NODE_ALPHABET || node->kind == RS_FMT_NODE_HEX;
}

/* Takes back a failed write: the bytes from `before` on, and a fixed body at `at`. */
static void take_back(encoder *self, const rs_node *node, size_t before, size_t at) {
    if (node->fixed && node->size_bytes != 0) memset(self->out->data + at, 0, (size_t)node->size_bytes);
    self->out->size_bytes = before;
}

static rs_status put_union(encoder *self, const rs_node *node, rs_slice *in, uint64_t *bits) {
    const size_t before = self->out->size_bytes;
    for (*bits = 0; *bits < node->n_children; ++*bits) {
        const rs_node *child = &node->children[*bits];
        if (!is_cut(child) && !accepts(self, child, *in)) continue;
        rs_status status = put_alone(self, child, in);
        if (!is_cut(child) || status != RS_E_ARG_RANGE) return status;
        take_back(self, node, before, 0);
    }
    return misfit(self);
}

/* Writes a str under a concat node, whose zeroed head is at `at`, or under an alphabet or hex node, whose fixed body
 * goes there. */
static rs_status put_parts(encoder *self, const rs_node *node, rs_slice *in, size_t at) {
    RS_TRY(rs_encode_parts(node, *in, self->out, at, self->err));
    rs_scan_skip_unchecked(self->scan, in);
    return RS_OK;
}

static rs_status put_symbols(encoder *self, const rs_node *node, rs_slice *in) {
    const rs_symbol_table *table = (const rs_symbol_table *)node->slot;
    if (!accepts(self, node, *in)) return misfit(self);
    in->ptr++;
    uint64_t n = rs_scan_varint_unchecked(in);
    RS_TRY(rs_encode_symbols(node, in->ptr, n, self->out, self->err));
    in->ptr += n * (node->param == RS_FMT_SYMBOLS_PAIRS ? 4 : table->unit_bytes);
    return RS_OK;
}

/* Appends the body of an optional node that is not fixed. A missing value has no body. */
static rs_status put_optional(encoder *self, const rs_node *node, rs_slice *in, uint64_t *bits) {
    const rs_node *child = node->children;
    size_t at = self->out->size_bytes;
    uint64_t below = 0;
    *bits = 0;
    if (node->param == 1 && *in->ptr == RS_FMT_TAG_NONE) {
        in->ptr++;
        return RS_OK;
    }
    if (child->fixed) {
        RS_TRY(rs_buffer_append_zeros(self->out, (size_t)child->size_bytes, self->err));
        RS_TRY(put_fixed(self, child, in, at, &below));
    } else {
        RS_TRY(put_appended(self, child, in, &below));
    }
    *bits = below << 1 | 1;
    return RS_OK;
}

/* ---- Placed nodes ---- */

static rs_status put_rising(encoder *self, const rs_node *node, rs_slice *in) {
    const uint8_t *begin = in->ptr;
    uint64_t number = 0;
    rs_scan_skip_unchecked(self->scan, in);
    if (!find_number(node->children, rs_slice_of(begin, (size_t)(in->ptr - begin)), &number)) return misfit(self);
    return rs_places_put_number(self->places, node, number, self->err);
}

/* Appends a value to the values of a placed node. */
static rs_status put_apart(encoder *self, const rs_node *node, const rs_node *child, rs_slice *in) {
    rs_buffer *out = self->out;
    self->out = &self->places->nodes[node->placed].values;
    rs_status status = put_alone(self, child, in);
    self->out = out;
    return status == RS_OK ? rs_places_end_value(self->places, node, self->err) : status;
}

static rs_status put_run(encoder *self, const rs_node *node, rs_slice *in) {
    rs_placed_values *v = &self->places->nodes[node->placed];
    rs_slice whole = whole_of(*in);
    size_t size = rs_slice_left(&whole);
    if (v->last.ptr != NULL && rs_slice_left(&v->last) == size && rs_equal_few(v->last.ptr, whole.ptr, size)) {
        rs_scan_skip_unchecked(self->scan, in);
        return RS_OK;
    }
    v->last = whole;
    return put_apart(self, node, node->children, in);
}

/* Writes the value of an exceptions node. A fixed body goes to `at`. */
static rs_status put_exceptions(encoder *self, const rs_node *node, rs_slice *in, size_t at, uint64_t *bits) {
    const rs_node *child = node->children;
    const size_t before = self->out->size_bytes;
    *bits = 0;
    if (!is_cut(child) && !accepts(self, child, *in)) return put_apart(self, node, child + 1, in);
    rs_status status = node->fixed ? put_fixed(self, child, in, at, bits) : put_appended(self, child, in, bits);
    if (!is_cut(child) || status != RS_E_ARG_RANGE) return status;
    take_back(self, node, before, at);
    return put_apart(self, node, child + 1, in);
}

static rs_status put_fixed_union(encoder *self, const rs_node *node, rs_slice *in, size_t at, uint64_t *bits) {
    for (*bits = 0; *bits < node->n_children; ++*bits) {
        const rs_node *child = &node->children[*bits];
        uint64_t below = 0;
        if (!is_cut(child) && !accepts(self, child, *in)) continue;
        rs_status status = put_fixed(self, child, in, at + child->alone_bytes, &below);
        if (status == RS_OK) rs_store_bits(self->out->data + at, 0, child->bits, below);
        if (!is_cut(child) || status != RS_E_ARG_RANGE) return status;
        take_back(self, node, self->out->size_bytes, at);
    }
    return misfit(self);
}

static rs_status put_fixed_array(encoder *self, const rs_node *node, rs_slice *in, size_t at) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    if (!array_fits(node, *in)) return misfit(self);
    in->ptr++;
    RS_TRY(rs_array_skip(in, UINT64_MAX, &type, &shape, &size, &outside, self->err));
    if (size != 0) memcpy(self->out->data + at, in->ptr - size, (size_t)size);
    return RS_OK;
}

/* Puts the stored number of an int or decimal into *bits or into the body at `at`, depending on its width. */
static void put_number(encoder *self, const rs_node *node, uint64_t stored, size_t at, uint64_t *bits) {
    if (node->bits != 0) *bits = stored;
    if (node->size_bytes != 0) memcpy(self->out->data + at, &stored, (size_t)node->size_bytes);
}

static rs_status put_fixed(encoder *self, const rs_node *node, rs_slice *in, size_t at, uint64_t *bits) {
    const uint8_t *begin = in->ptr;
    uint64_t stored, n = 0;
    int64_t value;
    uint8_t tag = *begin;
    switch (node->kind) {
    case RS_FMT_NODE_CONST:
        if (!rs_slice_starts_with(*in, node->aux, node->aux_size_bytes)) return misfit(self);
        rs_scan_skip_unchecked(self->scan, in);
        return RS_OK;
    case RS_FMT_NODE_INT:
        if (!take_int(in, &value) || !int_fits(node, value, &stored)) return misfit(self);
        put_number(self, node, stored, at, bits);
        return RS_OK;
    case RS_FMT_NODE_FLOAT:
        if (tag != RS_FMT_TAG_FLOAT) return misfit(self);
        memcpy(self->out->data + at, in->ptr + 1, 8);
        in->ptr += 9;
        return RS_OK;
    case RS_FMT_NODE_BOOL:
        if (tag != RS_FMT_TAG_FALSE && tag != RS_FMT_TAG_TRUE) return misfit(self);
        *bits = tag == RS_FMT_TAG_TRUE;
        in->ptr++;
        return RS_OK;
    case RS_FMT_NODE_LIST:
        RS_TRY(list_head(self, node, in, &n));
        return put_fixed_elements(self, node->children, n, in, at);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: return put_row(self, node, in, at, bits);
    case RS_FMT_NODE_UNION: return put_fixed_union(self, node, in, at, bits);
    case RS_FMT_NODE_NDARRAY: return put_fixed_array(self, node, in, at);
    case RS_FMT_NODE_EXT: return take_ext_head(node, in) ? put_fixed(self, node->children, in, at, bits) : misfit(self);
    case RS_FMT_NODE_DECIMAL:
        if (tag != RS_FMT_TAG_FLOAT || !rs_encode_decimal(node, rs_load_f64(in->ptr + 1), &stored)) return misfit(self);
        put_number(self, node, stored, at, bits);
        in->ptr += 9;
        return RS_OK;
    case RS_FMT_NODE_DICT_CODED:
        rs_scan_skip_unchecked(self->scan, in);
        return find_entry(node, rs_slice_of(begin, (size_t)(in->ptr - begin)), bits) ? RS_OK : misfit(self);
    case RS_FMT_NODE_OPTIONAL:
        *bits = 0;
        if (node->param == 1 && tag == RS_FMT_TAG_NONE) {
            in->ptr++;
            return RS_OK;
        }
        RS_TRY(put_fixed(self, node->children, in, at, bits));
        *bits = *bits << 1 | 1;
        return RS_OK;
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET:
    case RS_FMT_NODE_CONCAT: return put_parts(self, node, in, at);
    case RS_FMT_NODE_RISING: *bits = 0; return put_rising(self, node, in);
    case RS_FMT_NODE_RUNS: *bits = 0; return put_run(self, node, in);
    case RS_FMT_NODE_EXCEPTIONS: return put_exceptions(self, node, in, at, bits);
    default: return misfit(self);
    }
}

/* Appends a str or bytes: the length as the node stores it, then the units. */
static rs_status put_counted(encoder *self, const rs_node *node, rs_slice *in) {
    unsigned shift = 0;
    if (!accepts(self, node, *in)) return misfit(self);
    if (node->kind == RS_FMT_NODE_STR) shift = (unsigned)(*in->ptr - RS_FMT_TAG_STR1);
    in->ptr++;
    uint64_t n = rs_scan_varint_unchecked(in);
    if ((node->flags & RS_FMT_FLAG_REST) == 0) {
        RS_TRY(rs_buffer_append_varint(self->out,
                                       node->kind == RS_FMT_NODE_STR && node->param == 0 ? n << 2 | shift : n,
                                       self->err));
    }
    RS_TRY(rs_buffer_append(self->out, in->ptr, (size_t)(n << shift), self->err));
    in->ptr += n << shift;
    return RS_OK;
}

static rs_status put_array(encoder *self, const rs_node *node, rs_slice *in) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    if (!array_fits(node, *in)) return misfit(self);
    in->ptr++;
    RS_TRY(rs_array_skip(in, UINT64_MAX, &type, &shape, &size, &outside, self->err));
    /* The data, or its position outside, has the same bytes as in the any value. */
    const uint8_t *data = (node->flags & RS_FMT_FLAG_FIXED) != 0 ? shape.end : shape.ptr;
    return rs_buffer_append(self->out, data, (size_t)(in->ptr - data), self->err);
}

static rs_status put_appended(encoder *self, const rs_node *node, rs_slice *in, uint64_t *bits) {
    const uint8_t *begin = in->ptr;
    size_t at = self->out->size_bytes;
    switch (node->kind) {
    case RS_FMT_NODE_ANY:
        rs_scan_skip_unchecked(self->scan, in);
        return rs_buffer_append(self->out, begin, (size_t)(in->ptr - begin), self->err);
    case RS_FMT_NODE_STR:
    case RS_FMT_NODE_BYTES: return put_counted(self, node, in);
    case RS_FMT_NODE_LIST: return put_list(self, node, in);
    case RS_FMT_NODE_MAP: return put_map(self, node, in);
    case RS_FMT_NODE_NUMBERS: return rs_encode_numbers(node, in, self->out, self->err);
    case RS_FMT_NODE_SYMBOLS: return put_symbols(self, node, in);
    case RS_FMT_NODE_ALPHABET: return put_parts(self, node, in, at);
    case RS_FMT_NODE_OPTIONAL: return put_optional(self, node, in, bits);
    case RS_FMT_NODE_EXCEPTIONS: return put_exceptions(self, node, in, at, bits);
    case RS_FMT_NODE_CONCAT:
        RS_TRY(rs_buffer_append_zeros(self->out, node->head_bytes, self->err));
        return put_parts(self, node, in, at);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT:
        RS_TRY(rs_buffer_append_zeros(self->out, node->head_bytes, self->err));
        return put_row(self, node, in, at, bits);
    case RS_FMT_NODE_UNION: return put_union(self, node, in, bits);
    case RS_FMT_NODE_NDARRAY: return put_array(self, node, in);
    case RS_FMT_NODE_EXT: return take_ext_head(node, in) ? put_appended(self, node->children, in, bits) : misfit(self);
    default: return misfit(self);
    }
}

rs_status rs_encode_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_buffer *out, rs_error *err) {
    return rs_encode_placed_record(tree, raw, scan, NULL, out, err);
}

rs_status rs_encode_placed_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_places_part *places,
                                  rs_buffer *out, rs_error *err) {
    encoder self = {scan, out, places, err};
    RS_ASSERT(places != NULL || tree->n_placed == 0);
    RS_TRY(put_alone(&self, &tree->nodes[0], &raw));
    return raw.ptr == raw.end ? RS_OK : misfit(&self);
}
