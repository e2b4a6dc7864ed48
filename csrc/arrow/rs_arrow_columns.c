/* rs_arrow_columns.c: checks an ArrowArray against its schema. Source: the Arrow specification, "The Arrow C data
 * interface" and "Arrow columnar format". */
#include "arrow/rs_arrow_columns.h"

/* Keeps positions times the widest element far below 2^63. */
static const uint64_t LENGTH_MAX = UINT64_C(1) << 48;

RS_COLD static rs_status broken(const rs_arrow_schema *schema, uint32_t node, rs_error *err, const char *message) {
    char path[RS_ARROW_PATH_SIZE];
    rs_arrow_path(schema, node, path);
    return rs_error_set(err, RS_E_IN_BROKEN, RS_NOWHERE, "%s: %s", path, message);
}

/* Returns the number of buffers of an array; for views the minimum. Arrays of nulls may have any number. */
static int64_t buffers_of(rs_arrow_kind kind) {
    switch (kind) {
    case RS_ARROW_NULL:
    case RS_ARROW_RUN_END: return 0;
    case RS_ARROW_FIXED_LIST:
    case RS_ARROW_STRUCT:
    case RS_ARROW_SPARSE_UNION: return 1;
    case RS_ARROW_TEXT:
    case RS_ARROW_BYTES:
    case RS_ARROW_TEXT_VIEW:
    case RS_ARROW_BYTES_VIEW:
    case RS_ARROW_LIST_VIEW: return 3;
    default: return 2;
    }
}

static bool is_view(rs_arrow_kind kind) { return kind == RS_ARROW_TEXT_VIEW || kind == RS_ARROW_BYTES_VIEW; }
static bool is_union(rs_arrow_kind kind) { return kind == RS_ARROW_SPARSE_UNION || kind == RS_ARROW_DENSE_UNION; }

/* Checks the fields of an array that do not depend on its parent. Returns a message, or NULL if all is well. */
static const char *check_array(const rs_arrow_node *node, const struct ArrowArray *array) {
    const rs_arrow_kind kind = (rs_arrow_kind)node->kind;
    const int64_t n_buffers = buffers_of(kind);
    if (array->release == NULL) return "a released array";
    if (array->length < 0 || array->offset < 0 || (uint64_t)array->length > LENGTH_MAX ||
        (uint64_t)array->offset > LENGTH_MAX - (uint64_t)array->length) {
        return "an array has a length or offset that is out of range";
    }
    if (array->null_count < -1 || array->null_count > array->length) return "an array has a null count out of range";
    if (array->n_children < 0 || (uint64_t)array->n_children != node->n_source_children) {
        return "the number of children of an array does not match its type";
    }
    if (array->n_children > 0 && array->children == NULL) return "the children of an array are missing";
    if ((array->dictionary != NULL) != (kind == RS_ARROW_DICTIONARY)) {
        return "only an array or only its type has a dictionary";
    }
    if (kind == RS_ARROW_NULL) return NULL;
    if (is_view(kind) ? array->n_buffers < n_buffers : array->n_buffers != n_buffers) {
        return "the number of buffers of an array does not match its type";
    }
    return n_buffers > 0 && array->buffers == NULL ? "the buffers of an array are missing" : NULL;
}

/* Returns whether the buffer `second` is required. */
static bool needs_second(rs_arrow_kind kind) { return kind == RS_ARROW_LIST_VIEW || kind == RS_ARROW_DENSE_UNION; }

/* Sets the buffers of a column. Returns as check_array. */
static const char *bind_buffers(const rs_arrow_node *node, const struct ArrowArray *array, rs_arrow_column *out) {
    const rs_arrow_kind kind = (rs_arrow_kind)node->kind;
    const uint8_t *const *buffers = (const uint8_t *const *)array->buffers;
    const int64_t n = buffers_of(kind);
    if (n == 0) return NULL;
    if (is_union(kind)) {
        out->first = buffers[0];
        out->second = n > 1 ? buffers[1] : NULL;
    } else {
        out->validity = array->null_count == 0 ? NULL : buffers[0];
        out->first = n > 1 ? buffers[1] : NULL;
        out->second = n > 2 && !is_view(kind) ? buffers[2] : NULL;
        if (array->null_count > 0 && out->validity == NULL) return "an array has nulls, but no validity bitmap";
    }
    if (is_view(kind)) {
        out->blocks = array->buffers + 2;
        out->n_blocks = (uint64_t)array->n_buffers - 3;
        out->block_sizes = buffers[array->n_buffers - 1];
        if (out->n_blocks > 0 && out->block_sizes == NULL) return "an array of views lacks the sizes of its buffers";
    }
    if (array->length == 0) return NULL;
    if (out->first == NULL && (n > 1 || is_union(kind)) && !(kind == RS_ARROW_FIXED_BYTES && node->size == 0)) {
        return "a buffer of an array is missing";
    }
    return out->second == NULL && needs_second(kind) ? "a buffer of an array is missing" : NULL;
}

/* Checks that a child is long enough for its parent. Returns as check_array. check_runs checks run ends; positions in
 * lists, dense unions and dictionaries are checked when a value is read. */
static const char *check_length(const rs_arrow_node *parent, const rs_arrow_column *outer, uint64_t length) {
    uint64_t needed = outer->offset + outer->length;
    if (parent->kind == RS_ARROW_FIXED_LIST) {
        if (rs_mul_overflows(needed, (uint64_t)parent->size, &needed)) return "a fixed-size list is too long";
    } else if (parent->kind != RS_ARROW_STRUCT && parent->kind != RS_ARROW_SPARSE_UNION) {
        return NULL;
    }
    return length < needed ? "a child array is shorter than its parent needs" : NULL;
}

static rs_status bind_node(const rs_arrow_schema *schema, uint32_t number, const struct ArrowArray *array,
                           rs_arrow_column *columns, rs_error *err) {
    const rs_arrow_node *node = &schema->nodes[number];
    rs_arrow_column *out = &columns[number];
    memset(out, 0, sizeof *out);
    if (array == NULL) return broken(schema, number, err, "an array is missing");
    const char *message = check_array(node, array);
    if (message != NULL) return broken(schema, number, err, message);
    out->array = array;
    out->offset = (uint64_t)array->offset;
    out->length = (uint64_t)array->length;
    message = bind_buffers(node, array, out);
    if (message == NULL && node->parent != RS_ARROW_NO_NODE) {
        message = check_length(&schema->nodes[node->parent], &columns[node->parent], out->length);
    }
    return message == NULL ? RS_OK : broken(schema, number, err, message);
}

/* Checks the runs of a RUN_END array: their ends increase and reach the end of the array, and each has a value. */
static rs_status check_runs(const rs_arrow_schema *schema, uint32_t number, const rs_arrow_column *columns,
                            rs_error *err) {
    const rs_arrow_node *node = &schema->nodes[number], *ends = &schema->nodes[node->first_child];
    const rs_arrow_column *outer = &columns[number], *runs = &columns[node->first_child];
    int64_t last = 0, end;
    if (runs->validity != NULL && runs->array->null_count != 0) return broken(schema, number, err, "a run end is null");
    if (columns[node->first_child + 1].length < runs->length) {
        return broken(schema, number, err, "there are fewer values than runs");
    }
    for (uint64_t i = 0; i < runs->length; i++, last = end) {
        end = rs_arrow_int(runs->first, i + runs->offset, ends->width);
        if (end <= last) return broken(schema, number, err, "the run ends do not increase");
    }
    if ((uint64_t)last < outer->offset + outer->length && outer->length > 0) {
        return broken(schema, number, err, "the runs end before the array does");
    }
    return RS_OK;
}

rs_status rs_arrow_columns_bind(const rs_arrow_schema *schema, const struct ArrowArray *array, rs_arrow_column *columns,
                                rs_error *err) {
    for (uint32_t i = 0; i < schema->n_nodes; i++) {
        const rs_arrow_node *node = &schema->nodes[i];
        const struct ArrowArray *own = array;
        if (node->parent != RS_ARROW_NO_NODE) {
            own = columns[node->parent].array;
            own =
                schema->nodes[node->parent].kind == RS_ARROW_DICTIONARY ? own->dictionary : own->children[node->source];
        }
        RS_TRY(bind_node(schema, i, own, columns, err));
    }
    for (uint32_t i = 0; i < schema->n_nodes; i++) {
        if (schema->nodes[i].kind == RS_ARROW_RUN_END) RS_TRY(check_runs(schema, i, columns, err));
    }
    return RS_OK;
}
