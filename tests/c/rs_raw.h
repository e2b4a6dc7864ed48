/* rs_raw.h: turns an encoded record back into its `any` value, byte for byte. A plain, slow reader of trees, for
 * records that rs_check_record accepts. Texts, packed numbers, dict codes, placed nodes and exceptions use the real
 * reader. */
#pragma once

#include "read/rs_decode.h"
#include "read/rs_store.h"
#include "rs_make.h"
#include "read/rs_text.h"
#include "verify/rs_check.h"

static inline void raw_alone(rs_cursor *c, const rs_node *node, rs_buffer *out);
static inline void raw_row(rs_cursor *c, const rs_node *node, uint64_t own, rs_buffer *out);
static inline void raw_body(rs_cursor *c, const rs_node *node, uint64_t bits, rs_buffer *out);

static inline const uint8_t *raw_take(rs_cursor *c, uint64_t n) {
    const uint8_t *p = NULL;
    if (!rs_take(&c->in, n, &p)) abort();
    return p;
}

static inline uint64_t raw_varint(rs_cursor *c) {
    uint64_t value = 0;
    if (!rs_take_varint(&c->in, &value)) abort();
    return value;
}

/* Reads a field of `width` bits, bit by bit. */
static inline uint64_t raw_bits(const uint8_t *group, uint64_t at, unsigned width) {
    uint64_t value = 0;
    for (unsigned k = 0; k < width; k++, at++) value |= (uint64_t)(group[at / 8] >> at % 8 & 1) << k;
    return value;
}

static inline uint64_t raw_any_size(rs_slice in) {
    rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = 1000};
    const uint8_t *begin = in.ptr;
    if (rs_any_skip(&in, UINT64_MAX, &budget, NULL) != RS_OK) abort();
    return (uint64_t)(in.ptr - begin);
}

static inline void raw_str(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    bool rest = (node->flags & RS_FMT_FLAG_REST) != 0;
    uint64_t n = rest ? rs_slice_left(&c->in) / node->param : raw_varint(c);
    unsigned shift = node->param == 4 ? 2u : node->param == 2 ? 1u : 0u;
    if (node->param == 0) shift = (unsigned)(n & 3), n >>= 2;
    make_tag(out, 0x09 + shift), make_varint(out, n);
    make_bytes(out, raw_take(c, n << shift), (size_t)(n << shift));
}

static inline void raw_array(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
    rs_cursor whole = *c;
    rs_buffer head = {0};
    make_tag(&head, 0x10), make_bytes(&head, aux.ptr, node->aux_size_bytes);
    make_bytes(out, head.data, head.size_bytes);
    uint64_t size = head.size_bytes;
    make_bytes(&head, c->in.ptr, rs_slice_left(&c->in)); /* with REST the size follows from the value */
    whole.in = rs_slice_of(head.data, head.size_bytes);
    size = raw_any_size(whole.in) - size;
    make_bytes(out, raw_take(c, size), (size_t)size);
    rs_buffer_clear(&head);
}

static inline void raw_text(rs_cursor *c, const rs_node *node, uint64_t bits, rs_buffer *out) {
    rs_text text;
    const uint8_t *body = node->fixed ? raw_take(c, node->size_bytes) : NULL;
    rs_text_begin(&text);
    if (rs_text_put(&text, c, node, body, bits, NULL) != RS_OK) abort();
    make_tag(out, 0x09 + text.unit_bytes / 2), make_varint(out, text.n_units);
    make_bytes(out, text.units, (size_t)(text.n_units * text.unit_bytes));
    rs_text_clear(&text);
}

static inline void raw_numbers(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    uint64_t n = (node->flags & RS_FMT_FLAG_FIXED) != 0 ? node->count : raw_varint(c);
    const int64_t *chunk;
    rs_packed_ints numbers;
    unsigned k;
    make_head(out, node->param == 0 ? 0x0D : 0x0E, n);
    if (n == 0) return;
    if (!rs_packed_ints_take(node, n, &c->in, &numbers)) abort();
    while ((k = rs_packed_ints_next(&numbers, &chunk)) != 0) {
        for (unsigned i = 0; i < k; i++) {
            if (node->number_kind == RS_FMT_NUMBERS_INTS) make_int(out, chunk[i]);
            else make_float(out, rs_packed_ints_float(node, chunk[i]));
        }
    }
}

/* The stored number of an int or decimal: a body of whole bytes, or bits. */
static inline uint64_t raw_stored(rs_cursor *c, const rs_node *node, uint64_t bits) {
    unsigned w = node->param;
    if (w == 8 || w == 16 || w == 32 || w == 64) bits = 0, memcpy(&bits, raw_take(c, w / 8), w / 8);
    return bits;
}

static inline void raw_entry(rs_cursor *c, const rs_node *node, uint64_t number, rs_buffer *out) {
    const rs_table *table;
    rs_cursor entry = *c;
    if (rs_dict_coded_find(node, number, &table, &entry.in, NULL) != RS_OK) abort();
    raw_alone(&entry, table->tree->nodes, out);
}

/* All keys come before the first value. They are skipped first; a second cursor then reads them together with the
 * values. */
static inline void raw_map(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    const rs_node *key = &node->children[0], *value = &node->children[1];
    uint64_t n = raw_varint(c);
    const uint8_t *keys = raw_take(c, (n * key->bits + 7) / 8);
    rs_cursor key_cursor = *c;
    rs_buffer skipped_keys = {0};
    for (uint64_t i = 0; i < n; i++) raw_body(c, key, raw_bits(keys, i * key->bits, key->bits), &skipped_keys);
    rs_buffer_clear(&skipped_keys);
    const uint8_t *values = raw_take(c, (n * value->bits + 7) / 8);
    make_head(out, 0x0F, n);
    for (uint64_t i = 0; i < n; i++) {
        raw_body(&key_cursor, key, raw_bits(keys, i * key->bits, key->bits), out);
        raw_body(c, value, raw_bits(values, i * value->bits, value->bits), out);
    }
}

/* Reads the body of `node`, whose bits are `bits`. A fixed body is at the cursor like any other. */
static inline void raw_body(rs_cursor *c, const rs_node *node, uint64_t bits, rs_buffer *out) {
    uint64_t n;
    switch (node->kind) {
    case RS_FMT_NODE_ANY: n = raw_any_size(c->in), make_bytes(out, raw_take(c, n), (size_t)n); break;
    case RS_FMT_NODE_CONST: make_bytes(out, node->aux, node->aux_size_bytes); break;
    case RS_FMT_NODE_INT: {
        uint64_t base = rs_load_u64(node->aux);
        make_int(out, (int64_t)(base + raw_stored(c, node, bits)));
        break;
    }
    case RS_FMT_NODE_DECIMAL: make_float(out, rs_packed_ints_decimal(node, raw_stored(c, node, bits))); break;
    case RS_FMT_NODE_NUMBERS: raw_numbers(c, node, out); break;
    case RS_FMT_NODE_DICT_CODED: raw_entry(c, node, bits, out); break;
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET:
    case RS_FMT_NODE_CONCAT: raw_text(c, node, bits, out); break;
    case RS_FMT_NODE_OPTIONAL: /* raw_row handles an absent key */
        if ((bits & 1) == 0) make_tag(out, 0);
        else raw_body(c, node->children, bits >> 1, out);
        break;
    case RS_FMT_NODE_FLOAT: make_tag(out, 0x08), make_bytes(out, raw_take(c, 8), 8); break;
    case RS_FMT_NODE_BOOL: make_tag(out, bits != 0 ? 2 : 1); break;
    case RS_FMT_NODE_STR: raw_str(c, node, out); break;
    case RS_FMT_NODE_BYTES:
        n = (node->flags & RS_FMT_FLAG_REST) != 0 ? rs_slice_left(&c->in) : raw_varint(c);
        make_head(out, 0x0C, n), make_bytes(out, raw_take(c, n), (size_t)n);
        break;
    case RS_FMT_NODE_LIST: {
        const rs_node *child = node->children;
        n = (node->flags & RS_FMT_FLAG_FIXED) != 0 ? node->count : raw_varint(c);
        make_head(out, node->param == 0 ? 0x0D : 0x0E, n);
        const uint8_t *group = raw_take(c, (n * child->bits + 7) / 8);
        for (uint64_t i = 0; i < n; i++) raw_body(c, child, raw_bits(group, i * child->bits, child->bits), out);
        break;
    }
    case RS_FMT_NODE_MAP: raw_map(c, node, out); break;
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: raw_row(c, node, bits, out); break;
    case RS_FMT_NODE_UNION: raw_alone(c, &node->children[bits], out); break;
    case RS_FMT_NODE_NDARRAY: raw_array(c, node, out); break;
    case RS_FMT_NODE_EXT:
        make_tag(out, 0x11), make_tag(out, node->param), make_bytes(out, node->aux, node->aux_size_bytes);
        raw_body(c, node->children, bits, out);
        break;
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS: {
        const uint8_t *body;
        rs_cursor placed = *c;
        if (rs_decode_placed(c, &node, &body, &bits, NULL) != RS_OK) abort();
        placed.in = rs_slice_of(body, (size_t)node->size_bytes);
        raw_body(&placed, node, bits, out);
        break;
    }
    case RS_FMT_NODE_EXCEPTIONS: {
        rs_outer outer;
        bool odd;
        if (rs_decode_exception(c, node, &odd, &outer, NULL) != RS_OK) abort();
        if (!odd) {
            raw_body(c, node->children, bits, out);
            break;
        }
        raw_alone(c, &node->children[1], out);
        if (c->in.ptr != c->in.end) abort();
        rs_decode_return(c, &outer);
        if (node->fixed) (void)raw_take(c, node->size_bytes);
        break;
    }
    default: abort();
    }
}

/* Reads a tuple or struct: the bodies of fixed children come first, but values are in the order of the children. */
static inline void raw_row(rs_cursor *c, const rs_node *node, uint64_t own, rs_buffer *out) {
    bool is_struct = node->kind == RS_FMT_NODE_STRUCT;
    rs_slice keys = rs_slice_of(node->aux, node->aux_size_bytes);
    uint64_t all[RS_FMT_TREE_NODES], total = 0, at, n_rare = 0, rare_at = 0;
    uint8_t rare[RS_FMT_RARE_BYTES] = {0};
    uint32_t n_absent = 0;
    rs_cursor fixed = *c;
    uint32_t i;
    for (i = 0; i < node->n_children; i++) {
        if ((node->children[i].flags & 4) != 0) n_rare++;
        else total += node->children[i].bits;
    }
    at = (n_rare + 7) / 8;
    uint8_t own_bytes[8];
    rs_store_u64(own_bytes, own);
    const uint8_t *group = (node->flags & 8) != 0 ? own_bytes : raw_take(c, (at + total + 7) / 8);
    fixed.in.ptr = c->in.ptr;
    for (i = 0; i < node->n_children; i++) {
        if (node->children[i].fixed) (void)raw_take(c, node->children[i].size_bytes);
    }
    for (i = 0; i < at; i++) rare[i] = raw_bits(group, i, 1) != 0 ? *raw_take(c, 1) : 0;
    for (i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        const bool is_rare = (child->flags & 4) != 0;
        all[i] = is_rare ? raw_bits(rare, rare_at++, 1) : raw_bits(group, at, child->bits);
        if (!is_rare) at += child->bits;
        if (child->kind == 22 && child->param == 0) n_absent += (all[i] & 1) == 0;
    }
    make_head(out, is_struct ? 0x0F : node->param == 0 ? 0x0D : 0x0E, node->n_children - n_absent);
    for (i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        uint64_t bits = all[i], size = is_struct ? raw_any_size(keys) : 0;
        rs_cursor *from = child->fixed ? &fixed : c;
        const uint8_t *key = keys.ptr;
        keys.ptr += size;
        if (child->kind == 22 && child->param == 0 && (bits & 1) == 0) { /* no such key */
            if (child->fixed) (void)raw_take(&fixed, child->size_bytes);
            continue;
        }
        make_bytes(out, key, (size_t)size);
        raw_body(from, child, bits, out);
    }
}

static inline void raw_alone(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    const uint8_t *group = raw_take(c, (node->bits + 7u) / 8);
    raw_body(c, node, raw_bits(group, 0, node->bits), out);
}

/* Replaces the content of `out` with record i of a store. */
static inline rs_status raw_record(rs_store *store, uint64_t i, rs_buffer *out, rs_error *err) {
    rs_record record;
    RS_TRY(rs_store_find(store, i, &record, err));
    rs_cursor cursor = rs_store_cursor(store, &record);
    RS_TRY(rs_check_record(&cursor, record.tree, NULL, err));
    cursor = rs_store_cursor(store, &record);
    out->size_bytes = 0;
    raw_alone(&cursor, record.tree->nodes, out);
    return RS_OK;
}
