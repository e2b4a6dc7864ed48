/* rs_window.c: locates and prefetches windows of records. */
#include "read/rs_window.h"

/* Returns whether a walk through a record comes to field a before field b. */
static bool is_before(const rs_compiled_path *a, const rs_compiled_path *b) {
    const bool a_fixed = rs_compiled_path_is_fixed(a), b_fixed = rs_compiled_path_is_fixed(b);
    if (a_fixed || b_fixed) return a_fixed && !b_fixed;
    if (a->row == NULL || b->row == NULL) return a->row == NULL && b->row != NULL;
    return a->row != b->row ? a->row < b->row : a->n_before < b->n_before;
}

void rs_tree_paths_set(rs_tree_paths *self, const rs_compiled_path *const *of_field, uint32_t *order, uint32_t n) {
    uint32_t i, k;
    for (i = 0; i < n; i++) {
        for (k = i; k > 0 && is_before(of_field[i], of_field[order[k - 1]]); k--) order[k] = order[k - 1];
        order[k] = i;
    }
    self->of_field = of_field;
    self->order = order;
    self->n = n;
    self->reach = 0;
    self->n_fixed = 0;
    for (i = 0; i < n; i++) {
        const bool fixed = rs_compiled_path_is_fixed(of_field[i]);
        const uint64_t reach = fixed ? of_field[i]->least : UINT64_MAX;
        self->n_fixed += fixed;
        if (reach > self->reach) self->reach = reach;
    }
}

static RS_COLD rs_status no_record(const rs_store *store, uint64_t index, rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "there is no record %lld among %llu", (long long)index,
                        (unsigned long long)store->header.n_records);
}

/* The block may be a later one than GROUPS names. */
rs_status rs_source_find_block(const rs_source *self, rs_window_stop *stop, const rs_block **out,
                               const rs_tree_paths **paths, rs_error *err) {
    const rs_store *store = self->store;
    const uint64_t index = stop->index;
    uint64_t number, steps;
    *out = NULL;
    stop->block = RS_NOWHERE;
    if (RS_UNLIKELY(index >= store->header.n_records)) return no_record(store, index, err);
    number = rs_load_u32(store->groups + index / RS_FMT_GROUP_RECORDS * 4);
    for (steps = 0; steps < RS_FMT_GROUP_RECORDS && number < store->n_blocks; steps++, number++) {
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
    return rs_error_set(err, RS_E_FMT_BLOCK,
                        store->directory.sections[RS_FMT_SECTION_GROUPS].off + index / RS_FMT_GROUP_RECORDS * 4,
                        "record %llu is not found from the block on where its group leads", (unsigned long long)index);
}

/* Prefetches the fields, or the bytes that a walk passes on the way to them: a few cache lines, which arrive
 * together. */
static void prefetch_record(const rs_slice *record, uint64_t reach) {
    const uint8_t *p = record->ptr; /* from the bits on, which stand before the bodies */
    const uint8_t *end = reach < rs_slice_left(record) ? record->ptr + reach : record->end;
    uint64_t lines;
    for (lines = 0; lines < 4 && p < end; lines++, p += 64) RS_PREFETCH(p);
    if (end > record->ptr) RS_PREFETCH(end - 1);
}

rs_status rs_window_locate(rs_window *self, const rs_source *source, const int64_t *positions, int64_t start,
                           int64_t step, uint64_t begin, uint64_t end, rs_window_stop *stop, rs_error *err) {
    const uint64_t most = end - begin < RS_WINDOW_RECORDS ? end - begin : RS_WINDOW_RECORDS;
    const uint8_t *segment = source->store->segment.ptr;
    const rs_block *block = NULL;
    const rs_tree_paths *paths = NULL;
    const bool far = positions != NULL || step > 8 || step < -8;
    uint64_t i, n;
    self->n = 0;
    for (n = 0; n < most; n++) {
        stop->index = rs_window_index_at(positions, start, step, begin + n);
        if (block == NULL || stop->index - block->first_record >= block->n_records) {
            rs_status status = rs_source_find_block(source, stop, &block, &paths, err);
            if (status != RS_OK && n == 0) return status;
            if (status != RS_OK || block == NULL) break; /* the records before are located all the same */
        }
        self->blocks[n] = block, self->paths[n] = paths;
        self->locals[n] = (uint32_t)(stop->index - block->first_record);
        if (far) rs_offsets_prefetch(segment, block, self->locals[n]);
    }
    for (i = 0; i < n; i++) {
        rs_status status = rs_offsets_locate(segment, self->blocks[i], self->locals[i], &self->records[i], err);
        if (status != RS_OK) {
            stop->index = rs_window_index(self, i);
            stop->block = RS_NOWHERE;
            self->n = i;
            return i > 0 ? RS_OK : status;
        }
        if (far) prefetch_record(&self->records[i], self->paths[i]->reach);
    }
    self->n = n;
    return RS_OK;
}
