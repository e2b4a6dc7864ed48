/* rs_packed_ints.h: unpacks and packs decimals and packed lists of numbers (FORMAT.md, Packed nodes), and measures the
 * size of packed lists. The decimals follow ALP (Afroozeh, Kuffo, Boncz, SIGMOD 2024); the chunks are like the
 * miniblocks of Parquet's DELTA_BINARY_PACKED (Lemire, Boytsov, 2015). */
#pragma once

#include "base/rs_buffer.h"
#include "format/rs_schema.h"

/* ---- Reading ---- */

/* Returns the value of a decimal node from its stored number. */
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

/* The state of unpacking one list. Borrows node and bytes. */
typedef struct rs_packed_ints {
    const rs_node *node;
    const uint8_t *head;   /* the bit group of the head */
    const uint8_t *widths; /* the bit group with 4 bits for each chunk */
    const uint8_t *chunks; /* the chunks that are left */
    const uint8_t *end;    /* the end of the chunks; no byte beyond it is read */
    uint64_t n;            /* number of numbers in the list */
    uint64_t done;         /* number of numbers unpacked so far */
    uint32_t chunk;        /* number of the next chunk; no record has a list of 2^35 numbers, where it would wrap */
    int64_t last[RS_FMT_STRIDE_MAX + RS_FMT_NUMBERS_CHUNK]; /* the 16 numbers before the chunk, then the chunk */
} rs_packed_ints;

/* Takes a list of n numbers off `in`. n is not 0, and was counted against the budget. Returns false and takes nothing
 * if the bytes end too early (out->n is then n) or are malformed (out->n is then 0). Any thread. */
RS_NODISCARD bool rs_packed_ints_take(const rs_node *node, uint64_t n, rs_slice *in, rs_packed_ints *out);

/* Begins to unpack a list. rs_packed_ints_take calls it. */
static inline void rs_packed_ints_begin(rs_packed_ints *self) {
    self->done = 0;
    self->chunk = 0;
}

/* Sets *out to the next numbers and returns how many: 1 to 16; 0 at the end. *out is valid until the next call. */
unsigned rs_packed_ints_next(rs_packed_ints *self, const int64_t **out);

/* Writes all n numbers to `out`, faster than chunk by chunk. Call it right after rs_packed_ints_take. */
void rs_packed_ints_read(rs_packed_ints *self, int64_t *out);

/* Returns the float that number m of a numbers node of floats stands for. */
static inline double rs_packed_ints_float(const rs_node *node, int64_t m) { return (double)m / node->divisor; }

/* ---- Writing ---- */

/* Rounds `product`, which is within the range of i64, to an integer. Doubles from 2^52 on are integers already, and
 * adding a half would round to an even one. */
static inline int64_t rs_packed_ints_round(double product) {
    double half = product <= -4503599627370496.0 || product >= 4503599627370496.0 ? 0.0 : 0.5;
    return (int64_t)(product < 0 ? product - half : product + half);
}

/* Sets *m to an integer within 2^53 for which (double)m / 10^scale has the same 64 bits as `value`. Returns false if it
 * finds none. */
bool rs_packed_ints_from_float(double value, unsigned scale, int64_t *m);
/* Sets out[i] to the integer of the i-th of n floats at `in`, which are any values (a tag and 8 bytes each). Returns
 * the index of the first float without an integer (rs_packed_ints_from_float), or n. */
uint64_t rs_packed_ints_from_floats(const uint8_t *in, uint64_t n, unsigned scale, int64_t *out);
/* Raises *scale, if needed, to the least scale at which rs_packed_ints_from_float succeeds. Returns false if there is
 * none up to 15. */
bool rs_packed_ints_find_scale(double value, unsigned *scale);

/* Measures lists under one node with a stride. Zero the struct, set the stride, call rs_packed_ints_measure for each
 * list, then rs_packed_ints_size. */
typedef struct rs_packed_ints_sizes {
    unsigned stride;
    int64_t min, max;                              /* the range of the numbers in heads */
    uint64_t lists_by_head[RS_FMT_STRIDE_MAX + 1]; /* number of lists, by numbers in the head */
    uint64_t chunks[RS_FMT_NUMBERS_CHUNK + 1][65]; /* number of chunks, by numbers in the chunk and by their width */
    uint64_t width_bytes;                          /* bytes of the bit groups of widths */
    bool any;                                      /* whether min and max are set */
} rs_packed_ints_sizes;

/* Measures one list. With stride 0 `base` is the node's base, and no number is below it. */
void rs_packed_ints_measure(rs_packed_ints_sizes *sizes, const int64_t *numbers, uint64_t n, int64_t base);
/* Returns the bytes of the bodies of all measured lists, without their counts. */
uint64_t rs_packed_ints_size(const rs_packed_ints_sizes *sizes);
/* Writes the aux of a numbers node that packs all measured lists. */
void rs_packed_ints_aux(const rs_packed_ints_sizes *sizes, unsigned kind, unsigned scale, int64_t base,
                        uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE]);

/* Appends head and chunks of a list of n numbers, n not 0. RS_E_ARG_RANGE when the numbers do not fit the node;
 * RS_E_MEM. After a failure `out` is unchanged. */
RS_NODISCARD rs_status rs_packed_ints_append(const rs_node *node, const int64_t *numbers, uint64_t n, rs_buffer *out,
                                             rs_error *err);
