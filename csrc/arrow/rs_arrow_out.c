/* rs_arrow_out.c: locates records, and reads windows of them. */
#include "arrow/rs_arrow_out.h"

/* How to read the records of a known block, or a field of them. */
typedef struct block_plan {
    rs_tree_paths paths;              /* the first field, so that it has the address of the plan */
    const rs_arrow_op *op;            /* of the root, or of the node at the end of the path; NULL: walk the path */
    const rs_compiled_path *compiled; /* NULL: the whole record */
} block_plan;

rs_status rs_arrow_out_open(rs_arrow_out *self, rs_error *err) {
    self->walk.program = &self->program;
    self->walk.mode = RS_ARROW_INFER_REST;
    self->max_records = RS_WINDOW_RECORDS;
    self->batch_bytes = RS_ARROW_BATCH_BYTES;
    return rs_arrow_field_new(&self->root, err);
}

void rs_arrow_out_clear(rs_arrow_out *self) {
    rs_arrow_field_free(self->root);
    rs_arrow_program_clear(&self->program);
    rs_buffer_clear(&self->walk.scratch);
    memset(self, 0, sizeof *self);
}

/* ---- Before the records ---- */

/* Bounds the windows by the largest record of a store. UTF-8 takes at most twice the bytes of the stored units. */
static void bound_window(rs_arrow_out *self, const rs_header *header) {
    const uint64_t cap = UINT64_C(1) << 30;
    uint64_t bytes = header->max_bytes < cap ? 2 * header->max_bytes : cap;
    if (header->max_values > bytes / 8) bytes = header->max_values < cap / 8 ? 8 * header->max_values : cap;
    if (header->max_bytes >= cap / 2 || header->max_values >= cap) self->wide = true;
    if (bytes != 0 && cap / bytes < self->max_records) self->max_records = cap / bytes < 1 ? 1 : cap / bytes;
}

rs_status rs_arrow_out_add_block(rs_arrow_out *self, rs_source *source, uint64_t block,
                                 const rs_compiled_path *compiled, rs_error *err) {
    block_plan *at;
    const rs_tree *tree = &source->store->trees[source->store->blocks[block].tree];
    rs_arrow_op *op = NULL;
    bound_window(self, &source->store->header);
    if (compiled == NULL) {
        RS_TRY(rs_arrow_compile(&self->program, tree, self->root, &op, err));
    } else if (compiled->name == compiled->keys->n_names) {
        RS_TRY(rs_arrow_compile_node(&self->program, compiled->node, self->root, &op, err));
    }
    RS_TRY(rs_arrow_program_alloc(&self->program, 1, sizeof *at, &at, err));
    at->paths.reach = UINT64_MAX;
    at->op = op;
    at->compiled = compiled;
    source->of_block[block] = &at->paths;
    if (op == NULL || !op->sure || (compiled != NULL && op->node->kind == RS_FMT_NODE_OPTIONAL)) self->has_rest = true;
    return RS_OK;
}

void rs_arrow_out_infer_all(rs_arrow_out *self) {
    rs_arrow_clear_kinds(self->root);
    self->walk.mode = RS_ARROW_INFER_ALL;
    self->has_rest = true;
}

rs_status rs_arrow_out_resolve(rs_arrow_out *self, bool *whole, rs_error *err) {
    RS_TRY(rs_arrow_resolve(self->root, whole, err));
    if (self->program.shares && self->walk.mode != RS_ARROW_INFER_ALL) *whole = false;
    return RS_OK;
}

static void widen(rs_arrow_field *field) {
    if (field->layout == RS_ARROW_LAYOUT_BYTES || field->layout == RS_ARROW_LAYOUT_LIST) field->wide = 1;
    field->views = false; /* views have 32-bit offsets */
    if (field->layout == RS_ARROW_LAYOUT_LIST) widen(field->element);
    if (field->layout != RS_ARROW_LAYOUT_STRUCT) return;
    for (uint32_t i = 0; i < field->n_children; i++) widen(field->children[i]);
}

rs_status rs_arrow_out_settle(rs_arrow_out *self, uint64_t rows, rs_error *err) {
    if (self->wide) widen(self->root);
    rs_arrow_seal(self->root);
    rs_arrow_program_settle(&self->program);
    self->walk.mode = RS_ARROW_PUT;
    self->settled = true;
    return rs_arrow_begin(self->root, rows, err);
}

rs_status rs_arrow_out_batch(rs_arrow_out *self, uint64_t rows, struct ArrowArray *out, rs_error *err) {
    RS_TRY(rs_arrow_export_batch(self->root, out, err));
    rs_status status = rs_arrow_begin(self->root, rows, err);
    if (status != RS_OK) rs_arrow_array_release(out);
    return status;
}

/* ---- One record ---- */

rs_status rs_arrow_out_take(rs_arrow_out *self, const rs_cursor *cursor, const rs_place *place, rs_error *err) {
    rs_cursor own = *cursor;
    rs_arrow_op *op;
    if (place->node == NULL) return rs_arrow_put_any(&self->walk, self->root, &own, err);
    RS_TRY(rs_arrow_compile_place(&self->program, place->node, self->root, self->settled, &op, err));
    if (op == NULL) return rs_arrow_misfit(self->root, err);
    return rs_arrow_put(&self->walk, op, &own, place->body, place->bits, err);
}

rs_status rs_arrow_out_take_missing(rs_arrow_out *self, rs_error *err) {
    rs_cursor cursor = {.in = self->missing, .budget = {.depth = RS_FMT_DEPTH}};
    cursor.budget.values = cursor.budget.bytes = rs_slice_left(&self->missing);
    return rs_arrow_put_any(&self->walk, self->root, &cursor, err);
}

/* Takes the value at a path that leads to the same node in all records of the block. Sets *lacks to whether the record
 * lacks the field. */
static rs_status take_direct(rs_arrow_out *self, const block_plan *plan, rs_cursor *cursor, bool *lacks,
                             rs_error *err) {
    rs_passed passed = {NULL, 0, NULL};
    rs_place place;
    RS_TRY(rs_compiled_path_begin(plan->compiled, &passed, cursor, &place, err));
    *lacks = place.node->kind == RS_FMT_NODE_OPTIONAL && place.node->param == 0 && (place.bits & 1) == 0;
    return *lacks ? RS_OK : rs_arrow_put(&self->walk, plan->op, cursor, place.body, place.bits, err);
}

/* Takes one record. Sets *why to RS_ARROW_UNSURE or LACKING if the caller has to act. */
static rs_status take_one(rs_arrow_out *self, const rs_source *source, const rs_block *block, const block_plan *plan,
                          uint32_t local, rs_slice bytes, int *why, rs_error *err) {
    rs_cursor cursor = rs_store_cursor_over(source->store, block, local, bytes);
    bool lacks = false;
    if (plan->compiled == NULL) {
        RS_TRY(rs_arrow_put_alone(&self->walk, plan->op, &cursor, err));
        if (cursor.in.ptr == cursor.in.end) return RS_OK;
        return rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "bytes are left over after a record");
    }
    if (plan->op != NULL) {
        RS_TRY(take_direct(self, plan, &cursor, &lacks, err));
    } else {
        rs_place place;
        int found;
        RS_TRY(rs_compiled_path_walk(plan->compiled, &cursor, &place, &found, err));
        if (found == RS_WALK_FOUND) return rs_arrow_out_take(self, &cursor, &place, err);
        lacks = found == RS_WALK_LACKING;
        if (!lacks) *why = RS_ARROW_UNSURE;
    }
    if (!lacks) return RS_OK;
    if (self->missing.ptr != NULL) return rs_arrow_out_take_missing(self, err);
    *why = RS_ARROW_LACKING;
    return RS_OK;
}

/* ---- Windows of records of one block ---- */

/* Takes the children of one record that are not fixed, and appends nulls for missing ones. */
static rs_status put_variable_children(rs_arrow_out *self, const rs_arrow_op *op, rs_cursor *cursor, uint32_t end,
                                       rs_error *err) {
    const rs_node *node = op->node;
    const uint8_t *head = NULL;
    rs_rare_group room;
    rs_slice group;
    RS_TRY(rs_decode_row(cursor, node, 0, &head, &group, &room, err));
    RS_TRY(rs_decode_enter(cursor, rs_decode_row_count(node, &group), err));
    RS_TRY(rs_arrow_put_variable(&self->walk, op, cursor, &group, end, err));
    if (end < node->n_children || cursor->in.ptr == cursor->in.end) return RS_OK;
    return rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "bytes are left over after a record");
}

/* Returns the end of the children that put_variable_children reads: the number after the last exported child that is
 * not fixed. If all children are exported, returns n_children, so that the end of each record is checked too. */
static uint32_t end_of_variable_children(const rs_arrow_op *op) {
    uint32_t end = 0;
    bool all = true;
    for (uint32_t i = 0; i < op->n_children; i++) {
        if (op->children[i].field == NULL) all = false;
        else if (!op->node->children[i].fixed) end = i + 1;
    }
    return all ? op->n_children : end;
}

/* Appends the records of a window whose root is a struct, or a tuple with a field for each item: fixed children column
 * after column, then the other children record after record. */
static rs_status put_columns(rs_arrow_out *self, const rs_source *source, const rs_block *block, const rs_arrow_op *op,
                             const rs_column_rows *window, uint64_t *at, rs_error *err) {
    const uint32_t end = end_of_variable_children(op);
    rs_arrow_field *root = op->field;
    for (uint32_t i = 0; i < op->n_children; i++) {
        const rs_node *child = &op->node->children[i];
        rs_column_rows rows = *window;
        rs_cursor cursor = rs_store_cursor_over(source->store, block, 0, rs_slice_of(rs_column_row_at(window, 0), 0));
        if (!child->fixed || op->children[i].field == NULL) continue;
        rows.bit_off = child->bit_off;
        rows.body_off = child->body_off;
        RS_TRY(rs_arrow_put_rows(&self->walk, &op->children[i], &cursor, &rows, err));
    }
    for (uint64_t k = 0; end > 0 && k < window->n; k++) {
        const uint8_t *row = rs_column_row_at(window, k);
        const size_t size = window->records != NULL ? rs_slice_left(&window->records[k]) : block->row_size_bytes;
        rs_cursor cursor =
            rs_store_cursor_over(source->store, block, rs_column_local_at(window, k), rs_slice_of(row, size));
        *at = k;
        RS_TRY(put_variable_children(self, op, &cursor, end, err));
    }
    for (uint32_t i = 0; !op->whole && i < root->n_children; i++) {
        rs_arrow_field *child = root->children[i];
        if (child->n != root->n) continue;
        for (uint64_t k = 0; k < window->n; k++) RS_TRY(rs_arrow_append_null(child, err));
    }
    return rs_arrow_grown(root, window->n, err);
}

/* Appends a field that has the same offset in all records of a window. */
static rs_status put_fixed_field(rs_arrow_out *self, const rs_source *source, const rs_block *block,
                                 const block_plan *plan, const rs_column_rows *window, rs_error *err) {
    rs_cursor cursor = rs_store_cursor_over(source->store, block, 0, rs_slice_of(rs_column_row_at(window, 0), 0));
    rs_column_rows rows = *window;
    rows.bit_off = plan->compiled->group_off * 8 + plan->compiled->bit_off;
    rows.body_off = plan->compiled->body_off;
    return rs_arrow_put_rows(&self->walk, plan->op, &cursor, &rows, err);
}

static bool may_put_columns(const rs_arrow_out *self, const block_plan *plan) {
    if (!self->settled || plan->compiled != NULL || plan->op->field->layout != RS_ARROW_LAYOUT_STRUCT) return false;
    return plan->op->node->kind == RS_FMT_NODE_STRUCT ||
           (plan->op->node->kind == RS_FMT_NODE_TUPLE && plan->op->items != NULL);
}

static bool is_fixed_field(const rs_arrow_out *self, const block_plan *plan) {
    if (!self->settled || plan->compiled == NULL || plan->op == NULL || !rs_compiled_path_is_fixed(plan->compiled)) {
        return false;
    }
    if (plan->op->node->kind != RS_FMT_NODE_OPTIONAL || plan->op->node->param == 1) return true;
    return self->missing.ptr != NULL && *self->missing.ptr == RS_FMT_TAG_NONE;
}

static rs_slice record_at(const rs_column_rows *window, const rs_block *block, uint64_t k) {
    return window->records != NULL ? window->records[k]
                                   : rs_slice_of(rs_column_row_at(window, k), block->row_size_bytes);
}

/* Takes the records of a window one by one. Sets *taken to the number of records taken. */
static rs_status take_each(rs_arrow_out *self, const rs_source *source, const rs_block *block, const block_plan *plan,
                           const rs_column_rows *window, uint64_t *taken, int *why, rs_error *err) {
    for (*taken = 0; *taken < window->n; (*taken)++) {
        RS_TRY(take_one(self, source, block, plan, rs_column_local_at(window, *taken), record_at(window, block, *taken),
                        why, err));
        if (*why != RS_ARROW_DONE) return RS_OK;
    }
    return RS_OK;
}

/* Takes the records of a window. After an error, *taken is the position of the bad record in it. */
static rs_status take_window(rs_arrow_out *self, const rs_source *source, const rs_block *block, const block_plan *plan,
                             const rs_column_rows *window, uint64_t *taken, int *why, rs_error *err) {
    const bool by_column = may_put_columns(self, plan);
    const uint64_t least = by_column ? plan->op->node->head_bytes : plan->compiled != NULL ? plan->compiled->least : 0;
    rs_error first;
    uint64_t at = 0;
    if ((!by_column && !is_fixed_field(self, plan)) || window->least < least) {
        return take_each(self, source, block, plan, window, taken, why, err);
    }
    rs_status status = by_column ? put_columns(self, source, block, plan->op, window, &at, err)
                                 : put_fixed_field(self, source, block, plan, window, err);
    *taken = window->n;
    if (status == RS_OK) return RS_OK;
    /* A column reports the error but not the record. The batch is lost anyway, so try each record again. */
    if (err != NULL) first = *err;
    RS_TRY(rs_arrow_begin(self->root, 0, NULL));
    if (take_each(self, source, block, plan, window, taken, why, err) != RS_OK) {
        return err != NULL ? err->code : status;
    }
    *taken = at;
    if (err != NULL) *err = first;
    return status;
}

/* ---- Runs of records ---- */

/* Returns whether the tree of a block gives all types, so that its records need not be read. */
static bool is_sure(const rs_arrow_out *self, const block_plan *plan) {
    if (self->walk.mode != RS_ARROW_INFER_REST || plan->op == NULL || !plan->op->sure) return false;
    return plan->compiled == NULL || plan->op->node->kind != RS_FMT_NODE_OPTIONAL;
}

/* Takes rows of one block. */
static rs_status take_rows(rs_arrow_out *self, const rs_source *source, const rs_block *block,
                           const rs_tree_paths *paths, const rs_column_rows *rows, rs_arrow_stop *stop, rs_error *err) {
    const block_plan *plan = (const block_plan *)(const void *)paths;
    uint64_t taken = rows->n;
    rs_status status = RS_OK;
    if (!is_sure(self, plan)) status = take_window(self, source, block, plan, rows, &taken, &stop->why, err);
    if (taken < rows->n) stop->index = block->first_record + rs_column_local_at(rows, taken);
    stop->done += taken;
    return status;
}

/* Takes the located records, those of one block after those of another. */
static rs_status take_located(rs_arrow_out *self, const rs_source *source, rs_arrow_stop *stop, rs_error *err) {
    const rs_window *window = &self->window;
    uint64_t end;
    for (uint64_t i = 0; i < window->n && stop->why == RS_ARROW_DONE; i = end) {
        rs_column_rows rows = {.records = window->records + i, .locals = window->locals + i};
        end = i + rs_window_of_block(window, i, window->n);
        rows.n = rs_window_long_end(window, i, end, 0, &rows.least) - i;
        RS_TRY(take_rows(self, source, window->blocks[i], window->paths[i], &rows, stop, err));
    }
    return RS_OK;
}

/* Reads the next records. */
static rs_status run_on(rs_arrow_out *self, const rs_source *source, const int64_t *positions, int64_t start,
                        int64_t step, uint64_t n, rs_arrow_stop *stop, rs_error *err) {
    rs_window_stop at = {.index = stop->index};
    const uint64_t left = n - stop->done, max_records = left < self->max_records ? left : self->max_records;
    const rs_tree_paths *paths;
    const rs_block *block;
    rs_status status = rs_source_find_block(source, &at, &block, &paths, err);
    if (status == RS_OK && block != NULL) {
        const bool sure = is_sure(self, (const block_plan *)(const void *)paths);
        const rs_column_rows rows = rs_window_rows(source->store, block, at.index, step, sure ? left : max_records);
        if (sure) {
            stop->done += positions == NULL ? rows.n : 1;
            return RS_OK;
        }
        if (positions == NULL && block->index_width == 0) {
            return take_rows(self, source, block, paths, &rows, stop, err);
        }
        status = rs_window_locate(&self->window, source, positions, start, step, stop->done, stop->done + max_records,
                                  &at, err);
        if (self->window.n > 0) return take_located(self, source, stop, err);
    }
    if (status == RS_OK) stop->why = RS_ARROW_BLOCK;
    stop->index = at.index, stop->block = at.block;
    return status;
}

rs_status rs_arrow_out_run(rs_arrow_out *self, const rs_source *source, const int64_t *positions, int64_t start,
                           int64_t step, uint64_t n, rs_arrow_stop *stop, rs_error *err) {
    stop->why = RS_ARROW_DONE;
    while (stop->done < n && stop->why == RS_ARROW_DONE) {
        stop->index = rs_window_index_at(positions, start, step, stop->done);
        RS_TRY(run_on(self, source, positions, start, step, n, stop, err));
        if (self->settled && stop->why == RS_ARROW_DONE && stop->done < n &&
            rs_arrow_batch_bytes(self->root) >= self->batch_bytes) {
            stop->why = RS_ARROW_FULL;
        }
    }
    return RS_OK;
}
