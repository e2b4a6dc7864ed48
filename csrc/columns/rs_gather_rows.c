/* rs_gather_rows.c: takes the values of a node that has the same offsets in many rows, all rows at once. */
#include "columns/rs_gather_rows.h"

#include "columns/rs_gather_value.h"
#include "columns/rs_placed_rows.h"
#include "columns/rs_text_rows.h"

enum { BLOCK = 256 }; /* rows that are loaded at once */

/* ---- Numbers ---- */

/* Writes the number of row k at to + k * step, for a number node. Returns the number of rows written: all, or the
 * index of the first row whose number the dtype cannot hold. */
static uint64_t put_column(const rs_gather_field *self, const rs_node *node, const rs_column_rows *rows, uint8_t *to,
                           size_t step) {
    const unsigned dtype = self->spec->dtype;
    union {
        uint8_t bytes[8 * BLOCK];
        int64_t ints[BLOCK];
        double floats[BLOCK];
    } numbers;
    uint64_t count;
    if (node->kind != RS_FMT_NODE_BOOL && rs_column_type_of(node) == self->type) { /* as they are */
        (void)rs_column_load_rows_apart(node, rows, to, step);
        return rows->n;
    }
    for (uint64_t first = 0; first < rows->n; first += count) {
        count = rows->n - first < BLOCK ? rows->n - first : BLOCK;
        rs_column_rows part = rs_column_rows_from(rows, first, first + count);
        bool floats = rs_column_load_rows(node, &part, numbers.bytes);
        uint64_t put = floats ? rs_dtype_put_floats(dtype, numbers.floats, count, to + first * step, step)
                              : rs_dtype_put_ints(dtype, numbers.ints, count, to + first * step, step);
        if (put < count) return first + put;
    }
    return rows->n;
}

/* Takes the numbers of rows, and sets the stop at the first that the dtype cannot hold. */
static void take_column(rs_gather_field *self, const rs_node *node, const rs_column_rows *rows, rs_gather_stop *stop) {
    const unsigned size = rs_dtype_bytes(self->spec->dtype);
    const uint64_t put = put_column(self, node, rows, self->to + self->done * size, size);
    rs_gather_count(self, put);
    if (put == rows->n) return;
    stop->why = RS_GATHER_RANGE;
    stop->number = 0;
}

/* ---- Rows of numbers ---- */

/* Takes short lists or tuples, element by element. */
static void take_columns(rs_gather_field *self, const rs_node *node, const rs_column_rows *rows, rs_gather_stop *stop) {
    const unsigned size = rs_dtype_bytes(self->spec->dtype);
    const uint64_t n = self->spec->row_numbers;
    uint8_t *to = self->to + self->done * n * size;
    uint64_t n_taken = rows->n;
    for (uint64_t i = 0; i < n; i++) {
        const bool list = node->kind == RS_FMT_NODE_LIST;
        const rs_column_rows column =
            list ? rs_column_element_rows(node, rows, i) : rs_column_child_rows(node, rows, i);
        const uint64_t put =
            put_column(self, list ? node->children : &node->children[i], &column, to + i * size, (size_t)n * size);
        if (put >= n_taken) continue;
        n_taken = put;
        stop->why = RS_GATHER_RANGE;
        stop->number = i;
    }
    rs_gather_count(self, n_taken);
}

static rs_run run_at(const rs_node *list, const uint8_t *body) {
    rs_run run = {.kind = RS_RUN_LIST, .data = body, .node = list->children, .n = list->count, .at = list->size_bytes};
    return run;
}

/* Takes lists with fixed bodies as runs, and writes them if their destination is known. */
static rs_status take_runs(rs_gather_field *self, const rs_node *node, const rs_column_rows *rows, rs_gather_stop *stop,
                           rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const uint64_t bytes = spec->row_numbers * rs_dtype_bytes(spec->dtype);
    uint64_t written;
    for (uint64_t k = 0; k < rows->n; k++) {
        const rs_run run = run_at(node, rs_column_row_at(rows, k) + rows->body_off);
        if (spec->form != RS_GATHER_VALUES) {
            RS_TRY(rs_gather_add_run(self, &run, err));
        } else {
            RS_TRY(rs_run_write(&run, run.n, spec->dtype, NULL, &self->scratch, self->to + self->done * bytes, &written,
                                err));
            if (written < run.n) {
                stop->why = RS_GATHER_RANGE;
                stop->number = written;
                return RS_OK;
            }
        }
        rs_gather_count(self, 1);
    }
    return RS_OK;
}

static bool is_tuple_of_numbers(const rs_node *node) {
    for (uint32_t i = 0; i < node->n_children; i++) {
        if (!rs_node_is_number(&node->children[i])) return false;
    }
    return true;
}

static rs_status take_sequences(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                                const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err) {
    const rs_gather_spec *spec = self->spec;
    const bool list = node->kind == RS_FMT_NODE_LIST;
    const uint64_t count = list ? node->count : node->n_children;
    if (spec->form > RS_GATHER_PACKED || rs_gather_free_dims(spec->form) + spec->n_row != 1) return RS_OK;
    if (count > cursor->budget.values || cursor->budget.depth == 0) return RS_OK; /* the walk reports it */
    if (list ? !rs_node_is_number(node->children) : !is_tuple_of_numbers(node)) return RS_OK;
    if (spec->form == RS_GATHER_VALUES) {
        if (count != spec->row_numbers) return RS_OK;
        if (count <= RS_COLUMN_SHORT) {
            take_columns(self, node, rows, stop);
            return RS_OK;
        }
    }
    return list ? take_runs(self, node, rows, stop, err) : RS_OK;
}

static rs_status take_texts(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                            const rs_column_rows *rows, rs_error *err) {
    uint64_t n;
    RS_TRY(rs_text_rows_take(&self->values, &self->ends, &self->entries, cursor, node, rows, &n, err));
    rs_gather_count(self, n);
    return RS_OK;
}

/* ---- Columns ---- */

rs_status rs_gather_put_even_ends(rs_gather_field *self, uint64_t n, uint64_t count, rs_error *err) {
    RS_TRY(rs_buffer_reserve(&self->ends, (size_t)n * 8, err));
    uint8_t *to = self->ends.data + self->ends.size_bytes;
    const uint64_t before = rs_load_u64(to - 8);
    for (uint64_t i = 0; i < n; i++) rs_store_u64(to + 8 * i, before + (i + 1) * count);
    self->ends.size_bytes += (size_t)n * 8;
    return RS_OK;
}

/* Appends the numbers, or the lists of numbers, of rows to the column. */
static rs_status append_rows(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                             const rs_column_rows *rows, rs_error *err) {
    bool taken;
    if (self->spec->form == RS_GATHER_NUMBERS) {
        RS_TRY(rs_column_take_rows(&self->column, cursor, node, rows, &taken, err));
    } else {
        RS_TRY(rs_column_take_lists(&self->column, cursor, node, rows, &taken, err));
        if (taken) RS_TRY(rs_gather_put_even_ends(self, rows->n, rs_column_list_count(node), err));
    }
    if (taken) rs_gather_count(self, rows->n);
    return RS_OK;
}

/* ---- Tables and optionals ---- */

static rs_status take_dict_coded(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                                 const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err) {
    bool taken = true;
    for (uint64_t k = 0; taken && k < rows->n; k++) {
        const rs_entry *entry;
        const uint64_t i = rs_load_bits_unchecked(rs_column_row_at(rows, k), rows->least, rows->bit_off, node->bits);
        RS_TRY(rs_entries_at(&self->entries, cursor, node, i, &entry, err));
        RS_TRY(rs_gather_take_entry(self, entry, &taken, stop, err));
    }
    return RS_OK;
}

/* Takes rows with a value as rows of the child, and the others as missing. */
static rs_status take_optional(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                               const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err) {
    const uint64_t first = self->done;
    uint64_t end;
    for (uint64_t begin = 0; begin < rows->n; begin = end) {
        for (end = begin; end < rows->n; end++) {
            if (rs_load_bits_unchecked(rs_column_row_at(rows, end), rows->least, rows->bit_off, 1) == 0) break;
        }
        rs_column_rows run = rs_column_rows_from(rows, begin, end);
        run.bit_off++;
        if (run.n > 0) {
            RS_TRY(rs_gather_take_rows(self, cursor, node->children, &run, stop, err));
            if (self->done - first < end) return RS_OK;
        }
        if (end == rows->n) return RS_OK;
        RS_TRY(rs_gather_take_missing(self, node->param == 0 ? RS_GATHER_LACKING : RS_GATHER_NONE, stop, err));
        if (stop->why != RS_GATHER_DONE) return RS_OK;
        end++;
    }
    return RS_OK;
}

static rs_status take_placed(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                             const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err) {
    const uint64_t first = self->done;
    rs_placed_rows placed;
    placed.done = 0;
    for (;;) {
        RS_TRY(rs_placed_rows_next(&placed, cursor, node, rows, err));
        if (placed.rows.n == 0) return RS_OK;
        RS_TRY(rs_gather_take_rows(self, cursor, placed.child, &placed.rows, stop, err));
        if (self->done - first < placed.done + placed.rows.n) return RS_OK;
        placed.done += placed.rows.n;
    }
}

rs_status rs_gather_take_rows(rs_gather_field *self, const rs_cursor *cursor, const rs_node *node,
                              const rs_column_rows *rows, rs_gather_stop *stop, rs_error *err) {
    switch (node->kind) {
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_FLOAT:
    case RS_FMT_NODE_DECIMAL:
    case RS_FMT_NODE_BOOL:
        if (self->is_column) return append_rows(self, cursor, node, rows, err);
        if (self->single) take_column(self, node, rows, stop);
        return RS_OK;
    case RS_FMT_NODE_CONST: return self->is_column ? append_rows(self, cursor, node, rows, err) : RS_OK;
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_TUPLE:
        if (self->is_column) return append_rows(self, cursor, node, rows, err);
        return take_sequences(self, cursor, node, rows, stop, err);
    case RS_FMT_NODE_DICT_CODED: return take_dict_coded(self, cursor, node, rows, stop, err);
    case RS_FMT_NODE_OPTIONAL: return take_optional(self, cursor, node, rows, stop, err);
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
    case RS_FMT_NODE_EXCEPTIONS: return take_placed(self, cursor, node, rows, stop, err);
    default: return self->is_text ? take_texts(self, cursor, node, rows, err) : RS_OK;
    }
}
