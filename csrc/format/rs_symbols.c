/* rs_symbols.c: checks symbol tables, and computes the length of strings without decoding them. */
#include "format/rs_symbols.h"

RS_STATIC_ASSERT(RS_SYMBOLS_SLACK >= 4 * RS_SYMBOLS_COPY, "four symbols fit the slack");

void rs_symbols_bad_code(rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a string code is cut off or not valid");
}

void rs_symbols_no_room(rs_error *err) { (void)rs_error_set(err, RS_E_SPACE, RS_NOWHERE, "no room for the string"); }

static rs_status bad_table(rs_error *err, const char *message) {
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a symbol table %s", message);
}

rs_status rs_symbols_open(rs_slice bytes, rs_symbols *out, rs_error *err) {
    const uint8_t *head;
    rs_symbols self;
    if (!rs_take(&bytes, RS_SYMBOLS_HEAD, &head)) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "a symbol table ends in its head");
    }
    self.unit_bytes = head[0];
    self.n_short = rs_load_u16(head + 2);
    self.n_symbols = rs_load_u32(head + 4);
    if (self.unit_bytes != 1 && self.unit_bytes != 2) return bad_table(err, "has units of neither 1 nor 2 bytes");
    if (head[1] != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, RS_NOWHERE, "a reserved byte of a symbol table is not zero");
    }
    if (self.n_short > 256 || self.n_symbols > self.n_short + 256 * (256 - self.n_short)) {
        return bad_table(err, "has more symbols than codes");
    }
    self.max_units = rs_symbols_max_units(self.unit_bytes);
    uint64_t entries_size = (uint64_t)RS_SYMBOLS_ENTRY * self.n_symbols;
    if (!rs_take(&bytes, entries_size, &self.entries) || rs_slice_left(&bytes) < RS_SYMBOLS_COPY) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "a symbol table ends in its entries");
    }
    uint64_t pool_size = rs_slice_left(&bytes) - RS_SYMBOLS_COPY;
    self.pool = bytes.ptr;
    if (pool_size % self.unit_bytes != 0 || pool_size / self.unit_bytes >> (24 - RS_SYMBOLS_LENGTH_BITS) != 0) {
        return bad_table(err, "has a pool that is too large or ends within a unit");
    }
    self.pool_units = (uint32_t)(pool_size / self.unit_bytes);
    for (uint32_t i = 0; i < self.n_symbols; i++) {
        uint32_t entry = rs_symbols_entry_unchecked(&self, i);
        uint32_t length = entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1), offset = entry >> RS_SYMBOLS_LENGTH_BITS;
        if (length == 0) continue;
        if (length > self.max_units || offset > self.pool_units || length > self.pool_units - offset) {
            return bad_table(err, "has a symbol outside its pool");
        }
    }
    *out = self;
    return RS_OK;
}

rs_status rs_symbols_length(const rs_symbols *self, rs_slice codes, uint64_t *n_units, rs_error *err) {
    uint64_t n = 0;
    while (codes.ptr != codes.end) {
        uint32_t number = *codes.ptr++;
        if (number >= self->n_short) {
            if (codes.ptr == codes.end) return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
            number += (number - self->n_short) * 255 + *codes.ptr++;
        }
        if (number >= self->n_symbols) return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
        uint32_t entry = rs_symbols_entry_unchecked(self, number);
        uint32_t length = entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1);
        if (length == 0) {
            const uint8_t *unit;
            if (!rs_take(&codes, self->unit_bytes, &unit)) return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
            length = 1;
        } else if (length > self->max_units || entry >> RS_SYMBOLS_LENGTH_BITS > self->pool_units) {
            return rs_symbols_bad_code(err), RS_E_FMT_VALUE;
        }
        n += length;
    }
    *n_units = n;
    return RS_OK;
}
