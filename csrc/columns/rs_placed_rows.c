/* rs_placed_rows.c: finds the values of placed nodes for many rows. */
#include "columns/rs_placed_rows.h"

/* Sets the rows to the numbers of a rising node, 8 bytes each. */
static rs_status number_rows(rs_placed_rows *self, const rs_placed *placed, const rs_node *node, uint64_t n,
                             rs_error *err) {
    const rs_node *child = node->children;
    uint64_t all = 0;
    for (uint64_t k = 0; k < n; k++) {
        RS_TRY(rs_placed_number(placed, self->locals[k], &self->numbers[k], err));
        all |= self->numbers[k];
    }
    self->rows.base = (const uint8_t *)self->numbers;
    self->rows.stride_bytes = sizeof self->numbers[0];
    self->rows.least = sizeof self->numbers[0];
    if (child->kind == RS_FMT_NODE_DICT_CODED) { /* its tables are found by the address of the node */
        if (all >> child->bits != 0) return (void)rs_placed_bad(err), RS_E_FMT_VALUE;
        return RS_OK;
    }
    self->copy = *child;
    self->copy.param = 64;
    self->copy.bits = 0;
    self->copy.size_bytes = 8;
    self->child = &self->copy;
    return RS_OK;
}

/* Sets the rows to the values of runs in the places. */
static rs_status run_rows(rs_placed_rows *self, const rs_placed *placed, const rs_node *node, uint64_t n,
                          rs_error *err) {
    const rs_node *child = node->children;
    const size_t size = (size_t)(child->alone_bytes + child->size_bytes);
    const uint8_t *value;
    for (uint64_t k = 0; k < n; k++) {
        RS_TRY(rs_placed_run(placed, node, self->locals[k], &value, err));
        self->values[k] = rs_slice_of(value, size);
    }
    self->rows.records = self->values;
    self->rows.least = size;
    self->rows.body_off = child->alone_bytes;
    return RS_OK;
}

/* Ends the rows before the first exception. */
static rs_status usual_rows(rs_placed_rows *self, const rs_placed *placed, const rs_column_rows *rows, uint64_t n,
                            rs_error *err) {
    uint64_t k;
    bool is_exception;
    rs_slice value;
    for (k = 0; k < n; k++) {
        RS_TRY(rs_placed_exception(placed, self->locals[k], &is_exception, &value, err));
        if (is_exception) break;
    }
    self->rows = rs_column_rows_from(rows, self->done, self->done + k);
    return RS_OK;
}

rs_status rs_placed_rows_next(rs_placed_rows *self, const rs_cursor *cursor, const rs_node *node,
                              const rs_column_rows *rows, rs_error *err) {
    const rs_placed *placed = &cursor->placed[node->placed];
    const uint64_t left = rows->n - self->done, n = left < RS_PLACED_ROWS ? left : RS_PLACED_ROWS;
    for (uint64_t k = 0; k < n; k++) self->locals[k] = rs_column_local_at(rows, self->done + k);
    memset(&self->rows, 0, sizeof self->rows);
    self->rows.n = n;
    self->rows.locals = self->locals;
    self->child = node->children;
    if (n == 0) return RS_OK;
    switch (node->kind) {
    case RS_FMT_NODE_RISING: return number_rows(self, placed, node, n, err);
    case RS_FMT_NODE_RUNS: return run_rows(self, placed, node, n, err);
    default: return usual_rows(self, placed, rows, n, err);
    }
}
