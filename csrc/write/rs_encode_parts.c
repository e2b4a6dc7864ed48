/* rs_encode_parts.c: encodes a str under a concat node: cuts it as the template was cut, and writes each part. Encodes
 * a str under an alphabet or hex node too, which is the same as such a part. */
#include "write/rs_encode.h"

#include "format/rs_alphabet.h"
#include "format/rs_utf16.h"
#include "plan/rs_string_template.h"

static rs_status misfit(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a value does not fit the schema tree");
}

/* A str and its cut. */
typedef struct cut_text {
    const uint8_t *units; /* in the value */
    rs_slice narrow;      /* as units of 1 byte; the leaves are stretches of it */
    unsigned unit_bytes;
    uint32_t from; /* the first leaf that the cut sets */
    rs_slice leaves[RS_CUT_LEAVES];
    uint8_t bytes[RS_CUT_UNITS];
} cut_text;

/* Takes the units of a str, from its tag on. Returns false for another value, and when it is too long or too wide. */
static bool take_text(rs_slice value, cut_text *out) {
    if (*value.ptr != RS_FMT_TAG_STR1 && *value.ptr != RS_FMT_TAG_STR2) return false;
    out->unit_bytes = *value.ptr == RS_FMT_TAG_STR1 ? 1 : 2;
    value.ptr++;
    uint64_t n = rs_scan_varint_unchecked(&value);
    if (n > RS_CUT_UNITS) return false;
    out->units = value.ptr;
    if (out->unit_bytes == 2) out->narrow = rs_cut_narrow(rs_slice_of(value.ptr, (size_t)n * 2), out->bytes);
    else out->narrow = rs_slice_of(value.ptr, (size_t)n);
    return true;
}

/* Sets *stored to the number that a digits node stores for a text. Returns false if the text does not fit. */
static bool fit_digits(const rs_node *node, rs_slice text, uint64_t *stored) {
    uint64_t value = 0;
    size_t size = rs_slice_left(&text);
    if (size == 0 || size > 18 || size < node->count) return false;
    if (size > node->count && size > 1 && *text.ptr == '0') return false;
    if (!rs_cut_number(text.ptr, size, &value)) return false;
    *stored = value - node->base;
    return node->param == 64 || *stored >> node->param == 0;
}

/* Writes the numbers of a text that fits an alphabet or hex node to the body at `at`, or if it is not fixed at the end
 * of `out`; if that is NULL, only checks that the text fits. */
static rs_status put_letters(const rs_node *node, rs_slice text, rs_buffer *out, size_t at, rs_error *err) {
    const rs_alphabet *alphabet = (const rs_alphabet *)node->slot;
    uint64_t n;
    if (alphabet == NULL || !rs_alphabet_fits(alphabet, text, &n)) return misfit(err);
    if (out == NULL) return RS_OK;
    if (!node->fixed) {
        if ((node->flags & RS_FMT_FLAG_REST) == 0) RS_TRY(rs_buffer_append_varint(out, n, err));
        at = out->size_bytes;
        RS_TRY(rs_buffer_append_zeros(out, (size_t)rs_alphabet_bytes(alphabet->bits, alphabet->form, n), err));
    }
    rs_alphabet_encode(alphabet, text, n, out->data + at);
    return RS_OK;
}

static rs_status encode_letters(const rs_node *node, rs_slice value, rs_buffer *out, size_t at, rs_error *err) {
    if (*value.ptr != RS_FMT_TAG_STR1) return misfit(err);
    value.ptr++;
    const uint64_t n = rs_scan_varint_unchecked(&value);
    return put_letters(node, rs_slice_of(value.ptr, (size_t)n), out, at, err);
}

static bool fit_entry(const rs_node *node, rs_slice text, uint64_t *number) {
    uint8_t value[RS_CUT_UNITS + 16];
    size_t size = rs_slice_left(&text), used = 1;
    if (node->slot == NULL) return false;
    value[0] = RS_FMT_TAG_STR1;
    used += rs_put_varint(value + 1, size);
    rs_copy_few(value + used, text.ptr, size);
    *number = rs_dictionary_find((const rs_dictionary *)node->slot, rs_slice_of(value, used + size));
    return *number < node->count;
}

static bool is_wide(const cut_text *text, rs_slice part) {
    size_t size = rs_slice_left(&part);
    return text->unit_bytes == 2 && size > 0 && memchr(part.ptr, RS_CUT_WIDE, size) != NULL;
}

/* Appends the codes of n units of 4 bytes, some at a time. */
static rs_status put_pairs(const rs_symbols_encoder *encoder, const uint8_t *points, uint64_t n, rs_buffer *out,
                           rs_error *err) {
    enum { SOME = 512 };
    uint8_t units[4 * SOME];
    for (uint64_t some; n > 0; points += 4 * some, n -= some) {
        some = n < SOME ? n : SOME;
        const uint8_t *end = rs_utf16_encode_unchecked(points, some, units);
        RS_TRY(rs_symbols_encode(encoder, units, (uint64_t)(end - units) / 2, out, err));
    }
    return RS_OK;
}

rs_status rs_encode_symbols(const rs_node *node, const uint8_t *units, uint64_t n, rs_buffer *out, rs_error *err) {
    const rs_symbols_encoder *encoder = ((const rs_symbol_table *)node->slot)->encoder;
    const bool rest = (node->flags & RS_FMT_FLAG_REST) != 0;
    size_t at = out->size_bytes;
    uint8_t length[10];
    /* Most strings have fewer than 128 bytes of codes, so one byte is reserved for the length. */
    if (!rest) RS_TRY(rs_buffer_append_zeros(out, 1, err));
    if (node->param == RS_FMT_SYMBOLS_PAIRS) RS_TRY(put_pairs(encoder, units, n, out, err));
    else RS_TRY(rs_symbols_encode(encoder, units, n, out, err));
    if (rest) return RS_OK;
    size_t size = out->size_bytes - at - 1;
    unsigned used = rs_put_varint(length, size);
    if (used > 1) {
        RS_TRY(rs_buffer_append_zeros(out, used - 1, err));
        memmove(out->data + at + used, out->data + at + 1, size);
    }
    memcpy(out->data + at, length, used);
    return RS_OK;
}

/* Appends a part as a str or symbols. */
static rs_status put_text(const rs_node *child, const cut_text *text, rs_slice part, rs_buffer *out, rs_error *err) {
    const rs_symbol_table *table = (const rs_symbol_table *)child->slot;
    bool rest = (child->flags & RS_FMT_FLAG_REST) != 0;
    size_t n = rs_slice_left(&part);
    const uint8_t *units = text->units + (size_t)(part.ptr - text->narrow.ptr) * text->unit_bytes;
    if (child->kind == RS_FMT_NODE_SYMBOLS) {
        if (table == NULL || table->encoder == NULL || table->unit_bytes != text->unit_bytes) return misfit(err);
        return out == NULL ? RS_OK : rs_encode_symbols(child, units, n, out, err);
    }
    if (child->param != text->unit_bytes) return misfit(err);
    if (out == NULL) return RS_OK;
    if (!rest) RS_TRY(rs_buffer_append_varint(out, n, err));
    return rs_buffer_append(out, units, n * text->unit_bytes, err);
}

/* Checks that a part fits its node, and sets *bits. With `out` it writes the body too; the zeroed head is at `at`. */
static rs_status put_part(const rs_node *child, const cut_text *text, rs_slice part, rs_buffer *out, size_t at,
                          uint64_t *bits, rs_error *err) {
    uint64_t stored = 0;
    *bits = 0;
    switch (child->kind) {
    case RS_FMT_NODE_SAME: return RS_OK;
    case RS_FMT_NODE_DIGITS:
        if (!fit_digits(child, part, &stored)) return misfit(err);
        if (child->bits != 0) *bits = stored;
        if (out != NULL && child->size_bytes != 0) {
            memcpy(out->data + at + child->body_off, &stored, (size_t)child->size_bytes);
        }
        return RS_OK;
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return put_letters(child, part, out, at + child->body_off, err);
    case RS_FMT_NODE_DICT_CODED: return !is_wide(text, part) && fit_entry(child, part, bits) ? RS_OK : misfit(err);
    case RS_FMT_NODE_STR:
    case RS_FMT_NODE_SYMBOLS: return put_text(child, text, part, out, err);
    default: return misfit(err); /* a writer makes no other parts */
    }
}

rs_status rs_encode_parts(const rs_node *node, rs_slice value, rs_buffer *out, size_t at, rs_error *err) {
    const rs_template_cut *cut = (const rs_template_cut *)node->slot;
    rs_slice parts[RS_FMT_CONCAT_CHILDREN];
    cut_text text;
    if (node->kind != RS_FMT_NODE_CONCAT) return encode_letters(node, value, out, at, err);
    if (cut == NULL || !take_text(value, &text) || text.unit_bytes != cut->unit_bytes) return misfit(err);
    if (!rs_cut_run(&cut->cut, text.narrow, text.leaves, &text.from)) return misfit(err);
    for (uint32_t k = text.from; k < cut->cut.n_leaves; k++) {
        rs_slice part = rs_cut_load(&text.leaves[k]);
        uint32_t number = cut->parts[k], begin = k == 0 ? 0 : cut->ends[k - 1];
        uint64_t bits;
        if (number == RS_TEMPLATE_NO_PART) {
            if (!rs_slice_equal(part, rs_slice_of(cut->texts + begin, cut->ends[k] - begin))) return misfit(err);
            continue;
        }
        const rs_node *child = &node->children[number];
        parts[number].ptr = part.ptr;
        parts[number].end = part.end;
        if (child->kind == RS_FMT_NODE_SAME &&
            (!rs_slice_equal(part, rs_cut_load(&parts[child->count])) || is_wide(&text, part))) {
            return misfit(err);
        }
        RS_TRY(put_part(child, &text, part, out, at, &bits, err));
        if (out != NULL && child->bits != 0) rs_encode_bits(out, at, child->bit_off, child->bits, bits);
    }
    return RS_OK;
}
