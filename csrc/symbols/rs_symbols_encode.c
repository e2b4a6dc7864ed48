/* rs_symbols_encode.c: codes strings with symbol tables. */
#include "symbols/rs_symbols_encode.h"

#include "symbols/rs_symbols_match.h"

#include <stdlib.h>

/* The most units to divide at once. A longer string is divided part by part. */
enum { PART_UNITS = 512 };

struct rs_symbols_encoder {
    rs_matcher matcher;
    uint32_t n_short;
    uint32_t escape;
    bool shortest; /* find the codes with the fewest bytes */
};

static rs_status fill_matcher(rs_symbols_encoder *self, const rs_symbols *symbols, rs_error *err) {
    self->escape = UINT32_MAX;
    RS_TRY(rs_matcher_init(&self->matcher, symbols->unit_bytes, symbols->n_symbols, err));
    for (uint32_t i = 0; i < symbols->n_symbols; i++) {
        uint32_t entry = rs_symbols_entry_unchecked(symbols, i), offset = entry >> RS_SYMBOLS_LENGTH_BITS;
        unsigned n_units = entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1);
        if (n_units > symbols->max_units || offset > symbols->pool_units) n_units = offset = 0;
        if (n_units == 0 && self->escape == UINT32_MAX) self->escape = i;
        RS_TRY(rs_matcher_add(&self->matcher, symbols->pool + (size_t)offset * symbols->unit_bytes, n_units, err));
    }
    if (self->escape != UINT32_MAX) return RS_OK;
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a symbol table without an escape");
}

rs_status rs_symbols_encoder_open(rs_slice table, bool small, rs_symbols_encoder **out, rs_error *err) {
    rs_symbols symbols;
    RS_TRY(rs_symbols_open(table, &symbols, err));
    rs_symbols_encoder *self = (rs_symbols_encoder *)calloc(1, sizeof *self);
    if (self == NULL) return rs_no_memory(err);
    self->n_short = symbols.n_short;
    self->shortest = small;
    rs_status status = fill_matcher(self, &symbols, err);
    if (status != RS_OK) {
        rs_symbols_encoder_close(self);
        return status;
    }
    *out = self;
    return RS_OK;
}

uint64_t rs_symbols_encoder_memory(const rs_symbols_encoder *self) {
    return self == NULL ? 0 : sizeof *self + rs_matcher_memory(&self->matcher);
}

void rs_symbols_encoder_close(rs_symbols_encoder *self) {
    if (self == NULL) return;
    rs_matcher_clear(&self->matcher);
    free(self);
}

/* Writes the code of a symbol and returns its end. Two bytes must be writable, even for a short code. */
static inline uint8_t *put_code(uint8_t *p, uint32_t number, uint32_t n_short) {
    const bool wide = number >= n_short;
    const uint32_t both = wide ? number + 255 * n_short : number << 8;
    rs_store_u16(p, (uint16_t)(both >> 8 | both << 8));
    return p + 1 + wide;
}

/* Writes the code of the escape and the unit after it. */
static inline uint8_t *put_escape(const rs_symbols_encoder *self, uint8_t *p, const uint8_t *unit,
                                  unsigned unit_bytes) {
    p = put_code(p, self->escape, self->n_short);
    memcpy(p, unit, unit_bytes);
    return p + unit_bytes;
}

/* Codes units while at least `least` bytes are left. Advances *units and reduces *left. `least` is 16, or 1 if
 * RS_SYMBOLS_COPY bytes after the units are readable. */
static inline uint8_t *encode_run(const rs_symbols_encoder *self, const uint8_t **units, uint64_t *left, uint64_t least,
                                  uint8_t *p, unsigned unit_bytes) {
    const uint8_t *from = *units;
    const uint32_t n_short = self->n_short;
    uint64_t rest = *left;
    while (rest >= least) {
        unsigned limit = least == 16 ? 16 : (unsigned)rest;
        const rs_match match = rs_matcher_find(&self->matcher, from, limit, unit_bytes);
        unsigned bytes = match.bytes;
        if (RS_UNLIKELY(bytes == 0)) {
            p = put_escape(self, p, from, unit_bytes);
            bytes = unit_bytes;
        } else {
            p = put_code(p, match.number, n_short);
        }
        from += bytes;
        rest -= bytes;
    }
    *units = from;
    *left = rest;
    return p;
}

/* Codes a string. A match reads 16 bytes, so the last few bytes are first copied to a longer buffer: 16 at once,
 * because a copy of any size has branches. */
static inline uint8_t *encode_units(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units, uint8_t *p,
                                    unsigned unit_bytes) {
    uint8_t tail[2 * RS_SYMBOLS_COPY] = {0};
    uint64_t left = n_units * unit_bytes;
    const uint8_t *end = units + left, *from = tail;
    if (left < 16) {
        memcpy(tail, units, (size_t)left);
    } else {
        memcpy(tail, end - 16, 16);
        p = encode_run(self, &units, &left, 16, p, unit_bytes);
        from = tail + 16 - left;
    }
    return encode_run(self, &from, &left, 1, p, unit_bytes);
}

/* ---- The shortest codes ---- */

/* Part of a string that is being divided. */
typedef struct division {
    uint8_t text[2 * PART_UNITS + RS_SYMBOLS_COPY]; /* the units, and zeros after them */
    uint32_t costs[PART_UNITS + 1];                 /* the fewest bytes of codes from each unit to the end */
    rs_match matches[PART_UNITS];                   /* the first match of these codes; 0 bytes for the escape */
} division;

/* Finds the shortest codes from each of n units to the end of the part, going backwards. This is the shortest path in a
 * graph whose edges are the symbols (Storer and Szymanski, Data Compression via Textual Substitution, 1982). At equal
 * cost the escape wins, then the longest symbol. */
static inline void divide(const rs_symbols_encoder *self, division *part, uint32_t n, unsigned unit_bytes) {
    const uint32_t escape = (self->escape >= self->n_short ? 2 : 1) + unit_bytes;
    rs_match found[RS_MATCH_ALL];
    part->costs[n] = 0;
    for (uint32_t i = n; i-- > 0;) {
        unsigned left = (n - i) * unit_bytes;
        uint32_t n_found = rs_matcher_find_some(&self->matcher, part->text + (size_t)i * unit_bytes,
                                                left < 16 ? left : 16, unit_bytes, RS_MATCH_ALL, found);
        uint32_t least = escape + part->costs[i + 1];
        rs_match best = {0, 0};
        for (uint32_t k = 0; k < n_found; k++) {
            uint32_t cost = (found[k].number >= self->n_short ? 2 : 1) + part->costs[i + found[k].bytes / unit_bytes];
            if (cost < least) least = cost, best = found[k];
        }
        part->costs[i] = least;
        part->matches[i] = best;
    }
}

/* Codes a string with the fewest bytes. The last few units of a part begin the next part, because their division
 * depends on the units after them. */
static uint8_t *encode_shortest(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units, uint8_t *p,
                                unsigned unit_bytes) {
    division part;
    while (n_units > 0) {
        uint32_t n = n_units < PART_UNITS ? (uint32_t)n_units : PART_UNITS, i = 0;
        uint32_t stop = n_units > PART_UNITS ? n - RS_SYMBOLS_COPY : n;
        memcpy(part.text, units, (size_t)n * unit_bytes);
        memset(part.text + (size_t)n * unit_bytes, 0, RS_SYMBOLS_COPY);
        if (unit_bytes == 1) divide(self, &part, n, 1);
        else divide(self, &part, n, 2);
        while (i < stop) {
            const rs_match match = part.matches[i];
            if (match.bytes == 0) {
                p = put_escape(self, p, part.text + (size_t)i * unit_bytes, unit_bytes);
                i++;
            } else {
                p = put_code(p, match.number, self->n_short);
                i += match.bytes / unit_bytes;
            }
        }
        units += (size_t)i * unit_bytes;
        n_units -= i;
    }
    return p;
}

rs_status rs_symbols_encode(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units, rs_buffer *out,
                            rs_error *err) {
    unsigned unit_bytes = self->matcher.unit_bytes;
    uint64_t max_size;
    uint8_t *end;
    if (rs_mul_overflows(n_units, 2 + unit_bytes, &max_size)) return rs_no_memory(err);
    if (max_size == 0) return RS_OK;
    RS_TRY(rs_buffer_reserve(out, (size_t)max_size, err));
    uint8_t *begin = out->data + out->size_bytes;
    if (self->shortest) end = encode_shortest(self, units, n_units, begin, unit_bytes);
    else if (unit_bytes == 1) end = encode_units(self, units, n_units, begin, 1);
    else end = encode_units(self, units, n_units, begin, 2);
    out->size_bytes += (size_t)(end - begin);
    return RS_OK;
}
