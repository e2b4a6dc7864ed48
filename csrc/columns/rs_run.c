/* rs_run.c: finds runs. rs_run_write.c writes them. */
#include "columns/rs_run.h"

#include "format/rs_narrow.h"

/* ---- Lists ---- */

static void set_run(rs_run *out, unsigned kind, const rs_node *node, uint64_t n, const uint8_t *begin,
                    const uint8_t *end) {
    out->kind = (uint8_t)kind;
    out->code = 0, out->width = 0, out->big_endian = false;
    out->node = node;
    out->n = n;
    out->data = begin;
    out->at = (uint64_t)(end - begin);
}

static rs_status take_numbers(rs_cursor *cursor, const rs_node *node, rs_run *out, rs_error *err) {
    rs_packed_ints numbers;
    uint64_t n;
    RS_TRY(rs_decode_numbers(cursor, node, &n, &numbers, err));
    set_run(out, RS_RUN_NUMBERS, node, n, n == 0 ? cursor->in.ptr : numbers.head, cursor->in.ptr);
    return RS_OK;
}

rs_status rs_run_take_list(rs_cursor *cursor, const rs_place *place, rs_run *out, bool *taken, rs_error *err) {
    const rs_node *node = place->node;
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    *taken = false;
    if (node == NULL) return RS_OK;
    if (node->kind == RS_FMT_NODE_NUMBERS) {
        *taken = true;
        return take_numbers(cursor, node, out, err);
    }
    if (node->kind != RS_FMT_NODE_LIST || !rs_node_is_number(node->children)) return RS_OK;
    *taken = true;
    RS_TRY(rs_decode_list(cursor, node, place->body, &n, &group, &bodies, err));
    set_run(out, RS_RUN_LIST, node->children, n, group.ptr, bodies + n * node->children->size_bytes);
    return RS_OK;
}

/* ---- Arrays ---- */

rs_status rs_run_array(rs_cursor *cursor, const rs_node *node, const uint8_t *body, rs_array_type *type,
                       rs_run_shape *shape, rs_slice *data, rs_error *err) {
    rs_slice aux = node == NULL ? rs_slice_of(NULL, 0) : rs_slice_of(node->aux, node->aux_size_bytes);
    rs_slice *head = node == NULL ? &cursor->in : &aux;
    RS_TRY(rs_array_type_take(head, type, err));
    uint64_t size = type->item_bytes;
    shape->ndim = 0;
    shape->n = 1;
    if ((type->flags & RS_FMT_ARRAY_SCALAR) == 0) {
        if (node != NULL && (node->flags & RS_FMT_FLAG_FIXED) == 0) head = &cursor->in;
        RS_TRY(rs_array_shape_take(head, type->item_bytes, &shape->ndim, shape->dims, &size, err));
        shape->n = type->item_bytes == 0 ? 0 : size / type->item_bytes;
    }
    shape->fortran = shape->ndim > 1 && (type->flags & RS_FMT_ARRAY_FORTRAN) != 0;
    size = rs_array_data_bytes(type->flags, type->item_bytes, size);
    data->ptr = body;
    if (body == NULL) RS_TRY(rs_decode_array_data(cursor, size, &data->ptr, err));
    data->end = data->ptr + size;
    return RS_OK;
}

/* Takes an array of numbers: as rs_run_array, but *taken becomes false and the cursor stays for other items. */
static rs_status take_array(rs_cursor *cursor, const rs_node *node, const uint8_t *body, rs_run *out,
                            rs_run_shape *shape, bool *taken, rs_error *err) {
    const rs_cursor before = *cursor;
    rs_array_type type;
    rs_slice data;
    RS_TRY(rs_run_array(cursor, node, body, &type, shape, &data, err));
    *taken = type.code >= RS_FMT_DTYPE_BOOL && type.code <= RS_FMT_DTYPE_COMPLEX128;
    if (!*taken) {
        *cursor = before;
        return RS_OK;
    }
    RS_TRY(rs_decode_spend_shared(cursor, rs_slice_left(&data), err));
    set_run(out, RS_RUN_ITEMS, NULL, shape->n, data.ptr, data.end);
    out->code = type.code;
    out->width = type.width;
    out->big_endian = type.big_endian && (type.flags & RS_FMT_ARRAY_SCALAR) == 0;
    return RS_OK;
}

/* Returns whether a tensor with this EXTRA may have a payload of numbers. Sets *code to RS_RUN_BFLOAT16, or to 0 if the
 * items have the dtype of the array. */
static bool is_tensor_of_numbers(const uint8_t *extra, uint64_t size, uint8_t *code) {
    static const uint8_t bfloat16[] = "\x09\x08"
                                      "bfloat16"; /* as an any value */
    *code = 0;
    if (size == 1 && *extra == RS_FMT_TAG_NONE) return true;
    *code = RS_RUN_BFLOAT16;
    return size == sizeof bfloat16 - 1 && memcmp(extra, bfloat16, sizeof bfloat16 - 1) == 0;
}

/* Takes the array that is the payload of a tensor. */
static rs_status take_tensor(rs_cursor *cursor, rs_place place, const uint8_t *extra, uint64_t size, rs_run *out,
                             rs_run_shape *shape, bool *taken, rs_error *err) {
    uint8_t code;
    *taken = false;
    if (!is_tensor_of_numbers(extra, size, &code)) return RS_OK;
    if (place.node == NULL) {
        const uint8_t *tag;
        RS_TRY(rs_decode_take(cursor, 1, &tag, err));
        if (*tag != RS_FMT_TAG_NDARRAY) return RS_OK;
        RS_TRY(take_array(cursor, NULL, NULL, out, shape, taken, err));
    } else if (place.node->kind == RS_FMT_NODE_NDARRAY) {
        RS_TRY(take_array(cursor, place.node, place.body, out, shape, taken, err));
    }
    if (!*taken || code == 0) return RS_OK;
    *taken = out->n == 0 || (out->width != 0 ? rs_narrow_item_bytes(out->code) : out->at / out->n) == 2;
    out->code = code;
    return RS_OK;
}

rs_status rs_run_take_array(rs_cursor *cursor, const rs_place *place, rs_run *out, rs_run_shape *shape, bool *taken,
                            rs_error *err) {
    const rs_cursor before = *cursor;
    const rs_node *node = place->node;
    rs_status status = RS_OK;
    const uint8_t *tag;
    *taken = false;
    if (node != NULL && node->kind == RS_FMT_NODE_NDARRAY) {
        return take_array(cursor, node, place->body, out, shape, taken, err);
    }
    if (node != NULL && node->kind == RS_FMT_NODE_EXT && node->param == RS_FMT_EXT_TENSOR) {
        rs_place payload = *place;
        RS_TRY(rs_path_open(cursor, &payload, err));
        status = take_tensor(cursor, payload, node->aux, node->aux_size_bytes, out, shape, taken, err);
    } else if (node == NULL) {
        RS_TRY(rs_decode_take(cursor, 1, &tag, err));
        if (*tag == RS_FMT_TAG_NDARRAY) {
            status = take_array(cursor, NULL, NULL, out, shape, taken, err);
        } else if (*tag == RS_FMT_TAG_EXT) {
            rs_slice head;
            RS_TRY(rs_any_ext_head(&cursor->in, &head, err));
            if (*head.ptr == RS_FMT_EXT_TENSOR) {
                status = take_tensor(cursor, *place, head.ptr + 1, rs_slice_left(&head) - 1, out, shape, taken, err);
            }
        }
    }
    if (status == RS_OK && !*taken) *cursor = before;
    return status;
}
