/* rs_symbols.h: reading side of strings that are coded with a symbol table: the table check and the hot decode.
 *
 * A symbol stands for a short run of units, a code of one or two bytes for a symbol, and a string is a run of codes
 * that decodes on its own. The scheme is that of FSST (Boncz, Neumann and Leis, FSST: Fast Random Access String
 * Compression, VLDB 2020) with tables as large as those of OnPair (Gargiulo, Tosoni, Venturini, OnPair: Short Strings
 * Compression for Fast Random Access, 2025). The layout is in FORMAT.md, section "Symbol tables".
 *
 * The table is used where it lies, which may be memory that somebody else writes to. So decoding loads every entry
 * once and bounds what it loaded by numbers that rs_symbols_open copied into private memory: bytes that change after
 * the check give other units or an error, never a read or a write out of bounds. */
#ifndef RS_SYMBOLS_H
#define RS_SYMBOLS_H

#include "base/rs_bytes.h"
#include "base/rs_status.h"

enum {
    RS_SYMBOLS_HEAD = 8,       /* bytes before the entries */
    RS_SYMBOLS_ENTRY = 3,      /* bytes of an entry */
    RS_SYMBOLS_COPY = 16,      /* bytes that decoding copies for any symbol, and the zeros that end a table */
    RS_SYMBOLS_MAX = 65536,    /* symbols of a table */
    RS_SYMBOLS_LENGTH_BITS = 4,
    /* What a decode may write beyond the string: a batch of symbols is begun only where all of it has room. */
    RS_SYMBOLS_SLACK = 64
};

/* An open table. Borrows the table's bytes; plain memory otherwise, so any number of threads may read it. */
typedef struct rs_symbols {
    const uint8_t *entries;
    const uint8_t *pool;
    uint32_t n_symbols;
    uint32_t n_short;    /* first bytes below it are codes of one byte */
    uint32_t pool_units; /* units of the pool; RS_SYMBOLS_COPY bytes follow them */
    uint32_t unit_bytes;
    uint32_t max_units;  /* of a symbol */
} rs_symbols;

/* The most units that a symbol of such units may have. */
static inline uint32_t rs_symbols_max_units(uint32_t unit_bytes) { return unit_bytes == 1 ? 15 : 8; }

/* Checks the table, all of it and no byte more, and opens it. The result lives as long as `bytes`. Errors:
 * RS_E_FMT_TRUNCATED, RS_E_FMT_VALUE, RS_E_FMT_RESERVED. Any thread. */
RS_NODISCARD rs_status rs_symbols_open(rs_slice bytes, rs_symbols *out, rs_error *err);

/* Units that the codes stand for, with every check of decoding made and nothing written. Any thread. */
RS_NODISCARD rs_status rs_symbols_length(const rs_symbols *self, rs_slice codes, uint64_t *n_units, rs_error *err);

/* Failing paths, out of line: they fill `err`. */
RS_COLD void rs_symbols_bad_code(rs_error *err);
RS_COLD void rs_symbols_no_room(rs_error *err);

/* Entry of a symbol, which must be below n_symbols: units of it (0: the escape) and where they begin. Loaded once. */
static inline uint32_t rs_symbols_entry_unchecked(const rs_symbols *self, uint32_t number) {
    return rs_load_u32(self->entries + (size_t)RS_SYMBOLS_ENTRY * number) & 0xFFFFFF;
}

/* A condition of which compilers should make a choice between values, not a branch. */
#if defined(__clang__)
#define RS_SYMBOLS_EITHER(x) __builtin_unpredictable(x)
#elif defined(__GNUC__)
#define RS_SYMBOLS_EITHER(x) __builtin_expect_with_probability((x), 1, 0.5)
#else
#define RS_SYMBOLS_EITHER(x) (x)
#endif

/* Where a decode stands within a word of codes. */
typedef struct rs_symbols_step {
    uint64_t word; /* codes, the next one lowest */
    uint64_t used; /* bytes of codes */
    uint8_t *out;
} rs_symbols_step;

/* Decodes the lowest code of the word. False when the code has no meaning or is the escape; `used` is then past it and
 * *entry tells which: an escape has length 0. With `some` only the first `left` bytes of the word are codes: behind
 * them nothing is decoded, without a branch on where they end, and true is the answer. */
static inline bool rs_symbols_decode_one(const rs_symbols *self, unsigned unit_bytes, bool some, uint64_t left,
                                         rs_symbols_step *step, uint32_t *entry) {
    const uint32_t first = (uint32_t)(step->word & 0xFF), both = first << 8 | (uint32_t)(step->word >> 8 & 0xFF);
    const uint32_t there = !some || step->used < left, wide = first >= self->n_short;
    uint32_t number = first + ((0u - wide) & (both - 255 * self->n_short - first));
    uint32_t length, offset;
    step->used += some ? (0u - there) & (1 + wide) : 1 + wide;
    step->word = RS_SYMBOLS_EITHER(wide != 0) ? step->word >> 16 : step->word >> 8;
    *entry = 1;
    if (RS_UNLIKELY(number >= self->n_symbols)) return !there;
    *entry = rs_symbols_entry_unchecked(self, number);
    length = *entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1);
    offset = *entry >> RS_SYMBOLS_LENGTH_BITS;
    if (RS_UNLIKELY(length - 1 >= rs_symbols_max_units(unit_bytes) || offset > self->pool_units)) return !there;
    memcpy(step->out, self->pool + (size_t)offset * unit_bytes, RS_SYMBOLS_COPY);
    step->out += (size_t)(some ? (0u - there) & length : length) * unit_bytes;
    return true;
}

/* rs_symbols_decode for one width of unit, which is a constant where this is compiled into it.
 *
 * Codes come in words of 8 bytes, of which 4 codes are always whole; there is no branch on a code's length, as it
 * would be foretold wrongly once in a few codes. */
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
            bool plain;
            if (left == 0) break;
            step.word = rs_load_few_unchecked(p, left);
            plain = rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                    rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                    rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry) &&
                    rs_symbols_decode_one(&self, unit_bytes, true, left, &step, &entry);
            if (RS_UNLIKELY(step.used > left)) return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
            if (RS_LIKELY(plain)) {
                p += step.used;
                continue;
            }
        }
        /* The escape: one unit stands in the codes. It may lie beyond the word. */
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

/* Decodes all of `codes` to `out`, *out_bytes bytes. There must be room for them and RS_SYMBOLS_SLACK bytes more, all
 * of which may be written, else RS_E_SPACE; room for 16 * codes + RS_SYMBOLS_SLACK bytes is always enough. `out` may
 * not overlap the table or the codes. RS_E_FMT_VALUE: a code that is cut short or has no meaning. Any thread. */
RS_NODISCARD static inline rs_status rs_symbols_decode(const rs_symbols *self, rs_slice codes, uint8_t *out,
                                                       uint64_t capacity, uint64_t *out_bytes, rs_error *err) {
    if (self->unit_bytes == 1) return rs_symbols_decode_units(self, 1, codes, out, capacity, out_bytes, err);
    return rs_symbols_decode_units(self, 2, codes, out, capacity, out_bytes, err);
}

#endif
