/* rs_raw.h: an encoded record back to the `any` value it came from, byte for byte (all values are in their shortest form). The
 * tests' own reading of a tree, plain and slow; it trusts a record that rs_decode_check_record accepted. */
#ifndef RS_RAW_H
#define RS_RAW_H

#include "rs_decode.h"
#include "rs_make.h"

static inline void raw_alone(rs_cursor *c, const rs_node *node, rs_buffer *out);
static inline void raw_row(rs_cursor *c, const rs_node *node, rs_buffer *out);

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

/* Field of `width` bits, read bit by bit. */
static inline uint64_t raw_bits(const uint8_t *group, uint64_t at, unsigned width) {
    uint64_t value = 0;
    unsigned k;
    for (k = 0; k < width; k++, at++) value |= (uint64_t)(group[at / 8] >> at % 8 & 1) << k;
    return value;
}

static inline uint64_t raw_any_size(rs_slice in) {
    rs_budget budget = {UINT64_MAX, UINT64_MAX, 1000};
    const uint8_t *begin = in.ptr;
    if (rs_any_skip(&in, UINT64_MAX, &budget, NULL) != RS_OK) abort();
    return (uint64_t)(in.ptr - begin);
}

static inline void raw_str(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    uint64_t n = raw_varint(c);
    unsigned shift = node->param == 4 ? 2u : node->param == 2 ? 1u : 0u;
    if (node->param == 0) shift = (unsigned)(n & 3), n >>= 2;
    make_tag(out, 0x09 + shift), make_varint(out, n);
    make_bytes(out, raw_take(c, n << shift), (size_t)(n << shift));
}

static inline void raw_array(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
    rs_cursor whole = *c;
    rs_buffer head = {0};
    uint64_t size;
    make_tag(&head, 0x10), make_bytes(&head, aux.ptr, node->aux_size_bytes);
    make_bytes(out, head.data, head.size_bytes);
    size = head.size_bytes;
    make_bytes(&head, c->in.ptr, rs_slice_left(&c->in)); /* what follows makes it a value, whose size tells what is ours */
    whole.in = rs_slice_of(head.data, head.size_bytes);
    size = raw_any_size(whole.in) - size;
    make_bytes(out, raw_take(c, size), (size_t)size);
    rs_buffer_clear(&head);
}

/* The body of `node`, whose bits are `bits`. A fixed body is at the cursor like any other. */
static inline void raw_body(rs_cursor *c, const rs_node *node, uint64_t bits, rs_buffer *out) {
    uint64_t n, i;
    switch (node->kind) {
    case RS_FMT_NODE_ANY: n = raw_any_size(c->in), make_bytes(out, raw_take(c, n), (size_t)n); break;
    case RS_FMT_NODE_CONST: make_bytes(out, node->aux, node->aux_size_bytes); break;
    case RS_FMT_NODE_INT: {
        uint64_t base = rs_load_u64(node->aux), stored = bits;
        unsigned w = node->param;
        if (w == 8 || w == 16 || w == 32 || w == 64) stored = 0, memcpy(&stored, raw_take(c, w / 8), w / 8);
        make_int(out, (int64_t)(base + stored));
        break;
    }
    case RS_FMT_NODE_FLOAT: make_tag(out, 0x08), make_bytes(out, raw_take(c, 8), 8); break;
    case RS_FMT_NODE_BOOL: make_tag(out, bits != 0 ? 2 : 1); break;
    case RS_FMT_NODE_STR: raw_str(c, node, out); break;
    case RS_FMT_NODE_BYTES:
        n = raw_varint(c);
        make_head(out, 0x0C, n), make_bytes(out, raw_take(c, n), (size_t)n);
        break;
    case RS_FMT_NODE_LIST: {
        const rs_node *child = node->children;
        const uint8_t *group;
        n = node->flags != 0 ? node->count : raw_varint(c);
        make_head(out, node->param == 0 ? 0x0D : 0x0E, n);
        group = raw_take(c, (n * child->bits + 7) / 8);
        for (i = 0; i < n; i++) raw_body(c, child, raw_bits(group, i * child->bits, child->bits), out);
        break;
    }
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT: raw_row(c, node, out); break;
    case RS_FMT_NODE_UNION: raw_alone(c, &node->children[bits], out); break;
    case RS_FMT_NODE_NDARRAY: raw_array(c, node, out); break;
    case RS_FMT_NODE_EXT:
        make_tag(out, 0x11), make_tag(out, node->param), make_bytes(out, node->aux, node->aux_size_bytes);
        raw_body(c, node->children, bits, out);
        break;
    default: abort();
    }
}

/* Tuple or struct: bodies of the fixed children first, then the others; values in the order of the children. */
static inline void raw_row(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    bool is_struct = node->kind == RS_FMT_NODE_STRUCT;
    rs_slice keys = rs_slice_of(node->aux, node->aux_size_bytes);
    uint64_t total = 0, at = 0;
    const uint8_t *group;
    rs_cursor fixed = *c;
    uint32_t i;
    for (i = 0; i < node->n_children; i++) total += node->children[i].bits;
    group = raw_take(c, (total + 7) / 8);
    fixed.in.ptr = c->in.ptr;
    for (i = 0; i < node->n_children; i++) {
        if (node->children[i].fixed) (void)raw_take(c, node->children[i].size_bytes);
    }
    make_head(out, is_struct ? 0x0F : node->param == 0 ? 0x0D : 0x0E, node->n_children);
    for (i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        uint64_t bits = raw_bits(group, at, child->bits);
        rs_cursor *from = child->fixed ? &fixed : c;
        at += child->bits;
        if (is_struct) {
            uint64_t size = raw_any_size(keys);
            make_bytes(out, keys.ptr, (size_t)size), keys.ptr += size;
        }
        raw_body(from, child, bits, out);
    }
}

static inline void raw_alone(rs_cursor *c, const rs_node *node, rs_buffer *out) {
    const uint8_t *group = raw_take(c, (node->bits + 7u) / 8);
    raw_body(c, node, raw_bits(group, 0, node->bits), out);
}

#endif
