/* rs_gather.c: measures a batch: locates windows of records, and walks through each record once for all fields. */
#include "columns/rs_gather.h"

#include <stdlib.h>

#include "columns/rs_gather_rows.h"
#include "columns/rs_gather_text.h"
#include "columns/rs_gather_value.h"

enum {
    MIN_ROWS = 4,  /* fewer neighbours of one tree are read faster one by one */
    MIN_ALIKE = 16 /* with fewer of them, cells are faster for one field than loops over one node */
};

rs_status rs_gather_open(rs_gather *self, const rs_gather_spec *specs, uint32_t n_fields, rs_error *err) {
    memset(self, 0, sizeof *self);
    self->fields = (rs_gather_field *)calloc((size_t)n_fields + 1, sizeof *self->fields);
    if (self->fields == NULL) return rs_no_memory(err);
    self->n_fields = n_fields;
    self->direct = true;
    for (uint32_t f = 0; f < n_fields; f++) {
        self->fields[f].spec = &specs[f];
        self->direct = self->direct && rs_gather_is_sized(specs[f].form);
    }
    return RS_OK;
}

void rs_gather_close(rs_gather *self) {
    for (uint32_t f = 0; f < self->n_fields; f++) rs_gather_field_clear(&self->fields[f]);
    free(self->fields);
    memset(self, 0, sizeof *self);
}

uint64_t rs_gather_kept_bytes(const rs_gather *self) {
    uint64_t sum = 0;
    for (uint32_t f = 0; f < self->n_fields; f++) {
        const rs_gather_field *field = &self->fields[f];
        sum += field->values.capacity_bytes + field->valids.capacity_bytes + field->runs.capacity_bytes;
        sum += field->ends.capacity_bytes + field->counts.capacity_bytes + field->starts.capacity_bytes;
        sum += field->scratch.capacity_bytes + field->scratch_value.capacity_bytes;
    }
    return sum;
}

rs_status rs_gather_begin(rs_gather *self, uint64_t n, rs_error *err) {
    self->n = n;
    self->done = 0;
    self->window.n = 0;
    memset(&self->stop, 0, sizeof self->stop);
    rs_gather_give(self, NULL);
    for (uint32_t f = 0; f < self->n_fields; f++) RS_TRY(rs_gather_field_begin(&self->fields[f], n, self->direct, err));
    return RS_OK;
}

void rs_gather_give(rs_gather *self, const rs_gather_given *given) {
    for (uint32_t f = 0; f < self->n_fields; f++) self->fields[f].given = given;
}

/* ---- One value ---- */

/* Takes a field of record i of the window. */
static rs_status take_one(rs_gather *self, const rs_source *source, rs_gather_field *field,
                          const rs_compiled_path *compiled, uint64_t i, rs_passed *passed, rs_error *err) {
    rs_cursor cursor =
        rs_store_cursor_over(source->store, self->window.blocks[i], self->window.locals[i], self->window.records[i]);
    rs_place place;
    int found;
    RS_TRY(rs_compiled_path_walk_on(compiled, passed, &cursor, &place, &found, err));
    if (found == RS_WALK_FOUND) return rs_gather_take_value(field, &cursor, &place, &self->stop, err);
    if (found == RS_WALK_LACKING) return rs_gather_take_missing(field, RS_GATHER_LACKING, &self->stop, err);
    self->stop.why = RS_GATHER_UNSURE;
    return RS_OK;
}

rs_status rs_gather_take(rs_gather *self, const rs_cursor *cursor, const rs_place *place, rs_error *err) {
    rs_gather_field *field = &self->fields[self->stop.field];
    self->stop.why = RS_GATHER_DONE;
    if (place == NULL) return rs_gather_take_missing(field, RS_GATHER_LACKING, &self->stop, err);
    rs_cursor own = *cursor;
    rs_place at = *place;
    return rs_gather_take_value(field, &own, &at, &self->stop, err);
}

rs_status rs_gather_take_string(rs_gather *self, rs_error *err) {
    self->stop.why = RS_GATHER_DONE;
    return rs_gather_skip_text(&self->fields[self->stop.field], err);
}

/* ---- A window ---- */

/* Takes a single number of one record without a walk. Returns false, and takes nothing, if that fails. */
static bool take_single(rs_gather_field *field, const rs_compiled_path *compiled, const rs_slice *record) {
    const uint8_t *start = record->ptr;
    if (!field->single || rs_slice_left(record) < compiled->least) return false;
    rs_slice group = rs_slice_of(start + compiled->group_off, (size_t)compiled->group_bytes);
    return rs_gather_take_single(field, compiled->node, start + compiled->body_off,
                                 rs_decode_bits_unchecked(&group, compiled->bit_off, compiled->node->bits));
}

/* Takes a field with a fixed body from records `begin` to `end` - 1 of the window, which have one tree. */
static rs_status take_fixed(rs_gather *self, const rs_source *source, uint32_t f, uint64_t begin, uint64_t end,
                            rs_error *err) {
    const rs_compiled_path *compiled = self->window.paths[begin]->of_field[f];
    rs_gather_field *field = &self->fields[f];
    uint64_t long_end = begin, least = 0, i;
    /* Rows are read together up to the first that is too short; a walk reports its error. */
    if (end - begin >= MIN_ROWS || !field->single) {
        long_end = rs_window_long_end(&self->window, begin, end, compiled->least, &least);
    }
    while ((i = field->done - self->done) < end) {
        rs_passed passed = {NULL, 0, NULL};
        if (i < long_end) {
            const rs_cursor cursor = rs_store_cursor_over(source->store, self->window.blocks[i], self->window.locals[i],
                                                          rs_slice_of(NULL, 0));
            rs_column_rows rows = {NULL, 0, NULL, 0, 0, 0, 0, NULL, 0, 0};
            rows.locals = self->window.locals + i;
            rows.records = self->window.records + i;
            rows.n = compiled->placed ? rs_window_of_block(&self->window, i, long_end) : long_end - i;
            rows.least = least;
            rows.bit_off = compiled->group_off * 8 + compiled->bit_off;
            rows.body_off = compiled->body_off;
            RS_TRY(rs_gather_take_rows(field, &cursor, compiled->node, &rows, &self->stop, err));
            i = field->done - self->done;
        }
        if (self->stop.why == RS_GATHER_DONE && i < end && !take_single(field, compiled, &self->window.records[i])) {
            RS_TRY(take_one(self, source, field, compiled, i, &passed, err));
        }
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
    }
    return RS_OK;
}

/* Takes the fields of one record that have no fixed body, in the order of a walk. */
static rs_status take_walked(rs_gather *self, const rs_source *source, uint64_t i, rs_error *err) {
    const rs_tree_paths *paths = self->window.paths[i];
    rs_passed passed = {NULL, 0, NULL};
    for (uint32_t k = paths->n_fixed; k < paths->n; k++) {
        const uint32_t f = paths->order[k];
        if (self->fields[f].done > self->done + i) continue;
        self->stop.field = f;
        RS_TRY(take_one(self, source, &self->fields[f], paths->of_field[f], i, &passed, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
    }
    return RS_OK;
}

/* Takes records `begin` to `end` - 1 of the window, which have one tree. */
static rs_status take_alike(rs_gather *self, const rs_source *source, uint64_t begin, uint64_t end, rs_error *err) {
    const rs_tree_paths *paths = self->window.paths[begin];
    for (uint32_t k = 0; k < paths->n_fixed; k++) {
        self->stop.field = paths->order[k];
        RS_TRY(take_fixed(self, source, paths->order[k], begin, end, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
    }
    for (uint64_t i = begin; i < end && paths->n_fixed < paths->n; i++) {
        RS_TRY(take_walked(self, source, i, err));
        if (self->stop.why != RS_GATHER_DONE) return RS_OK;
    }
    return RS_OK;
}

/* ---- Cells ---- */

/* Writes the number of a cell's entry. Returns false if the entry is not cached or has another type. */
static bool load_coded(const rs_gather_field *field, const rs_cell *cell, const uint8_t *record, unsigned type,
                       uint8_t **to) {
    const rs_entry *entry =
        rs_entries_cached(&field->entries, cell->node, rs_cell_stored_unchecked(cell, record, cell->bit));
    if (entry == NULL || entry->kind != type) return false;
    if (type == RS_COLUMN_BOOL) {
        *(*to)++ = entry->bits != 0;
    } else {
        rs_store_u64(*to, entry->bits);
        *to += 8;
    }
    return true;
}

/* Writes the numbers of the records from number `begin` of the window on, and returns their end: numbers of `type`, in
 * lists of `count`, or single if `count` is 0. Stops before a record that has other numbers or is too short. `end` is
 * the end of the segment. Sets *n to the number of records read. */
static uint8_t *load_cells(const rs_gather *self, uint64_t begin, unsigned type, uint32_t count, const uint8_t *end,
                           uint8_t *to, uint64_t *n) {
    const rs_window *window = &self->window;
    uint64_t i;
    for (i = begin; i < window->n; i++) {
        const rs_cell *cell = &window->paths[i]->of_field[0]->cell;
        const rs_slice *record = &window->records[i];
        if (cell->count != count || rs_slice_left(record) < cell->least ||
            (uint64_t)(end - record->ptr) < cell->reach) {
            break;
        }
        if (RS_LIKELY(cell->type == type)) {
            to = rs_cell_load_unchecked(cell, record->ptr, count == 0 ? 1 : count, to);
        } else if (cell->kind != RS_CELL_CODED || !load_coded(self->fields, cell, record->ptr, type, &to)) {
            break;
        }
    }
    *n = i - begin;
    return to;
}

/* Takes the only field of records of any trees from number `begin` of the window on, while it is a number or a list of
 * numbers at a fixed offset whose bytes are converted to no other type. Sets *n to the number of records taken. */
static rs_status take_cells(rs_gather *self, const rs_source *source, uint64_t begin, uint64_t *n, rs_error *err) {
    rs_gather_field *field = self->fields;
    const rs_cell *first = &self->window.paths[begin]->of_field[0]->cell;
    const unsigned type = field->is_column ? field->column.seen : field->type;
    const uint32_t count = first->count;
    rs_buffer *values = &field->column.values;
    *n = 0;
    if (type == 0 || first->kind == RS_CELL_NONE || (first->type != type && first->kind != RS_CELL_CODED)) return RS_OK;
    /* A cell has no lists in lists, so a row of several dimensions is not in one. */
    if (field->spec->form == RS_GATHER_LISTS
            ? count == 0
            : field->spec->n_row > 1 || count != field->spec->n_row * field->spec->row_numbers) {
        return RS_OK;
    }
    if (count > 0) {
        rs_cursor cursor = rs_store_cursor_over(source->store, self->window.blocks[begin], self->window.locals[begin],
                                                self->window.records[begin]);
        RS_TRY(rs_decode_enter(&cursor, count, err));
    }
    /* The product does not overflow: at most 2^8 records of fewer than 2^32 numbers. */
    if (field->is_column)
        RS_TRY(rs_column_reserve(&field->column, (self->window.n - begin) * (count > 0 ? count : 1), err));
    uint8_t *to = field->is_column ? values->data + values->size_bytes
                                   : field->to + field->done * rs_gather_value_bytes(field->spec);
    to = load_cells(self, begin, type, count, source->store->segment.end, to, n);
    if (field->is_column) values->size_bytes = (size_t)(to - values->data);
    if (field->spec->form == RS_GATHER_LISTS) RS_TRY(rs_gather_put_even_ends(field, *n, count, err));
    rs_gather_count(field, *n);
    return RS_OK;
}

/* ---- Windows ---- */

/* Takes the records of the window, except those taken before a stop. */
static rs_status take_window(rs_gather *self, const rs_source *source, rs_error *err) {
    const rs_window *window = &self->window;
    rs_status status = RS_OK;
    uint64_t k;
    for (uint64_t i = 0; i < window->n && status == RS_OK && self->stop.why == RS_GATHER_DONE; i = k) {
        for (k = i + 1; k < window->n && window->paths[k] == window->paths[i]; k++) {
        }
        if (k - i < MIN_ALIKE && self->n_fields == 1 && self->fields->done == self->done + i) {
            uint64_t taken;
            status = take_cells(self, source, i, &taken, err);
            if (taken > 0) k = i + taken;
            if (taken > 0 || status != RS_OK) continue;
        }
        status = take_alike(self, source, i, k, err);
    }
    if (status == RS_OK && self->stop.why == RS_GATHER_DONE) {
        self->done += window->n;
        self->window.n = 0;
        return RS_OK;
    }
    self->stop.record = self->fields[self->stop.field].done;
    self->stop.index = rs_window_index(window, self->stop.record - self->done);
    return status;
}

/* Takes the only field of rows of one size at equal steps, which are not located one by one. Sets *taken to false if
 * the block of the next record has no such rows, or the first has to be read by itself. */
static rs_status take_stretch(rs_gather *self, const rs_source *source, int64_t start, int64_t step, uint64_t end,
                              bool *taken, rs_error *err) {
    rs_gather_field *field = self->fields;
    const rs_tree_paths *paths = NULL;
    const rs_block *block = NULL;
    rs_window_stop at = {.index = rs_window_index_at(NULL, start, step, self->done)};
    rs_error ignored;
    *taken = false;
    if (rs_source_find_block(source, &at, &block, &paths, &ignored) != RS_OK || block == NULL) return RS_OK;
    const rs_compiled_path *compiled = paths->of_field[0];
    if (block->index_width != 0 || paths->n_fixed == 0 || block->row_size_bytes < compiled->least) return RS_OK;
    rs_column_rows rows = rs_window_rows(source->store, block, at.index, step, end - self->done);
    rows.bit_off = compiled->group_off * 8 + compiled->bit_off, rows.body_off = compiled->body_off;
    const rs_cursor cursor = rs_store_cursor_over(source->store, block, 0, rs_slice_of(rows.base, 0));
    self->stop.field = 0;
    rs_status status = rs_gather_take_rows(field, &cursor, compiled->node, &rows, &self->stop, err);
    *taken = field->done > self->done || self->stop.why != RS_GATHER_DONE;
    self->stop.record = self->done = field->done;
    self->stop.index = rs_window_index_at(NULL, start, step, self->done);
    return status;
}

rs_status rs_gather_measure(rs_gather *self, const rs_source *source, const int64_t *positions, int64_t start,
                            int64_t step, uint64_t end, rs_error *err) {
    self->stop.why = RS_GATHER_DONE;
    while (self->stop.why == RS_GATHER_DONE && (self->done < end || self->window.n > 0)) {
        if (self->window.n == 0) {
            rs_window_stop at;
            bool taken = false;
            if (positions == NULL && self->n_fields == 1) {
                RS_TRY(take_stretch(self, source, start, step, end, &taken, err));
                if (taken) continue;
            }
            rs_status status =
                rs_window_locate(&self->window, source, positions, start, step, self->done, end, &at, err);
            if (status != RS_OK || self->window.n == 0) {
                self->stop.why = RS_GATHER_BLOCK;
                self->stop.field = UINT32_MAX;
                self->stop.record = self->done;
                self->stop.index = at.index, self->stop.block = at.block;
                return status;
            }
        }
        RS_TRY(take_window(self, source, err));
    }
    return RS_OK;
}
