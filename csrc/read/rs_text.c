/* rs_text.c: assembles texts. */
#include "read/rs_text.h"

#include "format/rs_utf16.h"

#include <stdlib.h>

void rs_text_clear(rs_text *self) {
    free(self->owned);
    rs_text_begin(self);
}

/* Makes room for `size` bytes after the units. */
static rs_status reserve(rs_text *self, uint64_t size, rs_error *err) {
    uint64_t have = self->n_units * self->unit_bytes, need, capacity = self->capacity;
    if (rs_add_overflows(have, size, &need) || need > SIZE_MAX / 4) {
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a text has too many bytes");
    }
    if (RS_LIKELY(need <= capacity)) return RS_OK;
    while (capacity < need) capacity *= 2;
    uint8_t *grown = (uint8_t *)realloc(self->owned, (size_t)capacity);
    if (grown == NULL) return rs_no_memory(err);
    if (self->owned == NULL) memcpy(grown, self->within, (size_t)have);
    self->owned = grown;
    self->units = grown;
    self->capacity = capacity;
    return RS_OK;
}

/* Widens n units at p in place from `from` to `to` bytes. Goes backwards, to read each unit before it is
 * overwritten. */
static void spread(uint8_t *p, uint64_t n, unsigned from, unsigned to) {
    while (n-- > 0) {
        uint32_t unit = from == 1 ? p[n] : rs_load_u16(p + 2 * n);
        if (to == 2) rs_store_u16(p + 2 * n, (uint16_t)unit);
        else rs_store_u32(p + 4 * n, unit);
    }
}

static rs_status widen(rs_text *self, unsigned unit_bytes, rs_error *err) {
    if (RS_LIKELY(unit_bytes <= self->unit_bytes)) return RS_OK;
    RS_TRY(reserve(self, self->n_units * (unit_bytes - self->unit_bytes), err));
    spread(self->units, self->n_units, self->unit_bytes, unit_bytes);
    self->unit_bytes = unit_bytes;
    return RS_OK;
}

/* Appends the n units of unit_bytes that are already in memory after the text. Room to widen them is reserved. */
static void join(rs_text *self, uint64_t n, unsigned unit_bytes) {
    if (unit_bytes < self->unit_bytes) {
        spread(self->units + self->n_units * self->unit_bytes, n, unit_bytes, self->unit_bytes);
    }
    self->n_units += n;
}

static rs_status put_units(rs_text *self, const uint8_t *units, uint64_t n, unsigned unit_bytes, rs_error *err) {
    RS_TRY(widen(self, unit_bytes, err));
    RS_TRY(reserve(self, n * self->unit_bytes, err));
    uint8_t *to = self->units + self->n_units * self->unit_bytes;
    memcpy(to, units, (size_t)(n * unit_bytes));
    /* Check the copy, because the record's bytes may change at any time. */
    for (uint64_t i = 0; unit_bytes == 4 && i < n; i++) {
        if (rs_load_u32(to + 4 * i) > 0x10FFFF) return rs_decode_bad_value(err, "a code point above 0x10FFFF");
    }
    join(self, n, unit_bytes);
    return RS_OK;
}

static rs_status put_codes(rs_text *self, const rs_symbols *table, rs_slice codes, rs_error *err) {
    uint64_t room = rs_slice_left(&codes) * RS_SYMBOLS_COPY, produced;
    RS_TRY(widen(self, table->unit_bytes, err));
    if (room > 16 * RS_TEXT_INLINE) { /* measure a long text first: the upper bound may be 16 times its size */
        RS_TRY(rs_symbols_length(table, codes, &room, err));
        room *= self->unit_bytes;
    } else {
        room *= self->unit_bytes / table->unit_bytes;
    }
    RS_TRY(reserve(self, room + RS_SYMBOLS_SLACK, err));
    RS_TRY(rs_symbols_decode(table, codes, self->units + self->n_units * self->unit_bytes,
                             self->capacity - self->n_units * self->unit_bytes, &produced, err));
    /* Codes that have changed since they were measured may give more units than there is room for. */
    if (produced / table->unit_bytes > room / self->unit_bytes) {
        return rs_decode_bad_value(err, "symbols changed while they were read");
    }
    join(self, produced / table->unit_bytes, table->unit_bytes);
    return RS_OK;
}

/* Appends codes of UTF-16. Its units are first put so far behind the code points that writing never overtakes reading:
 * `room` is at least the number of the units. */
static rs_status put_pairs(rs_text *self, const rs_symbols *table, rs_slice codes, rs_error *err) {
    uint64_t room = rs_slice_left(&codes) * RS_SYMBOLS_COPY / 2, produced, n;
    RS_TRY(widen(self, 4, err));
    if (room > 8 * RS_TEXT_INLINE) RS_TRY(rs_symbols_length(table, codes, &room, err));
    RS_TRY(reserve(self, 4 * room + RS_SYMBOLS_SLACK, err));
    uint8_t *to = self->units + 4 * self->n_units, *units = to + 2 * room;
    RS_TRY(rs_symbols_decode_units(table, 2, codes, units, 2 * room + RS_SYMBOLS_SLACK, &produced, err));
    /* Codes that have changed since they were measured may give more units. */
    if (produced > 2 * room) return rs_decode_bad_value(err, "symbols changed while they were read");
    RS_TRY(rs_utf16_count(units, produced / 2, &n, err));
    rs_utf16_decode_unchecked(units, n, to);
    self->n_units += n;
    return RS_OK;
}

static rs_status put_digits(rs_text *self, uint64_t number, unsigned width, rs_error *err) {
    uint8_t digits[RS_FMT_DIGITS_MAX];
    return put_units(self, digits, rs_text_digits(number, width, digits), 1, err);
}

/* Appends the text of an alphabet or hex node. */
static rs_status put_letters(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                             rs_error *err) {
    uint64_t n = node->count;
    if (!node->fixed) RS_TRY(rs_decode_letters(cursor, node, &n, &body, err));
    const uint64_t length = rs_alphabet_length(node, n);
    RS_TRY(reserve(self, length * self->unit_bytes, err));
    rs_alphabet_put_unchecked(node, body, n, self->units + self->n_units * self->unit_bytes);
    join(self, length, 1);
    return RS_OK;
}

static rs_status no_text(rs_error *err) { return rs_decode_bad_value(err, "a part of a str is not a str"); }

/* Appends the any value at the cursor, which must be a str. */
static rs_status put_any(rs_text *self, rs_cursor *cursor, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    if (*p < RS_FMT_TAG_STR1 || *p > RS_FMT_TAG_STR4) return no_text(err);
    unsigned unit = 1u << (*p - RS_FMT_TAG_STR1);
    RS_TRY(rs_decode_varint(cursor, &n, err));
    RS_TRY(rs_decode_units(cursor, n, unit, &p, err));
    return put_units(self, p, n, unit, err);
}

/* Appends the parts of a concat. Their number is limited, because parts can be entries of tables that are concats
 * again: empty parts could otherwise take forever. */
static rs_status put_parts(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *head, rs_error *err) {
    uint64_t begins[RS_FMT_CONCAT_CHILDREN + 1];
    self->n_parts += node->n_children; /* at most 64 each, so it stays far below 2^32 */
    if (self->n_parts > RS_FMT_TEXT_PARTS) return RS_FAIL(rs_decode_past_limit(err), RS_E_FMT_LIMIT);
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    rs_slice group = rs_slice_of(head, node->group_bytes);
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        begins[i] = self->n_units;
        if (child->kind == RS_FMT_NODE_SAME) {
            uint64_t from = begins[child->count], n = begins[child->count + 1] - from;
            RS_TRY(reserve(self, n * self->unit_bytes, err));
            memcpy(self->units + self->n_units * self->unit_bytes, self->units + from * self->unit_bytes,
                   (size_t)(n * self->unit_bytes));
            self->n_units += n;
        } else {
            RS_TRY(rs_text_put(self, cursor, child, child->fixed ? head + child->body_off : NULL,
                               rs_decode_bits_unchecked(&group, child->bit_off, child->bits), err));
        }
        /* A few bytes can become a long text through the entries of tables. */
        if (self->n_units > cursor->budget.bytes) return RS_FAIL(rs_decode_past_limit(err), RS_E_FMT_LIMIT);
        begins[i + 1] = self->n_units;
    }
    return RS_OK;
}

/* Appends entry i of a dict-coded node, which must be a str and fill its bytes. */
static rs_status put_entry(rs_text *self, const rs_cursor *outer, const rs_node *node, uint64_t i, rs_error *err) {
    const rs_table *table;
    const uint8_t *body;
    uint64_t bits;
    rs_cursor cursor = *outer;
    RS_TRY(rs_dict_coded_find(node, i, &table, &cursor.in, err));
    cursor.shared = true;
    const rs_node *root = table->tree->nodes;
    RS_TRY(rs_decode_take_alone(&cursor, root, &body, &bits, err));
    RS_TRY(rs_text_put(self, &cursor, root, body, bits, err));
    return cursor.in.ptr == cursor.in.end ? RS_OK : RS_FAIL(rs_decode_trailing(err), RS_E_FMT_TRAILING);
}

rs_status rs_text_put(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                      rs_error *err) {
    uint64_t n;
    unsigned unit;
    rs_slice codes;
    const uint8_t *p;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STR:
        RS_TRY(rs_decode_str_units(cursor, node, &n, &unit, &p, err));
        return put_units(self, p, n, unit, err);
    case RS_FMT_NODE_SYMBOLS:
        RS_TRY(rs_decode_counted(cursor, node, &n, &p, err));
        codes = rs_slice_of(p, (size_t)n);
        if (node->param == RS_FMT_SYMBOLS_PAIRS) return put_pairs(self, node->symbols, codes, err);
        return put_codes(self, node->symbols, codes, err);
    case RS_FMT_NODE_CONCAT: return put_parts(self, cursor, node, body, err);
    case RS_FMT_NODE_DIGITS:
        return put_digits(self, (uint64_t)rs_decode_int_unchecked(node, body, bits), node->count, err);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return put_letters(self, cursor, node, body, err);
    case RS_FMT_NODE_DICT_CODED: return put_entry(self, cursor, node, bits, err);
    case RS_FMT_NODE_ANY: return put_any(self, cursor, err);
    case RS_FMT_NODE_CONST: {
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        return put_any(self, &aux, err);
    }
    case RS_FMT_NODE_OPTIONAL:
        if ((bits & 1) == 0) return no_text(err);
        if (node->children->fixed && body == NULL) {
            RS_TRY(rs_decode_take(cursor, node->children->size_bytes, &body, err));
        }
        return rs_text_put(self, cursor, node->children, body, bits >> 1, err);
    case RS_FMT_NODE_UNION:
        RS_TRY(rs_decode_choose(cursor, &node, &body, &bits, err));
        return rs_text_put(self, cursor, node, body, bits, err);
    case RS_NODES_NUMBER:
    case RS_NODES_LIST:
    case RS_NODES_OTHER:
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
    case RS_FMT_NODE_EXCEPTIONS: break;
    }
    return no_text(err);
}

/* ---- Short texts ---- */

/* Returns the 8 digits of a number below 10^8 as bytes 0 to 9, the first one lowest. Divides by multiplying, several
 * digits of the word at once. */
static inline uint64_t eight_digits(uint32_t number) {
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t high = (fours * 10486 >> 20) & UINT64_C(0x0000007F0000007F);
    uint64_t pairs = high | (fours - 100 * high) << 16;
    high = (pairs * 103 >> 10) & UINT64_C(0x000F000F000F000F);
    return high | (pairs - 10 * high) << 8;
}

/* rs_text_digits for a number below 10^8 and a width of at most 8. */
RS_INLINE unsigned few_digits(uint32_t number, unsigned width, uint8_t *to) {
    uint64_t digits = eight_digits(number);
    unsigned zeros = rs_lowest_bit(digits | UINT64_C(1) << 56) / 8;
    digits += UINT64_C(0x3030303030303030);
    /* A branch, because a predicted length lets the str be allocated before the digits are known. */
    if (RS_LIKELY(zeros >= 8 - width)) {
        rs_store_u64(to, digits >> (64 - 8 * width));
        return width;
    }
    rs_store_u64(to, digits >> 8 * zeros);
    return 8 - zeros;
}

unsigned rs_text_digits(uint64_t number, unsigned width, uint8_t *to) {
    enum { EIGHT = 100000000 };
    if (RS_LIKELY(number < EIGHT && width <= 8)) return few_digits((uint32_t)number, width, to);
    uint64_t high = number / EIGHT;
    unsigned n = width > 8 ? width - 8 : 1;
    n = high < EIGHT && n <= 8 ? few_digits((uint32_t)high, n, to) : rs_text_digits(high, n, to);
    return n + few_digits((uint32_t)(number % EIGHT), 8, to + n);
}

/* Copies the str of an any value with 1-byte units, which must take all `size` bytes. Returns the number of units, or
 * -1. */
static int short_any(const uint8_t *p, size_t size, uint8_t *to, size_t room) {
    size_t n = size - 2;
    if (size < 2 || p[0] != RS_FMT_TAG_STR1 || p[1] != n || n >= 0x80 || n > room) return -1;
    rs_copy_few(to, p + 2, n);
    return (int)n;
}

/* Copies the str of an any value with 1-byte units at the cursor. */
static int short_any_at_cursor(rs_cursor *cursor, uint8_t *out, size_t room) {
    const uint8_t *p = cursor->in.ptr;
    size_t left = rs_slice_left(&cursor->in), n;
    if (left < 2 || p[0] != RS_FMT_TAG_STR1 || (n = p[1]) >= 0x80 || n > left - 2 || n > room) return -1;
    rs_copy_few(out, p + 2, n);
    cursor->in.ptr += 2 + n;
    return (int)n;
}

/* Copies 1-byte units at the cursor. */
static int short_units(rs_cursor *cursor, const rs_node *node, uint8_t *out, size_t room) {
    const uint8_t *p;
    unsigned unit;
    uint64_t n;
    if (rs_decode_str_units(cursor, node, &n, &unit, &p, NULL) != RS_OK || unit != 1 || n > room) return -1;
    rs_copy_few(out, p, (size_t)n);
    return (int)n;
}

/* Decodes symbols to 1-byte units. Returns their number, or -1. */
static int short_codes(const rs_symbols *table, rs_slice codes, uint8_t *out, size_t room) {
    uint64_t n;
    if (table->unit_bytes != 1) return -1;
    return rs_symbols_decode_units(table, 1, codes, out, room, &n, NULL) == RS_OK ? (int)n : -1;
}

static int short_counted(rs_cursor *cursor, const rs_node *node, uint8_t *out, size_t room) {
    const uint8_t *p;
    uint64_t n;
    if (rs_decode_counted(cursor, node, &n, &p, NULL) != RS_OK) return -1;
    return short_codes(node->symbols, rs_slice_of(p, (size_t)n), out, room);
}

static int short_letters(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint8_t *out, size_t room) {
    uint64_t n = node->count;
    if (!node->fixed && rs_decode_letters(cursor, node, &n, &body, NULL) != RS_OK) return -1;
    const uint64_t length = rs_alphabet_length(node, n);
    if (length > room) return -1;
    rs_alphabet_put_unchecked(node, body, n, out);
    return (int)length;
}

static int short_text(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits, uint8_t *out,
                      size_t room, unsigned depth);

/* `cursor` may be NULL if `node` is fixed: the value is then complete at `head`. */
static int short_parts(rs_cursor *cursor, const rs_node *node, const uint8_t *head, uint8_t *out, size_t room,
                       unsigned depth);

/* Copies an entry for which short_entry has no faster way. */
static int short_counted_entry(const rs_node *root, rs_slice entry, uint8_t *out, size_t room, unsigned depth) {
    const uint8_t *body;
    uint64_t bits;
    rs_cursor cursor = {0};
    cursor.in = entry;
    if (rs_decode_take_alone(&cursor, root, &body, &bits, NULL) != RS_OK) return -1;
    int n = short_text(&cursor, root, body, bits, out, room, depth);
    return cursor.in.ptr == cursor.in.end ? n : -1;
}

RS_INLINE int short_entry(const rs_node *node, uint64_t i, uint8_t *out, size_t room, unsigned depth) {
    const rs_table *table;
    rs_slice entry;
    if (i >= node->count || rs_dict_coded_find(node, i, &table, &entry, NULL) != RS_OK) return -1;
    const rs_node *root = table->tree->nodes;
    if (root->kind == RS_FMT_NODE_ANY) return short_any(entry.ptr, rs_slice_left(&entry), out, room);
    if (root->kind == RS_FMT_NODE_STR && root->param == 1 && (root->flags & RS_FMT_FLAG_REST) != 0) {
        size_t size = rs_slice_left(&entry);
        if (size > room) return -1;
        rs_copy_few(out, entry.ptr, size);
        return (int)size;
    }
    if (root->kind == RS_FMT_NODE_SYMBOLS && (root->flags & RS_FMT_FLAG_REST) != 0) {
        return short_codes(root->symbols, entry, out, room);
    }
    if (depth > 1) return -1;
    if (root->kind != RS_FMT_NODE_CONCAT || !root->fixed) return short_counted_entry(root, entry, out, room, depth);
    return rs_slice_left(&entry) == root->size_bytes ? short_parts(NULL, root, entry.ptr, out, room, depth) : -1;
}

/* Copies n bytes with up to 15 more. The source has them, and `to` has RS_TEXT_SLACK. */
RS_INLINE void copy_loosely(uint8_t *to, const uint8_t *from, size_t n) {
    uint8_t a[16];
    for (size_t i = 0; i < n; i += 16) {
        memcpy(a, from + i, 16);
        memcpy(to + i, a, 16);
    }
}

static int short_const(const rs_node *node, uint8_t *out, size_t room) {
    if (node->units > room) return -1;
    copy_loosely(out, node->aux + 2, (size_t)node->units);
    return (int)node->units;
}

static int short_parts(rs_cursor *cursor, const rs_node *node, const uint8_t *head, uint8_t *out, size_t room,
                       unsigned depth) {
    uint16_t begins[RS_FMT_CONCAT_CHILDREN + 1];
    size_t at = 0;
    if (head == NULL && rs_decode_take(cursor, node->head_bytes, &head, NULL) != RS_OK) return -1;
    const uint64_t first = rs_text_first_bits(node, head);
    const rs_node *child = node->children, *end = child + node->n_children;
    for (uint16_t *begin = begins; child < end; child++, begin++) {
        const uint64_t bits = rs_text_part_bits(node, child, head, first);
        const uint8_t *body = child->fixed ? head + child->body_off : NULL;
        int n;
        *begin = (uint16_t)at;
        switch (child->kind) {
        case RS_FMT_NODE_CONST: n = short_const(child, out + at, room - at); break;
        case RS_FMT_NODE_SAME: {
            size_t from = begins[child->count];
            n = (int)(begins[child->count + 1] - from);
            if ((size_t)n > room - at) return -1;
            copy_loosely(out + at, out + from, (size_t)n);
            break;
        }
        case RS_FMT_NODE_DIGITS:
            if (room - at < RS_FMT_DIGITS_MAX) return -1;
            n = (int)rs_text_digits((uint64_t)rs_decode_int_unchecked(child, body, bits), child->count, out + at);
            break;
        case RS_FMT_NODE_DICT_CODED: n = short_entry(child, bits, out + at, room - at, depth + 1); break;
        default: n = short_text(cursor, child, body, bits, out + at, room - at, depth + 1);
        }
        if (n < 0) return -1;
        at += (size_t)n;
        begin[1] = (uint16_t)at;
    }
    return (int)at;
}

/* A concat may have concats as parts or entries of parts, but these may not. A text thus has at most
 * RS_FMT_CONCAT_CHILDREN + RS_FMT_CONCAT_CHILDREN^2 parts, fewer than RS_FMT_TEXT_PARTS, so unlike rs_text_put it need
 * not count them. */
static int short_text(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits, uint8_t *out,
                      size_t room, unsigned depth) {
    if (node->kind == RS_FMT_NODE_UNION && rs_decode_choose(cursor, &node, &body, &bits, NULL) != RS_OK) return -1;
    switch (node->kind) {
    case RS_FMT_NODE_CONST: return short_const(node, out, room);
    case RS_FMT_NODE_DIGITS:
        if (room < RS_FMT_DIGITS_MAX) return -1;
        return (int)rs_text_digits((uint64_t)rs_decode_int_unchecked(node, body, bits), node->count, out);
    case RS_FMT_NODE_DICT_CODED: return short_entry(node, bits, out, room, depth);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return short_letters(cursor, node, body, out, room);
    case RS_FMT_NODE_STR: return short_units(cursor, node, out, room);
    case RS_FMT_NODE_SYMBOLS: return short_counted(cursor, node, out, room);
    case RS_FMT_NODE_ANY: return short_any_at_cursor(cursor, out, room);
    case RS_FMT_NODE_CONCAT: return depth > 1 ? -1 : short_parts(cursor, node, body, out, room, depth);
    default: return -1;
    }
}

int rs_text_short(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                  uint8_t out[RS_TEXT_INLINE + RS_TEXT_SLACK]) {
    if (node->kind == RS_FMT_NODE_CONCAT && node->fixed) return short_parts(NULL, node, body, out, RS_TEXT_INLINE, 0);
    const uint8_t *begin = cursor->in.ptr;
    int n = short_text(cursor, node, body, bits, out, RS_TEXT_INLINE, 0);
    if (n < 0) cursor->in.ptr = begin;
    return n;
}

rs_status rs_text_take(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                       rs_error *err) {
    self->n_units = 0;
    self->unit_bytes = 1;
    self->n_parts = 0;
    RS_TRY(rs_text_put(self, cursor, node, body, bits, err));
    return rs_decode_spend_bytes(cursor, self->n_units, err);
}
