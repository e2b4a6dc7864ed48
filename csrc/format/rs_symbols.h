/* rs_symbols.h: checks symbol tables, and decodes strings that are coded with them.
 *
 * A symbol is a short sequence of units, a code of one or two bytes denotes a symbol, and a string is a sequence of
 * codes. Each string can be decoded by itself. The scheme is FSST (Boncz, Neumann and Leis, FSST: Fast Random Access
 * String Compression, VLDB 2020) with tables as large as in OnPair (Gargiulo, Tosoni, Venturini, OnPair: Short Strings
 * Compression for Fast Random Access, 2025). FORMAT.md has the layout in its section "Symbol tables".
 *
 * The table stays in the segment, whose bytes may change. Decoding therefore loads the entry of a code only once, and
 * checks it against numbers that rs_symbols_open has copied into private memory. Bytes that change later give other
 * units or an error, but no access out of bounds. */
#pragma once

#include "base/rs_bytes.h"
#include "base/rs_status.h"

enum {
    RS_SYMBOLS_HEAD = 8,    /* bytes before the entries */
    RS_SYMBOLS_ENTRY = 3,   /* bytes of an entry */
    RS_SYMBOLS_COPY = 16,   /* bytes that decoding copies for a symbol; also the number of zeros after the pool */
    RS_SYMBOLS_MAX = 65536, /* the most symbols of a table */
    RS_SYMBOLS_LENGTH_BITS = 4,
    RS_SYMBOLS_SLACK = 64 /* bytes after the string that decoding may write, because it copies whole symbols */
};

/* An open table. Borrows the table's bytes. Any number of threads may read it. */
typedef struct rs_symbols {
    const uint8_t *entries;
    const uint8_t *pool;
    uint32_t n_symbols;
    uint32_t n_short;    /* a first byte below it is a code of one byte */
    uint32_t pool_units; /* units of the pool; RS_SYMBOLS_COPY bytes follow them */
    uint32_t unit_bytes;
    uint32_t max_units; /* the most units of a symbol */
} rs_symbols;

/* Returns the most units that a symbol may have. */
static inline uint32_t rs_symbols_max_units(uint32_t unit_bytes) { return unit_bytes == 1 ? 15 : 8; }

/* Checks and opens a table, which must fill `bytes`. *out is valid as long as `bytes`. RS_E_FMT_TRUNCATED,
 * RS_E_FMT_VALUE, RS_E_FMT_RESERVED. Any thread. */
RS_NODISCARD rs_status rs_symbols_open(rs_slice bytes, rs_symbols *out, rs_error *err);

/* Sets *n_units to the number of units of the decoded string, with all checks of decoding: RS_E_FMT_VALUE. Any thread.
 */
RS_NODISCARD rs_status rs_symbols_length(const rs_symbols *self, rs_slice codes, uint64_t *n_units, rs_error *err);

/* Both fill `err`, out of line because the errors are rare. */
RS_COLD void rs_symbols_bad_code(rs_error *err);
RS_COLD void rs_symbols_no_room(rs_error *err);

/* Loads the entry of a symbol, whose number must be below n_symbols. The lowest RS_SYMBOLS_LENGTH_BITS bits are its
 * number of units (0 for the escape), the other bits their offset in the pool. */
static inline uint32_t rs_symbols_entry_unchecked(const rs_symbols *self, uint32_t number) {
    return rs_load_u32(self->entries + (size_t)RS_SYMBOLS_ENTRY * number) & 0xFFFFFF;
}

/* Marks a condition as unpredictable, so that compilers use a conditional move instead of a branch. */
#if defined(__clang__)
#define RS_SYMBOLS_EITHER(x) __builtin_unpredictable(x)
#elif defined(__GNUC__)
#define RS_SYMBOLS_EITHER(x) __builtin_expect_with_probability((x), 1, 0.5)
#else
#define RS_SYMBOLS_EITHER(x) (x)
#endif

/* The state of decoding a word of codes. */
typedef struct rs_symbols_step {
    uint64_t word; /* the remaining codes, the next one in the lowest bits */
    uint64_t used; /* bytes of codes decoded so far */
    uint8_t *out;
} rs_symbols_step;

/* Decodes the lowest code of the word. Returns false if the code is invalid or the escape; `used` then includes the
 * code, and the length in *entry is 0 for the escape. With `partial`, only the first `left` bytes of the word are
 * codes; after them the function decodes nothing and returns true, without a branch on the end of the codes. */
static inline bool rs_symbols_decode_one(const rs_symbols *self, unsigned unit_bytes, bool partial, uint64_t left,
                                         rs_symbols_step *step, uint32_t *entry) {
    const uint32_t first = (uint32_t)(step->word & 0xFF), both = first << 8 | (uint32_t)(step->word >> 8 & 0xFF);
    const uint32_t has_code = !partial || step->used < left, wide = first >= self->n_short;
    uint32_t number = first + ((0u - wide) & (both - 255 * self->n_short - first));
    step->used += partial ? (0u - has_code) & (1 + wide) : 1 + wide;
    step->word = RS_SYMBOLS_EITHER(wide != 0) ? step->word >> 16 : step->word >> 8;
    *entry = 1;
    if (RS_UNLIKELY(number >= self->n_symbols)) return !has_code;
    *entry = rs_symbols_entry_unchecked(self, number);
    uint32_t length = *entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1);
    uint32_t offset = *entry >> RS_SYMBOLS_LENGTH_BITS;
    if (RS_UNLIKELY(length - 1 >= rs_symbols_max_units(unit_bytes) || offset > self->pool_units)) return !has_code;
    memcpy(step->out, self->pool + (size_t)offset * unit_bytes, RS_SYMBOLS_COPY);
    step->out += (size_t)(partial ? (0u - has_code) & length : length) * unit_bytes;
    return true;
}

/* rs_symbols_decode for one unit_bytes, which callers give as a constant.
 *
 * It loads codes in words of 8 bytes, which hold at least 4 whole codes. It does not branch on the length of a code,
 * because the branch would often be mispredicted. */
RS_NODISCARD static inline rs_status rs_symbols_decode_units(const rs_symbols *table, unsigned unit_bytes,
                                                             rs_slice codes, uint8_t *out, uint64_t capacity,
                                                             uint64_t *out_bytes, rs_error *err) {
    const rs_symbols self = *table;
    const uint8_t *p = codes.ptr;
    rs_symbols_step step = {0, 0, out};
    uint32_t entry = 1;
    for (;;) {
        uint64_t left = (uint64_t)(codes.end - p);
        if (RS_UNLIKELY(capacity - (uint64_t)(step.out - out) < RS_SYMBOLS_SLACK)) {
            return rs_symbols_no_room(err), RS_E_SPACE;
        }
        step.used = 0;
        if (RS_LIKELY(left >= 8)) {
            step.word = rs_load_u64(p);
            if (RS_LIKELY(rs_symbols_decode_one(&self, unit_bytes, false, 8, &step, &entry) &&
                          rs_symbols_decode_one(&self, unit_bytes, false, 8, &step, &entry) &&
                          rs_symbols_decode_one(&self, unit_bytes, false, 8, &step, &entry) &&
                          rs_symbols_decode_one(&self, unit_bytes, false, 8, &step, &entry))) {
                p += step.used;
                continue;
            }
        } else {
            if (left == 0) break;
            step.word = rs_load_few_unchecked(p, left);
            bool plain = rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                         rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                         rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                         rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry);
            if (RS_UNLIKELY(step.used > left)) return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
            if (RS_LIKELY(plain)) {
                p += step.used;
                continue;
            }
        }
        /* After an escape the unit itself follows, maybe after the word. */
        if ((entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1)) != 0 || left - step.used < unit_bytes) {
            return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
        }
        memcpy(step.out, p + step.used, unit_bytes);
        step.out += unit_bytes;
        p += step.used + unit_bytes;
    }
    *out_bytes = (uint64_t)(step.out - out);
    return RS_OK;
}

/* Decodes all of `codes` to `out` and sets *out_bytes to the bytes of the units. `out` must have room for them and for
 * RS_SYMBOLS_SLACK more bytes, which may be overwritten, else RS_E_SPACE. 16 bytes for each byte of codes and
 * RS_SYMBOLS_SLACK more are always enough. `out` must not overlap the table or the codes. RS_E_FMT_VALUE if a code is
 * cut off or invalid. Any thread. */
RS_NODISCARD static inline rs_status rs_symbols_decode(const rs_symbols *self, rs_slice codes, uint8_t *out,
                                                       uint64_t capacity, uint64_t *out_bytes, rs_error *err) {
    if (self->unit_bytes == 1) return rs_symbols_decode_units(self, 1, codes, out, capacity, out_bytes, err);
    return rs_symbols_decode_units(self, 2, codes, out, capacity, out_bytes, err);
}
