/* rs_gather_value.c: takes values by their form, missing values, and entries of tables. */
#include "columns/rs_gather_value.h"

#include "columns/rs_gather_numbers.h"
#include "columns/rs_gather_text.h"

/* ---- Missing values ---- */

/* Writes the fill, or an empty list or text. */
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
    case RS_GATHER_STRINGS: return rs_buffer_append_u64(&self->ends, self->values.size_bytes, err);
    case RS_GATHER_NESTED:
    case RS_GATHER_PADDED_NESTED: return rs_buffer_append_u64(&self->ends, self->counts.size_bytes / 8, err);
    default: return rs_gather_add_run(self, &empty, err);
    }
}

rs_status rs_gather_take_missing(rs_gather_field *self, int why, rs_gather_stop *stop, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    if (why == RS_GATHER_LACKING && spec->absent.ptr != NULL) {
        rs_cursor cursor = {.in = spec->absent, .budget = {.depth = RS_FMT_DEPTH}};
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

/* Appends a number or a list of numbers to the column. */
static rs_status take_column(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                             rs_error *err) {
    rs_column *column = &self->column;
    bool taken;
    if (self->spec->form == RS_GATHER_NUMBERS) {
        RS_TRY(rs_column_take_number(column, cursor, place, &taken, err));
        if (!taken) stop->why = RS_GATHER_KIND;
        return RS_OK;
    }
    RS_TRY(rs_gather_append_list(self, cursor, place, stop, err));
    return rs_buffer_append_u64(&self->ends, column->values.size_bytes / rs_column_item_bytes(column), err);
}

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
    } else if (self->is_column) {
        RS_TRY(take_column(self, cursor, place, stop, err));
    } else {
        RS_TRY(rs_gather_take_numbers(self, cursor, place, stop, err));
    }
    if (stop->why == RS_GATHER_DONE) rs_gather_count(self, 1);
    return RS_OK;
}

rs_status rs_gather_take_other_entry(rs_gather_field *self, const rs_entry *entry, bool *taken, rs_gather_stop *stop,
                                     rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    *taken = false;
    if (entry->kind == RS_ENTRY_NONE) {
        RS_TRY(rs_gather_take_missing(self, RS_GATHER_NONE, stop, err));
        *taken = stop->why == RS_GATHER_DONE;
        return RS_OK;
    }
    if (spec->form == RS_GATHER_NUMBERS) {
        *taken = (entry->kind & RS_ENTRY_NUMBER) != 0;
        if (!*taken) return RS_OK;
        RS_TRY(rs_column_reserve(&self->column, 1, err));
        rs_column_put_unchecked(&self->column, entry->kind, entry->bits);
    } else if (spec->form == RS_GATHER_VALUES) {
        if ((entry->kind & RS_ENTRY_NUMBER) == 0 || spec->n_row != 0) return RS_OK;
        *taken =
            rs_gather_put_number(self, entry->kind, entry->bits, self->to + self->done * rs_gather_value_bytes(spec));
    } else if (spec->form == RS_GATHER_CODES) {
        *taken = rs_gather_take_code_entry(self, entry);
    }
    if (*taken) rs_gather_count(self, 1);
    return RS_OK;
}
