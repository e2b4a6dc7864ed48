/* decode_str.h: makes str objects of code units. Only decode.c includes it. */
#pragma once

#include "decode.h"

#include "format/rs_utf16.h"

#define COLD __attribute__((noinline, cold))
/* For functions with large stack frames, to keep these out of the frames of recursive functions. */
#define APART __attribute__((noinline))
#define HOT static inline __attribute__((always_inline))

/* Another process may write to the file that holds the units, so the test for ASCII reads the copy in the str object,
 * or the registers from which the copy is written, and never the mapping alone. */

/* 16 bytes at any address, the size of a register on most processors. */
typedef uint64_t vec16 __attribute__((vector_size(16), aligned(1), may_alias));

HOT vec16 load_16(const uint8_t *p) { return *(const vec16 *)p; }
HOT void store_16(uint8_t *p, vec16 v) { *(vec16 *)p = v; }
HOT uint64_t bits_in(vec16 v) { return v[0] | v[1]; }

/* Returns the bitwise or of n bytes in words of 8, n at least 16. The loads may overlap. */
HOT uint64_t bits_of(const uint8_t *p, size_t n) {
    vec16 all = load_16(p + n - 16);
    for (size_t i = 0; i + 16 < n; i += 16) all |= load_16(p + i);
    return bits_in(all);
}

/* Copies n bytes, n at least 16, and returns the bitwise or of the copy likewise. */
HOT uint64_t copy_bits(uint8_t *to, const uint8_t *from, size_t n) {
    vec16 last = load_16(from + n - 16), all = last;
    for (size_t i = 0; i + 16 < n; i += 16) {
        vec16 v = load_16(from + i);
        all |= v;
        store_16(to + i, v);
    }
    store_16(to + n - 16, last);
    return bits_in(all);
}

enum { ASCII = 127, LATIN1 = 255 };
#define ABOVE_ASCII UINT64_C(0x8080808080808080)

/* Makes a str for n units, n above 1, all below 128 when `ascii` is true, else below 256. Sets *data to the address of
 * its units, which the caller writes. */
HOT PyObject *new_str(uint64_t n, bool ascii, uint8_t **data) {
    PyObject *s = PyUnicode_New((Py_ssize_t)n, ascii ? ASCII : LATIN1);
    if (RS_UNLIKELY(s == NULL)) return NULL;
    *data = ascii ? (uint8_t *)((PyASCIIObject *)s + 1) : (uint8_t *)((PyCompactUnicodeObject *)s + 1);
    return s;
}

/* Releases a str that was made for a wrong guess. Returns a new str of its units, which are at `copy`. */
static COLD PyObject *str_again(PyObject *guessed, const uint8_t *copy, uint64_t n, unsigned unit_bytes) {
    PyObject *s = PyUnicode_FromKindAndData((int)unit_bytes, copy, (Py_ssize_t)n);
    Py_DECREF(guessed);
    return s;
}

/* Makes a str of more units than fit into registers. Guesses from the units whether it is ASCII; the copy decides. */
HOT PyObject *long_latin1_str(const uint8_t *units, uint64_t n) {
    bool ascii = (bits_of(units, (size_t)n) & ABOVE_ASCII) == 0;
    uint8_t *data;
    PyObject *s = new_str(n, ascii, &data);
    if (RS_UNLIKELY(s == NULL)) return NULL;
    if (RS_UNLIKELY(((copy_bits(data, units, (size_t)n) & ABOVE_ASCII) == 0) != ascii)) return str_again(s, data, n, 1);
    return s;
}

/* Stores n bytes, 2 to 7, that rs_load_few_unchecked has loaded as a number. */
HOT void store_few(uint8_t *to, uint64_t few, uint64_t n) {
    if (n >= 4) {
        rs_store_u32(to, (uint32_t)few);
        rs_store_u32(to + n - 4, (uint32_t)(few >> (8 * (n - 4))));
    } else {
        to[0] = (uint8_t)few;
        to[n >> 1] = (uint8_t)(few >> (8 * (n >> 1)));
        to[n - 1] = (uint8_t)(few >> (8 * (n - 1)));
    }
}

HOT PyObject *latin1_str(const uint8_t *units, uint64_t n) {
    PyObject *s;
    uint8_t *data;
    if (RS_UNLIKELY(n <= 1)) return n == 0 ? PyUnicode_New(0, 0) : PyUnicode_FromOrdinal(units[0]);
    if (n < 8) {
        uint64_t few = rs_load_few_unchecked(units, n);
        s = new_str(n, (few & ABOVE_ASCII) == 0, &data);
        if (RS_LIKELY(s != NULL)) store_few(data, few, n);
    } else if (n < 16) {
        uint64_t a = rs_load_u64(units), b = rs_load_u64(units + n - 8);
        s = new_str(n, ((a | b) & ABOVE_ASCII) == 0, &data);
        if (RS_LIKELY(s != NULL)) rs_store_u64(data, a), rs_store_u64(data + n - 8, b);
    } else if (n <= 32) {
        vec16 a = load_16(units), b = load_16(units + n - 16);
        s = new_str(n, (bits_in(a | b) & ABOVE_ASCII) == 0, &data);
        if (RS_LIKELY(s != NULL)) store_16(data, a), store_16(data + n - 16, b);
    } else if (n <= 64) {
        vec16 a = load_16(units), b = load_16(units + 16);
        vec16 c = load_16(units + n - 32), d = load_16(units + n - 16);
        s = new_str(n, (bits_in(a | b | c | d) & ABOVE_ASCII) == 0, &data);
        if (RS_UNLIKELY(s == NULL)) return NULL;
        store_16(data, a), store_16(data + 16, b);
        store_16(data + n - 32, c), store_16(data + n - 16, d);
    } else {
        s = long_latin1_str(units, n);
    }
    return s;
}

/* Makes a str of n units that were just written to private memory. Loading them waits for their stores, so guesses that
 * the str is ASCII, allocates it and then copies. A wrong guess is remembered in the slot of the node. */
HOT PyObject *assembled_str(const rs_node *node, const uint8_t *units, uint64_t n) {
    uint8_t *data;
    uint64_t bits;
    if (RS_UNLIKELY(n <= 1 || pointer_at(&node->slot) != NULL)) return latin1_str(units, n);
    PyObject *s = new_str(n, true, &data);
    if (RS_UNLIKELY(s == NULL)) return NULL;
    if (n >= 16) {
        bits = copy_bits(data, units, (size_t)n);
    } else if (n >= 8) {
        uint64_t a = rs_load_u64(units), b = rs_load_u64(units + n - 8);
        rs_store_u64(data, a), rs_store_u64(data + n - 8, b);
        bits = a | b;
    } else {
        bits = rs_load_few_unchecked(units, n);
        store_few(data, bits, n);
    }
    if (RS_LIKELY((bits & ABOVE_ASCII) == 0)) return s;
    put_pointer((void **)&((rs_node *)node)->slot, (void *)node);
    return str_again(s, units, n, 1);
}

/* Copies n units of 2 or 4 bytes and returns the result of rs_decode_widest_unchecked for the copy. */
HOT uint32_t copy_widest(uint8_t *to, const uint8_t *from, uint64_t n, unsigned unit_bytes) {
    size_t size = (size_t)(n * unit_bytes);
    if (unit_bytes == 2 && size >= 16) {
        uint64_t all = copy_bits(to, from, size);
        all |= all >> 32;
        return (uint32_t)((all | all >> 16) & 0xFFFF);
    }
    rs_copy_few(to, from, size);
    return rs_decode_widest_unchecked(to, n, unit_bytes);
}

static PyObject *wide_str(const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    PyObject *s = PyUnicode_New((Py_ssize_t)n, unit_bytes == 2 ? 0xFFFF : 0x10FFFF);
    if (RS_UNLIKELY(s == NULL)) return NULL;
    uint8_t *data = (uint8_t *)((PyCompactUnicodeObject *)s + 1);
    uint32_t widest = copy_widest(data, units, n, unit_bytes);
    if (RS_UNLIKELY(widest > 0x10FFFF)) {
        Py_DECREF(s);
        (void)codec_corrupt("a code point above 0x10FFFF");
        return NULL;
    }
    return RS_LIKELY(widest >= (unit_bytes == 2 ? 0x100u : 0x10000u)) ? s : str_again(s, data, n, unit_bytes);
}

/* Makes a str of n code points of UTF-16, at least one of a pair, that rs_utf16_count has checked. */
static PyObject *pairs_str(const uint8_t *units, uint64_t n) {
    PyObject *s = PyUnicode_New((Py_ssize_t)n, 0x10FFFF);
    if (RS_LIKELY(s != NULL)) rs_utf16_decode_unchecked(units, n, (uint8_t *)((PyCompactUnicodeObject *)s + 1));
    return s;
}
