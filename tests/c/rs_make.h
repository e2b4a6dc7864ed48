/* rs_make.h: makes `any` values, trees and pseudo-random records, written against FORMAT.md with its numbers spelled
 * out where that is readable. Include from one file only. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_crc.h"
#include "format/rs_schema.h"
#include "plan/rs_scan.h"
#include "rs_test.h"

#include <stdlib.h>

/* A function that appends record i to `raw` and large arrays to `arrays`: `RECORD(add_row) { ... }`. */
#define RECORD(name) \
    static void name(__attribute__((unused)) uint64_t i, rs_buffer *raw, __attribute__((unused)) rs_buffer *arrays)

/* ---- The kinds of nodes by their bare names, which keeps a test's tree on one line ---- */

#define MAKE_KIND(name, number, ...) name = number,
enum { RS_FMT_NODE_ROWS(MAKE_KIND) };
#undef MAKE_KIND

/* A copy in an allocation of exactly its size, so that the address sanitizer sees a read beyond it. */
static inline uint8_t *make_exact(const void *bytes, size_t size) {
    uint8_t *copy = (uint8_t *)malloc(size + (size == 0));
    if (copy == NULL) abort();
    if (size != 0) memcpy(copy, bytes, size);
    return copy;
}

/* In a test, appending to a buffer can fail only for lack of memory. */
static inline void make_bytes(rs_buffer *out, const void *bytes, size_t n) {
    if (rs_buffer_append(out, bytes, n, NULL) != RS_OK) abort();
}
static inline void make_varint(rs_buffer *out, uint64_t value) {
    if (rs_buffer_append_varint(out, value, NULL) != RS_OK) abort();
}
static inline void make_tag(rs_buffer *out, unsigned tag) {
    uint8_t byte = (uint8_t)tag;
    make_bytes(out, &byte, 1);
}

/* ---- `any` values, always in the shortest form ---- */

static inline void make_int(rs_buffer *out, int64_t v) {
    uint8_t le[8];
    rs_store_u64(le, (uint64_t)v);
    if (v >= -16 && v <= 111) {
        make_tag(out, (unsigned)(0x90 + v));
    } else if (v >= INT8_MIN && v <= INT8_MAX) {
        make_tag(out, 0x03), make_bytes(out, le, 1);
    } else if (v >= INT16_MIN && v <= INT16_MAX) {
        make_tag(out, 0x04), make_bytes(out, le, 2);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        make_tag(out, 0x05), make_bytes(out, le, 4);
    } else {
        make_tag(out, 0x06), make_bytes(out, le, 8);
    }
}

static inline void make_uint(rs_buffer *out, uint64_t v) {
    if (v <= INT64_MAX) make_int(out, (int64_t)v);
    else make_tag(out, 0x07), make_varint(out, 9), make_bytes(out, &v, 8), make_tag(out, 0);
}

static inline void make_float(rs_buffer *out, double v) { make_tag(out, 0x08), make_bytes(out, &v, 8); }

static inline void make_str(rs_buffer *out, const char *text) {
    make_tag(out, 0x09), make_varint(out, strlen(text)), make_bytes(out, text, strlen(text));
}

/* str (tags 0x09 to 0x0B) or bytes (0x0C) of n units of `unit` bytes, all `fill`. */
static inline void make_units(rs_buffer *out, unsigned tag, size_t n, size_t unit, uint8_t fill) {
    make_tag(out, tag), make_varint(out, n);
    const size_t begin = out->size_bytes;
    if (rs_buffer_append_zeros(out, n * unit, NULL) != RS_OK) abort();
    if (unit == 1) memset(out->data + begin, fill, n);
    for (size_t i = 0; unit > 1 && i < n; i++) out->data[begin + i * unit] = fill;
}

/* The head of a list (0x0D), tuple (0x0E) or dict (0x0F); the elements follow. */
static inline void make_head(rs_buffer *out, unsigned tag, uint64_t n) { make_tag(out, tag), make_varint(out, n); }

/* A one-dimensional int16 array of n elements; with 512 or more, its data is in the arrays at `position`. */
static inline void make_array(rs_buffer *out, uint64_t n, uint64_t position) {
    const uint8_t head[] = {0x10, 0, 3, 1};
    make_bytes(out, head, sizeof head), make_varint(out, n);
    if (2 * n >= 1024) {
        make_varint(out, position / 64);
    } else if (rs_buffer_append_zeros(out, 2 * (size_t)n, NULL) != RS_OK) {
        abort();
    }
}

/* A numpy scalar of a dtype without parameters. */
static inline void make_scalar(rs_buffer *out, unsigned code, const void *bytes, size_t n) {
    const uint8_t head[] = {0x10, 2, (uint8_t)code};
    make_bytes(out, head, sizeof head), make_bytes(out, bytes, n);
}

/* Tag, code and EXTRA of an ext value: None, or (module, qualname, fields) if `name` is given. The payload follows. */
static inline void make_ext(rs_buffer *out, unsigned code, const char *name) {
    make_tag(out, 0x11), make_tag(out, code);
    if (name == NULL) {
        make_tag(out, 0);
        return;
    }
    make_head(out, 0x0E, 3), make_str(out, "module"), make_str(out, name);
    make_head(out, 0x0E, 1), make_str(out, "field");
}

/* ---- Trees ---- */

typedef struct make_node {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t n_children, first_child, aux_off, aux_size, count;
} make_node;

static inline void make_tree(rs_buffer *out, const make_node *nodes, uint32_t n, const void *aux, uint32_t aux_size) {
    uint8_t bytes[24];
    rs_store_u32(bytes, n), rs_store_u32(bytes + 4, aux_size);
    make_bytes(out, bytes, 8);
    for (uint32_t i = 0; i < n; i++) {
        bytes[0] = nodes[i].kind, bytes[1] = nodes[i].param;
        rs_store_u16(bytes + 2, nodes[i].flags);
        rs_store_u32(bytes + 4, nodes[i].n_children), rs_store_u32(bytes + 8, nodes[i].first_child);
        rs_store_u32(bytes + 12, nodes[i].aux_off), rs_store_u32(bytes + 16, nodes[i].aux_size);
        rs_store_u32(bytes + 20, nodes[i].count);
        make_bytes(out, bytes, 24);
    }
    make_bytes(out, aux, aux_size);
}

/* Compiles a tree from an exact copy and frees the copy: the tree owns what it needs. */
static inline rs_status make_compiled(const rs_buffer *bytes, rs_tree *out, rs_error *err) {
    uint8_t *copy = make_exact(bytes->data, bytes->size_bytes);
    rs_status status = rs_tree_compile(rs_slice_of(copy, bytes->size_bytes), 0, out, err);
    free(copy);
    return status;
}

/* ---- Blocks of raw records ---- */

enum { MAKE_RECORDS = 4096 };

/* Records in one buffer. Zero it first. To add a record, append a value to `raw` and call make_record_end. Call
 * make_block_clear at the end. */
typedef struct make_block {
    rs_buffer raw;
    uint64_t ends[MAKE_RECORDS];
    uint32_t n;
    rs_scan scan;
} make_block;

static inline rs_slice make_record(const make_block *b, uint32_t i) {
    uint64_t begin = i == 0 ? 0 : b->ends[i - 1];
    return rs_slice_of(b->raw.data + begin, (size_t)(b->ends[i] - begin));
}

static inline void make_record_end(make_block *b) {
    if (b->n == MAKE_RECORDS) abort();
    b->ends[b->n++] = b->raw.size_bytes;
    if (rs_scan_record(&b->scan, make_record(b, b->n - 1), UINT64_MAX, NULL) != RS_OK) abort();
}

static inline void make_block_clear(make_block *b) {
    rs_buffer_clear(&b->raw);
    rs_scan_clear(&b->scan);
    memset(b, 0, sizeof *b);
}

/* ---- Pseudo-random records (xorshift64*, Vigna 2016) ---- */

static uint64_t make_state = 0x9E3779B97F4A7C15u;

static inline uint64_t make_random(uint64_t below) {
    make_state ^= make_state >> 12, make_state ^= make_state << 25, make_state ^= make_state >> 27;
    return ((make_state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) % below;
}

static inline void make_random_value(rs_buffer *out, unsigned depth) {
    static const char *const keys[] = {"a", "b", "name", "", "a longer key"};
    uint64_t n, i, kind = make_random(depth == 0 ? 11 : 15);
    size_t at;
    switch (kind) {
    case 0: make_tag(out, (unsigned)make_random(3)); break;
    case 1: make_int(out, (int64_t)make_random(40) - 20); break;
    case 2: make_int(out, (int64_t)((uint64_t)make_random(UINT64_C(1) << 53) << make_random(12)) - (1 << 20)); break;
    case 3: make_float(out, (double)make_random(1000)); break;
    case 4: make_str(out, keys[make_random(5)]); break;
    case 5: make_units(out, 0x0A, (size_t)make_random(5), 2, 'x'); break;
    case 6: make_units(out, 0x0B, (size_t)make_random(5), 4, 'y'); break;
    case 7: make_units(out, 0x0C, (size_t)make_random(9), 1, 0xFF); break;
    case 8: make_units(out, 0x07, 9, 1, 0x7F); break;
    case 9: make_array(out, make_random(4), 0); break;
    case 10: make_ext(out, 1 + (unsigned)make_random(3), NULL), make_int(out, (int64_t)make_random(40)); break;
    case 13:
        n = make_random(5);
        make_head(out, 0x0F, n);
        for (i = 0; i < n; i++) make_str(out, keys[i]), make_random_value(out, depth - 1);
        break;
    case 14:
        i = make_random(6);
        make_ext(out, i < 3 ? 4 : 25, i < 3 ? NULL : keys[i - 3]);
        at = out->size_bytes;
        do out->size_bytes = at, make_random_value(out, depth - 1);
        while (out->data[at] == 0x11);
        break;
    default:
        n = make_random(5);
        make_head(out, kind == 11 ? 0x0D : 0x0E, n);
        for (i = 0; i < n; i++) make_random_value(out, depth - 1);
    }
}
