/* rs_packed_ints.h: decimals and packed lists of numbers (FORMAT.md, Packed nodes): what a reader needs inline, what a
 * writer needs to choose and to pack. Knows nodes, not records. */
#ifndef RS_PACKED_INTS_H
#define RS_PACKED_INTS_H

#include "base/rs_buffer.h"
#include "format/rs_schema.h"

/* ---- Reading ---- */

/* The value of a decimal node from its stored bits. */
static inline double rs_packed_ints_decimal(const rs_node *node, uint64_t stored) {
    unsigned c = node->correction;
    int64_t m = (int64_t)(node->base + (c == 64 ? 0 : stored >> c));
    double value = (double)m / node->divisor;
    if (c != 0) {
        uint64_t bits, k = stored & ((UINT64_C(1) << c) - 1);
        memcpy(&bits, &value, 8);
        bits += k - (UINT64_C(1) << (c - 1));
        memcpy(&value, &bits, 8);
    }
    return value;
}

/* The numbers of one list that are still to come. Borrows node and bytes. */
typedef struct rs_packed_ints {
    const rs_node *node;
    const uint8_t *head;   /* bit group of the head */
    const uint8_t *widths; /* 4 bits a chunk */
    const uint8_t *chunks;
    const uint8_t *end;    /* of the chunks: nothing beyond is read */
    uint64_t n;            /* numbers in all */
    uint64_t done;         /* given so far */
    uint32_t chunk;        /* its number, once the head is given; wraps with lists beyond 2^35: no record is as long */
    int64_t last[RS_FMT_STRIDE_MAX + RS_FMT_NUMBERS_CHUNK]; /* the 16 before the chunk, then the chunk */
} rs_packed_ints;

/* Takes a list of n numbers (n not 0; the caller has counted them) off `in`. False, with nothing taken, when its bytes
 * end too early, out->n then being n, or are malformed, out->n then being 0. Any thread. */
RS_NODISCARD bool rs_packed_ints_take(const rs_node *node, uint64_t n, rs_slice *in, rs_packed_ints *out);

/* Begins to give the numbers of a taken list: sets what rs_packed_ints_next goes on from. */
static inline void rs_packed_ints_begin(rs_packed_ints *self) {
    self->done = 0;
    self->chunk = 0;
}

/* The next 1 to 16 numbers; *out borrows from self until the next call. 0 when all are given. */
unsigned rs_packed_ints_next(rs_packed_ints *self, const int64_t **out);

/* All numbers of a list that rs_packed_ints_begin was just called for, at once: faster than chunk by chunk. `out`
 * has room for n. */
void rs_packed_ints_read(rs_packed_ints *self, int64_t *out);

static inline double rs_packed_ints_float(const rs_node *node, int64_t m) { return (double)m / node->divisor; }

/* ---- Writing ---- */

/* Bits that n needs. */
static inline unsigned rs_packed_ints_width(uint64_t n) {
#if defined(__GNUC__) || defined(__clang__)
    return n == 0 ? 0 : 64u - (unsigned)__builtin_clzll(n);
#else
    unsigned width = 0;
    for (; n != 0; n >>= 1) width++;
    return width;
#endif
}

/* The integer nearest to `product`, which is within the range of i64. From 2^52 on a double is whole, and half more
 * would round to an even one. */
static inline int64_t rs_packed_ints_round(double product) {
    double half = product <= -4503599627370496.0 || product >= 4503599627370496.0 ? 0.0 : 0.5;
    return (int64_t)(product < 0 ? product - half : product + half);
}

/* The integer m with (double)m / 10^scale == value to the bit, within 2^53; false when there is none. */
bool rs_packed_ints_from_float(double value, unsigned scale, int64_t *m);
/* The least scale from `scale` on, up to 15, at which value is such a decimal; false when there is none. */
bool rs_packed_ints_find_scale(double value, unsigned *scale);

/* How a set of lists would be packed; zero it, rs_packed_ints_measure each list, then rs_packed_ints_size. */
typedef struct rs_packed_ints_sizes {
    unsigned stride;
    uint64_t n_lists;    /* not empty ones */
    int64_t min, max;    /* of the numbers stored as they are */
    uint64_t head_bits_of[RS_FMT_STRIDE_MAX + 1]; /* lists by the numbers in their head */
    uint64_t chunks[RS_FMT_NUMBERS_CHUNK + 1][65]; /* chunks by numbers and by bits */
    uint64_t width_bytes;
    bool any;
} rs_packed_ints_sizes;

/* `base` is that of stride 0: no less than any number may be. */
void rs_packed_ints_measure(rs_packed_ints_sizes *sizes, const int64_t *numbers, uint64_t n, int64_t base);
/* Bytes of all measured lists but for their counts. */
uint64_t rs_packed_ints_size(const rs_packed_ints_sizes *sizes);
/* The aux of a node packed so. */
void rs_packed_ints_aux(const rs_packed_ints_sizes *sizes, unsigned kind, unsigned scale, int64_t base,
                    uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE]);

/* Appends head and chunks of a list of n numbers, n not 0. RS_E_ARG_RANGE when they do not fit the node. */
RS_NODISCARD rs_status rs_packed_ints_append(const rs_node *node, const int64_t *numbers, uint64_t n, rs_buffer *out,
                                         rs_error *err);

#endif
