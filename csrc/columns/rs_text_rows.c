/* rs_text_rows.c: assembles the texts of rows at their final place. Entries of tables are copied from the cache. */
#include "columns/rs_text_rows.h"

#include "read/rs_text.h"

enum { PART_ROOM = 256 }; /* for a const of 127 units, with the bytes that copying may add, or digits */

/* Returns the number of code points of UTF-8 text. They count towards max_bytes as the units of a str do. */
static RS_COLD uint64_t count_points(const uint8_t *p, uint64_t n) {
    uint64_t points = n;
    for (uint64_t i = 0; i < n; i++) points -= (p[i] & 0xC0) == 0x80;
    return points;
}

static rs_status put_letters(rs_buffer *out, const rs_node *node, const uint8_t *body, rs_error *err) {
    const uint64_t length = rs_alphabet_length(node, node->count);
    RS_TRY(rs_buffer_reserve(out, (size_t)length, err));
    rs_alphabet_put_unchecked(node, body, node->count, out->data + out->size_bytes);
    out->size_bytes += (size_t)length;
    return RS_OK;
}

/* Returns whether n bytes are ASCII. At least 8 can be loaded. */
static inline bool is_ascii(const uint8_t *p, uint64_t n) {
    if (n == 0 || n > 8) return n == 0 || rs_decode_widest_unchecked(p, n, 1) < 0x80;
    return (rs_load_u64(p) << (64 - 8 * n) & UINT64_C(0x8080808080808080)) == 0;
}

/* Appends a const of short ASCII. Returns false for another. */
static inline bool put_const(rs_buffer *out, const rs_node *node) {
    const uint8_t *from = node->aux + 2;
    if (node->units > 127 || !is_ascii(from, node->units)) return false;
    for (uint64_t i = 0; i < node->units; i += 16) memcpy(out->data + out->size_bytes + i, from + i, 16);
    out->size_bytes += (size_t)node->units;
    return true;
}

/* Appends part `child` of a text whose parts have ended at `ends`. Sets *wide if it may not be ASCII. */
static inline rs_status put_part(rs_buffer *out, rs_entries *entries, rs_cursor *cursor, const rs_node *child,
                                 const uint8_t *body, uint64_t bits, const size_t *ends, bool *wide, bool *taken,
                                 rs_error *err) {
    const rs_place place = {child, body, bits};
    const rs_entry *entry;
    RS_TRY(rs_buffer_reserve(out, PART_ROOM, err));
    switch (child->kind) {
    case RS_FMT_NODE_CONST:
        if (RS_LIKELY(put_const(out, child))) return RS_OK;
        break;
    case RS_FMT_NODE_DICT_CODED:
        RS_TRY(rs_entries_at(entries, cursor, child, bits, &entry, err));
        *taken = entry->kind == RS_ENTRY_TEXT;
        if (!*taken) return RS_OK;
        *wide |= !is_ascii(entries->text.data + entry->bits, entry->size_bytes);
        return rs_entries_append(entries, entry, out, err);
    case RS_FMT_NODE_DIGITS:
        out->size_bytes += rs_text_digits((uint64_t)rs_decode_int_unchecked(child, body, bits), child->count,
                                          out->data + out->size_bytes);
        return RS_OK;
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return put_letters(out, child, body, err);
    case RS_FMT_NODE_SAME: {
        const size_t size = ends[child->count + 1] - ends[child->count];
        RS_TRY(rs_buffer_reserve(out, size, err));
        memcpy(out->data + out->size_bytes, out->data + ends[child->count], size);
        out->size_bytes += size;
        return RS_OK;
    }
    default: break;
    }
    *wide = true;
    return rs_utf8_take(out, cursor, &place, taken, err);
}

/* Appends the text of a fixed concat with its head at `head`. */
static rs_status put_parts(rs_buffer *out, rs_entries *entries, rs_cursor *cursor, const rs_node *concat,
                           const uint8_t *head, bool *taken, rs_error *err) {
    const uint64_t first = rs_text_first_bits(concat, head);
    const size_t begin = out->size_bytes;
    size_t ends[RS_FMT_CONCAT_CHILDREN + 1];
    const rs_budget budget = cursor->budget;
    bool wide = false;
    ends[0] = begin;
    *taken = true;
    for (uint32_t i = 0; *taken && i < concat->n_children; i++) {
        const rs_node *child = &concat->children[i];
        const uint64_t bits = rs_text_part_bits(concat, child, head, first);
        RS_TRY(put_part(out, entries, cursor, child, head + child->body_off, bits, ends, &wide, taken, err));
        ends[i + 1] = out->size_bytes;
    }
    cursor->budget = budget;
    if (!*taken) {
        const rs_place place = {concat, head, 0};
        out->size_bytes = begin;
        return rs_utf8_take(out, cursor, &place, taken, err);
    }
    const uint64_t n = out->size_bytes - begin;
    return rs_decode_spend_bytes(cursor, wide ? count_points(out->data + begin, n) : n, err);
}

rs_status rs_text_rows_take(rs_buffer *out, rs_buffer *ends, rs_entries *entries, const rs_cursor *cursor,
                            const rs_node *node, const rs_column_rows *rows, uint64_t *n, rs_error *err) {
    const bool parts = node->kind == RS_FMT_NODE_CONCAT, digits = node->kind == RS_FMT_NODE_DIGITS;
    *n = 0;
    if (!node->fixed || (!parts && !digits && node->kind != RS_FMT_NODE_HEX && node->kind != RS_FMT_NODE_ALPHABET))
        return RS_OK;
    RS_TRY(rs_buffer_reserve(ends, (size_t)rows->n * 8, err));
    rs_cursor own = *cursor;
    for (; *n < rows->n; (*n)++) {
        const uint8_t *row = rs_column_row_at(rows, *n), *body = row + rows->body_off;
        const size_t before = out->size_bytes;
        own.budget = cursor->budget;
        if (parts) {
            bool taken;
            RS_TRY(put_parts(out, entries, &own, node, body, &taken, err));
            if (!taken) return RS_OK;
        } else if (digits) {
            const uint64_t bits = rs_load_bits_unchecked(row, rows->least, rows->bit_off, node->bits);
            RS_TRY(rs_buffer_reserve(out, RS_FMT_DIGITS_MAX, err));
            out->size_bytes += rs_text_digits((uint64_t)rs_decode_int_unchecked(node, body, bits), node->count,
                                              out->data + out->size_bytes);
        } else {
            RS_TRY(put_letters(out, node, body, err));
        }
        if (!parts) RS_TRY(rs_decode_spend_bytes(&own, out->size_bytes - before, err));
        rs_store_u64(ends->data + ends->size_bytes, out->size_bytes);
        ends->size_bytes += 8;
    }
    return RS_OK;
}
