/* rs_verify_saved_index.c: the deep check of saved indexes: their paths, key indexes and record numbers. */
#include "verify/rs_verify.h"

#include <stdlib.h>

#include "format/rs_any.h"

static rs_status bad_index(rs_error *err, const char *message, uint64_t number) {
    return rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "saved index: %s %llu", message, (unsigned long long)number);
}

/* Checks that the path is one tuple and nothing else. Python checks the steps. */
static rs_status check_path(const rs_saved_index *index, rs_error *err) {
    rs_slice in = index->path;
    rs_budget budget = {.values = RS_FMT_INDEX_PATH, .bytes = RS_FMT_INDEX_PATH, .depth = RS_FMT_DEPTH};
    if (in.ptr[0] == RS_FMT_TAG_TUPLE && rs_any_skip(&in, 0, &budget, NULL) == RS_OK && in.ptr == in.end) return RS_OK;
    return rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "saved index: its path is not one valid tuple");
}

/* Sets the bit of a number, and returns whether it was set already. */
static bool mark(uint8_t *bits, uint64_t number) {
    uint8_t bit = (uint8_t)(1u << (number & 7));
    bool was_set = (bits[number >> 3] & bit) != 0;
    bits[number >> 3] |= bit;
    return was_set;
}

static rs_status check_order(const rs_saved_index *index, uint8_t *bits, rs_watch *watch, rs_error *err) {
    uint64_t first, last, before = 0;
    for (uint64_t i = 0; index->order != NULL && i < index->index.n_entries; i++) {
        RS_TRY(rs_watch_count(watch, 1, err));
        RS_TRY(rs_saved_index_records(index, i, &first, &last, err));
        if ((i > 0 && first <= before) || last < first)
            return bad_index(err, "the records are out of order at entry", i);
        if (mark(bits, last)) return bad_index(err, "two entries have the record", last);
        before = first;
    }
    return RS_OK;
}

static rs_status check_groups(const rs_saved_index *index, uint8_t *bits, rs_watch *watch, rs_error *err) {
    uint64_t g, begin, end, record, next = 0, before = 0, first = 0;
    for (g = 0; g < index->index.n_entries; g++) {
        RS_TRY(rs_saved_index_group(index, g, &begin, &end, err));
        if (begin != next) return bad_index(err, "the rows have a gap before group", g);
        RS_TRY(rs_watch_count(watch, 1, err));
        for (uint64_t i = begin; i < end; i++) {
            RS_TRY(rs_watch_count(watch, 1, err));
            RS_TRY(rs_saved_index_row(index, i, &record, err));
            if (mark(bits, record)) return bad_index(err, "two rows have the record", record);
            if (i > begin ? record <= before : g > 0 && record <= first) {
                return bad_index(err, "the rows are out of order in group", g);
            }
            if (i == begin) first = record;
            before = record;
        }
        next = end;
    }
    /* Without groups, `starts` has one number, which the loop has not read. */
    if (next == index->n_records && rs_load_uint_unchecked(index->starts + g * index->width, index->width) == next) {
        return RS_OK;
    }
    return bad_index(err, "the groups end before row", index->n_records);
}

static rs_status check_index(const rs_saved_index *index, rs_watch *watch, rs_error *err) {
    uint8_t *seen = (uint8_t *)calloc((size_t)index->index.n_entries + 1, 1);
    uint8_t *bits = (uint8_t *)calloc((size_t)(index->n_records / 8) + 1, 1);
    rs_status status;
    if (seen == NULL || bits == NULL) {
        status = rs_no_memory(err);
    } else {
        status = rs_verify_slots(&index->index, seen, watch, err);
        if (status == RS_OK) {
            status =
                index->starts == NULL ? check_order(index, bits, watch, err) : check_groups(index, bits, watch, err);
        }
    }
    free(seen);
    free(bits);
    return status;
}

static bool same_path(const rs_saved_index *a, const rs_saved_index *b) {
    size_t n = rs_slice_left(&a->path);
    return a->kind == b->kind && n == rs_slice_left(&b->path) && memcmp(a->path.ptr, b->path.ptr, n) == 0;
}

rs_status rs_verify_saved_indexes(const rs_store *store, rs_watch *watch, rs_error *err) {
    rs_saved_index indexes[RS_FMT_SAVED_INDEXES];
    const rs_directory *directory = &store->directory;
    uint32_t n = 0;
    for (uint32_t i = 0; i < directory->n_saved_indexes; i++) {
        rs_saved_index *index = &indexes[n];
        rs_status status =
            rs_saved_index_open(store->segment, &directory->saved_indexes[i], store->header.n_records, index, err);
        if (status == RS_E_FMT_VERSION) continue; /* a later kind */
        if (status != RS_OK) return status;
        RS_TRY(check_path(index, err));
        RS_TRY(check_index(index, watch, err));
        for (uint32_t j = 0; j < n; j++) {
            if (same_path(index, &indexes[j])) return bad_index(err, "its path is also that of index", j);
        }
        n++;
    }
    return RS_OK;
}
