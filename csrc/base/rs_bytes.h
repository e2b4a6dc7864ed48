/* rs_bytes.h: slices of bytes, little-endian loads and stores, the bounds test, varints and bit fields. Everything is
 * inline and knows nothing of the format. A slice borrows its bytes and must not outlive them. */
#pragma once

#include "base/rs_base.h"

/* The bytes [ptr, end), borrowed. ptr <= end always holds. */
typedef struct rs_slice {
    const uint8_t *ptr;
    const uint8_t *end;
} rs_slice;

static inline rs_slice rs_slice_of(const void *data, size_t size) {
    rs_slice s;
    s.ptr = (const uint8_t *)data;
    s.end = size == 0 ? s.ptr : s.ptr + size; /* NULL + 0 is undefined in C; compiles to one addition */
    return s;
}

static inline size_t rs_slice_left(const rs_slice *s) { return (size_t)(s->end - s->ptr); }

static inline uint16_t rs_load_u16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}
static inline uint32_t rs_load_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t rs_load_u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline double rs_load_f64(const uint8_t *p) {
    double v;
    memcpy(&v, p, 8);
    return v;
}
/* Returns the bytes of a word in reverse order. Compilers make one instruction of it. */
static inline uint64_t rs_swap_u64(uint64_t v) {
    v = (v & UINT64_C(0x00FF00FF00FF00FF)) << 8 | (v >> 8 & UINT64_C(0x00FF00FF00FF00FF));
    v = (v & UINT64_C(0x0000FFFF0000FFFF)) << 16 | (v >> 16 & UINT64_C(0x0000FFFF0000FFFF));
    return v << 32 | v >> 32;
}
static inline void rs_store_u16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void rs_store_u32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void rs_store_u64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
static inline void rs_store_f64(uint8_t *p, double v) { memcpy(p, &v, 8); }

/* Loads an unsigned little-endian number of 1, 2, 4 or 8 bytes. The caller has checked the bounds. */
static inline uint64_t rs_load_uint_unchecked(const uint8_t *p, unsigned size_bytes) {
    switch (size_bytes) {
    case 1: return *p;
    case 2: return rs_load_u16(p);
    case 4: return rs_load_u32(p);
    default: return rs_load_u64(p);
    }
}

/* Returns code point i of a str in units of 1, 2 or 4 bytes. */
static inline uint32_t rs_load_unit(const uint8_t *units, unsigned unit_bytes, uint64_t i) {
    return unit_bytes == 1 ? units[i] : unit_bytes == 2 ? rs_load_u16(units + 2 * i) : rs_load_u32(units + 4 * i);
}

/* Takes n bytes off the front of the slice and sets *out to the first one. Returns false and takes nothing if fewer are
 * left. Most readers of untrusted bytes use this bounds test. */
static inline bool rs_take(rs_slice *s, uint64_t n, const uint8_t **out) {
    if (RS_UNLIKELY(n > (uint64_t)(s->end - s->ptr))) return false;
    *out = s->ptr;
    s->ptr += n;
    return true;
}

/* Takes a varint: unsigned LEB128 (DWARF 5, section 7.6) of at most 10 bytes, not necessarily the shortest form.
 * Returns false if the varint is cut off or longer, or its value does not fit 64 bits. */
static inline bool rs_take_varint(rs_slice *s, uint64_t *out) {
    unsigned shift = 7;
    if (RS_UNLIKELY(s->ptr == s->end)) return false;
    uint64_t value = *s->ptr++;
    if (RS_LIKELY(value < 0x80)) {
        *out = value;
        return true;
    }
    value &= 0x7F;
    while (s->ptr != s->end) {
        uint64_t byte = *s->ptr++;
        if (shift == 63 && byte > 1) return false;
        value |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
        shift += 7;
        if (shift > 63) return false;
    }
    return false;
}

static inline unsigned rs_varint_size(uint64_t value) {
    unsigned n = 1;
    while (value >= 0x80) {
        value >>= 7;
        n++;
    }
    return n;
}

/* Writes a varint of at most 10 bytes at p and returns its size. */
static inline unsigned rs_put_varint(uint8_t *p, uint64_t value) {
    unsigned n = 0;
    while (value >= 0x80) {
        p[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    p[n++] = (uint8_t)value;
    return n;
}

/* Loads n bytes, n 0 to 7, as a little-endian number. A memcpy of variable size made decoding short bit groups a tenth
 * slower. */
static inline uint64_t rs_load_few_unchecked(const uint8_t *p, uint64_t n) {
    if (n >= 4) return rs_load_u32(p) | (uint64_t)rs_load_u32(p + n - 4) << (8 * (n - 4));
    if (n == 0) return 0;
    return p[0] | (uint64_t)p[n >> 1] << (8 * (n >> 1)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

/* Copies n bytes that do not overlap. Up to 64 bytes it avoids a call of memcpy, which takes longer. */
static inline void rs_copy_few(uint8_t *to, const uint8_t *from, size_t n) {
    if (n > 64) {
        memcpy(to, from, n);
    } else if (n > 32) {
        uint8_t a[32], b[32];
        memcpy(a, from, 32);
        memcpy(b, from + n - 32, 32);
        memcpy(to, a, 32);
        memcpy(to + n - 32, b, 32);
    } else if (n >= 16) {
        uint8_t a[16], b[16];
        memcpy(a, from, 16);
        memcpy(b, from + n - 16, 16);
        memcpy(to, a, 16);
        memcpy(to + n - 16, b, 16);
    } else if (n >= 8) {
        uint64_t a = rs_load_u64(from), b = rs_load_u64(from + n - 8);
        rs_store_u64(to, a);
        rs_store_u64(to + n - 8, b);
    } else if (n >= 4) {
        uint32_t a = rs_load_u32(from), b = rs_load_u32(from + n - 4);
        rs_store_u32(to, a);
        rs_store_u32(to + n - 4, b);
    } else if (n > 0) {
        uint8_t a = from[0], b = from[n >> 1], c = from[n - 1];
        to[0] = a;
        to[n >> 1] = b;
        to[n - 1] = c;
    }
}

/* Returns whether n bytes are equal. Up to 16 bytes it avoids a call of memcmp, which takes longer. Most keys and many
 * values are that short. Either pointer may be NULL when n is 0. */
static inline bool rs_equal_few(const uint8_t *a, const uint8_t *b, size_t n) {
    if (n > 32) return memcmp(a, b, n) == 0;
    if (n > 16) {
        return ((rs_load_u64(a) ^ rs_load_u64(b)) | (rs_load_u64(a + 8) ^ rs_load_u64(b + 8)) |
                (rs_load_u64(a + n - 16) ^ rs_load_u64(b + n - 16)) |
                (rs_load_u64(a + n - 8) ^ rs_load_u64(b + n - 8))) == 0;
    }
    if (n >= 8) return ((rs_load_u64(a) ^ rs_load_u64(b)) | (rs_load_u64(a + n - 8) ^ rs_load_u64(b + n - 8))) == 0;
    if (n >= 4) return ((rs_load_u32(a) ^ rs_load_u32(b)) | (rs_load_u32(a + n - 4) ^ rs_load_u32(b + n - 4))) == 0;
    return n == 0 || (a[0] == b[0] && a[n >> 1] == b[n >> 1] && a[n - 1] == b[n - 1]);
}

static inline bool rs_slice_equal(rs_slice a, rs_slice b) {
    size_t size = rs_slice_left(&a);
    return size == rs_slice_left(&b) && rs_equal_few(a.ptr, b.ptr, size);
}

/* Returns whether a slice begins with `size` bytes. */
static inline bool rs_slice_starts_with(rs_slice self, const uint8_t *bytes, size_t size) {
    return size <= rs_slice_left(&self) && rs_equal_few(self.ptr, bytes, size);
}

/* Loads the field of n_bits (0 to 64) that starts at bit bit_off of a bit group of size_bytes bytes, least significant
 * bit first. The caller has checked that the field is within the group. No byte beyond the group is read. */
static inline uint64_t rs_load_bits_unchecked(const uint8_t *group, uint64_t size_bytes, uint64_t bit_off,
                                              unsigned n_bits) {
    uint64_t byte = bit_off >> 3;
    unsigned shift = (unsigned)(bit_off & 7);
    uint64_t left = size_bytes - byte;
    uint64_t value;
    if (n_bits == 0) return 0;
    if (RS_LIKELY(left >= 8)) {
        value = rs_load_u64(group + byte) >> shift;
    } else {
        value = rs_load_few_unchecked(group + byte, left) >> shift;
    }
    if (shift + n_bits > 64) value |= (uint64_t)group[byte + 8] << (64 - shift);
    return n_bits == 64 ? value : value & ((UINT64_C(1) << n_bits) - 1);
}

/* Stores the low n_bits of `value` at bit bit_off of a large enough bit group. The bits there must be zero. */
static inline void rs_store_bits(uint8_t *group, uint64_t bit_off, unsigned n_bits, uint64_t value) {
    while (n_bits > 0) {
        unsigned shift = (unsigned)(bit_off & 7);
        unsigned take = 8 - shift < n_bits ? 8 - shift : n_bits;
        group[bit_off >> 3] |= (uint8_t)((value & ((UINT64_C(1) << take) - 1)) << shift);
        value = take == 64 ? 0 : value >> take;
        bit_off += take;
        n_bits -= take;
    }
}
