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

rs_status rs_arrow_infer_array(rs_arrow_field *field, const rs_array_type *type, uint32_t ndim, rs_error *err) {
    if (rs_arrow_dtype_seen(type) == 0) ndim = 0; /* Python converts the column anyway */
    for (; ndim > 0; ndim--) {
        rs_arrow_add_kind(field, RS_ARROW_SEEN_LIST);
        RS_TRY(rs_arrow_field_element(field, &field, err));
    }
    infer_dtype(field, type);
    return RS_OK;
}

rs_status rs_arrow_next_name(rs_slice *names, rs_arrow_field *field, rs_arrow_field **out, rs_error *err) {
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
    return rs_arrow_field_named(field, p, n, unit, out, err);
}
