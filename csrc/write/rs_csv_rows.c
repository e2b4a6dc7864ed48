/* rs_csv_rows.c: a mask has a bit for each byte of a block, and the running XOR of the quotes is the mask of the bytes
 * in quotes, as in rs_json_bounds.c. That holds while each quote opens a cell, closes one, or is doubled; any other
 * block is scanned byte by byte. */
#include "write/rs_csv_rows.h"

static uint64_t stop(rs_csv_rows *self, rs_csv_fault fault, unsigned at, uint64_t ends) {
    self->fault = fault;
    self->fault_at = at;
    return ends;
}

static uint64_t scan_bytes(rs_csv_rows *self, const uint8_t *bytes, unsigned n) {
    uint64_t ends = 0;
    for (unsigned i = 0; i < n; i++) {
        const uint8_t c = bytes[i];
        const bool is_quote = self->quote != 0 && c == self->quote;
        if (self->after_return && c != '\n') return stop(self, RS_CSV_RETURN, i, ends);
        self->after_return = c == '\r' && self->place != RS_CSV_QUOTED;
        if (self->place == RS_CSV_QUOTED) {
            if (is_quote) self->place = RS_CSV_CLOSED;
        } else if (is_quote && self->place != RS_CSV_PLAIN) {
            self->place = RS_CSV_QUOTED;
        } else if (c == self->delimiter || c == '\n' || c == '\r') {
            self->place = RS_CSV_BEGIN;
            ends |= (uint64_t)(c == '\n') << i;
        } else if (self->place == RS_CSV_CLOSED) {
            return stop(self, RS_CSV_TEXT, i, ends);
        } else {
            self->place = RS_CSV_PLAIN;
        }
    }
    return ends;
}

/* Scans n bytes of a block that has RS_CSV_BLOCK bytes. */
static uint64_t scan_block(rs_csv_rows *self, const uint8_t *block, unsigned n) {
    const uint64_t all = UINT64_MAX >> (RS_CSV_BLOCK - n), last = UINT64_C(1) << (n - 1);
    const uint64_t quotes = self->quote != 0 ? rs_json_equal(block, self->quote) & all : 0;
    const uint64_t feeds = rs_json_equal(block, '\n') & all, returns = rs_json_equal(block, '\r') & all;
    uint64_t inside = quotes;
    for (unsigned shift = 1; quotes != 0 && shift < RS_CSV_BLOCK; shift *= 2) inside ^= inside << shift;
    if (self->place == RS_CSV_QUOTED) inside = ~inside;
    if (quotes != 0 || self->place == RS_CSV_CLOSED) {
        const uint64_t ends = feeds | returns | (rs_json_equal(block, self->delimiter) & all) | quotes;
        const uint64_t opening = quotes & inside, closing = quotes & ~inside;
        const uint64_t before = ends << 1 | (self->place == RS_CSV_BEGIN || self->place == RS_CSV_CLOSED);
        const uint64_t after = (closing << 1 | (self->place == RS_CSV_CLOSED)) & all;
        if ((opening & ~before) != 0 || (after & ~ends) != 0) return scan_bytes(self, block, n);
    }
    const uint64_t lone = ((returns & ~inside) << 1 | self->after_return) & all & ~feeds;
    if (lone != 0) return scan_bytes(self, block, n);
    const uint8_t c = block[n - 1];
    self->after_return = (returns & ~inside & last) != 0;
    if ((inside & last) != 0) self->place = RS_CSV_QUOTED;
    else if ((quotes & last) != 0) self->place = RS_CSV_CLOSED;
    else self->place = c == self->delimiter || c == '\n' || c == '\r' ? RS_CSV_BEGIN : RS_CSV_PLAIN;
    return feeds & ~inside;
}

uint64_t rs_csv_rows_scan(rs_csv_rows *self, const uint8_t *bytes, unsigned n) {
    uint8_t padded[RS_CSV_BLOCK];
    if (n == RS_CSV_BLOCK) return scan_block(self, bytes, n);
    if (n == 0) return 0;
    memset(padded, 0, sizeof padded);
    memcpy(padded, bytes, n);
    return scan_block(self, padded, n);
}

size_t rs_csv_rows_end(uint8_t delimiter, uint8_t quote, const uint8_t *bytes, size_t n) {
    rs_csv_rows rows = {.delimiter = delimiter, .quote = quote};
    const uint8_t *end = (const uint8_t *)memchr(bytes, '\n', n);
    size_t line = end == NULL ? n : (size_t)(end - bytes);
    if (quote == 0 || memchr(bytes, quote, line) == NULL) return line;
    for (size_t at = 0; at < n; at += RS_CSV_BLOCK) {
        const unsigned size = n - at < RS_CSV_BLOCK ? (unsigned)(n - at) : RS_CSV_BLOCK;
        const uint64_t ends = rs_csv_rows_scan(&rows, bytes + at, size);
        if (ends != 0) return at + rs_lowest_bit(ends);
        if (rows.fault != RS_CSV_FINE) return line; /* not a row: the end does not matter */
    }
    return n;
}
