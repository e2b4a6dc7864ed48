/* rs_run_write.c: writes the numbers of runs as items of a dtype. */
#include "columns/rs_run.h"

#include "base/rs_half.h"
#include "format/rs_narrow.h"

enum {
    BLOCK = 256,            /* numbers to load before they are converted, so that they stay in the L1 cache */
    UNPACKED_MOST = 1 << 16 /* packed lists up to this length are unpacked at once, which is faster */
};

/* The type of loaded numbers. */
typedef enum number_class { INTS, UINTS, FLOATS, COMPLEX } number_class;

typedef union block {
    uint8_t bytes[16 * BLOCK];
    int64_t ints[BLOCK];
    uint64_t uints[BLOCK];
    double floats[2 * BLOCK];
} block;

static uint64_t put_block(number_class class, unsigned dtype, const block *from, uint64_t n, uint8_t *to, size_t step) {
    switch (class) {
    case INTS: return rs_dtype_put_ints(dtype, from->ints, n, to, step);
    case UINTS: return rs_dtype_put_uints(dtype, from->uints, n, to, step);
    case FLOATS: return rs_dtype_put_floats(dtype, from->floats, n, to, step);
    default: return rs_dtype_put_complex(dtype, from->floats, n, to, step);
    }
}

/* ---- Straight from bytes to items ---- */

/* A copier for one of the usual cases: stored integers of 1, 2, 4 or 8 bytes, as integers or floats. It adds `base` to
 * n numbers and writes the sums, in a loop without branches. It returns the bitwise or of the stored numbers, which is
 * at least the greatest of them if they are unsigned. Sums for integer items wrap around and keep their low bits. */
typedef uint64_t (*copier)(const uint8_t *from, uint64_t n, uint64_t base, uint8_t *to);

#define COPIER(name, stored, item, sum) \
    static uint64_t name(const uint8_t *from, uint64_t n, uint64_t base, uint8_t *to) { \
        stored all = 0; \
        for (uint64_t i = 0; i < n; i++) { \
            stored v; \
            memcpy(&v, from + i * sizeof v, sizeof v); \
            all = (stored)(all | v); \
            item out = (item)((sum)base + (sum)v); \
            memcpy(to + i * sizeof out, &out, sizeof out); \
        } \
        return (uint64_t)all; \
    }
/* Copiers from one stored type to each type of item. `sum` is wide enough to extend the sign of stored integers. */
#define COPIERS(prefix, stored) \
    COPIER(prefix##_to_1, stored, uint8_t, uint32_t) \
    COPIER(prefix##_to_2, stored, uint16_t, uint32_t) \
    COPIER(prefix##_to_4, stored, uint32_t, uint32_t) \
    COPIER(prefix##_to_8, stored, uint64_t, uint64_t) \
    COPIER(prefix##_to_f4, stored, float, int32_t) \
    COPIER(prefix##_to_f8, stored, double, int32_t)
COPIERS(u1, uint8_t)
COPIERS(u2, uint16_t)
COPIERS(u4, uint32_t)
COPIERS(u8, uint64_t)
COPIERS(i1, int8_t)
COPIERS(i2, int16_t)
COPIERS(i4, int32_t)

#define COPIER_ROW(prefix) {prefix##_to_1, prefix##_to_2, prefix##_to_4, prefix##_to_8, prefix##_to_f4, prefix##_to_f8}
/* By the stored type, then by the type of the item: 1, 2, 4 or 8 bytes, float32, float64. */
static const copier copiers[7][6] = {COPIER_ROW(u1), COPIER_ROW(u2), COPIER_ROW(u4), COPIER_ROW(u8),
                                     COPIER_ROW(i1), COPIER_ROW(i2), COPIER_ROW(i4)};

static unsigned log2_of(unsigned size) { return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3; }

/* Writes n stored integers of `size` bytes, plus `base`. Returns false, possibly after writing, if no copier fits
 * or the dtype may not hold all sums: conversion block by block then finds the number at fault. */
static bool copy_ints(const uint8_t *from, unsigned size, bool is_signed, uint64_t base, uint64_t n, unsigned dtype,
                      uint8_t *to) {
    const unsigned row = (is_signed && size < 8 ? 4 : 0) + log2_of(size);
    const uint64_t max_stored = UINT64_MAX >> (64 - 8 * size); /* the greatest unsigned stored number */
    const int64_t signed_base = (int64_t)base;
    int64_t low, high, least = signed_base, greatest;
    if (is_signed) {
        if (base != 0 || size == 8) return false;
        least = -(int64_t)(max_stored / 2) - 1, greatest = (int64_t)(max_stored / 2);
    } else {
        uint64_t room = (uint64_t)INT64_MAX - base; /* exact; above INT64_MAX if base is negative */
        greatest = signed_base < 0 || max_stored <= room
                       ? (int64_t)(base + (signed_base < 0 && max_stored > (uint64_t)INT64_MAX ? 0 : max_stored))
                       : INT64_MAX;
        if (size == 8) greatest = INT64_MAX;
    }
    if (dtype == RS_DTYPE_FLOAT32 || dtype == RS_DTYPE_FLOAT64) {
        if (size > 2 && !(size == 4 && is_signed)) return false;
        if (least < INT32_MIN / 2 || greatest > INT32_MAX) return false;
        (void)copiers[row][dtype == RS_DTYPE_FLOAT32 ? 4 : 5](from, n, base, to);
        return true;
    }
    if (!rs_dtype_range(dtype, &low, &high) || dtype == RS_DTYPE_BOOL || least < low) return false;
    bool fits = greatest <= high && size < 8;
    if (!fits && is_signed) return false;
    uint64_t all = copiers[row][log2_of(rs_dtype_bytes(dtype))](from, n, base, to);
    return fits || (signed_base <= high && all <= (uint64_t)high - base);
}

/* ---- Lists ---- */

/* The bit group of all n elements precedes their bodies. */
static void load_stored(const rs_node *node, uint64_t n, const uint8_t *data, uint64_t first, uint64_t count,
                        uint8_t *to) {
    const uint64_t group_bytes = (n * node->bits + 7) / 8, base = node->correction == 0 ? node->base : 0;
    const uint8_t *bodies = data + group_bytes + first * node->size_bytes;
    switch (node->size_bytes) {
    case 0: break;
    case 1: (void)u1_to_8(bodies, count, base, to); return;
    case 2: (void)u2_to_8(bodies, count, base, to); return;
    case 4: (void)u4_to_8(bodies, count, base, to); return;
    default: (void)u8_to_8(bodies, count, base, to); return;
    }
    if (node->bits > 0 && group_bytes < 8) { /* most bit groups are loaded once */
        const uint64_t mask = UINT64_MAX >> (64 - node->bits);
        uint64_t word = rs_load_few_unchecked(data, group_bytes) >> first * node->bits;
        for (uint64_t i = 0; i < count; i++, word >>= node->bits) rs_store_u64(to + 8 * i, base + (word & mask));
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t stored = rs_load_bits_unchecked(data, group_bytes, (first + i) * node->bits, node->bits);
        rs_store_u64(to + 8 * i, base + stored);
    }
}

bool rs_run_load_list(const rs_node *child, uint64_t n, const uint8_t *data, uint64_t first, uint64_t count,
                      uint8_t *to) {
    switch (child->kind) {
    case RS_FMT_NODE_FLOAT: memcpy(to, data + first * 8, (size_t)count * 8); return true;
    case RS_FMT_NODE_BOOL:
        for (uint64_t i = 0; i < count; i++) rs_store_u64(to + 8 * i, data[(first + i) / 8] >> (first + i) % 8 & 1);
        return false;
    default: load_stored(child, n, data, first, count, to);
    }
    if (child->kind == RS_FMT_NODE_INT) return false;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t stored = rs_load_u64(to + 8 * i);
        rs_store_f64(to + 8 * i, child->correction == 0 ? (double)(int64_t)stored / child->divisor
                                                        : rs_packed_ints_decimal(child, stored));
    }
    return true;
}

/* ---- Arrays ---- */

static uint64_t load_big_endian(const uint8_t *p, unsigned size) {
    uint64_t out = 0;
    for (unsigned i = 0; i < size; i++) out = out << 8 | p[i];
    return out;
}

static double float_of(uint64_t bits, unsigned size) {
    double out;
    if (size == 2) return rs_half_to_double((uint16_t)bits);
    if (size == 4) {
        const uint32_t low_bits = (uint32_t)bits;
        float single;
        memcpy(&single, &low_bits, 4);
        return (double)single;
    }
    memcpy(&out, &bits, 8);
    return out;
}

/* Runs `store` with the index `i` and the `bits` of each of `count` items, or parts of complex items. */
#define LOAD_EACH(size, store) \
    for (i = 0; i < count; i++) { \
        const uint8_t *p = data + i * (size); \
        const uint64_t bits = big ? load_big_endian(p, (size)) : rs_load_uint_unchecked(p, (size)); \
        store; \
    }

static number_class load_items(uint8_t code, bool big, const uint8_t *data, uint64_t count, block *out) {
    uint64_t i;
    switch (code) {
    case 1: LOAD_EACH(1, out->ints[i] = bits != 0) return INTS;
    case 2: LOAD_EACH(1, out->ints[i] = (int8_t)bits) return INTS;
    case 3: LOAD_EACH(2, out->ints[i] = (int16_t)bits) return INTS;
    case 4: LOAD_EACH(4, out->ints[i] = (int32_t)bits) return INTS;
    case 5: LOAD_EACH(8, out->uints[i] = bits) return INTS;
    case 6: LOAD_EACH(1, out->uints[i] = bits) return INTS;
    case 7: LOAD_EACH(2, out->uints[i] = bits) return INTS;
    case 8: LOAD_EACH(4, out->uints[i] = bits) return INTS;
    case 9: LOAD_EACH(8, out->uints[i] = bits) return UINTS;
    case 10: LOAD_EACH(2, out->floats[i] = float_of(bits, 2)) return FLOATS;
    case 11: LOAD_EACH(4, out->floats[i] = float_of(bits, 4)) return FLOATS;
    case 12: LOAD_EACH(8, out->floats[i] = float_of(bits, 8)) return FLOATS;
    case RS_RUN_BFLOAT16: LOAD_EACH(2, out->floats[i] = float_of(bits << 16, 4)) return FLOATS;
    case 13: count *= 2; LOAD_EACH(4, out->floats[i] = float_of(bits, 4)) return COMPLEX;
    default: count *= 2; LOAD_EACH(8, out->floats[i] = float_of(bits, 8)) return COMPLEX;
    }
}

void rs_run_load_items(uint8_t code, bool big_endian, const uint8_t *data, uint64_t count, uint64_t *to) {
    block items;
    (void)load_items(code, big_endian, data, count, &items);
    memcpy(to, items.bytes, (size_t)count * 8);
}

/* Returns whether items of the array have the same bytes as items of the dtype, except for byte order. */
static bool is_same_item(uint8_t code, unsigned dtype) {
    static const uint8_t codes[RS_DTYPES] = {[RS_DTYPE_INT8] = 2,        [RS_DTYPE_INT16] = 3,
                                             [RS_DTYPE_INT32] = 4,       [RS_DTYPE_INT64] = 5,
                                             [RS_DTYPE_UINT8] = 6,       [RS_DTYPE_UINT16] = 7,
                                             [RS_DTYPE_UINT32] = 8,      [RS_DTYPE_UINT64] = 9,
                                             [RS_DTYPE_FLOAT16] = 10,    [RS_DTYPE_FLOAT32] = 11,
                                             [RS_DTYPE_FLOAT64] = 12,    [RS_DTYPE_COMPLEX64] = 13,
                                             [RS_DTYPE_COMPLEX128] = 14, [RS_DTYPE_BFLOAT16] = RS_RUN_BFLOAT16};
    return codes[dtype] == code; /* never for bool, because an array may store a bool as any byte */
}

/* ---- Writing ---- */

/* Writes the numbers of a list or array block by block. */
static uint64_t write_blocks(const rs_run *self, uint64_t item_bytes, uint64_t n, unsigned dtype, uint8_t *to) {
    const unsigned size = rs_dtype_bytes(dtype);
    block numbers;
    uint64_t count;
    for (uint64_t first = 0; first < n; first += count) {
        number_class class;
        count = n - first < BLOCK ? n - first : BLOCK;
        if (self->kind == RS_RUN_LIST) {
            class = rs_run_load_list(self->node, self->n, self->data, first, count, numbers.bytes) ? FLOATS : INTS;
        } else {
            class = load_items(self->code, self->big_endian, self->data + first * item_bytes, count, &numbers);
        }
        uint64_t put = put_block(class, dtype, &numbers, count, to + first * size, size);
        if (put < count) return first + put;
    }
    return n;
}

static uint64_t write_list(const rs_run *self, uint64_t n, unsigned dtype, uint8_t *to) {
    const rs_node *node = self->node;
    if (node->kind == RS_FMT_NODE_INT && node->size_bytes != 0 &&
        copy_ints(self->data, (unsigned)node->size_bytes, false, node->base, n, dtype, to)) {
        return n;
    }
    if (dtype == RS_DTYPE_FLOAT64 && (node->kind == RS_FMT_NODE_FLOAT || node->kind == RS_FMT_NODE_DECIMAL)) {
        (void)rs_run_load_list(node, self->n, self->data, 0, n, to);
        return n;
    }
    return write_blocks(self, 0, n, dtype, to);
}

static uint64_t write_items(const rs_run *self, uint64_t n, unsigned dtype, uint8_t *to) {
    const uint64_t size = self->n == 0 ? 1 : self->at / self->n;
    if (!self->big_endian) {
        if (is_same_item(self->code, dtype)) {
            memcpy(to, self->data, (size_t)(n * size));
            return n;
        }
        if (self->code >= 2 && self->code <= 9 &&
            copy_ints(self->data, (unsigned)size, self->code < 6, 0, n, dtype, to)) {
            return n;
        }
    }
    return write_blocks(self, size, n, dtype, to);
}

/* Writes the items of a narrow array: directly, or block by block if they are converted. */
static uint64_t write_narrow(const rs_run *self, uint64_t n, unsigned dtype, uint8_t *to) {
    const unsigned size = self->code == RS_RUN_BFLOAT16 ? 2 : rs_narrow_item_bytes(self->code);
    const unsigned item_bytes = rs_dtype_bytes(dtype);
    uint8_t items[BLOCK * 8];
    rs_run part = *self;
    if (is_same_item(self->code, dtype)) {
        rs_narrow_read(self->data, self->width, size, self->n, 0, n, to);
        return n;
    }
    part.width = 0, part.data = items;
    for (uint64_t first = 0; first < n; first += part.n) {
        part.n = n - first < BLOCK ? n - first : BLOCK;
        part.at = part.n * size;
        rs_narrow_read(self->data, self->width, size, self->n, first, part.n, items);
        uint64_t put = write_items(&part, part.n, dtype, to + first * item_bytes);
        if (put < part.n) return first + put;
    }
    return n;
}

/* Converts n numbers of a numbers node. */
static uint64_t write_unpacked(const rs_node *node, const int64_t *numbers, uint64_t n, unsigned dtype, uint8_t *to) {
    const unsigned size = rs_dtype_bytes(dtype);
    double floats[BLOCK];
    uint64_t count;
    if (node->number_kind != RS_FMT_NUMBERS_FLOATS) return rs_dtype_put_ints(dtype, numbers, n, to, size);
    for (uint64_t first = 0; first < n; first += count) {
        count = n - first < BLOCK ? n - first : BLOCK;
        for (uint64_t i = 0; i < count; i++) floats[i] = rs_packed_ints_float(node, numbers[first + i]);
        uint64_t put = rs_dtype_put_floats(dtype, floats, count, to + first * size, size);
        if (put < count) return first + put;
    }
    return n;
}

static rs_status write_numbers(const rs_run *self, uint64_t n, unsigned dtype, rs_buffer *scratch, uint8_t *to,
                               uint64_t *written, rs_error *err) {
    const unsigned size = rs_dtype_bytes(dtype);
    rs_slice in = rs_slice_of(self->data, (size_t)self->at);
    rs_packed_ints numbers;
    const int64_t *chunk;
    uint64_t done = 0;
    *written = 0;
    if (self->n == 0 || n == 0) return RS_OK;
    if (!rs_packed_ints_take(self->node, self->n, &in, &numbers)) {
        return rs_decode_bad_value(err, "packed numbers changed while they were read");
    }
    if (self->n <= UNPACKED_MOST) {
        scratch->size_bytes = 0;
        RS_TRY(rs_buffer_reserve(scratch, (size_t)self->n * 8, err));
        rs_packed_ints_read(&numbers, (int64_t *)(void *)scratch->data);
        *written = write_unpacked(self->node, (const int64_t *)(const void *)scratch->data, n, dtype, to);
        return RS_OK;
    }
    while (done < n) {
        uint64_t count = rs_packed_ints_next(&numbers, &chunk);
        if (count > n - done) count = n - done;
        uint64_t put = write_unpacked(self->node, chunk, count, dtype, to + done * size);
        done += put;
        if (put < count) break;
    }
    *written = done;
    return RS_OK;
}

rs_status rs_run_write(const rs_run *self, uint64_t n, unsigned dtype, const uint8_t *ready, rs_buffer *scratch,
                       uint8_t *to, uint64_t *written, rs_error *err) {
    *written = n;
    if (n == 0) return RS_OK;
    switch (self->kind) {
    case RS_RUN_LIST: *written = write_list(self, n, dtype, to); return RS_OK;
    case RS_RUN_ITEMS:
        *written = self->width != 0 ? write_narrow(self, n, dtype, to) : write_items(self, n, dtype, to);
        return RS_OK;
    case RS_RUN_NUMBERS: return write_numbers(self, n, dtype, scratch, to, written, err);
    default: memcpy(to, ready + self->at, (size_t)(n * rs_dtype_bytes(dtype))); return RS_OK;
    }
}

rs_status rs_run_write_from(const rs_run *self, uint64_t first, uint64_t n, unsigned dtype, const uint8_t *ready,
                            rs_buffer *scratch, rs_buffer *before, uint8_t *to, uint64_t *written, rs_error *err) {
    const unsigned size = rs_dtype_bytes(dtype);
    const bool is_list = self->kind == RS_RUN_LIST && self->node->bits == 0;
    rs_run rest = *self;
    if (first == 0 || n == 0) return rs_run_write(self, n, dtype, ready, scratch, to, written, err);
    if (self->kind == RS_RUN_READY) {
        rest.at += first * size;
        return rs_run_write(&rest, n, dtype, ready, scratch, to, written, err);
    }
    if (is_list || (self->kind == RS_RUN_ITEMS && self->width == 0)) {
        const uint64_t off = first * (is_list ? self->node->size_bytes : self->at / self->n);
        rest.data += off, rest.at -= off, rest.n -= first;
        return rs_run_write(&rest, n, dtype, ready, scratch, to, written, err);
    }
    before->size_bytes = 0;
    RS_TRY(rs_buffer_reserve(before, (size_t)(first + n) * size, err));
    RS_TRY(rs_run_write(self, first + n, dtype, ready, scratch, before->data, written, err));
    *written = *written < first ? 0 : *written - first;
    memcpy(to, before->data + first * size, (size_t)(n * size));
    return RS_OK;
}

rs_status rs_run_write_fortran(const rs_run *self, const rs_run_shape *shape, unsigned dtype, rs_buffer *scratch,
                               uint8_t *to, uint64_t *written, rs_error *err) {
    const size_t size = rs_dtype_bytes(dtype);
    uint64_t index[RS_FMT_ARRAY_NDIM] = {0}, at = 0;
    uint64_t steps[RS_FMT_ARRAY_NDIM]; /* for each dimension: the step in Fortran order to the next item */
    scratch->size_bytes = 0;
    *written = 0;
    if (self->n == 0) return RS_OK;
    RS_TRY(rs_buffer_reserve(scratch, (size_t)self->n * size, err));
    *written = self->width != 0 ? write_narrow(self, self->n, dtype, scratch->data)
                                : write_items(self, self->n, dtype, scratch->data);
    if (*written < self->n) return RS_OK; /* *written stays an index in Fortran order */
    steps[0] = 1;
    for (uint32_t d = 1; d < shape->ndim; d++) steps[d] = steps[d - 1] * shape->dims[d - 1];
    for (uint64_t i = 0; i < self->n; i++) {
        memcpy(to + i * size, scratch->data + at * size, size);
        for (uint32_t d = shape->ndim; d-- > 0;) {
            at += steps[d];
            if (++index[d] < shape->dims[d]) break;
            at -= steps[d] * shape->dims[d];
            index[d] = 0;
        }
    }
    return RS_OK;
}
