/* rs_dtype.h: the dtypes of the arrays of a gather, and the conversion of numbers to them. A number that a dtype cannot
 * hold is never changed silently: a dtype of integers takes the integers of its range, also as floats, and bool takes 0
 * and 1. The other dtypes take every real number within the range of doubles, rounded to the nearest (bfloat16 by way
 * of float32, ints beyond 64 bits by way of float64), or infinity beyond their own range. Complex numbers fit only
 * complex dtypes. */
#pragma once

#include "base/rs_bytes.h"

/* X(NAME, "name", bytes per item) for each dtype. */
#define RS_DTYPE_ROWS(X) \
    X(BOOL, "bool", 1) \
    X(UINT8, "uint8", 1) \
    X(INT8, "int8", 1) \
    X(INT16, "int16", 2) \
    X(INT32, "int32", 4) \
    X(INT64, "int64", 8) \
    X(UINT16, "uint16", 2) \
    X(UINT32, "uint32", 4) \
    X(UINT64, "uint64", 8) \
    X(FLOAT16, "float16", 2) \
    X(BFLOAT16, "bfloat16", 2) \
    X(FLOAT32, "float32", 4) \
    X(FLOAT64, "float64", 8) \
    X(COMPLEX64, "complex64", 8) \
    X(COMPLEX128, "complex128", 16)
#define RS_DTYPE_NUMBER(name, text, size) RS_DTYPE_##name,
enum { RS_DTYPE_ROWS(RS_DTYPE_NUMBER) RS_DTYPES };
enum { RS_DTYPE_MOST_BYTES = 16 };

/* Returns the size of an item in bytes. */
unsigned rs_dtype_bytes(unsigned dtype);
/* Returns the name, a static string; NULL for a number that is not a dtype. */
const char *rs_dtype_name(unsigned dtype);
/* Sets *low and *high to the range of a dtype of integers or bool, limited to i64. Returns false for others. */
bool rs_dtype_range(unsigned dtype, int64_t *low, int64_t *high);

/* Each of these writes n numbers as items of a dtype. Item i goes to to + i * step; `step` is at least the size of an
 * item. Returns the number of items written: n, or the index of the first that the dtype cannot hold. Any thread. */
uint64_t rs_dtype_put_ints(unsigned dtype, const int64_t *from, uint64_t n, uint8_t *to, size_t step);
uint64_t rs_dtype_put_uints(unsigned dtype, const uint64_t *from, uint64_t n, uint8_t *to, size_t step);
uint64_t rs_dtype_put_floats(unsigned dtype, const double *from, uint64_t n, uint8_t *to, size_t step);
/* Number i has the real part from[2 * i] and the imaginary part from[2 * i + 1]. */
uint64_t rs_dtype_put_complex(unsigned dtype, const double *from, uint64_t n, uint8_t *to, size_t step);

/* Writes an int beyond i64, a two's complement number of n bytes, and returns whether the dtype can hold it. An int
 * beyond the range of doubles fits no dtype. */
bool rs_dtype_put_bigint(unsigned dtype, const uint8_t *p, uint64_t n, uint8_t *to);

/* Each of these writes one number, and returns whether the dtype can hold it. The usual dtypes are inline. */
static inline bool rs_dtype_put_int(unsigned dtype, int64_t value, uint8_t *to) {
    if (dtype == RS_DTYPE_INT64) {
        rs_store_u64(to, (uint64_t)value);
        return true;
    }
    if (dtype == RS_DTYPE_FLOAT32) {
        const float item = (float)value;
        memcpy(to, &item, 4);
        return true;
    }
    return rs_dtype_put_ints(dtype, &value, 1, to, RS_DTYPE_MOST_BYTES) == 1;
}

static inline bool rs_dtype_put_float(unsigned dtype, double value, uint8_t *to) {
    if (dtype == RS_DTYPE_FLOAT32) {
        const float item = (float)value;
        memcpy(to, &item, 4);
        return true;
    }
    if (dtype == RS_DTYPE_FLOAT64) {
        rs_store_f64(to, value);
        return true;
    }
    return rs_dtype_put_floats(dtype, &value, 1, to, RS_DTYPE_MOST_BYTES) == 1;
}

/* Writes n copies of an item of `size` bytes: 1, 2, 4, 8 or 16. */
void rs_dtype_repeat(const uint8_t *item, unsigned size, uint64_t n, uint8_t *to);
