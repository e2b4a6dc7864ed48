/* decode_str.h: the part of decode.c that makes str objects of code units, inline where it is hot. For decode.c
 * alone. */
#ifndef RS_PY_DECODE_STR_H
#define RS_PY_DECODE_STR_H

#include "decode.h"

#define COLD __attribute__((noinline, cold))
/* For what needs much of the stack, so that no function that recurses has it in its frame. */
#define APART __attribute__((noinline))
#define HOT static inline __attribute__((always_inline))

/* Whether all of n > 0 bytes are below 128. Steps overlap at the end, so no byte is looked at alone. */
HOT bool is_ascii(const uint8_t *p, size_t n) {
    uint64_t all = 0;
    if (n >= 16 && n <= 32) {
        all = rs_load_u64(p) | rs_load_u64(p + 8) | rs_load_u64(p + n - 16) | rs_load_u64(p + n - 8);
    } else if (n >= 8) {
        size_t i = 0;
        for (; i + 8 < n; i += 8) all |= rs_load_u64(p + i);
        all |= rs_load_u64(p + n - 8);
    } else {
        all = rs_load_few_unchecked(p, n);
    }
    return (all & UINT64_C(0x8080808080808080)) == 0;
}

HOT PyObject *latin1_str(const uint8_t *units, uint64_t n) {
    PyObject *s;
    uint8_t *data;
    if (RS_UNLIKELY(n <= 1)) return n == 0 ? PyUnicode_New(0, 0) : PyUnicode_FromOrdinal(units[0]);
    if (RS_LIKELY(is_ascii(units, (size_t)n))) {
        s = PyUnicode_New((Py_ssize_t)n, 127);
        if (RS_UNLIKELY(s == NULL)) return NULL;
        data = (uint8_t *)((PyASCIIObject *)s + 1);
    } else {
        s = PyUnicode_New((Py_ssize_t)n, 255);
        if (RS_UNLIKELY(s == NULL)) return NULL;
        data = (uint8_t *)((PyCompactUnicodeObject *)s + 1);
    }
    rs_copy_few(data, units, (size_t)n);
    return s;
}

static PyObject *wide_str(const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    uint32_t widest = rs_decode_widest_unchecked(units, n, unit_bytes);
    PyObject *s;
    if (unit_bytes == 4 && widest > 0x10FFFF) {
        (void)codec_corrupt("a code point above 0x10FFFF");
        return NULL;
    }
    if (widest < (unit_bytes == 2 ? 0x100u : 0x10000u)) {
        return PyUnicode_FromKindAndData((int)unit_bytes, units, (Py_ssize_t)n);
    }
    s = PyUnicode_New((Py_ssize_t)n, unit_bytes == 2 ? 0xFFFF : widest);
    if (RS_LIKELY(s != NULL)) rs_copy_few(PyUnicode_DATA(s), units, (size_t)(n * unit_bytes));
    return s;
}

#endif
