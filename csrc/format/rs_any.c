/* rs_any.c: checks and skips any values (rules 20 to 23 of FORMAT.md). */
#include "format/rs_any.h"

#include "base/rs_unicode.h"

static const uint8_t RS_DTYPE_ITEM_BYTES[RS_FMT_DTYPE_COMPLEX128 + 1] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16};

static rs_status truncated(rs_error *err, const char *part) {
    return rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "the bytes end within %s", part);
}

/* The remaining levels and fields of struct dtypes within one dtype. */
typedef struct dtype_budget {
    uint32_t levels, fields;
} dtype_budget;

static rs_status dtype_take(rs_slice *in, rs_array_type *out, dtype_budget *budget, rs_error *err);

/* Takes one field of a struct dtype with items of item_bytes: name, offset, dtype, shape of the sub-array. */
static rs_status field_take(rs_slice *in, uint64_t item_bytes, dtype_budget *budget, rs_error *err) {
    uint64_t n, off, size, n_points, dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim;
    rs_array_type type;
    const uint8_t *name;
    if (!rs_take_varint(in, &n) || !rs_take(in, n, &name)) return truncated(err, "a field name");
    if (n == 0 || rs_unicode_measure(name, (size_t)n, &n_points) == 0) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a field name is empty or not UTF-8");
    }
    if (!rs_take_varint(in, &off)) return truncated(err, "a field offset");
    RS_TRY(dtype_take(in, &type, budget, err));
    RS_TRY(rs_array_shape_take(in, type.item_bytes, &ndim, dims, &size, err));
    if (off > item_bytes || size > item_bytes - off) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE,
                            "a field of %llu bytes at %llu passes the item of %llu bytes", (unsigned long long)size,
                            (unsigned long long)off, (unsigned long long)item_bytes);
    }
    return RS_OK;
}

static rs_status struct_take(rs_slice *in, rs_array_type *out, dtype_budget *budget, rs_error *err) {
    const uint8_t *aligned;
    uint64_t n;
    if (!rs_take_varint(in, &out->item_bytes) || !rs_take(in, 1, &aligned) || !rs_take_varint(in, &n)) {
        return truncated(err, "a dtype");
    }
    if (out->big_endian) return rs_error_set(err, RS_E_FMT_TAG, RS_NOWHERE, "a struct dtype has no byte order");
    if (out->item_bytes > INT32_MAX || *aligned > 1 || budget->levels == 0 || n > budget->fields) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a struct dtype is out of range: %llu bytes, %llu fields",
                            (unsigned long long)out->item_bytes, (unsigned long long)n);
    }
    budget->levels--;
    budget->fields -= (uint32_t)n;
    for (; n > 0; n--) RS_TRY(field_take(in, out->item_bytes, budget, err));
    budget->levels++;
    return RS_OK;
}

/* Takes code and parameters of a dtype. Does not set flags, width and descriptor. */
static rs_status dtype_take(rs_slice *in, rs_array_type *out, dtype_budget *budget, rs_error *err) {
    const uint8_t *p;
    if (!rs_take(in, 1, &p)) return truncated(err, "a dtype");
    out->big_endian = (*p & RS_FMT_DTYPE_BIG_ENDIAN) != 0;
    out->code = *p & 0x7F;
    out->unit = 0;
    out->multiple = 0;
    if (out->code > RS_FMT_DTYPE_LAST) {
        return rs_error_set(err, RS_E_FMT_VERSION, RS_NOWHERE, "this reader does not know dtype code %u", out->code);
    }
    if (out->code == 0) return rs_error_set(err, RS_E_FMT_TAG, RS_NOWHERE, "dtype code 0 is not valid");
    if (out->code <= RS_FMT_DTYPE_COMPLEX128) {
        out->item_bytes = RS_DTYPE_ITEM_BYTES[out->code];
    } else if (out->code <= RS_FMT_DTYPE_V) {
        if (!rs_take_varint(in, &out->item_bytes)) return truncated(err, "a dtype");
        if (out->item_bytes > INT32_MAX || (out->code == RS_FMT_DTYPE_U && out->item_bytes % 4 != 0)) {
            return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dtype cannot have items of %llu bytes",
                                (unsigned long long)out->item_bytes);
        }
    } else if (out->code == RS_FMT_DTYPE_STRUCT) {
        return struct_take(in, out, budget, err);
    } else if (out->code > RS_FMT_DTYPE_STRUCT) {
        out->item_bytes = out->code == RS_FMT_DTYPE_LONGDOUBLE ? 16 : 32;
    } else {
        if (!rs_take(in, 1, &p) || !rs_take_varint(in, &out->multiple)) return truncated(err, "a dtype");
        out->unit = *p;
        out->item_bytes = 8;
        if (out->unit > RS_FMT_DTYPE_UNIT_LAST || out->unit == RS_FMT_DTYPE_UNIT_GAP || out->multiple == 0 ||
            out->multiple > INT32_MAX) {
            return rs_error_set(err, RS_E_FMT_TAG, RS_NOWHERE, "a datetime cannot have unit %u times %llu", out->unit,
                                (unsigned long long)out->multiple);
        }
    }
    return RS_OK;
}

rs_status rs_array_type_take(rs_slice *in, rs_array_type *out, rs_error *err) {
    dtype_budget budget = {RS_FMT_DTYPE_LEVELS, RS_FMT_DTYPE_FIELDS};
    const uint8_t *p;
    out->descriptor.ptr = in->ptr;
    if (!rs_take(in, 1, &p)) return truncated(err, "a dtype");
    out->flags = *p;
    out->width = out->flags >> RS_FMT_ARRAY_WIDTH_SHIFT;
    RS_TRY(dtype_take(in, out, &budget, err));
    if (out->width != 0 &&
        ((out->flags & RS_FMT_ARRAY_SCALAR) != 0 || out->big_endian || out->code < RS_FMT_DTYPE_INT8 ||
         out->code > RS_FMT_DTYPE_UINT64 || out->width >= 8 * out->item_bytes)) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "array flags 0x%02x are not valid", out->flags);
    }
    out->descriptor.end = in->ptr;
    return RS_OK;
}

rs_status rs_array_shape_take(rs_slice *in, uint64_t item_bytes, uint32_t *ndim, uint64_t dims[RS_FMT_ARRAY_NDIM],
                              uint64_t *data_bytes, rs_error *err) {
    const uint8_t *p;
    uint64_t total = item_bytes, nonzero = item_bytes > 0 ? item_bytes : 1;
    if (!rs_take(in, 1, &p)) return truncated(err, "a shape");
    if (*p > RS_FMT_ARRAY_NDIM) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "an array cannot have %u dimensions", *p);
    }
    *ndim = *p;
    for (uint32_t i = 0; i < *ndim; i++) {
        if (!rs_take_varint(in, &dims[i])) return truncated(err, "a shape");
        /* numpy rejects shapes whose non-zero dimensions overflow, even if a zero makes the product zero. */
        if ((dims[i] != 0 && rs_mul_overflows(nonzero, dims[i], &nonzero)) || nonzero > INT64_MAX) {
            return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "an array shape overflows");
        }
        total *= dims[i];
    }
    *data_bytes = total;
    return RS_OK;
}

rs_status rs_array_data_skip(rs_slice *in, uint64_t data_bytes, uint64_t arrays_size, uint64_t *outside,
                             rs_error *err) {
    const uint8_t *p;
    uint64_t position;
    *outside = RS_NOWHERE;
    if (data_bytes < RS_FMT_ARRAY_INLINE) {
        return rs_take(in, data_bytes, &p) ? RS_OK : truncated(err, "array data");
    }
    if (!rs_take_varint(in, &position)) return truncated(err, "an array position");
    if (rs_mul_overflows(position, RS_FMT_ALIGNMENT, &position) || position > arrays_size ||
        data_bytes > arrays_size - position) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE,
                            "array data of %llu bytes at %llu pass the arrays of %llu bytes",
                            (unsigned long long)data_bytes, (unsigned long long)position,
                            (unsigned long long)arrays_size);
    }
    *outside = position;
    return RS_OK;
}

rs_status rs_array_skip(rs_slice *in, uint64_t arrays_size, rs_array_type *type, rs_slice *shape, uint64_t *data_bytes,
                        uint64_t *outside, rs_error *err) {
    uint64_t dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim = 0;
    RS_TRY(rs_array_type_take(in, type, err));
    shape->ptr = in->ptr;
    *data_bytes = type->item_bytes;
    if ((type->flags & RS_FMT_ARRAY_SCALAR) == 0) {
        RS_TRY(rs_array_shape_take(in, type->item_bytes, &ndim, dims, data_bytes, err));
    }
    shape->end = in->ptr;
    *data_bytes = rs_array_data_bytes(type->flags, type->item_bytes, *data_bytes);
    return rs_array_data_skip(in, *data_bytes, arrays_size, outside, err);
}

/* Counts a container of n elements, each of at least one byte, and one level against the budget. */
static rs_status enter(rs_slice *in, uint64_t n, rs_budget *budget, rs_error *err) {
    if (n > budget->values || budget->depth == 0) {
        return rs_error_set(err, RS_E_FMT_LIMIT, RS_NOWHERE, "a container of %llu elements exceeds the declared limits",
                            (unsigned long long)n);
    }
    if (n > rs_slice_left(in)) return truncated(err, "a container");
    budget->values -= n;
    budget->depth--;
    return RS_OK;
}

static rs_status skip_units(rs_slice *in, uint64_t n, unsigned unit, rs_error *err) {
    const uint8_t *p;
    uint64_t size;
    if (rs_mul_overflows(n, unit, &size) || !rs_take(in, size, &p)) return truncated(err, "a string");
    if (unit == 4) {
        for (uint64_t i = 0; i < n; i++) {
            if (rs_load_u32(p + 4 * i) > 0x10FFFF) {
                return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a code point above 0x10FFFF");
            }
        }
    }
    return RS_OK;
}

/* Takes an EXTRA: None, an int, a str, or a tuple of EXTRAs up to `depth` levels deep. It needs no budget. */
static rs_status skip_extra(rs_slice *in, unsigned depth, rs_error *err) {
    rs_budget none = {0};
    uint64_t n;
    uint8_t tag = in->ptr == in->end ? RS_FMT_TAG_NONE : *in->ptr;
    if (tag == RS_FMT_TAG_TUPLE && depth > 0) {
        in->ptr++;
        if (!rs_take_varint(in, &n) || n > rs_slice_left(in)) return truncated(err, "a tuple");
        for (; n > 0; n--) RS_TRY(skip_extra(in, depth - 1, err));
        return RS_OK;
    }
    if (tag != RS_FMT_TAG_NONE && !rs_tag_is_int64(tag) && tag != RS_FMT_TAG_BIGINT &&
        (tag < RS_FMT_TAG_STR1 || tag > RS_FMT_TAG_STR4)) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE,
                            "the EXTRA of an ext value cannot hold a value of tag 0x%02x", tag);
    }
    return rs_any_skip(in, 0, &none, err);
}

static rs_status skip_container(rs_slice *in, uint64_t per_element, uint64_t arrays_size, rs_budget *budget,
                                rs_error *err) {
    uint64_t n;
    if (!rs_take_varint(in, &n)) return truncated(err, "a count");
    RS_TRY(enter(in, n, budget, err));
    for (uint64_t i = 0; i < n * per_element; i++) {
        if (per_element == 2 && i % 2 == 0) {
            if (!rs_any_may_be_key(*in)) {
                return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dict has a key that cannot be hashed");
            }
        }
        RS_TRY(rs_any_skip(in, arrays_size, budget, err));
    }
    budget->depth++;
    return RS_OK;
}

rs_status rs_any_extra_skip(rs_slice *in, rs_error *err) { return skip_extra(in, RS_FMT_EXTRA_DEPTH, err); }

rs_status rs_any_ext_head(rs_slice *in, rs_slice *head, rs_error *err) {
    const uint8_t *p;
    head->ptr = in->ptr;
    if (!rs_take(in, 1, &p)) return truncated(err, "an ext value");
    if (*p == 0 || *p > RS_FMT_EXT_LAST) {
        return rs_error_set(err, RS_E_FMT_VERSION, RS_NOWHERE, "this reader does not know ext code %u", *p);
    }
    RS_TRY(rs_any_extra_skip(in, err));
    head->end = in->ptr;
    if (in->ptr != in->end && *in->ptr == RS_FMT_TAG_EXT) {
        return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "the payload of an ext value is itself an ext value");
    }
    return RS_OK;
}

/* The ext codes of values without a hash, one bit for each. */
static const uint64_t RS_EXT_NO_KEY = UINT64_C(1) << RS_FMT_EXT_BYTEARRAY | UINT64_C(1) << RS_FMT_EXT_SET |
                                      UINT64_C(1) << RS_FMT_EXT_ORDEREDDICT | UINT64_C(1) << RS_FMT_EXT_COUNTER |
                                      UINT64_C(1) << RS_FMT_EXT_DEFAULTDICT | UINT64_C(1) << RS_FMT_EXT_CHAINMAP |
                                      UINT64_C(1) << RS_FMT_EXT_DEQUE | UINT64_C(1) << RS_FMT_EXT_TENSOR |
                                      UINT64_C(1) << RS_FMT_EXT_STRINGDTYPE | UINT64_C(1) << RS_FMT_EXT_LINE;

bool rs_any_may_be_key(rs_slice value) {
    if (value.ptr == value.end) return true; /* the reader of the value reports that it is truncated */
    uint8_t tag = *value.ptr;
    if (rs_slice_left(&value) < 2) return tag != RS_FMT_TAG_LIST && tag != RS_FMT_TAG_DICT;
    if (tag == RS_FMT_TAG_NDARRAY) return (value.ptr[1] & RS_FMT_ARRAY_SCALAR) != 0;
    if (tag == RS_FMT_TAG_EXT) return value.ptr[1] > RS_FMT_EXT_LAST || (RS_EXT_NO_KEY >> value.ptr[1] & 1) == 0;
    return tag != RS_FMT_TAG_LIST && tag != RS_FMT_TAG_DICT;
}

rs_status rs_any_skip(rs_slice *in, uint64_t arrays_size, rs_budget *budget, rs_error *err) {
    const uint8_t *p;
    uint64_t n, outside;
    rs_array_type type;
    rs_slice shape;
    if (!rs_take(in, 1, &p)) return truncated(err, "a value");
    uint8_t tag = *p;
    if (rs_tag_is_small(tag)) return RS_OK;
    switch (tag) {
    case RS_FMT_TAG_NONE:
    case RS_FMT_TAG_FALSE:
    case RS_FMT_TAG_TRUE: return RS_OK;
    case RS_FMT_TAG_INT8:
    case RS_FMT_TAG_INT16:
    case RS_FMT_TAG_INT32:
    case RS_FMT_TAG_INT64: return rs_take(in, rs_tag_int_size(tag), &p) ? RS_OK : truncated(err, "an int");
    case RS_FMT_TAG_FLOAT: return rs_take(in, 8, &p) ? RS_OK : truncated(err, "a float");
    case RS_FMT_TAG_BIGINT:
    case RS_FMT_TAG_BYTES:
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4:
        if (!rs_take_varint(in, &n)) return truncated(err, "a length");
        return skip_units(in, n, tag == RS_FMT_TAG_STR2 ? 2 : tag == RS_FMT_TAG_STR4 ? 4 : 1, err);
    case RS_FMT_TAG_LIST:
    case RS_FMT_TAG_TUPLE: return skip_container(in, 1, arrays_size, budget, err);
    case RS_FMT_TAG_DICT: return skip_container(in, 2, arrays_size, budget, err);
    case RS_FMT_TAG_NDARRAY:
        RS_TRY(rs_array_skip(in, arrays_size, &type, &shape, &n, &outside, err));
        rs_budget_add_array(budget, outside, n);
        return RS_OK;
    case RS_FMT_TAG_EXT: RS_TRY(rs_any_ext_head(in, &shape, err)); return rs_any_skip(in, arrays_size, budget, err);
    default: return rs_error_set(err, RS_E_FMT_VERSION, RS_NOWHERE, "this reader does not know tag 0x%02x", tag);
    }
}
