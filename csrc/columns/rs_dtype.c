/* rs_dtype.c: converts numbers to dtypes. */
#include "columns/rs_dtype.h"

#include "base/rs_half.h"

unsigned rs_dtype_bytes(unsigned dtype) {
#define ITEM_BYTES(name, text, size) size,
    static const uint8_t sizes[] = {RS_DTYPE_ROWS(ITEM_BYTES)};
    return sizes[dtype];
}

const char *rs_dtype_name(unsigned dtype) {
#define TEXT(name, text, size) text,
    static const char *const names[] = {RS_DTYPE_ROWS(TEXT)};
    return dtype < RS_DTYPES ? names[dtype] : NULL;
}

bool rs_dtype_range(unsigned dtype, int64_t *low, int64_t *high) {
    *low = 0;
    switch (dtype) {
    case RS_DTYPE_BOOL: *high = 1; return true;
    case RS_DTYPE_UINT8: *high = UINT8_MAX; return true;
    case RS_DTYPE_UINT16: *high = UINT16_MAX; return true;
    case RS_DTYPE_UINT32: *high = UINT32_MAX; return true;
    case RS_DTYPE_UINT64: *high = INT64_MAX; return true;
    case RS_DTYPE_INT8: *low = INT8_MIN, *high = INT8_MAX; return true;
    case RS_DTYPE_INT16: *low = INT16_MIN, *high = INT16_MAX; return true;
    case RS_DTYPE_INT32: *low = INT32_MIN, *high = INT32_MAX; return true;
    case RS_DTYPE_INT64: *low = INT64_MIN, *high = INT64_MAX; return true;
    default: return false;
    }
}

enum { DOUBLE_BYTES = 129 }; /* the most bytes of an int within the range of doubles, with the sign */

/* ---- Storing ---- */

/* Stores `value`, an expression of i, for i below n. A separate loop for adjacent items lets compilers use vector
 * instructions. */
#define STORE(type, value) \
    do { \
        if (step == sizeof(type)) { \
            for (i = 0; i < n; i++) { \
                const type item = (type)(value); \
                memcpy(to + i * sizeof(type), &item, sizeof(type)); \
            } \
        } else { \
            for (i = 0; i < n; i++) { \
                const type item = (type)(value); \
                memcpy(to + i * step, &item, sizeof(type)); \
            } \
        } \
    } while (0)

/* Returns the bfloat16 nearest to a float, ties to even. All NaNs give the same NaN, as in PyTorch. */
static uint16_t bfloat16_of(float value) {
    uint32_t bits;
    if (value != value) return 0x7FC0;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Both store a real number as a complex number. */
static void store_complex64(double real, uint8_t *to) {
    const float pair[2] = {(float)real, 0.0f};
    memcpy(to, pair, 8);
}

static void store_complex128(double real, uint8_t *to) {
    const double pair[2] = {real, 0.0};
    memcpy(to, pair, 16);
}

/* The cases of a switch over dtypes that store the numbers at `from` as floats or as complex numbers. */
#define STORE_REALS \
    case RS_DTYPE_FLOAT16: STORE(uint16_t, rs_half_round((double)from[i])); break; \
    case RS_DTYPE_BFLOAT16: STORE(uint16_t, bfloat16_of((float)from[i])); break; \
    case RS_DTYPE_FLOAT32: STORE(float, from[i]); break; \
    case RS_DTYPE_FLOAT64: STORE(double, from[i]); break; \
    case RS_DTYPE_COMPLEX64: \
        for (i = 0; i < n; i++) store_complex64((double)from[i], to + i * step); \
        break; \
    case RS_DTYPE_COMPLEX128: \
        for (i = 0; i < n; i++) store_complex128((double)from[i], to + i * step); \
        break;

/* ---- From ints ---- */

/* Returns the number of ints before the first that is outside a range. */
static uint64_t count_within(const int64_t *from, uint64_t n, int64_t low, int64_t high) {
    const uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t i;
    bool outside = false;
    for (i = 0; i < n; i++) outside |= (uint64_t)from[i] - (uint64_t)low > span;
    if (!outside) return n;
    for (i = 0; (uint64_t)from[i] - (uint64_t)low <= span; i++) {
    }
    return i;
}

uint64_t rs_dtype_put_ints(unsigned dtype, const int64_t *from, uint64_t n, uint8_t *to, size_t step) {
    int64_t low, high;
    uint64_t i;
    if (dtype != RS_DTYPE_INT64 && rs_dtype_range(dtype, &low, &high)) n = count_within(from, n, low, high);
    switch (dtype) {
    case RS_DTYPE_BOOL:
    case RS_DTYPE_UINT8:
    case RS_DTYPE_INT8: STORE(uint8_t, from[i]); break;
    case RS_DTYPE_UINT16:
    case RS_DTYPE_INT16: STORE(uint16_t, from[i]); break;
    case RS_DTYPE_UINT32:
    case RS_DTYPE_INT32: STORE(uint32_t, from[i]); break;
    case RS_DTYPE_UINT64:
    case RS_DTYPE_INT64:
        STORE(uint64_t, from[i]);
        break;
        STORE_REALS
    }
    return n;
}

uint64_t rs_dtype_put_uints(unsigned dtype, const uint64_t *from, uint64_t n, uint8_t *to, size_t step) {
    int64_t low, high;
    uint64_t i;
    if (dtype != RS_DTYPE_UINT64 && rs_dtype_range(dtype, &low, &high)) {
        int64_t chunk[64];
        uint64_t count;
        for (uint64_t at = 0; at < n; at += count) {
            count = n - at < 64 ? n - at : 64;
            for (i = 0; i < count && from[at + i] <= INT64_MAX; i++) chunk[i] = (int64_t)from[at + i];
            uint64_t put = rs_dtype_put_ints(dtype, chunk, i, to + at * step, step);
            if (put < count) return at + put;
        }
        return n;
    }
    switch (dtype) {
    case RS_DTYPE_UINT64:
        STORE(uint64_t, from[i]);
        break;
        STORE_REALS
    }
    return n;
}

/* Sets *out to the double nearest to an n-byte two's complement number, ties to even. Returns false beyond doubles. */
static bool bigint_to_double(const uint8_t *p, uint64_t n, double *out) {
    uint8_t magnitude[DOUBLE_BYTES];
    const bool negative = n > 0 && p[n - 1] >= 0x80;
    unsigned carry = negative, at, end = 0;
    uint64_t top = 0;
    double power;
    if (n > DOUBLE_BYTES) return false;
    for (at = 0; at < n; at++) {
        carry += negative ? (uint8_t)~p[at] : p[at];
        magnitude[at] = (uint8_t)carry;
        if (magnitude[at] != 0) end = at + 1;
        carry >>= 8;
    }
    for (at = end; at > 0 && at + 8 > end; at--) top = top << 8 | magnitude[at - 1];
    uint64_t scale = 8 * (uint64_t)at;
    for (; at > 0; at--) top |= magnitude[at - 1] != 0; /* breaks ties; below the bits that are kept */
    if (scale > 1023) return false;
    scale = (1023 + scale) << 52;
    memcpy(&power, &scale, 8);
    *out = (negative ? -(double)top : (double)top) * power;
    return *out - *out == 0; /* infinity minus itself is NaN */
}

bool rs_dtype_put_bigint(unsigned dtype, const uint8_t *p, uint64_t n, uint8_t *to) {
    int64_t low, high;
    double value;
    if (n == 9 && p[8] == 0) { /* from 2^63 to 2^64 - 1 */
        const uint64_t whole = rs_load_u64(p);
        return rs_dtype_put_uints(dtype, &whole, 1, to, RS_DTYPE_MOST_BYTES) == 1;
    }
    if (rs_dtype_range(dtype, &low, &high) || !bigint_to_double(p, n, &value)) return false;
    return rs_dtype_put_float(dtype, value, to);
}

/* ---- From floats ---- */

/* Stores floats that are integers as a dtype of integers. */
static uint64_t put_whole(unsigned dtype, const double *from, uint64_t n, uint8_t *to, size_t step) {
    for (uint64_t i = 0; i < n; i++) {
        const double value = from[i];
        if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) {
            const int64_t whole = (int64_t)value;
            if ((double)whole != value || rs_dtype_put_ints(dtype, &whole, 1, to + i * step, step) == 0) return i;
        } else if (value >= 0 && value < 18446744073709551616.0 && dtype == RS_DTYPE_UINT64) {
            rs_store_u64(to + i * step, (uint64_t)value); /* from 2^63 on every float is an integer */
        } else {
            return i;
        }
    }
    return n;
}

uint64_t rs_dtype_put_floats(unsigned dtype, const double *from, uint64_t n, uint8_t *to, size_t step) {
    uint64_t i;
    switch (dtype) {
        STORE_REALS
    default: return put_whole(dtype, from, n, to, step);
    }
    return n;
}

uint64_t rs_dtype_put_complex(unsigned dtype, const double *from, uint64_t n, uint8_t *to, size_t step) {
    if (dtype == RS_DTYPE_COMPLEX128) {
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * step, from + 2 * i, 16);
        return n;
    }
    if (dtype != RS_DTYPE_COMPLEX64) return 0;
    for (uint64_t i = 0; i < n; i++) {
        const float pair[2] = {(float)from[2 * i], (float)from[2 * i + 1]};
        memcpy(to + i * step, pair, 8);
    }
    return n;
}

void rs_dtype_repeat(const uint8_t *item, unsigned size, uint64_t n, uint8_t *to) {
    const uint64_t all = n * size;
    uint64_t done = size, i;
    for (i = 1; i < size && item[i] == item[0]; i++) {
    }
    if (all == 0) return;
    if (i == size) { /* all bytes are equal: nearly always zeros */
        memset(to, item[0], (size_t)all);
        return;
    }
    memcpy(to, item, size);
    while (done < all) {
        const uint64_t more = done < all - done ? done : all - done;
        memcpy(to + done, to, (size_t)more);
        done += more;
    }
}
