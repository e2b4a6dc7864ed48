/* rs_half.h: half floats (IEEE 754 binary16) as doubles and back. A double can hold every half float. */
#pragma once

#include "base/rs_bytes.h"

/* Returns the double of a half float. NaN keeps sign and payload. Any thread. */
static inline double rs_half_to_double(uint16_t half) {
    const uint64_t sign = (uint64_t)(half >> 15) << 63, exponent = half >> 10 & 31, fraction = half & 1023;
    uint8_t bytes[8];
    if (exponent == 0) { /* a subnormal: fraction times 2^-24 */
        rs_store_f64(bytes, (double)fraction / 16777216.0);
        rs_store_u64(bytes, rs_load_u64(bytes) | sign);
    } else {
        const uint64_t wide = exponent == 31 ? 2047 : exponent - 15 + 1023;
        rs_store_u64(bytes, sign | wide << 52 | fraction << 42);
    }
    return rs_load_f64(bytes);
}

/* Returns the half float nearest to `value`, ties to even; infinity beyond the range. NaN keeps sign and the upper bits
 * of its payload, and stays a NaN. Any thread. */
static inline uint16_t rs_half_round(double value) {
    uint8_t bytes[8];
    unsigned shift = 42, half;
    rs_store_f64(bytes, value);
    uint64_t bits = rs_load_u64(bytes);
    unsigned sign = (unsigned)(bits >> 63) << 15;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int64_t exponent = (int64_t)(bits >> 52 & 2047) - 1023;
    if (exponent == 1024) {
        const unsigned payload = (unsigned)(fraction >> 42);
        return (uint16_t)(sign | 31u << 10 | (payload == 0 && fraction != 0 ? 512u : payload));
    }
    if (exponent > 15) return (uint16_t)(sign | 31u << 10);
    if (exponent < -25) return (uint16_t)sign;
    if (exponent < -14) { /* a subnormal: the leading 1 becomes part of the fraction */
        fraction |= UINT64_C(1) << 52;
        shift = (unsigned)(42 - 14 - exponent);
        half = (unsigned)(fraction >> shift);
    } else {
        half = (unsigned)(exponent + 15) << 10 | (unsigned)(fraction >> shift);
    }
    uint64_t below = fraction & ((UINT64_C(1) << shift) - 1);
    if (below > UINT64_C(1) << (shift - 1) || (below == UINT64_C(1) << (shift - 1) && (half & 1) != 0)) half++;
    return (uint16_t)(sign | half); /* a carry into the exponent gives the next power of two, or infinity */
}

/* Returns the half float of `value`, a result of rs_half_to_double. Any thread. */
static inline uint16_t rs_half_of_double_unchecked(double value) {
    uint8_t bytes[8];
    rs_store_f64(bytes, value);
    uint64_t bits = rs_load_u64(bytes);
    unsigned sign = (unsigned)(bits >> 63) << 15;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int64_t exponent = (int64_t)(bits >> 52 & 2047) - 1023;
    if (exponent == 1024) return (uint16_t)(sign | 31u << 10 | (unsigned)(fraction >> 42));
    if (exponent >= -14) return (uint16_t)(sign | (unsigned)(exponent + 15) << 10 | (unsigned)(fraction >> 42));
    if (exponent < -24) return (uint16_t)sign;
    return (uint16_t)(sign | (unsigned)((fraction | UINT64_C(1) << 52) >> (42 - 14 - exponent)));
}
