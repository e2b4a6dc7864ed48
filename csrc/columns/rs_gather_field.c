/* rs_gather_field.c: the state of a field. */
#include "columns/rs_gather_field.h"

uint64_t rs_gather_value_bytes(const rs_gather_spec *spec) {
    return spec->form == RS_GATHER_CODES ? 8 : spec->row_numbers * rs_dtype_bytes(spec->dtype);
}

rs_status rs_gather_too_large(rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a batch is too large for memory");
}

rs_status rs_gather_field_begin(rs_gather_field *self, uint64_t n, bool direct, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    uint64_t size;
    self->item_bytes = rs_dtype_bytes(spec->dtype);
    self->is_text = spec->form == RS_GATHER_TEXT || spec->form == RS_GATHER_STRINGS;
    self->is_column = spec->form >= RS_GATHER_NUMBERS;
    self->single = spec->form == RS_GATHER_VALUES && spec->n_row == 0;
    self->type = spec->form != RS_GATHER_VALUES    ? 0
                 : spec->dtype == RS_DTYPE_INT64   ? RS_COLUMN_INT
                 : spec->dtype == RS_DTYPE_FLOAT64 ? RS_COLUMN_FLOAT
                 : spec->dtype == RS_DTYPE_BOOL    ? RS_COLUMN_BOOL
                                                   : 0;
    self->done = self->total = self->longest = self->inner_longest = self->rows = 0;
    self->n_parts = 0;
    self->to = self->valid = NULL;
    self->values.size_bytes = self->valids.size_bytes = self->runs.size_bytes = 0;
    self->ends.size_bytes = self->counts.size_bytes = self->starts.size_bytes = 0;
    rs_column_empty(&self->column);
    RS_TRY(rs_buffer_append_u64(&self->ends, 0, err));
    if (n > SIZE_MAX / 64) return rs_gather_too_large(err);
    if (direct) return RS_OK;
    if (spec->missing == RS_GATHER_MASK || (spec->missing == RS_GATHER_FILL && spec->form == RS_GATHER_STRINGS)) {
        RS_TRY(rs_buffer_reserve(&self->valids, (size_t)n, err));
        self->valid = self->valids.data;
    }
    if (rs_gather_is_sized(spec->form)) {
        if (rs_mul_overflows(n, rs_gather_value_bytes(spec), &size) || size > SIZE_MAX / 2) {
            return rs_gather_too_large(err);
        }
        RS_TRY(rs_buffer_reserve(&self->values, (size_t)size, err));
        self->to = self->values.data;
    } else if (spec->form <= RS_GATHER_PACKED) {
        RS_TRY(rs_buffer_reserve(&self->runs, (size_t)n * sizeof(rs_run), err));
    } else if (spec->form != RS_GATHER_NUMBERS) {
        RS_TRY(rs_buffer_reserve(&self->ends, (size_t)n * 8, err));
    }
    return RS_OK;
}

void rs_gather_field_clear(rs_gather_field *self) {
    rs_buffer_clear(&self->values);
    rs_buffer_clear(&self->valids);
    rs_buffer_clear(&self->runs);
    rs_buffer_clear(&self->ends);
    rs_buffer_clear(&self->counts);
    rs_buffer_clear(&self->scratch);
    rs_buffer_clear(&self->scratch_value);
    rs_buffer_clear(&self->starts);
    rs_column_clear(&self->column);
    rs_entries_clear(&self->entries);
    memset(self, 0, sizeof *self);
}

rs_status rs_gather_add_run(rs_gather_field *self, const rs_run *run, rs_error *err) {
    const uint64_t rows = run->n / self->spec->row_numbers;
    RS_TRY(rs_buffer_append(&self->runs, run, sizeof *run, err));
    if (rows > self->longest) self->longest = rows;
    if (rs_add_overflows(self->total, rows, &self->total)) return rs_gather_too_large(err);
    return RS_OK;
}
