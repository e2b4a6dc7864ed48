/* rs_arrow_walk_any.c: any values, ext values and arrays. */
#include "arrow/rs_arrow_walk_any.h"

#include "format/rs_narrow.h"

enum { MAX_LISTS = 1 << 26 }; /* of a multidimensional array */

static bool appends(const rs_arrow_walk *self) { return self->mode == RS_ARROW_PUT; }

/* ---- Ext values that are scalars ---- */

/* Adds the kind of a datetime, which depends on its time zone. */
static void infer_moment(rs_arrow_field *field, const rs_arrow_moment *moment) {
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

static void infer_decimal(rs_arrow_field *field, const rs_arrow_decimal *decimal) {
    if (!decimal->finite) {
        rs_arrow_add_other(field, RS_FMT_EXT_DECIMAL);
        return;
    }
    if (decimal->digits > field->digits) field->digits = decimal->digits;
    if (decimal->scale > field->scale) field->scale = decimal->scale;
    rs_arrow_add_kind(field, RS_ARROW_SEEN_DECIMAL);
}

static rs_status put_fixed(rs_arrow_field *field, uint32_t seen, const uint8_t *bytes, size_t n, rs_error *err) {
    if ((field->seen & seen) == 0) return rs_arrow_misfit(field, err);
    RS_TRY(rs_buffer_append(&field->bytes, bytes, n, err));
    return rs_arrow_grown(field, 1, err);
}

static rs_status put_moment(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, const rs_place *payload,
                            bool is_time, rs_error *err) {
    const int64_t epoch = (RS_FMT_EPOCH_ORDINAL - 1) * 86400 * 1000000;
    rs_arrow_moment moment;
    RS_TRY(rs_arrow_take_moment(cursor, payload, &moment, err));
    if (!appends(self) && is_time) rs_arrow_add_kind(field, RS_ARROW_SEEN_TIME);
    if (!appends(self) && !is_time) infer_moment(field, &moment);
    if (!appends(self)) return RS_OK;
    if (is_time) {
        return rs_arrow_append_number(field, RS_ARROW_SEEN_TIME, RS_COLUMN_INT, (uint64_t)moment.us, err);
    }
    if (moment.zone == RS_ARROW_ZONE_OTHER && !field->utc) return rs_arrow_misfit(field, err);
    uint32_t seen = moment.zone == RS_ARROW_ZONE_NONE ? RS_ARROW_SEEN_NAIVE : RS_ARROW_SEEN_AWARE;
    return rs_arrow_append_number(field, seen, RS_COLUMN_INT,
                                  (uint64_t)moment.us - (uint64_t)moment.offset_us - (uint64_t)epoch, err);
}

static rs_status put_decimal(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, const rs_place *payload,
                             rs_error *err) {
    rs_arrow_decimal decimal;
    uint8_t bytes[8 * RS_ARROW_DECIMAL_WORDS];
    RS_TRY(rs_arrow_take_decimal(cursor, payload, &self->scratch, &decimal, err));
    if (!appends(self)) {
        infer_decimal(field, &decimal);
        return RS_OK;
    }
    if (field->kind != RS_ARROW_KIND_DECIMAL || !decimal.finite || decimal.digits > field->digits ||
        decimal.scale > field->scale) {
        return rs_arrow_misfit(field, err);
    }
    rs_arrow_store_decimal(&decimal, field->scale, field->wide, bytes);
    return put_fixed(field, RS_ARROW_SEEN_DECIMAL, bytes, field->wide, err);
}

static rs_status put_int(rs_arrow_walk *self, rs_arrow_field *field, uint32_t seen, rs_cursor *cursor,
                         const rs_place *payload, int64_t epoch, rs_error *err) {
    int64_t value;
    bool fits;
    RS_TRY(rs_arrow_take_int(cursor, payload, &value, &fits, err));
    if (!appends(self)) {
        rs_arrow_add_kind(field, fits ? seen : RS_ARROW_SEEN_BIGINT);
        return RS_OK;
    }
    if (!fits) return rs_arrow_misfit(field, err);
    return rs_arrow_append_number(field, seen, RS_COLUMN_INT, (uint64_t)value - (uint64_t)epoch, err);
}

static rs_status put_uuid(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, const rs_place *payload,
                          rs_error *err) {
    const uint8_t *bytes;
    RS_TRY(rs_arrow_take_uuid(cursor, payload, &bytes, err));
    if (appends(self)) return put_fixed(field, RS_ARROW_SEEN_UUID, bytes, 16, err);
    rs_arrow_add_kind(field, RS_ARROW_SEEN_UUID);
    return RS_OK;
}

rs_status rs_arrow_put_ext(rs_arrow_walk *self, rs_arrow_field *field, unsigned code, rs_cursor *cursor,
                           const rs_place *payload, bool *taken, rs_error *err) {
    *taken = true;
    switch (code) {
    case RS_FMT_EXT_DATE: return put_int(self, field, RS_ARROW_SEEN_DATE, cursor, payload, RS_FMT_EPOCH_ORDINAL, err);
    case RS_FMT_EXT_TIMEDELTA: return put_int(self, field, RS_ARROW_SEEN_DURATION, cursor, payload, 0, err);
    case RS_FMT_EXT_TIME: return put_moment(self, field, cursor, payload, true, err);
    case RS_FMT_EXT_DATETIME: return put_moment(self, field, cursor, payload, false, err);
    case RS_FMT_EXT_DECIMAL: return put_decimal(self, field, cursor, payload, err);
    case RS_FMT_EXT_UUID: return put_uuid(self, field, cursor, payload, err);
    default: *taken = false; return RS_OK;
    }
}

/* ---- Arrays ---- */

/* Appends the elements of an array from dimension `at` on; they begin at `data`. `strides` are in bytes. */
static rs_status put_dimension(rs_arrow_field *field, const rs_array_type *type, uint32_t at, uint32_t ndim,
                               const uint64_t *dims, const uint64_t *strides, const uint8_t *data, rs_error *err) {
    if (at == ndim) return rs_arrow_append_items(field, type, data, 1, err);
    if (field->layout != RS_ARROW_LAYOUT_LIST) return rs_arrow_misfit(field, err);
    if (at + 1 == ndim && strides[at] == type->item_bytes) {
        RS_TRY(rs_arrow_append_items(field->element, type, data, dims[at], err));
    } else {
        for (uint64_t i = 0; i < dims[at]; i++) {
            RS_TRY(put_dimension(field->element, type, at + 1, ndim, dims, strides, data + i * strides[at], err));
        }
    }
    return rs_arrow_end_value(field, field->element->n, err);
}

/* Writes the n items of a narrow array to scratch, and points *data there. They have fewer than 2^63 bytes. */
static rs_status widen(rs_arrow_walk *self, const rs_array_type *type, uint64_t n, const uint8_t **data,
                       rs_error *err) {
    const unsigned size = (unsigned)type->item_bytes;
    if (n == 0) return RS_OK;
    self->scratch.size_bytes = 0;
    RS_TRY(rs_buffer_reserve(&self->scratch, (size_t)(n * size), err));
    rs_narrow_read(*data, type->width, size, n, 0, n, self->scratch.data);
    *data = self->scratch.data;
    return RS_OK;
}

rs_status rs_arrow_put_array(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, const rs_node *node,
                             const uint8_t *body, rs_error *err) {
    uint64_t strides[RS_FMT_ARRAY_NDIM], stride, lists = 1;
    rs_run_shape shape;
    rs_array_type type;
    rs_slice data;
    RS_TRY(rs_run_array(cursor, node, body, &type, &shape, &data, err));
    if (!appends(self)) return rs_arrow_infer_array(field, &type, shape.ndim, err);
    if (type.width != 0) RS_TRY(widen(self, &type, shape.n, &data.ptr, err));
    stride = type.item_bytes;
    for (uint32_t i = 0; i < shape.ndim; i++) {
        const uint32_t at = shape.fortran ? i : shape.ndim - 1 - i;
        strides[at] = stride;
        stride *= shape.dims[at]; /* this may wrap for an array without elements, whose strides are not used */
        /* Empty lists take no data, so their number has its own limit. */
        if (i + 1 < shape.ndim && (rs_mul_overflows(lists, shape.dims[i] + 1, &lists) || lists > MAX_LISTS)) {
            return RS_FAIL(rs_decode_past_limit(err), RS_E_FMT_LIMIT);
        }
    }
    return put_dimension(field, &type, 0, shape.ndim, shape.dims, strides, data.ptr, err);
}

/* ---- Any values ---- */

/* Takes the any value of one field of a struct, or skips it if the field is not exported. */
static rs_status put_child(rs_arrow_walk *self, const rs_arrow_field *field, rs_arrow_field *child, rs_cursor *cursor,
                           rs_error *err) {
    if (child == NULL) {
        return field->closed || !appends(self) ? rs_path_any_pass(cursor, err) : rs_arrow_misfit(field, err);
    }
    if (appends(self) && child->n != field->n) return rs_decode_bad_value(err, "a dict with a repeated key");
    return rs_arrow_put_any(self, child, cursor, err);
}

/* Begins a struct: adds its kind, or checks that the field has structs. */
static rs_status begin_struct(const rs_arrow_walk *self, rs_arrow_field *field, rs_error *err) {
    if (!appends(self)) rs_arrow_add_kind(field, RS_ARROW_SEEN_STRUCT);
    else if (field->layout != RS_ARROW_LAYOUT_STRUCT) return rs_arrow_misfit(field, err);
    return RS_OK;
}

static rs_status end_struct(const rs_arrow_walk *self, rs_arrow_field *field, bool whole, rs_cursor *cursor,
                            rs_error *err) {
    rs_decode_leave(cursor);
    return appends(self) ? rs_arrow_end_struct(field, whole, err) : RS_OK;
}

static rs_status put_any_dict(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    uint64_t n, n_taken = 0;
    RS_TRY(rs_path_any_enter(cursor, 2, &n, err));
    RS_TRY(begin_struct(self, field, err));
    for (uint64_t i = 0; i < n; i++) {
        rs_arrow_field *child = NULL;
        bool is_name;
        RS_TRY(rs_arrow_field_of_key(field, cursor, &is_name, &child, err));
        if (!appends(self) && !is_name && !field->closed) rs_arrow_add_kind(field, RS_ARROW_SEEN_ODD_KEY);
        RS_TRY(put_child(self, field, child, cursor, err));
        n_taken += child != NULL;
    }
    return end_struct(self, field, n_taken == field->n_children, cursor, err);
}

static rs_status put_any_sequence(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, bool is_tuple,
                                  rs_error *err) {
    bool items = is_tuple && field->layout == RS_ARROW_LAYOUT_STRUCT;
    rs_arrow_field *child;
    uint64_t n;
    RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
    if (!appends(self)) {
        items = is_tuple && rs_arrow_add_tuple(field, n);
        if (!is_tuple) rs_arrow_add_kind(field, RS_ARROW_SEEN_LIST);
    } else if (!items && field->layout != RS_ARROW_LAYOUT_LIST) {
        return rs_arrow_misfit(field, err);
    }
    for (uint64_t i = 0; items && i < n; i++) {
        RS_TRY(rs_arrow_field_item(field, (uint32_t)i, &child, err));
        RS_TRY(put_child(self, field, child, cursor, err));
    }
    if (items) return end_struct(self, field, false, cursor, err);
    if (n > 0) RS_TRY(rs_arrow_field_element(field, &child, err));
    for (uint64_t i = 0; i < n; i++) RS_TRY(rs_arrow_put_any(self, child, cursor, err));
    rs_decode_leave(cursor);
    return appends(self) ? rs_arrow_end_value(field, field->element->n, err) : RS_OK;
}

/* Takes the values of an object, an any tuple of n items. The fields are `items`, or named by `names` if
 * `items` is NULL. */
static rs_status put_values(rs_arrow_walk *self, rs_arrow_field *field, rs_arrow_field **items, rs_slice names,
                            uint64_t n, rs_cursor *cursor, rs_error *err) {
    const uint8_t *p;
    uint64_t count;
    RS_TRY(rs_decode_take(cursor, 1, &p, err));
    if (*p != RS_FMT_TAG_TUPLE) return rs_decode_bad_value(err, "an object whose values are not a tuple");
    RS_TRY(rs_path_any_enter(cursor, 1, &count, err));
    if (count != n) return rs_decode_bad_value(err, "an object with more or fewer values than fields");
    RS_TRY(begin_struct(self, field, err));
    for (uint64_t i = 0; i < n; i++) {
        rs_arrow_field *child;
        if (items != NULL) child = items[i];
        else RS_TRY(rs_arrow_next_name(&names, field, &child, err));
        RS_TRY(put_child(self, field, child, cursor, err));
    }
    return end_struct(self, field, false, cursor, err);
}

rs_status rs_arrow_put_items(rs_arrow_walk *self, rs_arrow_field *field, rs_arrow_field **items, uint64_t n,
                             rs_cursor *cursor, rs_error *err) {
    const rs_slice none = {NULL, NULL};
    return put_values(self, field, items, none, n, cursor, err);
}

static rs_status put_any_ext(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    const rs_place payload = {NULL, NULL, 0};
    rs_slice head, names;
    uint64_t n;
    bool taken;
    RS_TRY(rs_any_ext_head(&cursor->in, &head, err));
    uint8_t code = *head.ptr++;
    switch (code) {
    case RS_FMT_EXT_ORDEREDDICT:
    case RS_FMT_EXT_COUNTER:
    case RS_FMT_EXT_DEFAULTDICT:
    case RS_FMT_EXT_SET:
    case RS_FMT_EXT_DEQUE:
    case RS_FMT_EXT_BYTEARRAY:
    case RS_FMT_EXT_PATH: return rs_arrow_put_any(self, field, cursor, err);
    case RS_FMT_EXT_TENSOR:
        if (*head.ptr == RS_FMT_TAG_NONE) return rs_arrow_put_any(self, field, cursor, err);
        break;
    case RS_FMT_EXT_NAMEDTUPLE:
    case RS_FMT_EXT_DATACLASS:
    case RS_FMT_EXT_ATTRS:
    case RS_FMT_EXT_OBJECT:
        RS_TRY(rs_arrow_names(head, &names, &n, err));
        if (names.ptr != NULL) return put_values(self, field, NULL, names, n, cursor, err);
        break;
    default: break;
    }
    RS_TRY(rs_arrow_put_ext(self, field, code, cursor, &payload, &taken, err));
    if (taken) return RS_OK;
    if (appends(self)) return rs_arrow_misfit(field, err);
    rs_arrow_add_other(field, code);
    return rs_path_any_pass(cursor, err);
}

/* Takes the bytes of a bytes value or an int beyond 64 signed bits. */
static rs_status put_any_bytes(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, bool is_int,
                               rs_error *err) {
    const uint8_t *p;
    uint64_t n;
    RS_TRY(rs_decode_varint(cursor, &n, err));
    RS_TRY(rs_decode_take(cursor, n, &p, err));
    const bool is_uint = is_int && n == 9 && p[8] == 0; /* from 2^63 up to 2^64 - 1 */
    if (!appends(self)) {
        rs_arrow_add_kind(field, is_uint ? RS_ARROW_SEEN_UINT : is_int ? RS_ARROW_SEEN_BIGINT : RS_ARROW_SEEN_BYTES);
        return RS_OK;
    }
    if (!is_int) return rs_arrow_append_bytes(field, p, n, err);
    if (!is_uint) return rs_arrow_misfit(field, err);
    if (field->kind == RS_ARROW_KIND_FLOAT64) return rs_arrow_inexact(field, err);
    return rs_arrow_append_number(field, RS_ARROW_SEEN_UINT, RS_COLUMN_INT, rs_load_u64(p), err);
}

/* Takes a bool, an int of 64 bits or a float. */
static rs_status put_any_number(const rs_arrow_walk *self, rs_arrow_field *field, unsigned type, uint64_t bits,
                                rs_error *err) {
    if (RS_LIKELY(appends(self))) return rs_arrow_append_plain(field, type, bits, err);
    if (type == RS_COLUMN_INT) rs_arrow_add_ints(field, (int64_t)bits, (int64_t)bits);
    else rs_arrow_add_kind(field, type == RS_COLUMN_FLOAT ? RS_ARROW_SEEN_FLOAT : RS_ARROW_SEEN_BOOL);
    return RS_OK;
}

rs_status rs_arrow_put_any(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    const rs_place place = {NULL, NULL, 0};
    const uint8_t *p;
    uint64_t bits;
    unsigned type;
    RS_TRY(rs_column_any(cursor, &type, &bits, err));
    if (type != 0) return put_any_number(self, field, type, bits, err);
    p = cursor->in.ptr++; /* its byte may have changed since */
    switch (bits) {
    case RS_FMT_TAG_NONE:
        if (appends(self)) return rs_arrow_append_null(field, err);
        rs_arrow_add_kind(field, RS_ARROW_SEEN_NULL);
        return RS_OK;
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4:
        cursor->in.ptr = p;
        if (appends(self)) return rs_arrow_put_text(field, cursor, &place, err);
        rs_arrow_add_kind(field, RS_ARROW_SEEN_TEXT);
        return rs_path_any_pass(cursor, err);
    case RS_FMT_TAG_BYTES:
    case RS_FMT_TAG_BIGINT: return put_any_bytes(self, field, cursor, bits == RS_FMT_TAG_BIGINT, err);
    case RS_FMT_TAG_DICT: return put_any_dict(self, field, cursor, err);
    case RS_FMT_TAG_LIST:
    case RS_FMT_TAG_TUPLE: return put_any_sequence(self, field, cursor, bits == RS_FMT_TAG_TUPLE, err);
    case RS_FMT_TAG_NDARRAY: return rs_arrow_put_array(self, field, cursor, NULL, NULL, err);
    case RS_FMT_TAG_EXT: return put_any_ext(self, field, cursor, err);
    default: cursor->in.ptr = p; return rs_path_any_pass(cursor, err); /* reports the tag */
    }
}

rs_status rs_arrow_infer_any(rs_arrow_field *field, rs_cursor *cursor, rs_error *err) {
    rs_arrow_walk walk = {.mode = RS_ARROW_INFER_ALL};
    rs_status status = rs_arrow_put_any(&walk, field, cursor, err);
    rs_buffer_clear(&walk.scratch);
    return status;
}
