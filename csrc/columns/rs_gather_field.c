/* rs_gather_field.c: the state of a field, missing values, and entries of tables. */
#include "columns/rs_gather_field.h"

uint64_t rs_gather_value_bytes(const rs_gather_spec *spec) {
    return spec->form == RS_GATHER_CODES ? 8 : spec->row_numbers * rs_dtype_bytes(spec->dtype);
}

static rs_status too_large(rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a batch is too large for memory");
}

rs_status rs_gather_field_begin(rs_gather_field *self, uint64_t n, bool direct, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    uint64_t size;
    self->item_bytes = rs_dtype_bytes(spec->dtype);
    self->single = spec->form == RS_GATHER_VALUES && spec->n_row == 0;
    self->done = self->total = self->longest = self->inner_longest = self->rows = 0;
    self->n_parts = 0;
    self->to = self->valid = NULL;
    self->values.size_bytes = self->valids.size_bytes = self->runs.size_bytes = 0;
    self->ends.size_bytes = self->counts.size_bytes = self->starts.size_bytes = 0;
    if (n > SIZE_MAX / 64) return too_large(err);
    if (direct) return RS_OK;
    if (spec->missing == RS_GATHER_MASK || spec->form == RS_GATHER_STRINGS) {
        RS_TRY(rs_buffer_reserve(&self->valids, (size_t)n, err));
        self->valid = self->valids.data;
    }
    if (rs_gather_is_sized(spec->form)) {
        if (rs_mul_overflows(n, rs_gather_value_bytes(spec), &size) || size > SIZE_MAX / 2) return too_large(err);
        RS_TRY(rs_buffer_reserve(&self->values, (size_t)size, err));
        self->to = self->values.data;
    } else if (spec->form != RS_GATHER_TEXT && spec->form != RS_GATHER_STRINGS) {
        RS_TRY(rs_buffer_reserve(&self->runs, (size_t)n * sizeof(rs_run), err));
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
    rs_buffer_clear(&self->loose);
    rs_buffer_clear(&self->starts);
    rs_column_clear(&self->column);
    rs_entries_clear(&self->entries);
    memset(self, 0, sizeof *self);
}

rs_status rs_gather_note_run(rs_gather_field *self, const rs_run *run, rs_error *err) {
    const uint64_t rows = run->n / self->spec->row_numbers;
    RS_TRY(rs_buffer_append(&self->runs, run, sizeof *run, err));
    if (rows > self->longest) self->longest = rows;
    if (rs_add_overflows(self->total, rows, &self->total)) return too_large(err);
    return RS_OK;
}

/* ---- Missing values ---- */

static rs_status put_end(rs_buffer *ends, uint64_t end, rs_error *err) {
    uint8_t bytes[8];
    rs_store_u64(bytes, end);
    return rs_buffer_append(ends, bytes, 8, err);
}

/* Gives the fill, or an empty list or text. */
static rs_status put_missing(rs_gather_field *self, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    static const rs_run empty = {.kind = RS_RUN_READY};
    switch (spec->form) {
    case RS_GATHER_VALUES:
        rs_dtype_repeat(spec->fill, rs_dtype_bytes(spec->dtype), spec->row_numbers,
                        self->to + self->done * rs_gather_value_bytes(spec));
        return RS_OK;
    case RS_GATHER_CODES: memcpy(self->to + self->done * 8, spec->fill, 8); return RS_OK;
    case RS_GATHER_TEXT:
    case RS_GATHER_STRINGS: return put_end(&self->ends, self->values.size_bytes, err);
    case RS_GATHER_NESTED:
    case RS_GATHER_PADDED_NESTED: return put_end(&self->ends, self->counts.size_bytes / 8, err);
    default: return rs_gather_note_run(self, &empty, err);
    }
}

rs_status rs_gather_take_missing(rs_gather_field *self, int why, rs_gather_stop *stop, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    if (why == RS_GATHER_LACKING && spec->absent.ptr != NULL) {
        rs_cursor cursor = {spec->absent, NULL, 0, {0, 0, RS_FMT_DEPTH}, false, 0, NULL};
        rs_place place = {NULL, NULL, 0};
        cursor.budget.values = cursor.budget.bytes = rs_slice_left(&spec->absent);
        return rs_gather_take_value(self, &cursor, &place, stop, err);
    }
    if (spec->missing == RS_GATHER_RAISE) {
        stop->why = why;
        return RS_OK;
    }
    RS_TRY(put_missing(self, err));
    if (self->valid != NULL) self->valid[self->done] = 0;
    self->done++;
    return RS_OK;
}

/* ---- Values ---- */

rs_status rs_gather_take_value(rs_gather_field *self, rs_cursor *cursor, rs_place *place, rs_gather_stop *stop,
                               rs_error *err) {
    const unsigned form = self->spec->form;
    if (self->single && place->node != NULL && rs_gather_take_single(self, place->node, place->body, place->bits)) {
        return RS_OK;
    }
    if (place->node != NULL && place->node->kind == RS_FMT_NODE_DICT_CODED) {
        const rs_entry *entry;
        bool taken;
        RS_TRY(rs_entries_at(&self->entries, cursor, place->node, place->bits, &entry, err));
        RS_TRY(rs_gather_take_entry(self, entry, &taken, stop, err));
        if (taken || stop->why != RS_GATHER_DONE) return RS_OK;
        RS_TRY(rs_path_settle(cursor, place, err));
    }
    if (rs_path_is_none(cursor, place)) return rs_gather_take_missing(self, RS_GATHER_NONE, stop, err);
    if (form == RS_GATHER_TEXT || form == RS_GATHER_STRINGS || form == RS_GATHER_CODES) {
        RS_TRY(rs_gather_take_text(self, cursor, place, stop, err));
    } else {
        RS_TRY(rs_gather_take_numbers(self, cursor, place, stop, err));
    }
    if (stop->why != RS_GATHER_DONE) return RS_OK;
    if (self->valid != NULL) self->valid[self->done] = 1;
    self->done++;
    return RS_OK;
}

rs_status rs_gather_take_entry(rs_gather_field *self, const rs_entry *entry, bool *taken, rs_gather_stop *stop,
                               rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    *taken = false;
    if (entry->kind == RS_ENTRY_NONE) {
        RS_TRY(rs_gather_take_missing(self, RS_GATHER_NONE, stop, err));
        *taken = stop->why == RS_GATHER_DONE;
        return RS_OK;
    }
    if (spec->form == RS_GATHER_VALUES) {
        if ((entry->kind & RS_ENTRY_NUMBER) == 0 || spec->n_row != 0) return RS_OK;
        *taken =
            rs_gather_put_number(self, entry->kind, entry->bits, self->to + self->done * rs_gather_value_bytes(spec));
    } else if (entry->kind == RS_ENTRY_TEXT || spec->form == RS_GATHER_CODES) {
        RS_TRY(rs_gather_take_text_entry(self, entry, taken, err));
    }
    if (*taken) {
        if (self->valid != NULL) self->valid[self->done] = 1;
        self->done++;
    }
    return RS_OK;
}
