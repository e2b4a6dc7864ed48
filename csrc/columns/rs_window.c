/* rs_window.c: locates and prefetches windows of records. */
#include "columns/rs_window.h"

/* Returns whether a walk through a record reaches field a before field b. */
static bool is_before(const rs_compiled_path *a, const rs_compiled_path *b) {
    const bool a_fixed = rs_compiled_path_is_fixed(a), b_fixed = rs_compiled_path_is_fixed(b);
    if (a_fixed || b_fixed) return a_fixed && !b_fixed;
    if (a->row == NULL || b->row == NULL) return a->row == NULL && b->row != NULL;
    return a->row != b->row ? a->row < b->row : a->n_before < b->n_before;
}

void rs_tree_paths_set(rs_tree_paths *self, const rs_compiled_path *const *of_field, uint32_t *order, uint32_t n) {
    uint32_t k;
    for (uint32_t i = 0; i < n; i++) {
        for (k = i; k > 0 && is_before(of_field[i], of_field[order[k - 1]]); k--) order[k] = order[k - 1];
        order[k] = i;
    }
    self->of_field = of_field;
    self->order = order;
    self->n = n;
    self->from = n == 0 ? 0 : UINT64_MAX;
    self->reach = 0;
    self->n_fixed = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool fixed = rs_compiled_path_is_fixed(of_field[i]);
        const rs_cell *cell = &of_field[i]->cell;
        const uint64_t from = fixed && cell->kind != RS_CELL_NONE ? cell->bit / 8 : 0;
        const uint64_t reach = !fixed ? UINT64_MAX : cell->kind != RS_CELL_NONE ? cell->reach : of_field[i]->least;
        self->n_fixed += fixed;
        if (from < self->from) self->from = from;
        if (reach > self->reach) self->reach = reach;
    }
}

/* GROUPS gives the block of the record, or one before it. */
rs_status rs_source_find_block(const rs_source *self, rs_window_stop *stop, const rs_block **out,
                               const rs_tree_paths **paths, rs_error *err) {
    const rs_store *store = self->store;
    const uint64_t index = stop->index;
    *out = NULL;
    stop->block = RS_NOWHERE;
    if (RS_UNLIKELY(index >= store->header.n_records)) return rs_store_no_record(store, index, err);
    uint64_t number = rs_load_u32(store->groups + index / RS_FMT_GROUP_RECORDS * 4);
    for (uint64_t steps = 0; steps < RS_FMT_GROUP_RECORDS && number < store->n_blocks; steps++, number++) {
        const rs_block *block = &store->blocks[number];
        *paths = self->of_block[number];
        if (*paths == NULL) {
            stop->block = number;
            return RS_OK;
        }
        if (index < block->first_record) break;
        if (index - block->first_record < block->n_records) {
            *out = block;
            return RS_OK;
        }
    }
    return rs_store_no_block(store, index, err);
}

/* Returns the block of a record; NULL for the few records that need rs_source_find_block. */
static inline const rs_block *quick_block(const rs_source *self, uint64_t index, const rs_tree_paths **paths) {
    const rs_store *store = self->store;
    if (RS_UNLIKELY(index >= store->header.n_records)) return NULL;
    uint64_t number = rs_load_u32(store->groups + index / RS_FMT_GROUP_RECORDS * 4);
    if (RS_UNLIKELY(number >= store->n_blocks)) return NULL;
    *paths = self->of_block[number];
    const rs_block *block = &store->blocks[number];
    if (RS_UNLIKELY(*paths == NULL || index - block->first_record >= block->n_records)) return NULL;
    return block;
}

/* Prefetches the fields, or the bytes that a walk to them skips: a few cache lines, which arrive together. Prefetching
 * the first and the last byte avoids a branch that would often be mispredicted. */
static inline void prefetch_record(const rs_slice *record, const rs_tree_paths *paths) {
    const uint64_t left = rs_slice_left(record);
    /* Cells may load a few bytes past a record; a broken tree may give any `reach`. */
    const uint64_t end = paths->reach < left + 8 ? paths->reach : left;
    const uint64_t from = paths->from < end ? paths->from : 0;
    const uint8_t *p = record->ptr + from + 64;
    RS_PREFETCH(record->ptr + from);
    RS_PREFETCH(record->ptr + end - (end > 0));
    for (uint64_t lines = 0; lines < 3 && p < record->ptr + end; lines++, p += 64) RS_PREFETCH(p);
}

/* Finds the blocks of up to max_n records, and with `far` prefetches their offsets. Locates and prefetches records of
 * blocks without offsets at once. Returns how many it found. Sets *with_offsets to whether some are not located yet. */
static uint64_t find_blocks(rs_window *self, const rs_source *source, const int64_t *positions, int64_t start,
                            int64_t step, uint64_t begin, uint64_t max_n, bool far, bool *with_offsets,
                            rs_window_stop *stop, rs_status *status, rs_error *err) {
    const uint8_t *segment = source->store->segment.ptr;
    const rs_tree_paths *paths = NULL;
    const rs_block *block = NULL;
    uint64_t n;
    *with_offsets = false;
    *status = RS_OK;
    for (n = 0; n < max_n; n++) {
        const uint64_t index = rs_window_index_at(positions, start, step, begin + n);
        if (block == NULL || index - block->first_record >= block->n_records) {
            block = quick_block(source, index, &paths);
        }
        if (RS_UNLIKELY(block == NULL)) {
            stop->index = index;
            *status = rs_source_find_block(source, stop, &block, &paths, err);
            if (*status != RS_OK || block == NULL) return n;
        }
        uint64_t local = index - block->first_record;
        self->blocks[n] = block, self->paths[n] = paths;
        self->locals[n] = (uint32_t)local;
        if (block->index_width == 0) {
            self->records[n].ptr = segment + block->heap_off + local * block->row_size_bytes;
            self->records[n].end = self->records[n].ptr + block->row_size_bytes;
            if (far) prefetch_record(&self->records[n], paths);
        } else {
            *with_offsets = true;
            if (far) rs_offsets_prefetch(segment, block, (uint32_t)local);
        }
    }
    return n;
}

rs_status rs_window_locate(rs_window *self, const rs_source *source, const int64_t *positions, int64_t start,
                           int64_t step, uint64_t begin, uint64_t end, rs_window_stop *stop, rs_error *err) {
    const uint64_t max_n = end - begin < RS_WINDOW_RECORDS ? end - begin : RS_WINDOW_RECORDS;
    const uint8_t *segment = source->store->segment.ptr;
    const bool far = positions != NULL || step > 8 || step < -8;
    bool with_offsets;
    rs_status status;
    const uint64_t n =
        find_blocks(self, source, positions, start, step, begin, max_n, far, &with_offsets, stop, &status, err);
    self->n = n;
    if (n == 0) return status; /* else the records before a failure are located */
    for (uint64_t i = 0; with_offsets && i < n; i++) {
        if (self->blocks[i]->index_width == 0) continue;
        status = rs_offsets_locate(segment, self->blocks[i], self->locals[i], &self->records[i], err);
        if (status != RS_OK) {
            stop->index = rs_window_index(self, i);
            stop->block = RS_NOWHERE;
            self->n = i;
            return i > 0 ? RS_OK : status;
        }
        if (far) prefetch_record(&self->records[i], self->paths[i]);
    }
    return RS_OK;
}
