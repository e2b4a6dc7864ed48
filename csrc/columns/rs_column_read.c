/* rs_column_read.c: appends the field of each record of a window to the column. */
#include "columns/rs_column_read.h"

#include "columns/rs_placed_rows.h"

enum { MIN_ALIKE = 16 }; /* with fewer records of one tree, cells are faster than loops over one node */

rs_status rs_column_read_open(rs_column_read *self, uint64_t n, bool nulls, rs_error *err) {
    self->nulls = nulls;
    if (n > SIZE_MAX / 64) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a column has too many records");
    if (nulls) RS_TRY(rs_buffer_reserve(&self->valid, (size_t)n, err));
    return rs_buffer_append_u64(&self->offsets, 0, err);
}

void rs_column_read_clear(rs_column_read *self) {
    rs_column_clear(&self->numbers);
    rs_buffer_clear(&self->text);
    rs_buffer_clear(&self->offsets);
    rs_buffer_clear(&self->valid);
    rs_entries_clear(&self->entries);
    memset(self, 0, sizeof *self);
}

/* ---- One value ---- */

static rs_status put_offset(rs_column_read *self, uint64_t end, rs_error *err) {
    return rs_buffer_append_u64(&self->offsets, end, err);
}

static uint64_t last_offset(const rs_column_read *self) {
    return rs_load_u64(self->offsets.data + self->offsets.size_bytes - 8);
}

/* Appends the offsets of n lists of `count` numbers. */
static rs_status put_even_offsets(rs_column_read *self, uint64_t n, uint64_t count, rs_error *err) {
    const uint64_t before = last_offset(self);
    RS_TRY(rs_buffer_reserve(&self->offsets, (size_t)n * 8, err));
    uint8_t *to = self->offsets.data + self->offsets.size_bytes;
    for (uint64_t i = 0; i < n; i++) rs_store_u64(to + 8 * i, before + (i + 1) * count);
    self->offsets.size_bytes += (size_t)n * 8;
    return RS_OK;
}

static rs_status put_null(rs_column_read *self, rs_error *err) {
    if (self->kind == RS_COLUMN_SCALAR) {
        RS_TRY(rs_column_reserve(&self->numbers, 1, err));
        rs_column_put_unchecked(&self->numbers, RS_COLUMN_BOOL, 0);
        return RS_OK;
    }
    return self->kind == RS_COLUMN_OTHER ? RS_OK : put_offset(self, last_offset(self), err);
}

/* Sets the kind of the column by the first value that is not None, and appends the nulls before it. */
static rs_status begin_kind(rs_column_read *self, int kind, rs_error *err) {
    self->kind = kind;
    for (uint64_t i = 0; i < self->n; i++) RS_TRY(put_null(self, err));
    return RS_OK;
}

static rs_status end_value(rs_column_read *self, bool is_null, rs_error *err) {
    const uint8_t valid = !is_null;
    self->n++;
    self->n_null += is_null;
    return self->nulls ? rs_buffer_append(&self->valid, &valid, 1, err) : RS_OK;
}

/* Finds the kind of the column by reading the value, which is then read again. Happens once for a column. */
static rs_status find_kind(rs_column_read *self, rs_cursor cursor, const rs_place *place, rs_error *err) {
    rs_column trial = {{0}, 0, false};
    rs_cursor again = cursor;
    int kind = RS_COLUMN_OTHER;
    uint64_t n;
    bool taken = false;
    rs_status status = rs_column_take(&trial, &cursor, place, &kind, &n, err);
    rs_column_clear(&trial);
    if (status != RS_OK) return status;
    if (kind == RS_COLUMN_OTHER) {
        RS_TRY(rs_utf8_take(&self->text, &again, place, &taken, err));
        self->text.size_bytes = 0;
        if (!taken) return RS_OK;
        kind = RS_COLUMN_READ_TEXT;
    }
    return begin_kind(self, kind, err);
}

static rs_status take_numbers(rs_column_read *self, rs_cursor *cursor, const rs_place *place, bool *fits,
                              rs_error *err) {
    int kind = RS_COLUMN_OTHER;
    uint64_t n = 0;
    RS_TRY(rs_column_take(&self->numbers, cursor, place, &kind, &n, err));
    *fits = kind == self->kind;
    if (!*fits || kind == RS_COLUMN_SCALAR) return RS_OK;
    return put_offset(self, last_offset(self) + n, err);
}

/* Appends the value at a place. The cursor is not usable afterwards. */
static rs_status take_value(rs_column_read *self, rs_cursor *cursor, const rs_place *place, bool *fits, rs_error *err) {
    *fits = true;
    if (self->nulls && rs_path_is_none(cursor, place)) {
        RS_TRY(put_null(self, err));
        return end_value(self, true, err);
    }
    if (self->kind == RS_COLUMN_OTHER) RS_TRY(find_kind(self, *cursor, place, err));
    if (self->kind == RS_COLUMN_READ_TEXT) {
        RS_TRY(rs_utf8_take(&self->text, cursor, place, fits, err));
        if (*fits) RS_TRY(put_offset(self, self->text.size_bytes, err));
    } else if (self->kind != RS_COLUMN_OTHER) {
        RS_TRY(take_numbers(self, cursor, place, fits, err));
    } else {
        *fits = false;
    }
    return *fits ? end_value(self, false, err) : RS_OK;
}

rs_status rs_column_read_take(rs_column_read *self, const rs_cursor *cursor, const rs_place *place, bool *fits,
                              rs_error *err) {
    rs_cursor own = *cursor;
    return take_value(self, &own, place, fits, err);
}

/* Appends the value for records without the field. */
static rs_status take_missing(rs_column_read *self, bool *fits, rs_error *err) {
    rs_cursor cursor = {.in = self->missing, .budget = {.depth = RS_FMT_DEPTH}};
    rs_place place = {NULL, NULL, 0};
    cursor.budget.values = cursor.budget.bytes = rs_slice_left(&self->missing);
    return take_value(self, &cursor, &place, fits, err);
}

/* ---- Many records of one compiled path ---- */

/* Appends a cached entry. Sets *fits to false and appends nothing if it does not have the column's kind. */
static rs_status take_entry(rs_column_read *self, const rs_entry *entry, bool *fits, rs_error *err) {
    const bool is_null = entry->kind == RS_ENTRY_NONE && self->nulls;
    *fits = true;
    if (is_null) {
        RS_TRY(put_null(self, err));
    } else if (self->kind == RS_COLUMN_SCALAR && (entry->kind & RS_ENTRY_NUMBER) != 0) {
        RS_TRY(rs_column_reserve(&self->numbers, 1, err));
        rs_column_put_unchecked(&self->numbers, entry->kind, entry->bits);
    } else if (self->kind == RS_COLUMN_READ_TEXT && entry->kind == RS_ENTRY_TEXT) {
        const uint8_t *from = self->entries.text.data + entry->bits;
        RS_TRY(rs_buffer_reserve(&self->text, (size_t)entry->size_bytes + RS_ENTRY_COPY, err));
        memcpy(self->text.data + self->text.size_bytes, from, RS_ENTRY_COPY); /* enough for most texts */
        if (entry->size_bytes > RS_ENTRY_COPY) {
            memcpy(self->text.data + self->text.size_bytes, from, entry->size_bytes);
        }
        self->text.size_bytes += entry->size_bytes;
        RS_TRY(put_offset(self, self->text.size_bytes, err));
    } else {
        *fits = false;
        return RS_OK;
    }
    return end_value(self, is_null, err);
}

/* Appends the values of a node that has the same offset in all rows. Stops at the first row that needs a walk or has
 * another kind of value. Sets *n to the number of rows read. */
static rs_status take_rows(rs_column_read *self, const rs_cursor *cursor, const rs_node *node,
                           const rs_column_rows *rows, uint64_t *n, rs_error *err);

static rs_status take_dict_coded_rows(rs_column_read *self, const rs_cursor *cursor, const rs_node *node,
                                      const rs_column_rows *rows, uint64_t *n, rs_error *err) {
    bool fits = true;
    for (*n = 0; *n < rows->n; (*n)++) {
        const rs_entry *entry;
        const uint64_t i = rs_load_bits_unchecked(rs_column_row_at(rows, *n), rows->least, rows->bit_off, node->bits);
        RS_TRY(rs_entries_at(&self->entries, cursor, node, i, &entry, err));
        RS_TRY(take_entry(self, entry, &fits, err));
        if (!fits) return RS_OK;
    }
    return RS_OK;
}

/* As take_rows, for an optional. Rows with a value are read as rows of the child; the other rows get a null or the
 * value for records without the field. If the column allows neither, reading stops, and the walk reports the row. */
static rs_status take_optional_rows(rs_column_read *self, const rs_cursor *cursor, const rs_node *node,
                                    const rs_column_rows *rows, uint64_t *n, rs_error *err) {
    const bool fills = node->param == 0 ? self->missing.ptr != NULL : self->nulls;
    uint64_t end, taken;
    bool fits = true;
    for (*n = 0; *n < rows->n; *n = end) {
        for (end = *n; end < rows->n; end++) {
            if (rs_load_bits_unchecked(rs_column_row_at(rows, end), rows->least, rows->bit_off, 1) == 0) break;
        }
        rs_column_rows run = rs_column_rows_from(rows, *n, end);
        run.bit_off++;
        if (run.n > 0) {
            RS_TRY(take_rows(self, cursor, node->children, &run, &taken, err));
            if (taken < run.n) {
                *n += taken;
                return RS_OK;
            }
        }
        *n = end;
        if (end == rows->n || !fills) return RS_OK;
        if (node->param == 0) {
            RS_TRY(take_missing(self, &fits, err));
            if (!fits) return RS_OK;
        } else {
            RS_TRY(put_null(self, err));
            RS_TRY(end_value(self, true, err));
        }
        end++;
    }
    return RS_OK;
}

/* As take_rows, for a placed node. */
static rs_status take_placed_rows(rs_column_read *self, const rs_cursor *cursor, const rs_node *node,
                                  const rs_column_rows *rows, uint64_t *n, rs_error *err) {
    rs_placed_rows placed;
    uint64_t taken;
    placed.done = *n = 0;
    do {
        RS_TRY(rs_placed_rows_next(&placed, cursor, node, rows, err));
        if (placed.rows.n == 0) return RS_OK;
        RS_TRY(take_rows(self, cursor, placed.child, &placed.rows, &taken, err));
        *n = placed.done += taken;
    } while (taken == placed.rows.n);
    return RS_OK;
}

/* Counts n records that are not None. */
static rs_status end_values(rs_column_read *self, uint64_t n, rs_error *err) {
    self->n += n;
    if (!self->nulls) return RS_OK;
    RS_TRY(rs_buffer_reserve(&self->valid, (size_t)n, err));
    memset(self->valid.data + self->valid.size_bytes, 1, (size_t)n);
    self->valid.size_bytes += (size_t)n;
    return RS_OK;
}

static rs_status take_rows(rs_column_read *self, const rs_cursor *cursor, const rs_node *node,
                           const rs_column_rows *rows, uint64_t *n, rs_error *err) {
    bool taken = false;
    *n = 0;
    if (node->kind == RS_FMT_NODE_DICT_CODED) return take_dict_coded_rows(self, cursor, node, rows, n, err);
    if (node->kind == RS_FMT_NODE_OPTIONAL) return take_optional_rows(self, cursor, node, rows, n, err);
    if (rs_node_is_placed(node)) return take_placed_rows(self, cursor, node, rows, n, err);
    if (self->kind == RS_COLUMN_SCALAR) {
        RS_TRY(rs_column_take_rows(&self->numbers, cursor, node, rows, &taken, err));
    } else if (self->kind == RS_COLUMN_SEQUENCE) {
        RS_TRY(rs_column_take_lists(&self->numbers, cursor, node, rows, &taken, err));
        if (taken) RS_TRY(put_even_offsets(self, rows->n, node->count, err));
    }
    if (!taken) return RS_OK;
    *n = rows->n;
    return end_values(self, rows->n, err);
}

/* As take_rows, for a compiled path whose shared beginning is the whole path, once the column has a kind. */
static rs_status take_fixed(rs_column_read *self, const rs_source *source, const rs_block *block,
                            const rs_compiled_path *compiled, rs_column_rows *rows, uint64_t *n, rs_error *err) {
    const rs_cursor cursor = rs_store_cursor_over(source->store, block, 0, rs_slice_of(rows->base, 0));
    *n = 0;
    if (!rs_compiled_path_is_fixed(compiled) || self->kind == RS_COLUMN_OTHER) return RS_OK;
    rows->bit_off = compiled->group_off * 8 + compiled->bit_off;
    rows->body_off = compiled->body_off;
    return take_rows(self, &cursor, compiled->node, rows, n, err);
}

static rs_status take_one(rs_column_read *self, const rs_source *source, const rs_block *block, uint32_t local,
                          const rs_compiled_path *compiled, rs_slice bytes, int *why, rs_error *err) {
    rs_cursor cursor = rs_store_cursor_over(source->store, block, local, bytes);
    rs_place place;
    int found;
    bool fits = false;
    RS_TRY(rs_compiled_path_walk(compiled, &cursor, &place, &found, err));
    *why = found == RS_WALK_UNSURE    ? RS_COLUMN_READ_UNSURE
           : found == RS_WALK_LACKING ? RS_COLUMN_READ_LACKING
                                      : RS_COLUMN_READ_DONE;
    if (found == RS_WALK_LACKING && self->missing.ptr != NULL) {
        RS_TRY(take_missing(self, &fits, err));
        *why = fits ? RS_COLUMN_READ_DONE : RS_COLUMN_READ_OTHER;
        return RS_OK;
    }
    if (*why != RS_COLUMN_READ_DONE) return RS_OK;
    if (place.node != NULL && place.node->kind == RS_FMT_NODE_DICT_CODED) {
        const rs_entry *entry;
        RS_TRY(rs_entries_at(&self->entries, &cursor, place.node, place.bits, &entry, err));
        RS_TRY(take_entry(self, entry, &fits, err));
        if (fits) return RS_OK;
        RS_TRY(rs_path_settle(&cursor, &place, err));
    }
    RS_TRY(take_value(self, &cursor, &place, &fits, err));
    if (!fits) *why = RS_COLUMN_READ_OTHER;
    return RS_OK;
}

/* Reads records `begin` to `end` - 1 of the window, which have the same compiled path. */
static rs_status take_alike(rs_column_read *self, const rs_source *source, uint64_t begin, uint64_t end,
                            rs_column_read_stop *stop, rs_error *err) {
    const rs_compiled_path *compiled = self->window.paths[begin]->of_field[0];
    uint64_t least, i = begin, n;
    /* Rows are read together up to the first that is too short; a walk reports its error. */
    const uint64_t long_end = rs_window_long_end(&self->window, begin, end, compiled->least, &least);
    while (i < end) {
        if (i < long_end) {
            rs_column_rows rows = {NULL, 0, self->window.records + i, long_end - i, least, 0, 0, NULL, 0, 0};
            rows.locals = self->window.locals + i;
            if (compiled->placed) rows.n = rs_window_of_block(&self->window, i, long_end);
            RS_TRY(take_fixed(self, source, self->window.blocks[i], compiled, &rows, &n, err));
            stop->done += n;
            i += n;
            if (i == end) break;
        }
        RS_TRY(take_one(self, source, self->window.blocks[i], self->window.locals[i], compiled, self->window.records[i],
                        &stop->why, err));
        if (stop->why != RS_COLUMN_READ_DONE) return RS_OK;
        stop->done++;
        i++;
    }
    return RS_OK;
}

/* Writes the number of a cell's entry. Returns false if the entry is not cached or has another type. */
static bool load_coded(const rs_column_read *self, const rs_cell *cell, const uint8_t *record, unsigned type,
                       uint8_t **to) {
    const rs_entry *entry =
        rs_entries_cached(&self->entries, cell->node, rs_cell_stored_unchecked(cell, record, cell->bit));
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
 * lists of `count`, or single if `count` is 0. Stops before a record that has other numbers or is too short. The room
 * is reserved. `end` is the end of the segment. Sets *n to the number of records read. */
static uint8_t *load_cells(const rs_column_read *self, uint64_t begin, unsigned type, uint32_t count,
                           const uint8_t *end, uint8_t *to, uint64_t *n) {
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
        } else if (cell->kind != RS_CELL_CODED || !load_coded(self, cell, record->ptr, type, &to)) {
            break;
        }
    }
    *n = i - begin;
    return to;
}

/* Reads records of any trees from number `begin` of the window on, while the field is a number or a list of numbers at
 * a fixed offset. Sets *n to the number of records read: 0 if the first has no such field, or if the column has
 * numbers of another type. */
static rs_status take_cells(rs_column_read *self, const rs_source *source, uint64_t begin, uint64_t *n, rs_error *err) {
    const rs_cell *first = &self->window.paths[begin]->of_field[0]->cell;
    const unsigned type = self->numbers.seen;
    rs_buffer *values = &self->numbers.values;
    *n = 0;
    if ((first->type != type && first->kind != RS_CELL_CODED) || first->kind == RS_CELL_NONE ||
        self->kind != (first->count > 0 ? RS_COLUMN_SEQUENCE : RS_COLUMN_SCALAR)) {
        return RS_OK;
    }
    if (first->count > 0) {
        rs_cursor cursor = rs_store_cursor_over(source->store, self->window.blocks[begin], self->window.locals[begin],
                                                self->window.records[begin]);
        RS_TRY(rs_decode_enter(&cursor, first->count, err));
    }
    /* The product does not overflow: at most 2^8 records of fewer than 2^32 numbers. */
    RS_TRY(rs_column_reserve(&self->numbers, (self->window.n - begin) * (first->count > 0 ? first->count : 1), err));
    uint8_t *to = values->data + values->size_bytes;
    to = load_cells(self, begin, type, first->count, source->store->segment.end, to, n);
    values->size_bytes = (size_t)(to - values->data);
    if (first->count > 0) RS_TRY(put_even_offsets(self, *n, first->count, err));
    return end_values(self, *n, err);
}

/* Reads rows of one size at equal steps, with the field at the same offset. Loads only the field. Sets *taken to the
 * number of rows read; 0 if the block has no such rows. */
static rs_status take_stretch(rs_column_read *self, const rs_source *source, const rs_block *block,
                              const rs_compiled_path *compiled, int64_t step, uint64_t n, rs_column_read_stop *stop,
                              uint64_t *taken, rs_error *err) {
    const uint64_t local = stop->index - block->first_record;
    rs_column_rows rows = {NULL, 0, NULL, 0, 0, 0, 0, NULL, 0, 0};
    *taken = 0;
    if (block->index_width != 0 || block->row_size_bytes < compiled->least) return RS_OK;
    rows.base = source->store->segment.ptr + block->heap_off + local * block->row_size_bytes;
    rows.n = rs_window_stretch(block, local, step, n - stop->done);
    rows.stride_bytes = rows.n > 1 ? step * (int64_t)block->row_size_bytes : 0;
    rows.local = (int64_t)local;
    rows.step = step;
    rows.least = block->row_size_bytes;
    RS_TRY(take_fixed(self, source, block, compiled, &rows, taken, err));
    stop->done += *taken;
    return RS_OK;
}

/* As take_stretch, in the block of the next record. Sets *known to false if the block has no compiled path. */
static rs_status run_stretch(rs_column_read *self, const rs_source *source, int64_t start, int64_t step, uint64_t n,
                             rs_column_read_stop *stop, bool *known, uint64_t *taken, rs_error *err) {
    const rs_block *block = NULL;
    const rs_tree_paths *paths = NULL;
    rs_window_stop at;
    *taken = 0;
    at.index = stop->index = rs_window_index_at(NULL, start, step, stop->done);
    rs_status status = rs_source_find_block(source, &at, &block, &paths, err);
    stop->block = at.block;
    *known = block != NULL;
    if (block == NULL) return status;
    return take_stretch(self, source, block, paths->of_field[0], step, n, stop, taken, err);
}

rs_status rs_column_read_run(rs_column_read *self, const rs_source *source, const int64_t *positions, int64_t start,
                             int64_t step, uint64_t n, rs_column_read_stop *stop, rs_error *err) {
    rs_window *window = &self->window;
    stop->why = RS_COLUMN_READ_DONE;
    while (stop->done < n && stop->why == RS_COLUMN_READ_DONE) {
        const uint64_t first = stop->done;
        rs_window_stop at;
        uint64_t k;
        if (positions == NULL) {
            uint64_t taken;
            bool known;
            RS_TRY(run_stretch(self, source, start, step, n, stop, &known, &taken, err));
            if (!known) stop->why = RS_COLUMN_READ_BLOCK;
            if (!known || taken > 0) continue;
        }
        rs_status status = rs_window_locate(window, source, positions, start, step, first, n, &at, err);
        stop->index = at.index, stop->block = at.block;
        if (status != RS_OK) return status;
        if (window->n == 0) stop->why = RS_COLUMN_READ_BLOCK;
        for (uint64_t i = 0; i < window->n && stop->why == RS_COLUMN_READ_DONE; i = k) {
            for (k = i + 1; k < window->n && window->paths[k] == window->paths[i]; k++) {
            }
            if (k - i < MIN_ALIKE) {
                uint64_t taken;
                status = take_cells(self, source, i, &taken, err);
                stop->index = rs_window_index(window, i);
                if (status != RS_OK) return status;
                stop->done += taken;
                k = i + taken;
                if (taken > 0) continue;
                k = i + 1;
            }
            status = take_alike(self, source, i, k, stop, err);
            if (stop->done - first < window->n) stop->index = rs_window_index(window, stop->done - first);
            if (status != RS_OK) return status;
        }
    }
    return RS_OK;
}
