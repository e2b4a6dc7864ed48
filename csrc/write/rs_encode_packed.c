/* rs_encode_packed.c: encodes decimals, packed lists of numbers and the parts of a concat; and the links from nodes to
 * the data that encoding needs. */
#include "write/rs_encode.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"
#include "write/rs_string_template.h"

static rs_status misfit(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a value does not fit the schema tree");
}

/* ---- Links ---- */

void rs_links_clear(rs_links *self) {
    while (self->key_sets != NULL) {
        rs_key_set_hashes *next = self->key_sets->next;
        free(self->key_sets);
        self->key_sets = next;
    }
    free(self->nodes);
    free(self->links);
    memset(self, 0, sizeof *self);
}

rs_status rs_links_add(rs_links *self, uint32_t node, void *link, rs_error *err) {
    if (self->n == self->capacity) {
        uint32_t capacity = self->capacity == 0 ? 16 : self->capacity * 2;
        uint32_t *nodes = (uint32_t *)realloc(self->nodes, capacity * sizeof *nodes);
        void **links;
        if (nodes != NULL) self->nodes = nodes;
        links = (void **)realloc(self->links, capacity * sizeof *links);
        if (links != NULL) self->links = links;
        if (nodes == NULL || links == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a tree");
        self->capacity = capacity;
    }
    self->nodes[self->n] = node;
    self->links[self->n++] = link;
    return RS_OK;
}

rs_status rs_links_new_key_sets(rs_links *self, uint32_t n, rs_key_set_hashes **out, rs_error *err) {
    rs_key_set_hashes *set = (rs_key_set_hashes *)calloc(1, sizeof *set + n * sizeof set->hashes[0]);
    if (set == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a tree");
    set->n = n;
    set->next = self->key_sets;
    self->key_sets = set;
    *out = set;
    return RS_OK;
}

void rs_links_apply(const rs_links *self, rs_tree *tree) {
    uint32_t i;
    for (i = 0; i < self->n; i++) tree->nodes[self->nodes[i]].slot = self->links[i];
}

/* ---- Numbers ---- */

bool rs_encode_decimal(const rs_node *node, double value, uint64_t *stored) {
    double product = value * node->divisor, back;
    uint64_t above, bits, back_bits, k = 0;
    unsigned width = node->param, c = node->correction;
    int64_t m;
    if (!(product > -9.3e18 / 2 && product < 9.3e18 / 2)) return false;
    m = rs_packed_ints_round(product);
    above = (uint64_t)m - node->base;
    if (width - c < 64 && above >> (width - c) != 0) return false;
    back = (double)m / node->divisor;
    memcpy(&bits, &value, 8);
    memcpy(&back_bits, &back, 8);
    if (c != 0) {
        k = bits - back_bits + (UINT64_C(1) << (c - 1));
        if (k >> c != 0) return false;
    } else if (bits != back_bits) {
        return false;
    }
    *stored = c == 0 ? above : above << c | k;
    return true;
}

/* Takes the next number of a list, and sets *out to the integer that a numbers node packs for it. Returns false when
 * the node cannot store the number. */
static bool take_number(const rs_node *node, rs_slice *in, int64_t *out) {
    uint8_t tag = *in->ptr;
    if (node->number_kind == RS_FMT_NUMBERS_FLOATS) {
        if (tag != RS_FMT_TAG_FLOAT || !rs_packed_ints_from_float(rs_load_f64(in->ptr + 1), node->scale, out))
            return false;
        in->ptr += 9;
        return true;
    }
    if (!rs_tag_is_int64(tag)) return false;
    *out = rs_any_take_int_unchecked(in);
    return true;
}

static bool take_head(const rs_node *node, rs_slice *in, uint64_t *n) {
    if (*in->ptr != (node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) return false;
    in->ptr++;
    *n = rs_scan_varint_unchecked(in);
    return (node->flags & RS_FMT_FLAG_FIXED) == 0 || *n == node->count;
}

bool rs_encode_numbers_fit(const rs_node *node, rs_slice value) {
    uint64_t n, i;
    int64_t number;
    if (!take_head(node, &value, &n)) return false;
    for (i = 0; i < n; i++) {
        if (!take_number(node, &value, &number)) return false;
    }
    return true;
}

rs_status rs_encode_numbers(const rs_node *node, rs_slice *in, rs_buffer *out, rs_error *err) {
    int64_t few[256], *numbers = few;
    uint64_t n, i;
    rs_status status = RS_OK;
    if (!take_head(node, in, &n)) return misfit(err);
    if ((node->flags & RS_FMT_FLAG_FIXED) == 0) RS_TRY(rs_buffer_append_varint(out, n, err));
    if (n == 0) return RS_OK;
    if (n > sizeof few / sizeof few[0]) {
        /* The n numbers are in memory already as any values, so n is no untrusted size. */
        numbers = (int64_t *)malloc((size_t)n * sizeof *numbers);
        if (numbers == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a list");
    }
    for (i = 0; i < n && status == RS_OK; i++) {
        if (!take_number(node, in, &numbers[i])) status = misfit(err);
    }
    if (status == RS_OK) status = rs_packed_ints_append(node, numbers, n, out, err);
    if (numbers != few) free(numbers);
    return status;
}

/* ---- Parts of a concat ---- */

static bool starts_with(rs_slice s, rs_slice with) {
    size_t size = rs_slice_left(&with);
    return size <= rs_slice_left(&s) && memcmp(s.ptr, with.ptr, size) == 0;
}

/* Returns the text of a const node whose value is a str of 1-byte units. */
static rs_slice const_text(const rs_node *node) {
    rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
    aux.ptr++;
    (void)rs_scan_varint_unchecked(&aux);
    return aux;
}

static const uint8_t *find(rs_slice in, rs_slice what) {
    size_t size = rs_slice_left(&what);
    for (; rs_slice_left(&in) >= size; in.ptr++) {
        const uint8_t *first = size == 0 ? in.ptr : (const uint8_t *)memchr(in.ptr, *what.ptr, rs_slice_left(&in));
        if (first == NULL) return NULL;
        in.ptr = first;
        if (rs_slice_left(&in) >= size && memcmp(in.ptr, what.ptr, size) == 0) return in.ptr;
    }
    return NULL;
}

static const uint8_t *end_of_class(rs_template_classes classes, rs_slice s) {
    unsigned class;
    if (s.ptr == s.end) return s.ptr;
    class = rs_template_class(classes, *s.ptr);
    while (s.ptr != s.end && rs_template_class(classes, *s.ptr) == class) s.ptr++;
    return s.ptr;
}

/* Returns where part i ends in `s`, the rest of a string; NULL when the rest does not begin with such a part. `parts`
 * holds the parts before it. */
static const uint8_t *part_end(const rs_node *node, uint32_t i, rs_slice s, const rs_slice *parts) {
    const rs_node *child = &node->children[i], *next = i + 1 < node->n_children ? child + 1 : NULL;
    rs_template_classes classes =
        node->slot == NULL ? RS_TEMPLATE_WORDS : (rs_template_classes)*(const uint8_t *)node->slot;
    size_t left = rs_slice_left(&s), size;
    switch (child->kind) {
    case RS_FMT_NODE_CONST: {
        rs_slice text = const_text(child);
        return starts_with(s, text) ? s.ptr + rs_slice_left(&text) : NULL;
    }
    case RS_FMT_NODE_SAME:
        size = rs_slice_left(&parts[child->count]);
        return starts_with(s, parts[child->count]) ? s.ptr + size : NULL;
    case RS_FMT_NODE_HEX: return child->count <= left ? s.ptr + child->count : NULL;
    case RS_FMT_NODE_DIGITS: {
        const uint8_t *p = s.ptr;
        if (child->count != 0) return child->count <= left ? s.ptr + child->count : NULL;
        while (p != s.end && *p >= '0' && *p <= '9') p++;
        return p;
    }
    default:
        if (next == NULL) return s.end;
        return next->kind == RS_FMT_NODE_CONST ? find(s, const_text(next)) : end_of_class(classes, s);
    }
}

/* Sets *stored to the number that a digits node stores for a text. Returns false when the node cannot store the
 * text. */
static bool fit_digits(const rs_node *node, rs_slice text, uint64_t *stored) {
    uint64_t value = 0;
    size_t size = rs_slice_left(&text);
    const uint8_t *p;
    if (size == 0 || size > 18 || size < node->count) return false;
    if (size > node->count && size > 1 && *text.ptr == '0') return false;
    for (p = text.ptr; p != text.end; p++) {
        if (*p < '0' || *p > '9') return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *stored = value - node->base;
    return node->param == 64 || *stored >> node->param == 0;
}

static int hex_digit(const rs_node *node, uint8_t c) {
    uint8_t a = node->param == 0 ? 'a' : 'A';
    if (c >= '0' && c <= '9') return c - '0';
    return c >= a && c <= a + 5 ? c - a + 10 : -1;
}

static bool fit_hex(const rs_node *node, rs_slice text, uint8_t *to) {
    uint32_t i;
    for (i = 0; i < node->count; i++) {
        int digit = hex_digit(node, text.ptr[i]);
        if (digit < 0) return false;
        if (to != NULL) to[i / 2] |= (uint8_t)(digit << (i % 2 == 0 ? 4 : 0));
    }
    return true;
}

static bool fit_entry(const rs_node *node, rs_slice text, uint64_t *number) {
    uint8_t value[RS_TEMPLATE_UNITS + 16];
    size_t size = rs_slice_left(&text), used = 1;
    if (size > RS_TEMPLATE_UNITS || node->slot == NULL) return false;
    value[0] = RS_FMT_TAG_STR1;
    used += rs_put_varint(value + 1, size);
    memcpy(value + used, text.ptr, size);
    *number = rs_dictionary_find((const rs_dictionary *)node->slot, rs_slice_of(value, used + size));
    return *number < node->count;
}

/* Checks that one part fits its node, and sets *bits. With `out` not NULL it also writes the body; the concat's head is
 * zeroed at `at`. */
static rs_status put_part(const rs_node *child, rs_slice text, rs_buffer *out, size_t at, uint64_t *bits,
                          rs_error *err) {
    uint64_t stored = 0;
    *bits = 0;
    switch (child->kind) {
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_SAME: return RS_OK;
    case RS_FMT_NODE_DIGITS:
        if (!fit_digits(child, text, &stored)) return misfit(err);
        if (child->bits != 0) *bits = stored;
        if (out != NULL && child->size_bytes != 0) {
            memcpy(out->data + at + child->body_off, &stored, (size_t)child->size_bytes);
        }
        return RS_OK;
    case RS_FMT_NODE_HEX:
        return fit_hex(child, text, out == NULL ? NULL : out->data + at + child->body_off) ? RS_OK : misfit(err);
    case RS_FMT_NODE_DICT_CODED: return fit_entry(child, text, bits) ? RS_OK : misfit(err);
    case RS_FMT_NODE_STR:
        if (child->param != 1) return misfit(err);
        if (out == NULL) return RS_OK;
        if ((child->flags & RS_FMT_FLAG_REST) == 0) RS_TRY(rs_buffer_append_varint(out, rs_slice_left(&text), err));
        return rs_buffer_append(out, text.ptr, rs_slice_left(&text), err);
    default: return misfit(err); /* a writer makes no other parts */
    }
}

rs_status rs_encode_parts(const rs_node *node, rs_slice text, rs_buffer *out, size_t at, rs_error *err) {
    rs_slice parts[RS_FMT_CONCAT_CHILDREN];
    uint32_t i;
    for (i = 0; i < node->n_children; i++) {
        const uint8_t *end = part_end(node, i, text, parts);
        if (end == NULL) return misfit(err);
        parts[i].ptr = text.ptr;
        parts[i].end = end;
        text.ptr = end;
    }
    if (text.ptr != text.end) return misfit(err);
    for (i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        uint64_t bits;
        RS_TRY(put_part(child, parts[i], out, at, &bits, err));
        if (out != NULL && child->bits != 0) rs_store_bits(out->data + at, child->bit_off, child->bits, bits);
    }
    return RS_OK;
}
