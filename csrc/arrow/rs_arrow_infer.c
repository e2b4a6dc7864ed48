/* rs_arrow_infer.c: collects the kinds of the values of fields. */
#include "arrow/rs_arrow_infer.h"

/* ---- Leaves of trees ---- */

static void infer_int_node(rs_arrow_field *field, const rs_node *node) {
    const unsigned width = node->size_bytes != 0 ? 8 * (unsigned)node->size_bytes : node->bits;
    const int64_t base = (int64_t)node->base;
    if (width >= 63 || base > INT64_MAX - (int64_t)((UINT64_C(1) << width) - 1)) {
        rs_arrow_add_ints(field, INT64_MIN, INT64_MAX); /* the sum may wrap */
    } else {
        rs_arrow_add_ints(field, base, base + (int64_t)((UINT64_C(1) << width) - 1));
    }
}

bool rs_arrow_infer_leaf(rs_arrow_field *field, const rs_node *node) {
    switch (node->kind) {
    case RS_FMT_NODE_INT: infer_int_node(field, node); return true;
    case RS_FMT_NODE_FLOAT:
    case RS_FMT_NODE_DECIMAL: rs_arrow_add_kind(field, RS_ARROW_SEEN_FLOAT); return true;
    case RS_FMT_NODE_BOOL: rs_arrow_add_kind(field, RS_ARROW_SEEN_BOOL); return true;
    case RS_FMT_NODE_STR:
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_CONCAT:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: rs_arrow_add_kind(field, RS_ARROW_SEEN_TEXT); return true;
    case RS_FMT_NODE_BYTES: rs_arrow_add_kind(field, RS_ARROW_SEEN_BYTES); return true;
    default: return false;
    }
}

/* ---- Arrays ---- */

uint32_t rs_arrow_dtype_seen(const rs_array_type *type) {
    static const uint32_t seen[] = {
        0,
        RS_ARROW_SEEN_BOOL,
        RS_ARROW_SEEN_INT8,
        RS_ARROW_SEEN_INT16,
        RS_ARROW_SEEN_INT32,
        RS_ARROW_SEEN_INT,
        RS_ARROW_SEEN_UINT8,
        RS_ARROW_SEEN_UINT16,
        RS_ARROW_SEEN_UINT32,
        RS_ARROW_SEEN_UINT,
        RS_ARROW_SEEN_FLOAT16,
        RS_ARROW_SEEN_FLOAT32,
        RS_ARROW_SEEN_FLOAT,
    };
    const bool is_arrow_unit = type->unit >= 7 && type->unit <= 10; /* s, ms, us, ns */
    if (type->code < sizeof seen / sizeof *seen) return seen[type->code];
    if (type->multiple != 1) return 0;
    if (type->code == RS_FMT_DTYPE_DATETIME && (is_arrow_unit || type->unit == 4)) return RS_ARROW_SEEN_DATETIME64;
    if (type->code == RS_FMT_DTYPE_TIMEDELTA && is_arrow_unit) return RS_ARROW_SEEN_TIMEDELTA64;
    return 0;
}

static void infer_dtype(rs_arrow_field *field, const rs_array_type *type) {
    const uint32_t seen = rs_arrow_dtype_seen(type);
    if (seen == 0) {
        rs_arrow_add_other(field, 0);
        return;
    }
    if (seen == RS_ARROW_SEEN_INT) rs_arrow_add_ints(field, INT64_MIN, INT64_MAX);
    rs_arrow_add_kind(field, seen);
    if ((seen & (RS_ARROW_SEEN_DATETIME64 | RS_ARROW_SEEN_TIMEDELTA64)) == 0) return;
    uint8_t unit = type->unit == 4 ? 'D' : (uint8_t)"smun"[type->unit - 7];
    field->unit = field->unit == 0 || field->unit == unit ? unit : 1;
}

rs_status rs_arrow_infer_array(rs_arrow_field *field, const rs_array_type *type, uint32_t ndim, uint32_t *n_fields,
                               rs_error *err) {
    if (rs_arrow_dtype_seen(type) == 0) ndim = 0; /* Python converts the column anyway */
    for (; ndim > 0; ndim--) {
        rs_arrow_add_kind(field, RS_ARROW_SEEN_LIST);
        RS_TRY(rs_arrow_field_element(field, n_fields, &field, err));
    }
    infer_dtype(field, type);
    return RS_OK;
}

/* ---- Ext values ---- */

void rs_arrow_infer_moment(rs_arrow_field *field, const rs_arrow_moment *moment) {
    const int64_t minute = 60000000;
    int32_t minutes = 0;
    char name[RS_ARROW_ZONE_BYTES] = "";
    if (moment->zone == RS_ARROW_ZONE_OTHER && field->utc && moment->name.ptr != NULL) {
        const size_t size = rs_slice_left(&moment->name);
        if (size < sizeof name) memcpy(name, moment->name.ptr, size);
    } else if (moment->zone == RS_ARROW_ZONE_OTHER) {
        rs_arrow_add_other(field, RS_FMT_EXT_ZONEINFO);
        return;
    }
    if (moment->zone == RS_ARROW_ZONE_NONE) {
        rs_arrow_add_kind(field, RS_ARROW_SEEN_NAIVE);
        return;
    }
    if (moment->offset_us % minute == 0 && moment->offset_us / minute > -1440 && moment->offset_us / minute < 1440) {
        minutes = (int32_t)(moment->offset_us / minute);
    }
    rs_arrow_add_zone(field, minutes, name);
    rs_arrow_add_kind(field, RS_ARROW_SEEN_AWARE);
}

void rs_arrow_infer_decimal(rs_arrow_field *field, const rs_arrow_decimal *decimal) {
    if (!decimal->finite) {
        rs_arrow_add_other(field, RS_FMT_EXT_DECIMAL);
        return;
    }
    if (decimal->digits > field->digits) field->digits = decimal->digits;
    if (decimal->scale > field->scale) field->scale = decimal->scale;
    rs_arrow_add_kind(field, RS_ARROW_SEEN_DECIMAL);
}

rs_status rs_arrow_next_name(rs_slice *names, rs_arrow_field *field, uint32_t *n_fields, rs_arrow_field **out,
                             rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    if (!rs_take(names, 1, &p) || *p < RS_FMT_TAG_STR1 || *p > RS_FMT_TAG_STR4) {
        return rs_decode_bad_value(err, "a field name that is not a str");
    }
    unsigned unit = 1u << (*p - RS_FMT_TAG_STR1);
    if (!rs_take_varint(names, &n) || n > rs_slice_left(names) / unit) {
        return rs_decode_bad_value(err, "a field name that is cut short");
    }
    p = names->ptr;
    names->ptr += n * unit;
    return rs_arrow_field_named(field, p, n, unit, n_fields, out, err);
}

/* Adds the kinds of an object's fields. Their values are the elements of the any tuple at the cursor. */
static rs_status infer_object(rs_arrow_field *field, rs_cursor *cursor, rs_slice names, uint64_t n, uint32_t *n_fields,
                              rs_error *err) {
    const uint8_t *p;
    uint64_t count;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    if (*p != RS_FMT_TAG_TUPLE) return rs_decode_bad_value(err, "an object whose values are not a tuple");
    RS_TRY(rs_path_any_enter(cursor, 1, &count, err));
    if (count != n) return rs_decode_bad_value(err, "an object with more or fewer values than fields");
    rs_arrow_add_kind(field, RS_ARROW_SEEN_STRUCT);
    for (uint64_t i = 0; i < n; i++) {
        rs_arrow_field *child;
        RS_TRY(rs_arrow_next_name(&names, field, n_fields, &child, err));
        if (child == NULL) RS_TRY(rs_path_any_pass(cursor, err));
        else RS_TRY(rs_arrow_infer_any(child, cursor, n_fields, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

static rs_status infer_decimal_text(rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    const rs_place place = {NULL, NULL, 0};
    rs_buffer scratch = {0};
    rs_arrow_decimal decimal;
    rs_status status = rs_arrow_take_decimal(cursor, &place, &scratch, &decimal, err);
    rs_buffer_clear(&scratch);
    if (status == RS_OK) rs_arrow_infer_decimal(field, &decimal);
    return status;
}

static rs_status infer_ext(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err) {
    const rs_place place = {NULL, NULL, 0};
    rs_arrow_moment moment;
    rs_slice head, names;
    uint64_t n;
    int64_t us;
    bool fits;
    RS_TRY(rs_any_ext_head(&cursor->in, &head, err));
    switch (*head.ptr++) {
    case RS_FMT_EXT_ORDEREDDICT:
    case RS_FMT_EXT_COUNTER:
    case RS_FMT_EXT_DEFAULTDICT:
    case RS_FMT_EXT_SET:
    case RS_FMT_EXT_DEQUE:
    case RS_FMT_EXT_BYTEARRAY:
    case RS_FMT_EXT_PATH: return rs_arrow_infer_any(field, cursor, n_fields, err);
    case RS_FMT_EXT_TENSOR:
        if (*head.ptr == RS_FMT_TAG_NONE) return rs_arrow_infer_any(field, cursor, n_fields, err);
        break;
    case RS_FMT_EXT_NAMEDTUPLE:
    case RS_FMT_EXT_DATACLASS:
    case RS_FMT_EXT_ATTRS:
    case RS_FMT_EXT_OBJECT:
        RS_TRY(rs_arrow_names(head, &names, &n, err));
        if (names.ptr != NULL) return infer_object(field, cursor, names, n, n_fields, err);
        break;
    case RS_FMT_EXT_DATE: rs_arrow_add_kind(field, RS_ARROW_SEEN_DATE); return rs_path_any_pass(cursor, err);
    case RS_FMT_EXT_TIME: rs_arrow_add_kind(field, RS_ARROW_SEEN_TIME); return rs_path_any_pass(cursor, err);
    case RS_FMT_EXT_UUID: rs_arrow_add_kind(field, RS_ARROW_SEEN_UUID); return rs_path_any_pass(cursor, err);
    case RS_FMT_EXT_DATETIME:
        RS_TRY(rs_arrow_take_moment(cursor, &place, &moment, err));
        rs_arrow_infer_moment(field, &moment);
        return RS_OK;
    case RS_FMT_EXT_TIMEDELTA:
        RS_TRY(rs_arrow_take_int(cursor, &place, &us, &fits, err));
        rs_arrow_add_kind(field, fits ? RS_ARROW_SEEN_DURATION : RS_ARROW_SEEN_BIGINT);
        return RS_OK;
    case RS_FMT_EXT_DECIMAL: return infer_decimal_text(field, cursor, err);
    default: break;
    }
    rs_arrow_add_other(field, head.ptr[-1]);
    return rs_path_any_pass(cursor, err);
}

/* ---- any values ---- */

static rs_status infer_any_array(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err) {
    rs_array_type type;
    rs_slice shape;
    uint64_t data_bytes, outside;
    RS_TRY(rs_array_skip(&cursor->in, cursor->arrays_size, &type, &shape, &data_bytes, &outside, err));
    return rs_arrow_infer_array(field, &type, shape.ptr == shape.end ? 0 : *shape.ptr, n_fields, err);
}

static rs_status infer_any_dict(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err) {
    uint64_t n;
    RS_TRY(rs_path_any_enter(cursor, 2, &n, err));
    rs_arrow_add_kind(field, RS_ARROW_SEEN_STRUCT);
    for (uint64_t i = 0; i < n; i++) {
        rs_arrow_field *child = NULL;
        bool is_name;
        RS_TRY(rs_arrow_field_of_key(field, cursor, n_fields, &is_name, &child, err));
        if (!is_name && !field->closed) rs_arrow_add_kind(field, RS_ARROW_SEEN_ODD_KEY);
        if (child == NULL) RS_TRY(rs_path_any_pass(cursor, err));
        else RS_TRY(rs_arrow_infer_any(child, cursor, n_fields, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

static rs_status infer_any_sequence(rs_arrow_field *field, rs_cursor *cursor, bool is_tuple, uint32_t *n_fields,
                                    rs_error *err) {
    bool has_items = false;
    uint64_t n;
    RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
    if (is_tuple) has_items = rs_arrow_add_tuple(field, n);
    else rs_arrow_add_kind(field, RS_ARROW_SEEN_LIST);
    for (uint64_t i = 0; i < n; i++) {
        rs_arrow_field *child;
        if (has_items) {
            RS_TRY(rs_arrow_field_item(field, (uint32_t)i, n_fields, &child, err));
        } else {
            RS_TRY(rs_arrow_field_element(field, n_fields, &child, err));
        }
        if (child == NULL) RS_TRY(rs_path_any_pass(cursor, err));
        else RS_TRY(rs_arrow_infer_any(child, cursor, n_fields, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

/* Adds the kind of an int that does not fit in 64 signed bits: UINT if it fits in 64 unsigned bits, else BIGINT. */
static rs_status infer_any_bigint(rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    RS_TRY(rs_decode_varint(cursor, &n, err));
    RS_TRY(rs_decode_take(cursor, n, &p, err));
    rs_arrow_add_kind(field, n == 9 && p[8] == 0 ? RS_ARROW_SEEN_UINT : RS_ARROW_SEEN_BIGINT);
    return RS_OK;
}

rs_status rs_arrow_infer_any(rs_arrow_field *field, rs_cursor *cursor, uint32_t *n_fields, rs_error *err) {
    const uint8_t *p;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    uint8_t tag = *p;
    if (rs_tag_is_int64(tag)) {
        const unsigned size = rs_any_int_size(tag) - 1;
        RS_TRY(rs_decode_take(cursor, size, &p, err));
        int64_t value = size == 0 ? rs_tag_small_value(tag) : rs_load_int_unchecked(p, size);
        rs_arrow_add_ints(field, value, value);
        return RS_OK;
    }
    switch (tag) {
    case RS_FMT_TAG_DICT: return infer_any_dict(field, cursor, n_fields, err);
    case RS_FMT_TAG_LIST:
    case RS_FMT_TAG_TUPLE: return infer_any_sequence(field, cursor, tag == RS_FMT_TAG_TUPLE, n_fields, err);
    case RS_FMT_TAG_NDARRAY: return infer_any_array(field, cursor, n_fields, err);
    case RS_FMT_TAG_EXT: return infer_ext(field, cursor, n_fields, err);
    case RS_FMT_TAG_BIGINT: return infer_any_bigint(field, cursor, err);
    case RS_FMT_TAG_NONE: rs_arrow_add_kind(field, RS_ARROW_SEEN_NULL); return RS_OK;
    case RS_FMT_TAG_FALSE:
    case RS_FMT_TAG_TRUE: rs_arrow_add_kind(field, RS_ARROW_SEEN_BOOL); return RS_OK;
    case RS_FMT_TAG_FLOAT: rs_arrow_add_kind(field, RS_ARROW_SEEN_FLOAT); break;
    case RS_FMT_TAG_BYTES: rs_arrow_add_kind(field, RS_ARROW_SEEN_BYTES); break;
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4: rs_arrow_add_kind(field, RS_ARROW_SEEN_TEXT); break;
    default: break; /* rs_path_any_pass reports the tag */
    }
    cursor->in.ptr = p;
    return rs_path_any_pass(cursor, err);
}
