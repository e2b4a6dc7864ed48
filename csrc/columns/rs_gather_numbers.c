/* rs_gather_numbers.c: takes the numbers of one value: a number, a list or array of them, or lists of lists. */
#include "columns/rs_gather_numbers.h"

enum { PACKED_FEW = 16 };

/* ---- One number ---- */

/* Puts the any value at the cursor. If it is not a bool, int or float, sets *taken to false and writes nothing. */
static rs_status put_any(const rs_gather_field *self, rs_cursor *cursor, uint8_t *to, bool *taken, bool *fits,
                         rs_error *err) {
    const uint8_t *p;
    uint64_t n, bits;
    unsigned type;
    RS_TRY(rs_column_any(cursor, &type, &bits, err));
    *taken = type != 0 || bits == RS_FMT_TAG_BIGINT;
    if (type != 0) {
        *fits = rs_gather_put_number(self, type, bits, to);
    } else if (*taken) {
        cursor->in.ptr++;
        RS_TRY(rs_decode_varint(cursor, &n, err));
        RS_TRY(rs_decode_take(cursor, n, &p, err));
        *fits = rs_dtype_put_bigint(self->spec->dtype, p, n, to);
    }
    return RS_OK;
}

/* Puts the payload of a complex number: two floats. */
static rs_status put_complex(rs_gather_field *self, rs_cursor *cursor, const rs_place *payload, uint8_t *to,
                             bool *taken, bool *fits, rs_error *err) {
    rs_column *parts = &self->column;
    rs_gather_stop stop = {0};
    double pair[2];
    rs_column_empty(parts);
    RS_TRY(rs_gather_append_list(self, cursor, payload, &stop, err));
    *taken = stop.why == RS_GATHER_DONE && parts->values.size_bytes == 16 && parts->seen == RS_COLUMN_FLOAT;
    if (!*taken) return RS_OK;
    memcpy(pair, parts->values.data, 16);
    *fits = rs_dtype_put_complex(self->spec->dtype, pair, 1, to, RS_DTYPE_MOST_BYTES) == 1;
    return RS_OK;
}

/* Puts a numpy scalar or complex number, under a node or as the any value at the cursor. */
static rs_status put_rare(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, uint8_t *to, bool *taken,
                          bool *fits, rs_error *err) {
    rs_place payload = *place;
    rs_run_shape shape;
    rs_run run;
    rs_slice head;
    uint64_t written;
    RS_TRY(rs_run_take_array(cursor, place, &run, &shape, taken, err));
    if (*taken) {
        *taken = shape.ndim == 0 && run.n == 1;
        if (!*taken) return RS_OK;
        RS_TRY(rs_run_write(&run, 1, self->spec->dtype, NULL, &self->scratch, to, &written, err));
        *fits = written == 1;
        return RS_OK;
    }
    if (place->node != NULL) {
        if (place->node->kind != RS_FMT_NODE_EXT || place->node->param != RS_FMT_EXT_COMPLEX) return RS_OK;
        RS_TRY(rs_path_open(cursor, &payload, err));
        return put_complex(self, cursor, &payload, to, taken, fits, err);
    }
    if (rs_slice_left(&cursor->in) < 2 || cursor->in.ptr[0] != RS_FMT_TAG_EXT ||
        cursor->in.ptr[1] != RS_FMT_EXT_COMPLEX) {
        return RS_OK;
    }
    cursor->in.ptr++;
    RS_TRY(rs_any_ext_head(&cursor->in, &head, err));
    return put_complex(self, cursor, &payload, to, taken, fits, err);
}

/* Puts the number at a settled place as an item of the dtype, and moves the cursor past it. Sets *taken to false for
 * another value. */
static rs_status put_at(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, uint8_t *to, bool *taken,
                        bool *fits, rs_error *err) {
    const rs_node *node = place->node;
    *taken = *fits = true;
    if (node == NULL) {
        RS_TRY(put_any(self, cursor, to, taken, fits, err));
        return *taken ? RS_OK : put_rare(self, cursor, place, to, taken, fits, err);
    }
    *fits = rs_gather_put_node(self, node, place->body, place->bits, to, taken);
    if (*taken) return RS_OK;
    if (node->kind == RS_FMT_NODE_CONST) {
        const rs_place any = {NULL, NULL, 0};
        rs_cursor aux = *cursor;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        return put_at(self, &aux, &any, to, taken, fits, err);
    }
    return put_rare(self, cursor, place, to, taken, fits, err);
}

/* ---- Sequences ---- */

/* The state of assembling the numbers of one value. */
typedef struct maker {
    rs_gather_field *field;
    rs_gather_stop *stop;
    rs_buffer *out;     /* their destination as items of the dtype; NULL for field->column */
    uint64_t n;         /* number of numbers so far */
    uint32_t free_dims; /* number of leading dimensions, whose lengths differ */
    uint32_t ndim;      /* number of all dimensions */
} maker;

static rs_status put_level(maker *self, rs_cursor *cursor, const rs_place *place, uint32_t level, rs_error *err);

/* Records that a sequence at `level` has n elements. Sets the stop if that is the wrong length. */
static rs_status add_length(maker *self, uint32_t level, uint64_t n, rs_error *err) {
    rs_gather_field *field = self->field;
    if (level >= self->free_dims) {
        if (n != field->spec->row[level - self->free_dims]) self->stop->why = RS_GATHER_LENGTH;
    } else if (self->free_dims == 2 && level == 1) {
        if (n > field->inner_longest) field->inner_longest = n;
        return rs_buffer_append_u64(&field->counts, n, err);
    }
    return RS_OK;
}

/* Makes room for n more numbers. */
static rs_status reserve(maker *self, uint64_t n, uint8_t **to, rs_error *err) {
    const unsigned size = rs_dtype_bytes(self->field->spec->dtype);
    if (n > SIZE_MAX / 64) return rs_gather_too_large(err);
    /* Writing a single number needs room for the largest item. */
    RS_TRY(rs_buffer_reserve(self->out, (size_t)n * size + RS_DTYPE_MOST_BYTES, err));
    *to = self->out->data + self->out->size_bytes;
    return RS_OK;
}

/* Counts n numbers, and sets the stop if only `written` of them fit the dtype. */
static void count_written(maker *self, uint64_t written, uint64_t n) {
    self->out->size_bytes += (size_t)(n * rs_dtype_bytes(self->field->spec->dtype));
    self->n += n;
    if (written == n) return;
    self->stop->why = RS_GATHER_RANGE;
    self->stop->number = self->n - n + written;
}

static rs_status put_run(maker *self, const rs_run *run, const rs_run_shape *shape, rs_error *err) {
    const unsigned dtype = self->field->spec->dtype;
    rs_buffer *scratch = &self->field->scratch;
    uint64_t written;
    uint8_t *to = NULL;
    RS_TRY(reserve(self, run->n, &to, err));
    if (shape != NULL && shape->fortran) {
        RS_TRY(rs_run_write_fortran(run, shape, dtype, scratch, to, &written, err));
    } else {
        RS_TRY(rs_run_write(run, run->n, dtype, NULL, scratch, to, &written, err));
    }
    count_written(self, written, run->n);
    return RS_OK;
}

/* Records the lengths of all dimensions of an array at `level`. */
static rs_status add_shape(maker *self, uint32_t level, const rs_run_shape *shape, rs_error *err) {
    for (uint32_t d = 0; level + d < self->ndim && d < shape->ndim; d++) {
        /* Each array along the first dimension is a list of its own. */
        const uint64_t times = self->free_dims == 2 && level == 0 && d == 1 ? shape->dims[0] : 1;
        if (times > RS_FMT_READER_VALUES) self->stop->why = RS_GATHER_LENGTH; /* too many empty arrays */
        for (uint64_t k = 0; k < times && self->stop->why == RS_GATHER_DONE; k++) {
            RS_TRY(add_length(self, level + d, shape->dims[d], err));
        }
        if (self->stop->why != RS_GATHER_DONE) return RS_OK;
        if (level + d < self->free_dims && shape->dims[d] == 0) return RS_OK; /* empty, whatever its other dimensions */
    }
    if (shape->ndim != self->ndim - level) self->stop->why = RS_GATHER_LENGTH;
    return RS_OK;
}

/* Takes an array at `level`. Sets *taken to false for another value. */
static rs_status put_array(maker *self, rs_cursor *cursor, const rs_place *place, uint32_t level, bool *taken,
                           rs_error *err) {
    rs_run_shape shape;
    rs_run run;
    RS_TRY(rs_run_take_array(cursor, place, &run, &shape, taken, err));
    if (!*taken) return RS_OK;
    RS_TRY(add_shape(self, level, &shape, err));
    return self->stop->why == RS_GATHER_DONE ? put_run(self, &run, &shape, err) : RS_OK;
}

static rs_status put_number(maker *self, rs_cursor *cursor, const rs_place *place, rs_error *err) {
    bool taken, fits = true;
    uint8_t *to = NULL;
    if (self->out == NULL) {
        RS_TRY(rs_column_take_number(&self->field->column, cursor, place, &taken, err));
    } else {
        RS_TRY(reserve(self, 1, &to, err));
        RS_TRY(put_at(self->field, cursor, place, to, &taken, &fits, err));
        if (taken) count_written(self, fits ? 1 : 0, 1);
    }
    if (!taken) self->stop->why = RS_GATHER_KIND;
    return RS_OK;
}

static rs_status put_element(maker *self, rs_cursor *cursor, rs_place place, uint32_t level, rs_error *err) {
    rs_outer outer;
    bool left;
    if (level == self->ndim && rs_node_is_number(place.node)) return put_number(self, cursor, &place, err);
    RS_TRY(rs_path_settle_element(cursor, &place, &outer, &left, err));
    RS_TRY(put_level(self, cursor, &place, level, err));
    rs_path_return(cursor, &outer, left);
    return RS_OK;
}

static rs_status put_list(maker *self, rs_cursor *cursor, const rs_place *list, uint32_t level, rs_error *err) {
    const rs_node *node = list->node, *child = node->children;
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_list(cursor, node, list->body, &n, &group, &bodies, err));
    RS_TRY(add_length(self, level, n, err));
    for (uint64_t i = 0; self->stop->why == RS_GATHER_DONE && i < n; i++) {
        rs_place place = {.node = child,
                          .body = bodies == NULL ? NULL : bodies + i * child->size_bytes,
                          .bits = rs_decode_bits_unchecked(&group, i * child->bits, child->bits)};
        RS_TRY(put_element(self, cursor, place, level + 1, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

static rs_status put_tuple(maker *self, rs_cursor *cursor, const rs_place *row, uint32_t level, rs_error *err) {
    const rs_node *node = row->node;
    const uint8_t *head = row->body;
    uint8_t room[RS_CHILDREN_BITS_ROOM];
    RS_TRY(rs_decode_enter(cursor, node->n_children, err));
    if (head == NULL) RS_TRY(rs_decode_take(cursor, node->head_bytes, &head, err));
    rs_slice group = rs_decode_children_bits(node, head, row->bits, room);
    RS_TRY(add_length(self, level, node->n_children, err));
    for (uint32_t i = 0; self->stop->why == RS_GATHER_DONE && i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        rs_place place = {.node = child,
                          .body = child->fixed ? head + child->body_off : NULL,
                          .bits = rs_decode_bits_unchecked(&group, child->bit_off, child->bits)};
        RS_TRY(put_element(self, cursor, place, level + 1, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

/* Takes the any list or tuple at the cursor. */
static rs_status put_any_sequence(maker *self, rs_cursor *cursor, uint32_t level, rs_error *err) {
    const rs_place any = {NULL, NULL, 0};
    uint64_t n;
    if (cursor->in.ptr == cursor->in.end ||
        (*cursor->in.ptr != RS_FMT_TAG_LIST && *cursor->in.ptr != RS_FMT_TAG_TUPLE)) {
        self->stop->why = RS_GATHER_KIND;
        return RS_OK;
    }
    cursor->in.ptr++;
    RS_TRY(rs_path_any_enter(cursor, 1, &n, err));
    RS_TRY(add_length(self, level, n, err));
    for (uint64_t i = 0; self->stop->why == RS_GATHER_DONE && i < n; i++) {
        RS_TRY(put_level(self, cursor, &any, level + 1, err));
    }
    rs_decode_leave(cursor);
    return RS_OK;
}

/* Takes the value at a settled place, at `level`. The cursor is then after it. */
static rs_status put_level(maker *self, rs_cursor *cursor, const rs_place *place, uint32_t level, rs_error *err) {
    const rs_node *node = place->node;
    bool taken;
    if (level == self->ndim) return put_number(self, cursor, place, err);
    if (node != NULL && node->kind == RS_FMT_NODE_CONST) {
        rs_cursor aux = *cursor;
        rs_place value = *place;
        RS_TRY(rs_path_open(&aux, &value, err));
        RS_TRY(put_level(self, &aux, &value, level, err));
        cursor->budget = aux.budget;
        return RS_OK;
    }
    if (self->out == NULL) {
        uint64_t n;
        RS_TRY(rs_column_take_list(&self->field->column, cursor, place, &n, &taken, err));
        if (taken) rs_decode_leave(cursor);
        if (taken) return RS_OK;
    } else if (level + 1 == self->ndim || (node != NULL && node->kind == RS_FMT_NODE_NUMBERS)) {
        rs_run run;
        RS_TRY(rs_run_take_list(cursor, place, &run, &taken, err));
        if (taken) {
            rs_decode_leave(cursor);
            if (level + 1 < self->ndim && run.n > 0) { /* an empty list of numbers is also an empty list of lists */
                self->stop->why = RS_GATHER_KIND;
                return RS_OK;
            }
            RS_TRY(add_length(self, level, run.n, err));
            return self->stop->why == RS_GATHER_DONE ? put_run(self, &run, NULL, err) : RS_OK;
        }
    }
    if (node == NULL || node->kind == RS_FMT_NODE_NDARRAY || node->kind == RS_FMT_NODE_EXT) {
        if (self->out != NULL) {
            RS_TRY(put_array(self, cursor, place, level, &taken, err));
            if (taken) return RS_OK;
        }
        if (node == NULL) return put_any_sequence(self, cursor, level, err);
    } else if (node->kind == RS_FMT_NODE_LIST) {
        return put_list(self, cursor, place, level, err);
    } else if (node->kind == RS_FMT_NODE_TUPLE) {
        return put_tuple(self, cursor, place, level, err);
    }
    self->stop->why = RS_GATHER_KIND;
    return RS_OK;
}

rs_status rs_gather_append_list(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                                rs_error *err) {
    maker state = {self, stop, NULL, 0, 1, 1};
    return put_level(&state, cursor, place, 0, err);
}

/* ---- A value ---- */

/* Returns whether an array has the shape of a value. With one free dimension, an array of length 0 always does. */
static bool has_shape(const rs_gather_spec *spec, uint32_t free_dims, const rs_run_shape *shape) {
    if (free_dims == 1 && shape->ndim > 0 && shape->dims[0] == 0) return true;
    if (shape->ndim != free_dims + spec->n_row) return false;
    for (uint32_t d = free_dims; d < shape->ndim; d++) {
        if (shape->dims[d] != spec->row[d - free_dims]) return false;
    }
    return true;
}

/* Takes a value that is one run, and writes it if its destination is known. Sets *taken to false for another value. */
static rs_status take_run(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, bool *taken,
                          rs_gather_stop *stop, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const uint32_t free_dims = rs_gather_free_dims(spec->form), ndim = free_dims + spec->n_row;
    const unsigned size = rs_dtype_bytes(spec->dtype);
    rs_run_shape shape;
    rs_run run;
    uint64_t written;
    shape.ndim = 1;
    shape.fortran = false;
    *taken = false;
    if (ndim == 1) RS_TRY(rs_run_take_list(cursor, place, &run, taken, err));
    if (*taken) {
        shape.dims[0] = run.n;
    } else {
        RS_TRY(rs_run_take_array(cursor, place, &run, &shape, taken, err));
        if (!*taken) return RS_OK;
    }
    if (!has_shape(spec, free_dims, &shape)) {
        stop->why = RS_GATHER_LENGTH;
        return RS_OK;
    }
    if (free_dims == 1 && !shape.fortran) return rs_gather_add_run(self, &run, err);
    if (free_dims == 1) { /* its numbers are not in the order of rows */
        const uint64_t at = self->values.size_bytes;
        if (run.n > SIZE_MAX / 64) return rs_gather_too_large(err);
        RS_TRY(rs_buffer_reserve(&self->values, (size_t)run.n * size, err));
        RS_TRY(rs_run_write_fortran(&run, &shape, spec->dtype, &self->scratch, rs_buffer_at(&self->values, at),
                                    &written, err));
        self->values.size_bytes += (size_t)run.n * size;
        if (written == run.n) {
            run.kind = RS_RUN_READY, run.data = NULL, run.node = NULL, run.at = at;
            return rs_gather_add_run(self, &run, err);
        }
    } else {
        uint8_t *to = self->to + self->done * spec->row_numbers * size;
        if (shape.fortran) {
            RS_TRY(rs_run_write_fortran(&run, &shape, spec->dtype, &self->scratch, to, &written, err));
        } else {
            RS_TRY(rs_run_write(&run, run.n, spec->dtype, NULL, &self->scratch, to, &written, err));
        }
        if (written == run.n) return RS_OK;
    }
    stop->why = RS_GATHER_RANGE;
    stop->number = written;
    return RS_OK;
}

/* Takes a value that is not one run: assembles its numbers. */
static rs_status assemble(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                          rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const uint32_t free_dims = rs_gather_free_dims(spec->form);
    const uint64_t lists_before = self->counts.size_bytes / 8;
    rs_buffer *out = free_dims == 0 ? &self->scratch_value : &self->values;
    maker state = {self, stop, out, 0, free_dims, free_dims + spec->n_row};
    rs_run run = {.kind = RS_RUN_READY};
    if (free_dims == 0) self->scratch_value.size_bytes = 0;
    run.at = out->size_bytes;
    RS_TRY(put_level(&state, cursor, place, 0, err));
    if (stop->why != RS_GATHER_DONE) return RS_OK;
    run.n = state.n;
    if (free_dims == 0) {
        const size_t size = (size_t)spec->row_numbers * rs_dtype_bytes(spec->dtype);
        memcpy(self->to + self->done * size, self->scratch_value.data, size);
    } else if (free_dims == 1) {
        return rs_gather_add_run(self, &run, err);
    } else {
        const uint64_t lists_after = self->counts.size_bytes / 8;
        self->total += state.n / spec->row_numbers;
        if (lists_after - lists_before > self->longest) self->longest = lists_after - lists_before;
        return rs_buffer_append_u64(&self->ends, lists_after, err);
    }
    return RS_OK;
}

/* Takes a short list of packed numbers whose destination is known. */
static rs_status take_packed(rs_gather_field *self, rs_cursor *cursor, const rs_node *node, rs_gather_stop *stop,
                             rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const size_t size = (size_t)self->item_bytes;
    uint8_t *to = self->to + self->done * spec->row_numbers * size;
    int64_t numbers[PACKED_FEW];
    double floats[PACKED_FEW];
    rs_packed_ints packed;
    uint64_t n, put;
    RS_TRY(rs_decode_numbers(cursor, node, &n, &packed, err));
    if (n != spec->row_numbers) {
        stop->why = RS_GATHER_LENGTH;
        return RS_OK;
    }
    rs_packed_ints_read(&packed, numbers);
    if (node->number_kind == RS_FMT_NUMBERS_FLOATS) {
        for (uint64_t i = 0; i < n; i++) floats[i] = rs_packed_ints_float(node, numbers[i]);
        put = rs_dtype_put_floats(spec->dtype, floats, n, to, size);
    } else {
        put = rs_dtype_put_ints(spec->dtype, numbers, n, to, size);
    }
    if (put == n) return RS_OK;
    stop->why = RS_GATHER_RANGE;
    stop->number = put;
    return RS_OK;
}

rs_status rs_gather_take_numbers(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                                 rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const uint32_t free_dims = rs_gather_free_dims(spec->form);
    bool taken = false, fits;
    if (free_dims + spec->n_row == 0) {
        uint8_t item[RS_DTYPE_MOST_BYTES];
        const unsigned size = rs_dtype_bytes(spec->dtype);
        RS_TRY(put_at(self, cursor, place, item, &taken, &fits, err));
        if (!taken) stop->why = RS_GATHER_KIND;
        else if (!fits) stop->why = RS_GATHER_RANGE, stop->number = 0;
        else memcpy(self->to + self->done * size, item, size);
        return RS_OK;
    }
    if (free_dims == 0 && spec->n_row == 1 && spec->row_numbers <= PACKED_FEW && place->node != NULL &&
        place->node->kind == RS_FMT_NODE_NUMBERS) {
        return take_packed(self, cursor, place->node, stop, err);
    }
    if (free_dims < 2) {
        RS_TRY(take_run(self, cursor, place, &taken, stop, err));
        if (taken || stop->why != RS_GATHER_DONE) return RS_OK;
    }
    return assemble(self, cursor, place, stop, err);
}
