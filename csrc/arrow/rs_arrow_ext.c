/* rs_arrow_ext.c: reads payloads of ext values. */
#include "arrow/rs_arrow_ext.h"

/* As rs_path_settle_element, but steps from a const to its any value. */
static rs_status settle(rs_cursor *cursor, rs_place *at, rs_outer *outer, bool *left, rs_error *err) {
    RS_TRY(rs_path_settle_element(cursor, at, outer, left, err));
    if (at->node == NULL || at->node->kind != RS_FMT_NODE_CONST) return RS_OK;
    if (!*left) *outer = rs_decode_outer(cursor);
    *left = true;
    cursor->in = rs_slice_of(at->node->aux, at->node->aux_size_bytes);
    at->node = NULL;
    return RS_OK;
}

/* ---- Ints ---- */

static rs_status take_any_int(rs_cursor *cursor, int64_t *out, bool *fits, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    *fits = true;
    *out = 0;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    uint8_t tag = *p;
    if (rs_tag_is_int64(tag)) {
        const unsigned size = rs_any_int_size(tag) - 1;
        RS_TRY(rs_decode_take(cursor, size, &p, err));
        *out = size == 0 ? rs_tag_small_value(tag) : rs_load_int_unchecked(p, size);
        return RS_OK;
    }
    if (tag != RS_FMT_TAG_BIGINT) return rs_decode_bad_value(err, "the payload of an ext value is not an int");
    *fits = false;
    RS_TRY(rs_decode_varint(cursor, &n, err));
    return rs_decode_take(cursor, n, &p, err);
}

rs_status rs_arrow_take_int(rs_cursor *cursor, const rs_place *place, int64_t *out, bool *fits, rs_error *err) {
    rs_place at = *place;
    rs_outer outer;
    rs_status status;
    bool left;
    *fits = true;
    RS_TRY(settle(cursor, &at, &outer, &left, err));
    if (at.node == NULL) {
        status = take_any_int(cursor, out, fits, err);
    } else if (at.node->kind == RS_FMT_NODE_INT) {
        *out = rs_decode_int_unchecked(at.node, at.body, at.bits);
        status = RS_OK;
    } else {
        status = rs_decode_bad_value(err, "the payload of an ext value is not an int");
    }
    rs_path_return(cursor, &outer, left);
    return status;
}

/* ---- Times ---- */

/* Reads the zone of the any value at the cursor: None, or the ext value of a timezone or zoneinfo. */
static rs_status take_any_zone(rs_cursor *cursor, rs_arrow_moment *out, rs_error *err) {
    const uint8_t *p;
    rs_slice head;
    uint64_t n;
    bool fits;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    out->zone = RS_ARROW_ZONE_NONE;
    if (*p == RS_FMT_TAG_NONE) return RS_OK;
    if (*p != RS_FMT_TAG_EXT) return rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
    RS_TRY(rs_any_ext_head(&cursor->in, &head, err));
    if (*head.ptr == RS_FMT_EXT_TIMEZONE) {
        RS_TRY(rs_decode_take(cursor, 1, &p, err));
        if (*p != RS_FMT_TAG_TUPLE) return rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
        RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
        if (n != 2) return rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
        out->zone = RS_ARROW_ZONE_FIXED;
        RS_TRY(take_any_int(cursor, &out->offset_us, &fits, err));
        if (!fits) return rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
        rs_decode_leave(cursor);
        return rs_path_any_pass(cursor, err); /* the name */
    }
    if (*head.ptr != RS_FMT_EXT_ZONEINFO) {
        return rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
    }
    head.ptr = cursor->in.ptr;
    RS_TRY(rs_path_any_pass(cursor, err));
    n = (uint64_t)(cursor->in.ptr - head.ptr);
    out->zone = RS_ARROW_ZONE_OTHER;
    if (n > 2 && n < 130 && *head.ptr == RS_FMT_TAG_STR1) out->name = rs_slice_of(head.ptr + 2, (size_t)n - 2);
    if (n == 5 && memcmp(head.ptr, "\x09\x03UTC", 5) == 0) { /* the any value "UTC" */
        out->zone = RS_ARROW_ZONE_FIXED;
        out->offset_us = 0;
    }
    return RS_OK;
}

static rs_status take_zone(rs_cursor *cursor, rs_place at, rs_arrow_moment *out, rs_error *err) {
    rs_outer outer;
    rs_status status = RS_OK;
    bool left;
    RS_TRY(settle(cursor, &at, &outer, &left, err));
    if (at.node == NULL) {
        status = take_any_zone(cursor, out, err);
    } else if (at.node->kind == RS_FMT_NODE_EXT) {
        /* The offset is not read here: Python reads such datetimes. */
        if (at.body == NULL) status = rs_path_pass(cursor, at.node, at.bits, err);
        out->zone = RS_ARROW_ZONE_OTHER;
    } else {
        status = rs_decode_bad_value(err, "the zone of a time is not a timezone or zoneinfo");
    }
    rs_path_return(cursor, &outer, left);
    return status;
}

static rs_status take_any_moment(rs_cursor *cursor, rs_arrow_moment *out, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    int64_t fold;
    bool fits;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    if (*p != RS_FMT_TAG_TUPLE) return rs_decode_bad_value(err, "a time that is not a tuple");
    RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
    if (n != 3) return rs_decode_bad_value(err, "a time without three parts");
    RS_TRY(take_any_int(cursor, &out->us, &fits, err));
    if (!fits) return rs_decode_bad_value(err, "a time beyond 64 bits");
    RS_TRY(take_any_int(cursor, &fold, &fits, err));
    RS_TRY(take_any_zone(cursor, out, err));
    rs_decode_leave(cursor);
    return RS_OK;
}

static rs_status take_moment_row(rs_cursor *cursor, const rs_place *at, rs_arrow_moment *out, rs_error *err) {
    const rs_node *node = at->node;
    const uint8_t *head = at->body;
    uint8_t room[RS_CHILDREN_BITS_ROOM];
    rs_place parts[3];
    int64_t fold;
    bool fits;
    if (node->n_children != 3) return rs_decode_bad_value(err, "a time without three parts");
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    rs_slice group = rs_decode_children_bits(node, head, at->bits, room);
    RS_TRY(rs_decode_enter(cursor, 3, err));
    for (uint32_t i = 0; i < 3; i++) {
        const rs_node *child = &node->children[i];
        parts[i].node = child;
        parts[i].body = child->fixed ? head + child->body_off : NULL;
        parts[i].bits = rs_decode_bits_unchecked(&group, child->bit_off, child->bits);
    }
    RS_TRY(rs_arrow_take_int(cursor, &parts[0], &out->us, &fits, err));
    if (!fits) return rs_decode_bad_value(err, "a time beyond 64 bits");
    RS_TRY(rs_arrow_take_int(cursor, &parts[1], &fold, &fits, err));
    RS_TRY(take_zone(cursor, parts[2], out, err));
    rs_decode_leave(cursor);
    return RS_OK;
}

rs_status rs_arrow_take_moment(rs_cursor *cursor, const rs_place *place, rs_arrow_moment *out, rs_error *err) {
    rs_place at = *place;
    rs_outer outer;
    rs_status status;
    bool left;
    out->offset_us = 0;
    out->name = rs_slice_of(NULL, 0);
    RS_TRY(settle(cursor, &at, &outer, &left, err));
    if (at.node == NULL) {
        status = take_any_moment(cursor, out, err);
    } else if (at.node->kind == RS_FMT_NODE_TUPLE) {
        status = take_moment_row(cursor, &at, out, err);
    } else {
        status = rs_decode_bad_value(err, "a time that is not a tuple");
    }
    rs_path_return(cursor, &outer, left);
    return status;
}

/* ---- Decimals ---- */

/* Sets words to words * 10 + digit. */
static void push_digit(uint64_t words[RS_ARROW_DECIMAL_WORDS], unsigned digit) {
    uint64_t carry = digit;
    for (unsigned i = 0; i < RS_ARROW_DECIMAL_WORDS; i++) {
        const uint64_t low = words[i] * 10;
        const uint64_t high = rs_mul_high(words[i], 10);
        words[i] = low + carry;
        carry = high + (words[i] < low);
    }
}

/* Parses the exponent of a Decimal. Beyond a million it is not exact. */
static bool parse_exponent(const uint8_t *p, const uint8_t *end, int64_t *out) {
    const bool negative = p < end && *p == '-';
    int64_t value = 0;
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p == end) return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return false;
        if (value < 1000000) value = value * 10 + (*p - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* Parses the text of a Decimal, as Python's str writes it. */
static bool parse_decimal(const uint8_t *p, const uint8_t *end, rs_arrow_decimal *out) {
    int64_t exponent = 0, scale = 0, n = 0;
    bool after_point = false, has_digits = false;
    memset(out, 0, sizeof *out);
    out->negative = p < end && *p == '-';
    if (out->negative) p++;
    if (p < end && (*p == 'N' || *p == 's' || *p == 'I')) return true; /* NaN, sNaN, Infinity */
    out->finite = true;
    for (; p < end && *p != 'E'; p++) {
        if (*p == '.' && !after_point) {
            after_point = true;
            continue;
        }
        if (*p < '0' || *p > '9') return false;
        has_digits = true;
        if (n > 0 || *p != '0') n++; /* leading zeros do not count */
        scale += after_point;
        if (n <= 77) push_digit(out->words, (unsigned)(*p - '0'));
    }
    if (!has_digits || (p < end && !parse_exponent(p + 1, end, &exponent))) return false;
    for (; exponent > scale && n > 0; exponent--) { /* 1E+3 is 1000 */
        if (n <= 77) push_digit(out->words, 0);
        n++;
        if (n > 100) break;
    }
    scale = exponent > scale ? 0 : scale - exponent;
    out->scale = scale > 1000 ? 1000 : (uint32_t)scale;
    out->digits = n > scale ? (uint32_t)(n - scale > 1000 ? 1000 : n - scale) : 0;
    return true;
}

rs_status rs_arrow_take_decimal(rs_cursor *cursor, const rs_place *place, rs_buffer *scratch, rs_arrow_decimal *out,
                                rs_error *err) {
    rs_place at = *place;
    rs_outer outer;
    bool left, taken = false;
    RS_TRY(settle(cursor, &at, &outer, &left, err));
    scratch->size_bytes = 0;
    rs_status status = rs_utf8_take(scratch, cursor, &at, &taken, err);
    taken = taken && scratch->size_bytes != 0; /* scratch->data may be NULL */
    if (status == RS_OK && !(taken && parse_decimal(scratch->data, scratch->data + scratch->size_bytes, out))) {
        status = rs_decode_bad_value(err, "the payload of a Decimal is not a number");
    }
    rs_path_return(cursor, &outer, left);
    return status;
}

void rs_arrow_store_decimal(const rs_arrow_decimal *self, uint32_t scale, unsigned size_bytes, uint8_t *to) {
    uint64_t words[RS_ARROW_DECIMAL_WORDS], carry = 1;
    memcpy(words, self->words, sizeof words);
    for (uint32_t k = self->scale; k < scale; k++) push_digit(words, 0);
    for (unsigned i = 0; i < size_bytes / 8; i++) {
        if (self->negative) { /* two's complement: all bits inverted, plus 1 */
            words[i] = ~words[i] + carry;
            carry = carry != 0 && words[i] == 0;
        }
        rs_store_u64(to + 8 * i, words[i]);
    }
}

/* ---- Others ---- */

rs_status rs_arrow_take_uuid(rs_cursor *cursor, const rs_place *place, const uint8_t **out, rs_error *err) {
    rs_place at = *place;
    rs_outer outer;
    rs_status status;
    uint64_t n = 0;
    bool left;
    const uint8_t *p;
    RS_TRY(settle(cursor, &at, &outer, &left, err));
    if (at.node != NULL && at.node->kind == RS_FMT_NODE_BYTES) {
        status = rs_decode_bytes(cursor, at.node, &n, out, err);
    } else {
        status = at.node != NULL ? RS_E_FMT_VALUE : rs_decode_take(cursor, 1, &p, err);
        if (at.node != NULL || (status == RS_OK && *p != RS_FMT_TAG_BYTES)) {
            status = rs_decode_bad_value(err, "the payload of a UUID is not bytes");
        }
        if (status == RS_OK) status = rs_decode_varint(cursor, &n, err);
        if (status == RS_OK) status = rs_decode_take(cursor, n, out, err);
    }
    if (status == RS_OK && n != 16) status = rs_decode_bad_value(err, "the payload of a UUID does not have 16 bytes");
    rs_path_return(cursor, &outer, left);
    return status;
}

static rs_status pass_str(rs_slice *in, rs_error *err) {
    if (in->ptr == in->end || *in->ptr < RS_FMT_TAG_STR1 || *in->ptr > RS_FMT_TAG_STR4) {
        return rs_decode_bad_value(err, "the names of an object are not strs");
    }
    return rs_any_extra_skip(in, err);
}

rs_status rs_arrow_names(rs_slice extra, rs_slice *names, uint64_t *n, rs_error *err) {
    uint64_t count;
    names->ptr = names->end = NULL;
    *n = 0;
    if (extra.ptr == extra.end || *extra.ptr++ != RS_FMT_TAG_TUPLE || !rs_take_varint(&extra, &count) || count != 3) {
        return rs_decode_bad_value(err, "an object without a class");
    }
    RS_TRY(pass_str(&extra, err));
    RS_TRY(pass_str(&extra, err));
    if (extra.ptr == extra.end || *extra.ptr++ != RS_FMT_TAG_TUPLE) return RS_OK;
    if (!rs_take_varint(&extra, n)) return rs_decode_bad_value(err, "an object without a class");
    names->ptr = extra.ptr;
    for (uint64_t i = 0; i < *n; i++) RS_TRY(pass_str(&extra, err));
    names->end = extra.ptr;
    return RS_OK;
}
