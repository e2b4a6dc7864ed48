/* rs_positions.c: copies, checks and counts in plain loops, which compilers can vectorize. */
#include "base/rs_positions.h"

static inline uint16_t swapped16(uint16_t v) { return (uint16_t)(v << 8 | v >> 8); }
static inline uint32_t swapped32(uint32_t v) {
    return (v << 24) | (v << 8 & 0x00FF0000) | (v >> 8 & 0x0000FF00) | (v >> 24);
}
static inline uint64_t swapped64(uint64_t v) {
    return (uint64_t)swapped32((uint32_t)v) << 32 | swapped32((uint32_t)(v >> 32));
}

/* Copies the integers of one type. Adjacent integers have a loop of their own, with a constant stride. */
#define COPY(name, unsigned_type, type, swap) \
    static void name(const rs_integers *from, int64_t *out) { \
        const uint8_t *p = from->first; \
        unsigned_type v; \
        if (from->stride_bytes == (int64_t)sizeof v && !from->is_swapped) { \
            for (uint64_t i = 0; i < from->n; i++) { \
                memcpy(&v, p + i * sizeof v, sizeof v); \
                out[i] = (int64_t)(type)v; \
            } \
            return; \
        } \
        for (uint64_t i = 0; i < from->n; i++, p += from->stride_bytes) { \
            memcpy(&v, p, sizeof v); \
            out[i] = (int64_t)(type)(from->is_swapped ? swap(v) : v); \
        } \
    }

#define SAME(v) (v)
COPY(copy_i8, uint8_t, int8_t, SAME)
COPY(copy_u8, uint8_t, uint8_t, SAME)
COPY(copy_i16, uint16_t, int16_t, swapped16)
COPY(copy_u16, uint16_t, uint16_t, swapped16)
COPY(copy_i32, uint32_t, int32_t, swapped32)
COPY(copy_u32, uint32_t, uint32_t, swapped32)
COPY(copy_64, uint64_t, int64_t, swapped64)

void rs_positions_copy(const rs_integers *from, int64_t *out) {
    switch (from->item_bytes) {
    case 1: (from->is_signed ? copy_i8 : copy_u8)(from, out); return;
    case 2: (from->is_signed ? copy_i16 : copy_u16)(from, out); return;
    case 4: (from->is_signed ? copy_i32 : copy_u32)(from, out); return;
    default: copy_64(from, out); return;
    }
}

/* Adds the length to a negative number. A number out of range is then at least `length` as an unsigned number. */
static inline int64_t settled(int64_t number, int64_t length, bool is_unsigned) {
    return number < 0 && !is_unsigned ? number + length : number;
}

/* Settles n numbers, and returns whether one of them is out of range. */
static bool settle_run(int64_t *io, uint64_t n, int64_t length, bool is_unsigned) {
    unsigned wrong = 0;
    for (uint64_t i = 0; i < n; i++) {
        io[i] = settled(io[i], length, is_unsigned);
        wrong |= (uint64_t)io[i] >= (uint64_t)length;
    }
    return wrong != 0;
}

uint64_t rs_positions_settle(int64_t *io, uint64_t n, int64_t length, bool is_unsigned) {
    enum { RUN = 1024 }; /* numbers that are checked without a branch */
    uint64_t k;
    for (uint64_t i = 0; i < n; i += RUN) {
        const uint64_t count = n - i < RUN ? n - i : RUN;
        if (!settle_run(io + i, count, length, is_unsigned)) continue;
        for (k = i; k < i + count && (uint64_t)io[k] < (uint64_t)length; k++) {
        }
        return k;
    }
    return n;
}

void rs_positions_settle_or_drop(int64_t *io, uint64_t n, int64_t length, bool is_unsigned) {
    for (uint64_t i = 0; i < n; i++) {
        const int64_t position = settled(io[i], length, is_unsigned);
        io[i] = (uint64_t)position < (uint64_t)length ? position : -1;
    }
}

void rs_positions_steps(int64_t *out, uint64_t n, int64_t start, int64_t step) {
    for (uint64_t i = 0; i < n; i++) out[i] = (int64_t)((uint64_t)start + (uint64_t)step * i);
}

uint64_t rs_positions_count(const uint8_t *mask, uint64_t n) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) count += mask[i] != 0;
    return count;
}

uint64_t rs_positions_of_mask(const uint8_t *mask, uint64_t n, int64_t *out) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) { /* without a branch, which a random mask would mispredict */
        out[count] = (int64_t)i;
        count += mask[i] != 0;
    }
    return count;
}

void rs_positions_narrow(const int64_t *from, uint64_t n, uint8_t *out) {
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)from[i];
        memcpy(out + 4 * i, &v, 4);
    }
}
