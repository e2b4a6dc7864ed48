/* rs_gather_fill.c: computes the sizes and places of the parts of a batch, and writes the values that measuring has
 * not written. */
#include "columns/rs_gather.h"

#include "columns/rs_gather_packed.h"

enum {
    PART_ALIGNMENT = 64,
    AHEAD = 3,             /* how many runs ahead the bytes of a run are prefetched */
    PREFETCHED_MOST = 1536 /* the most bytes of a run that are prefetched */
};

static const rs_run *runs_of(const rs_gather_field *field) { return (const rs_run *)(const void *)field->runs.data; }

static int64_t *i64_at(uint8_t *buffer, const rs_gather_part *part) { return (int64_t *)(void *)(buffer + part->off); }

/* ---- Layout ---- */

/* Adds a part with the dimensions `dims` and, if `with_row`, the dimensions of a row. */
static rs_status add_part(rs_gather_field *self, unsigned dtype, const uint64_t *dims, uint32_t ndim, bool with_row,
                          uint64_t *size_bytes, rs_error *err) {
    rs_gather_part *part = &self->parts[self->n_parts++];
    uint64_t size = rs_dtype_bytes(dtype), off = *size_bytes;
    part->dtype = dtype;
    part->ndim = ndim;
    memcpy(part->shape, dims, ndim * sizeof *dims);
    if (with_row) {
        memcpy(part->shape + ndim, self->spec->row, self->spec->n_row * sizeof *dims);
        part->ndim += self->spec->n_row;
    }
    for (uint32_t d = 0; d < part->ndim; d++) {
        if (rs_mul_overflows(size, part->shape[d], &size)) return rs_gather_too_large(err);
    }
    if (off > INT64_MAX - PART_ALIGNMENT) return rs_gather_too_large(err);
    part->off = off = rs_align_up(off, PART_ALIGNMENT);
    if (size > INT64_MAX - off) return rs_gather_too_large(err);
    *size_bytes = off + size;
    return RS_OK;
}

/* Sets *out to the width of the padded form for lists of at most `longest` rows. Returns false on overflow. */
static bool width_of(uint64_t longest, uint64_t spec_width, uint64_t multiple, uint64_t *out) {
    *out = spec_width;
    if (spec_width != 0) return true;
    if (longest > INT64_MAX - multiple) return false;
    *out = (longest + multiple - 1) / multiple * multiple;
    return true;
}

static rs_status lay_out_padded(rs_gather_field *self, uint64_t n, uint64_t *size, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const bool nested = spec->form == RS_GATHER_PADDED_NESTED;
    uint64_t dims[3] = {n, 0, 0};
    if (!width_of(self->longest, spec->length, spec->multiple, &dims[1]) ||
        !width_of(self->inner_longest, spec->inner_length, spec->multiple, &dims[2])) {
        return rs_gather_too_large(err);
    }
    RS_TRY(add_part(self, spec->dtype, dims, nested ? 3 : 2, true, size, err));
    RS_TRY(add_part(self, RS_DTYPE_INT64, dims, 1, false, size, err));
    return nested ? add_part(self, RS_DTYPE_INT64, dims, 2, false, size, err) : RS_OK;
}

static rs_status lay_out(rs_gather_field *self, uint64_t n, uint64_t *size, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const uint64_t n_offsets = n + 1, n_inner = self->counts.size_bytes / 8 + 1, text_bytes = self->values.size_bytes;
    switch (spec->form) {
    case RS_GATHER_VALUES: return add_part(self, spec->dtype, &n, 1, true, size, err);
    case RS_GATHER_CODES: return add_part(self, RS_DTYPE_INT64, &n, 1, false, size, err);
    case RS_GATHER_RAGGED:
        RS_TRY(add_part(self, spec->dtype, &self->total, 1, true, size, err));
        return add_part(self, RS_DTYPE_INT64, &n_offsets, 1, false, size, err);
    case RS_GATHER_NESTED:
        RS_TRY(add_part(self, spec->dtype, &self->total, 1, true, size, err));
        RS_TRY(add_part(self, RS_DTYPE_INT64, &n_inner, 1, false, size, err));
        return add_part(self, RS_DTYPE_INT64, &n_offsets, 1, false, size, err);
    case RS_GATHER_PADDED:
    case RS_GATHER_PADDED_NESTED: return lay_out_padded(self, n, size, err);
    case RS_GATHER_TEXT:
        RS_TRY(add_part(self, RS_DTYPE_UINT8, &text_bytes, 1, false, size, err));
        return add_part(self, RS_DTYPE_INT64, &n_offsets, 1, false, size, err);
    case RS_GATHER_PACKED: {
        const uint64_t dims[2] = {self->rows, spec->length}, boundaries = self->n_pieces + 1;
        RS_TRY(add_part(self, spec->dtype, dims, 2, false, size, err));
        RS_TRY(add_part(self, RS_DTYPE_INT64, dims, 2, false, size, err));
        RS_TRY(add_part(self, RS_DTYPE_INT64, dims, 2, false, size, err));
        return add_part(self, RS_DTYPE_INT64, &boundaries, 1, false, size, err);
    }
    default: return RS_OK;
    }
}

/* Returns the number of inner lists of the records before record i, in a nested form. */
static uint64_t lists_before(const rs_gather_field *self, uint64_t i) { return rs_load_u64(self->ends.data + 8 * i); }

/* Returns the number of rows of inner list k. */
static uint64_t rows_of_list(const rs_gather_field *self, uint64_t k) { return rs_load_u64(self->counts.data + 8 * k); }

/* Returns whether the list of record i, or one within it, is too long; if so, sets *number to its length. */
static bool is_long(const rs_gather_field *self, uint64_t i, uint64_t *number) {
    const rs_gather_spec *spec = self->spec;
    if (spec->form != RS_GATHER_PADDED_NESTED) {
        *number = runs_of(self)[i].n / spec->row_numbers;
        return *number > spec->length;
    }
    *number = lists_before(self, i + 1) - lists_before(self, i);
    if (spec->length != 0 && *number > spec->length) return true;
    for (uint64_t k = lists_before(self, i); spec->inner_length != 0 && k < lists_before(self, i + 1); k++) {
        *number = rows_of_list(self, k);
        if (*number > spec->inner_length) return true;
    }
    return false;
}

/* Sets the stop at the first list that is too long. */
static void find_long(rs_gather *self, uint32_t f) {
    const rs_gather_field *field = &self->fields[f];
    const rs_gather_spec *spec = field->spec;
    const bool bounded = spec->form == RS_GATHER_PADDED || spec->form == RS_GATHER_PADDED_NESTED ||
                         (spec->form == RS_GATHER_PACKED && !spec->split && field->given == NULL);
    const bool outer = spec->length != 0 && field->longest > spec->length;
    const bool inner = spec->inner_length != 0 && field->inner_longest > spec->inner_length;
    uint64_t i;
    if (!bounded || spec->truncate || (!outer && !inner)) return;
    for (i = 0; i < self->n && !is_long(field, i, &self->stop.number); i++) {
    }
    if (i == self->n) return;
    self->stop.why = RS_GATHER_LONG;
    self->stop.field = f;
    self->stop.record = i;
}

/* Sets the stop at the first document with fewer tokens than its given row takes. */
static void find_short(rs_gather *self, uint32_t f) {
    const rs_gather_field *field = &self->fields[f];
    for (uint64_t i = 0; field->given != NULL && i < self->n; i++) {
        const uint64_t first = rs_gather_packed_first(field, i), n = runs_of(field)[i].n;
        if (first <= n && rs_gather_packed_tokens(field, i) <= n - first) continue;
        self->stop = (rs_gather_stop){RS_GATHER_SHORT, f, i, self->stop.index, self->stop.block, n};
        return;
    }
}

rs_status rs_gather_layout(rs_gather *self, uint64_t *size_bytes, rs_error *err) {
    *size_bytes = 0;
    self->stop.why = RS_GATHER_DONE;
    for (uint32_t f = 0; f < self->n_fields; f++) {
        rs_gather_field *field = &self->fields[f];
        find_long(self, f);
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
        field->n_parts = 0;
        if (field->spec->form == RS_GATHER_PACKED) {
            find_short(self, f);
            if (self->stop.why != RS_GATHER_DONE) return RS_OK;
            RS_TRY(rs_gather_pack(field, self->n, err));
        }
        RS_TRY(lay_out(field, self->n, size_bytes, err));
        if (field->spec->missing == RS_GATHER_MASK) {
            RS_TRY(add_part(field, RS_DTYPE_BOOL, &self->n, 1, false, size_bytes, err));
        }
    }
    return RS_OK;
}

void rs_gather_place(rs_gather *self, uint8_t *buffer) {
    for (uint32_t f = 0; self->direct && f < self->n_fields; f++) {
        rs_gather_field *field = &self->fields[f];
        field->to = buffer + field->parts[0].off;
        if (field->spec->missing == RS_GATHER_MASK) field->valid = buffer + field->parts[field->n_parts - 1].off;
    }
}

/* ---- Filling ---- */

/* Prefetches the first bytes of a run. The processor prefetches the rest of a long run by itself. */
static void prefetch_run(const rs_run *run) {
    const uint64_t size = run->kind == RS_RUN_READY ? 0 : run->at < PREFETCHED_MOST ? run->at : PREFETCHED_MOST;
    for (uint64_t at = 0; at < size; at += 64) RS_PREFETCH(run->data + at);
}

/* Writes `rows` rows of the run of record i, from row `first` on, at `to`. */
static rs_status write_run(rs_gather *self, uint32_t f, uint64_t i, uint64_t first, uint64_t rows, uint8_t *to,
                           rs_error *err) {
    rs_gather_field *field = &self->fields[f];
    const rs_run *run = &runs_of(field)[i];
    const uint64_t n = rows * field->spec->row_numbers, before = first * field->spec->row_numbers;
    uint64_t written;
    if (i == 0) {
        for (uint64_t k = 0; k < AHEAD && k < self->n; k++) prefetch_run(&run[k]);
    }
    if (i + AHEAD < self->n) prefetch_run(&run[AHEAD]);
    rs_status status = rs_run_write_from(run, before, n, field->spec->dtype, field->values.data, &field->scratch,
                                         &field->scratch_value, to, &written, err);
    if (status == RS_OK && written == n) return RS_OK;
    self->stop.field = f;
    self->stop.record = i;
    if (status != RS_OK) return status;
    self->stop.why = RS_GATHER_RANGE;
    self->stop.number = before + written;
    return RS_OK;
}

static rs_status fill_ragged(rs_gather *self, uint32_t f, uint8_t *buffer, rs_error *err) {
    const rs_gather_field *field = &self->fields[f];
    const uint64_t row_bytes = field->spec->row_numbers * rs_dtype_bytes(field->spec->dtype);
    int64_t *offsets = i64_at(buffer, &field->parts[1]);
    uint64_t i, at = 0;
    for (i = 0; i < self->n; i++) {
        const uint64_t rows = runs_of(field)[i].n / field->spec->row_numbers;
        offsets[i] = (int64_t)at;
        RS_TRY(write_run(self, f, i, 0, rows, buffer + field->parts[0].off + at * row_bytes, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
        at += rows;
    }
    offsets[i] = (int64_t)at;
    return RS_OK;
}

static uint64_t at_most(uint64_t n, uint64_t limit) { return n < limit ? n : limit; }

static rs_status fill_padded(rs_gather *self, uint32_t f, uint8_t *buffer, rs_error *err) {
    const rs_gather_field *field = &self->fields[f];
    const rs_gather_spec *spec = field->spec;
    const unsigned size = rs_dtype_bytes(spec->dtype);
    const uint64_t width = field->parts[0].shape[1], row_bytes = spec->row_numbers * size;
    int64_t *lengths = i64_at(buffer, &field->parts[1]);
    uint8_t *to = buffer + field->parts[0].off;
    for (uint64_t i = 0; i < self->n; i++, to += width * row_bytes) {
        const uint64_t rows = at_most(runs_of(field)[i].n / spec->row_numbers, width);
        lengths[i] = (int64_t)rows;
        RS_TRY(write_run(self, f, i, 0, rows, to, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
        rs_dtype_repeat(spec->fill, size, (width - rows) * spec->row_numbers, to + rows * row_bytes);
    }
    return RS_OK;
}

static void fill_nested(const rs_gather *self, const rs_gather_field *field, uint8_t *buffer) {
    int64_t *inner = i64_at(buffer, &field->parts[1]), *outer = i64_at(buffer, &field->parts[2]);
    const uint64_t lists = field->counts.size_bytes / 8;
    uint64_t at = 0;
    if (field->values.size_bytes != 0) {
        memcpy(buffer + field->parts[0].off, field->values.data, field->values.size_bytes);
    }
    for (uint64_t i = 0; i < lists; i++) {
        inner[i] = (int64_t)at;
        at += rows_of_list(field, i);
    }
    inner[lists] = (int64_t)at;
    for (uint64_t i = 0; i <= self->n; i++) outer[i] = (int64_t)lists_before(field, i);
}

static void fill_padded_nested(const rs_gather *self, const rs_gather_field *field, uint8_t *buffer) {
    const rs_gather_spec *spec = field->spec;
    const unsigned size = rs_dtype_bytes(spec->dtype);
    const uint64_t row_bytes = spec->row_numbers * size;
    const uint64_t width = field->parts[0].shape[1], inner_width = field->parts[0].shape[2];
    int64_t *lengths = i64_at(buffer, &field->parts[1]), *inner = i64_at(buffer, &field->parts[2]);
    const uint8_t *from = field->values.data;
    uint8_t *to = buffer + field->parts[0].off;
    uint64_t list = 0;
    for (uint64_t i = 0; i < self->n; i++) {
        const uint64_t end = lists_before(field, i + 1), n_kept = at_most(end - list, width);
        lengths[i] = (int64_t)n_kept;
        for (uint64_t k = 0; k < width; k++, inner++, to += inner_width * row_bytes) {
            const uint64_t rows = k < n_kept ? rows_of_list(field, list + k) : 0, written = at_most(rows, inner_width);
            *inner = (int64_t)written;
            if (written > 0) memcpy(to, from, (size_t)(written * row_bytes));
            rs_dtype_repeat(spec->fill, size, (inner_width - written) * spec->row_numbers, to + written * row_bytes);
            if (rows > 0) from += rows * row_bytes;
        }
        for (uint64_t k = n_kept; k < end - list; k++) from += rows_of_list(field, list + k) * row_bytes;
        list = end;
    }
}

static void fill_text(const rs_gather *self, const rs_gather_field *field, uint8_t *buffer) {
    if (field->values.size_bytes != 0) {
        memcpy(buffer + field->parts[0].off, field->values.data, field->values.size_bytes);
    }
    memcpy(buffer + field->parts[1].off, field->ends.data, (size_t)(self->n + 1) * 8);
}

static rs_status fill_packed(rs_gather *self, uint32_t f, uint8_t *buffer, rs_error *err) {
    const rs_gather_field *field = &self->fields[f];
    const unsigned size = rs_dtype_bytes(field->spec->dtype);
    for (uint64_t i = 0; i < self->n; i++) {
        const uint64_t begin = rs_load_u64(field->starts.data + 8 * i);
        RS_TRY(write_run(self, f, i, rs_gather_packed_first(field, i), rs_gather_packed_tokens(field, i),
                         buffer + field->parts[0].off + begin * size, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
    }
    rs_gather_fill_packed(field, self->n, buffer);
    return RS_OK;
}

static rs_status fill_field(rs_gather *self, uint32_t f, uint8_t *buffer, rs_error *err) {
    const rs_gather_field *field = &self->fields[f];
    const rs_gather_spec *spec = field->spec;
    if (spec->missing == RS_GATHER_MASK && self->n != 0) {
        memcpy(buffer + field->parts[field->n_parts - 1].off, field->valid, (size_t)self->n);
    }
    switch (spec->form) {
    case RS_GATHER_VALUES:
    case RS_GATHER_CODES: {
        const uint64_t size = self->n * rs_gather_value_bytes(spec);
        if (size != 0) memcpy(buffer + field->parts[0].off, field->to, (size_t)size);
        return RS_OK;
    }
    case RS_GATHER_RAGGED: return fill_ragged(self, f, buffer, err);
    case RS_GATHER_NESTED: fill_nested(self, field, buffer); return RS_OK;
    case RS_GATHER_PADDED: return fill_padded(self, f, buffer, err);
    case RS_GATHER_PADDED_NESTED: fill_padded_nested(self, field, buffer); return RS_OK;
    case RS_GATHER_TEXT: fill_text(self, field, buffer); return RS_OK;
    case RS_GATHER_PACKED: return fill_packed(self, f, buffer, err);
    default: return RS_OK;
    }
}

rs_status rs_gather_fill(rs_gather *self, uint8_t *buffer, rs_error *err) {
    self->stop.why = RS_GATHER_DONE;
    for (uint32_t f = 0; !self->direct && f < self->n_fields && self->stop.why == RS_GATHER_DONE; f++) {
        RS_TRY(fill_field(self, f, buffer, err));
    }
    return RS_OK;
}
