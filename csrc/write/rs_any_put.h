/* rs_any_put.h: writes any values as FORMAT.md ("any values") asks of a writer: the shortest form of ints, the
 * narrowest units of text, the shortest varints. The binding writes the same bytes for the equal Python value.
 *
 * The functions named rs_put_* write at `p`, where the caller has reserved the room that each one names, and return the
 * first byte after the value. Any thread may call them. */
#pragma once

#include "base/rs_bytes.h"
#include "format/rs_format.h"

/* Room for a tag and a count, for any 64-bit int, for a float, for a 128-bit int, and for all ext values below except
 * Decimal. */
enum {
    RS_PUT_HEAD_ROOM = 11,
    RS_PUT_INT_ROOM = 11,
    RS_PUT_FLOAT_ROOM = 9,
    RS_PUT_WIDE_ROOM = 18,
    RS_PUT_EXT_ROOM = 24
};

/* A tag with a count: str, bytes, list, tuple, dict. RS_PUT_HEAD_ROOM. */
static inline uint8_t *rs_put_head(uint8_t *p, uint8_t tag, uint64_t n) {
    *p = tag;
    return p + 1 + rs_put_varint(p + 1, n);
}

static inline uint8_t *rs_put_none(uint8_t *p) {
    *p = RS_FMT_TAG_NONE;
    return p + 1;
}

static inline uint8_t *rs_put_bool(uint8_t *p, bool value) {
    *p = value ? RS_FMT_TAG_TRUE : RS_FMT_TAG_FALSE;
    return p + 1;
}

/* RS_PUT_INT_ROOM; at most 9 bytes are written. */
static inline uint8_t *rs_put_int(uint8_t *p, int64_t value) {
    if (value >= RS_FMT_SMALL_MIN && value <= RS_FMT_SMALL_MAX) {
        *p = (uint8_t)(RS_FMT_TAG_ZERO + value);
        return p + 1;
    }
    if (value == (int8_t)value) {
        p[0] = RS_FMT_TAG_INT8;
        p[1] = (uint8_t)value;
        return p + 2;
    }
    if (value == (int16_t)value) {
        p[0] = RS_FMT_TAG_INT16;
        rs_store_u16(p + 1, (uint16_t)value);
        return p + 3;
    }
    if (value == (int32_t)value) {
        p[0] = RS_FMT_TAG_INT32;
        rs_store_u32(p + 1, (uint32_t)value);
        return p + 5;
    }
    p[0] = RS_FMT_TAG_INT64;
    rs_store_u64(p + 1, (uint64_t)value);
    return p + 9;
}

/* An int of 128 bits, high * 2^64 + low. RS_PUT_WIDE_ROOM. */
uint8_t *rs_put_wide(uint8_t *p, int64_t high, uint64_t low);

/* RS_PUT_INT_ROOM. */
static inline uint8_t *rs_put_uint(uint8_t *p, uint64_t value) {
    return value <= INT64_MAX ? rs_put_int(p, (int64_t)value) : rs_put_wide(p, 0, value);
}

/* RS_PUT_FLOAT_ROOM. */
static inline uint8_t *rs_put_float(uint8_t *p, double value) {
    p[0] = RS_FMT_TAG_FLOAT;
    rs_store_f64(p + 1, value);
    return p + 9;
}

/* An ext value up to its payload, for a code whose EXTRA is None. 3 bytes. */
static inline uint8_t *rs_put_ext(uint8_t *p, uint8_t code) {
    p[0] = RS_FMT_TAG_EXT;
    p[1] = code;
    p[2] = RS_FMT_TAG_NONE;
    return p + 3;
}

/* The ordinal of the last date, 9999-12-31, and the microseconds in a day. */
#define RS_DAYS_MAX INT64_C(3652059)
#define RS_DAY_MICROSECONDS INT64_C(86400000000)

/* A date by its ordinal, 1 to RS_DAYS_MAX. RS_PUT_EXT_ROOM. */
static inline uint8_t *rs_put_date(uint8_t *p, int64_t ordinal) {
    return rs_put_int(rs_put_ext(p, RS_FMT_EXT_DATE), ordinal);
}

/* A timedelta of high * 2^64 + low microseconds. RS_PUT_EXT_ROOM. */
static inline uint8_t *rs_put_timedelta(uint8_t *p, int64_t high, uint64_t low) {
    return rs_put_wide(rs_put_ext(p, RS_FMT_EXT_TIMEDELTA), high, low);
}

/* A time or datetime (`code`) up to its time zone, which the caller appends: None or an ext value of code 17 or 18.
 * `us` is the payload's first number. RS_PUT_EXT_ROOM. */
static inline uint8_t *rs_put_moment(uint8_t *p, uint8_t code, int64_t us, unsigned fold) {
    p = rs_put_head(rs_put_ext(p, code), RS_FMT_TAG_TUPLE, 3);
    return rs_put_int(rs_put_int(p, us), fold);
}

/* Room for a Decimal of 256 bits: sign, 78 digits, point or zeros, exponent. */
enum { RS_PUT_DECIMAL_ROOM = 128 };
/* A Decimal: `n_words` (1 to 4) words of 64 bits, two's complement, the lowest first, divided by 10^scale. The text is
 * the same as from Python's `str` (General Decimal Arithmetic, to-scientific-string). RS_PUT_DECIMAL_ROOM. */
uint8_t *rs_put_decimal(uint8_t *p, const uint64_t *words, unsigned n_words, int32_t scale);
