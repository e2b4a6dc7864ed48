/* rs_base.h: attributes, assertions and checked arithmetic for the core. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define RS_NODISCARD __attribute__((warn_unused_result))
#define RS_LIKELY(x) __builtin_expect(!!(x), 1)
#define RS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RS_COLD __attribute__((cold, noinline))
/* For functions that every read of a record calls. GCC does not inline them into several callers by itself, and then
 * reading short records takes 5 to 10 % longer. */
#define RS_INLINE static inline __attribute__((always_inline))
#define RS_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* GCC removes calls of functions that only prefetch, as if they had no effect. The empty volatile asm counts as an
 * effect, and costs nothing. */
#define RS_PREFETCH(p) \
    do { \
        __builtin_prefetch(p); \
        __asm__ volatile(""); \
    } while (0)
/* RS_OPAQUE hides from the compiler where a number comes from; RS_KEEP_BRANCH keeps a branch from becoming a move. */
#define RS_OPAQUE(n) __asm__("" : "+r"(n))
#define RS_KEEP_BRANCH() __asm__ volatile("")
#else
#define RS_NODISCARD
#define RS_LIKELY(x) (x)
#define RS_UNLIKELY(x) (x)
#define RS_COLD
#define RS_INLINE static inline
#define RS_PRINTF(f, a)
#define RS_PREFETCH(p) ((void)(p))
#define RS_OPAQUE(n) ((void)(n))
#define RS_KEEP_BRANCH() ((void)0)
#endif

/* Aborts on a caller's mistake, in debug and sanitizer builds only. Malformed bytes give a status instead. */
#ifdef RS_DEBUG
#include <stdlib.h>
#define RS_ASSERT(x) ((x) ? (void)0 : abort())
#else
#define RS_ASSERT(x) ((void)0)
#endif

#define RS_STATIC_ASSERT(cond, msg) _Static_assert(cond, msg)

/* The format is little-endian and loads are plain memcpy. A port to a big-endian target would swap the loaded bytes. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "recstore reads and writes little-endian memory directly; this target is big-endian"
#endif
RS_STATIC_ASSERT(sizeof(size_t) == 8, "recstore needs a 64-bit target");

/* Each sets *out to a + b or a * b, modulo 2^64, and returns true when the exact result does not fit. */
static inline bool rs_add_overflows(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a + b;
    return *out < a;
}

static inline bool rs_mul_overflows(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a * b;
    return a != 0 && *out / a != b;
}

/* The high 64 bits of a * b, from products of 32 bits. No sum overflows: (2^32 - 1)^2 + 2 (2^32 - 1) < 2^64. */
static inline uint64_t rs_mul_high_portable(uint64_t a, uint64_t b) {
    const uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
    const uint64_t other = a0 * b1 + (middle & UINT32_MAX);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* The high 64 bits of a * b, in one multiplication if the compiler has a 128-bit type. */
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 rs_u128;
static inline uint64_t rs_mul_high(uint64_t a, uint64_t b) { return (uint64_t)(((rs_u128)a * b) >> 64); }
#else
static inline uint64_t rs_mul_high(uint64_t a, uint64_t b) { return rs_mul_high_portable(a, b); }
#endif

/* Returns the number of bits of n that are 1. */
static inline unsigned rs_count_bits(uint64_t n) {
#if defined(__GNUC__) || defined(__clang__)
    return (unsigned)__builtin_popcountll(n);
#else
    unsigned count = 0;
    for (; n != 0; n &= n - 1) count++;
    return count;
#endif
}

/* Returns the number of the lowest bit of n that is 1. n is not 0. */
static inline unsigned rs_lowest_bit(uint64_t n) {
#if defined(__GNUC__) || defined(__clang__)
    return (unsigned)__builtin_ctzll(n);
#else
    return rs_count_bits(~n & (n - 1));
#endif
}

/* Returns the number of bits that n needs; 0 for 0. */
static inline unsigned rs_bit_width(uint64_t n) {
#if defined(__GNUC__) || defined(__clang__)
    return n == 0 ? 0 : 64u - (unsigned)__builtin_clzll(n);
#else
    unsigned width = 0;
    for (; n != 0; n >>= 1) width++;
    return width;
#endif
}

/* Rounds n up to a multiple of `alignment`, a power of two. The caller knows that the result fits. */
static inline uint64_t rs_align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) & ~(alignment - 1); }
