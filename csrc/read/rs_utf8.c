/* rs_utf8.c: converts units to UTF-8, and UTF-8 to numpy's arrays of text: padded bytes (S) and code points (U). */
#include "read/rs_utf8.h"

#include "read/rs_text.h"

static inline uint8_t *put_code_point(uint8_t *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (uint8_t)c;
    } else if (c < 0x800) {
        *to++ = (uint8_t)(0xC0 | c >> 6);
        *to++ = (uint8_t)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *to++ = (uint8_t)(0xE0 | c >> 12);
        *to++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        *to++ = (uint8_t)(0x80 | (c & 0x3F));
    } else {
        *to++ = (uint8_t)(0xF0 | c >> 18);
        *to++ = (uint8_t)(0x80 | (c >> 12 & 0x3F));
        *to++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        *to++ = (uint8_t)(0x80 | (c & 0x3F));
    }
    return to;
}

/* Writes n units of 4 bytes as UTF-8 and returns the end. At a unit that UTF-8 cannot express, stops and sets *bad. */
static inline uint8_t *put_units(uint8_t *to, const uint8_t *units, uint64_t n, uint32_t *bad) {
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t c = rs_load_u32(units + 4 * i);
        if (RS_UNLIKELY((c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)) {
            *bad = c;
            return to;
        }
        to = put_code_point(to, c);
    }
    return to;
}

/* Writes n units of 1 byte as UTF-8, eight at a time while they are ASCII. `to` has room for 2 bytes per unit. */
static inline uint8_t *put_bytes(uint8_t *to, const uint8_t *units, uint64_t n) {
    const uint8_t *const end = units + n;
    while (units < end) {
        while (end - units >= 8) {
            const uint64_t word = rs_load_u64(units);
            if ((word & UINT64_C(0x8080808080808080)) != 0) break;
            rs_store_u64(to, word);
            units += 8, to += 8;
        }
        if (units < end) to = put_code_point(to, *units++);
    }
    return to;
}

/* Writes n units of 2 bytes as UTF-8. Makes all three forms of each and selects one without a branch, because branches
 * are mispredicted if letters and spaces alternate. `to` has room for 3 bytes per unit and 1 more. */
static inline uint8_t *put_pairs(uint8_t *to, const uint8_t *units, uint64_t n, uint32_t *bad) {
    bool surrogate = false;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t c = rs_load_u16(units + 2 * i);
        const uint32_t last = 0x80 | (c & 0x3F);
        const uint32_t two = 0xC0 | c >> 6 | last << 8;
        const uint32_t three = 0xE0 | c >> 12 | (0x80 | (c >> 6 & 0x3F)) << 8 | last << 16;
        const uint32_t wide = c < 0x800 ? two : three;
        surrogate |= (c & 0xF800) == 0xD800;
        rs_store_u32(to, c < 0x80 ? c : wide);
        to += 1 + (c >= 0x80) + (c >= 0x800);
    }
    if (surrogate) *bad = 0xD800;
    return to;
}

/* Appends units that are not all ASCII, or have more than 1 byte. */
static rs_status append_wide(rs_buffer *out, const uint8_t *units, uint64_t n, unsigned unit_bytes, bool *taken,
                             rs_error *err) {
    const uint64_t per_unit = unit_bytes == 1 ? 2 : unit_bytes == 2 ? 3 : 4; /* the most bytes of UTF-8 per unit */
    uint64_t size;
    uint32_t bad = 0;
    if (rs_mul_overflows(n, per_unit, &size)) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a text that is too long");
    if (size > SIZE_MAX - 8) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a text that is too long");
    RS_TRY(rs_buffer_reserve(out, (size_t)size + 8, err));
    uint8_t *to = out->data + out->size_bytes;
    switch (unit_bytes) {
    case 1: to = put_bytes(to, units, n); break;
    case 2: to = put_pairs(to, units, n, &bad); break;
    default: to = put_units(to, units, n, &bad);
    }
    if (bad > 0x10FFFF) return rs_decode_bad_value(err, "a code point above 0x10FFFF");
    *taken = bad == 0;
    if (*taken) out->size_bytes = (size_t)(to - out->data);
    return RS_OK;
}

rs_status rs_utf8_append(rs_buffer *out, const uint8_t *units, uint64_t n, unsigned unit_bytes, bool *taken,
                         rs_error *err) {
    const size_t before = out->size_bytes;
    *taken = true;
    if (unit_bytes == 1) {
        /* Test the copy, because the record's bytes may change at any time, and readers rely on valid UTF-8. */
        RS_TRY(rs_buffer_append(out, units, (size_t)n, err));
        if (n == 0 || rs_decode_widest_unchecked(out->data + before, n, 1) < 0x80) return RS_OK;
        out->size_bytes = before;
    }
    return append_wide(out, units, n, unit_bytes, taken, err);
}

/* Appends the any value at the cursor if it is a str. */
static rs_status take_any(rs_buffer *out, rs_cursor *cursor, bool *taken, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    *taken = *p >= RS_FMT_TAG_STR1 && *p <= RS_FMT_TAG_STR4;
    if (!*taken) return RS_OK;
    unsigned unit = 1u << (*p - RS_FMT_TAG_STR1);
    RS_TRY(rs_decode_varint(cursor, &n, err));
    RS_TRY(rs_decode_units(cursor, n, unit, &p, err));
    return rs_utf8_append(out, p, n, unit, taken, err);
}

/* Appends a str that is assembled from its parts: a short one of 1-byte units at its final place, any other in an
 * rs_text first. */
static rs_status take_text(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    uint8_t units[RS_TEXT_INLINE];
    rs_text text;
    RS_TRY(rs_buffer_reserve(out, RS_TEXT_INLINE + RS_TEXT_SLACK, err));
    uint8_t *to = out->data + out->size_bytes;
    const int n = rs_text_short(cursor, place->node, place->body, place->bits, to);
    if (RS_LIKELY(n >= 0)) {
        RS_TRY(rs_decode_spend_bytes(cursor, (uint64_t)n, err));
        *taken = true;
        if (RS_LIKELY(rs_decode_widest_unchecked(to, (uint64_t)n, 1) < 0x80)) {
            out->size_bytes += (size_t)n;
            return RS_OK;
        }
        memcpy(units, to, (size_t)n);
        return rs_utf8_append(out, units, (uint64_t)n, 1, taken, err);
    }
    rs_text_begin(&text);
    rs_status status = rs_text_take(&text, cursor, place->node, place->body, place->bits, err);
    if (status == RS_OK) status = rs_utf8_append(out, text.units, text.n_units, text.unit_bytes, taken, err);
    rs_text_clear(&text);
    return status;
}

/* Appends a str of symbols. ASCII is decoded to its final place. The units of other texts are first put into the same
 * buffer, so far after their UTF-8 that writing never overtakes reading: each code gives at most 16 bytes of units, and
 * each unit takes at most one byte more as UTF-8. */
static rs_status take_symbols(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    const rs_symbols *symbols = place->node->symbols;
    const rs_cursor before = *cursor;
    const uint8_t *codes;
    uint64_t n, produced;
    uint32_t bad = 0;
    RS_TRY(rs_decode_counted(cursor, place->node, &n, &codes, err));
    /* The upper bound of a long string would waste memory. */
    if (n > RS_TEXT_INLINE || place->node->param == RS_FMT_SYMBOLS_PAIRS) {
        *cursor = before;
        return take_text(out, cursor, place, taken, err);
    }
    uint64_t room = n * RS_SYMBOLS_COPY + RS_SYMBOLS_SLACK;
    RS_TRY(rs_buffer_reserve(out, (size_t)room * 2, err));
    uint8_t *end = out->data + out->size_bytes;
    uint8_t *units = symbols->unit_bytes == 1 ? end : end + room;
    RS_TRY(rs_symbols_decode(symbols, rs_slice_of(codes, (size_t)n), units, room, &produced, err));
    RS_TRY(rs_decode_spend_bytes(cursor, produced / symbols->unit_bytes, err));
    if (symbols->unit_bytes == 1) {
        if (produced == 0 || rs_decode_widest_unchecked(end, produced, 1) < 0x80) {
            out->size_bytes += (size_t)produced;
            *taken = true;
            return RS_OK;
        }
        units = end + room;
        memcpy(units, end, (size_t)produced); /* at most `room` bytes */
    }
    if (symbols->unit_bytes == 1) end = put_bytes(out->data + out->size_bytes, units, produced);
    else end = put_pairs(out->data + out->size_bytes, units, produced / 2, &bad);
    *taken = bad == 0;
    if (*taken) out->size_bytes = (size_t)(end - out->data);
    return RS_OK;
}

/* Appends the text of an alphabet or hex node, which is ASCII. */
static rs_status take_letters(rs_buffer *out, rs_cursor *cursor, const rs_place *place, rs_error *err) {
    const uint8_t *body = place->body;
    uint64_t n = place->node->count;
    if (!place->node->fixed) RS_TRY(rs_decode_letters(cursor, place->node, &n, &body, err));
    const uint64_t length = rs_alphabet_length(place->node, n);
    RS_TRY(rs_decode_spend_bytes(cursor, length, err));
    RS_TRY(rs_buffer_reserve(out, (size_t)length, err));
    rs_alphabet_put_unchecked(place->node, body, n, out->data + out->size_bytes);
    out->size_bytes += (size_t)length;
    return RS_OK;
}

rs_status rs_utf8_take(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    const rs_node *node = place->node;
    *taken = false;
    if (node == NULL) return take_any(out, cursor, taken, err);
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STR: {
        uint64_t n;
        unsigned unit;
        const uint8_t *units;
        RS_TRY(rs_decode_str(cursor, node, &n, &unit, &units, err));
        return rs_utf8_append(out, units, n, unit, taken, err);
    }
    case RS_FMT_NODE_SYMBOLS: return take_symbols(out, cursor, place, taken, err);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: *taken = true; return take_letters(out, cursor, place, err);
    case RS_FMT_NODE_CONCAT:
    case RS_FMT_NODE_DIGITS: return take_text(out, cursor, place, taken, err);
    case RS_FMT_NODE_CONST: {
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        return take_any(out, &aux, taken, err);
    }
    case RS_NODES_NUMBER:
    case RS_NODES_STEP:
    case RS_NODES_LIST:
    case RS_NODES_OTHER:
    case RS_FMT_NODE_ANY: break;
    }
    return RS_OK;
}

void rs_utf8_pad_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint8_t *out) {
    for (uint64_t i = 0; i < n; i++, out += width) {
        const size_t size = (size_t)(offsets[i + 1] - offsets[i]);
        if (size != 0) memcpy(out, data + offsets[i], size);
        memset(out + size, 0, (size_t)width - size);
    }
}

void rs_utf8_widen_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint32_t *out) {
    uint64_t k;
    for (uint64_t i = 0; i < n; i++, out += width) {
        const uint8_t *p = data + offsets[i], *end = data + offsets[i + 1];
        for (k = 0; p < end; k++) {
            const uint8_t b = *p++;
            uint32_t c = b;
            unsigned more = b < 0xC0 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
            if (more > 0) c = b & (0x3Fu >> more);
            for (; more > 0; more--) c = c << 6 | (*p++ & 0x3Fu);
            out[k] = c;
        }
        memset(out + k, 0, (size_t)(width - k) * 4);
    }
}

uint64_t rs_utf8_longest(const uint8_t *data, const int64_t *offsets, uint64_t n) {
    uint64_t longest = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *p = data + offsets[i], *end = data + offsets[i + 1];
        uint64_t points = 0;
        if ((uint64_t)(end - p) <= longest) continue; /* a string has at most one code point per byte */
        for (; p < end; p++) points += (*p & 0xC0) != 0x80;
        if (points > longest) longest = points;
    }
    return longest;
}
