/* rs_saved_index.c: opens saved indexes and writes their heads. The rules are in FORMAT.md. */
#include "format/rs_saved_index.h"

static rs_status bad_index(rs_error *err, uint64_t offset, const char *message) {
    return rs_error_set(err, RS_E_FMT_KEYS, offset, "saved index: %s", message);
}

void rs_saved_index_bad_number(rs_error *err, const char *part, uint64_t number) {
    (void)rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "saved index: %s %llu has the number of a missing record", part,
                       (unsigned long long)number);
}

/* Takes n bytes off `in`. */
static rs_status take(rs_slice *in, uint64_t n, uint64_t offset, rs_slice *out, rs_error *err) {
    if (n > rs_slice_left(in)) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, offset, "saved index: the section ends within path or key index");
    }
    *out = rs_slice_of(in->ptr, (size_t)n);
    in->ptr += n;
    return RS_OK;
}

/* An unknown factory is an error here: RS_E_FMT_VERSION would make the caller ignore the whole section. */
static rs_status open_keys(rs_saved_index *self, uint64_t offset, rs_error *err) {
    rs_status status = rs_keys_open(self->keys, offset, &self->index, err);
    if (status != RS_OK && status != RS_E_FMT_VERSION) return status;
    if (status == RS_OK && self->index.factory == RS_FMT_FACTORY_NONE) return RS_OK;
    return bad_index(err, offset, "its key index has a default factory");
}

/* Checks the number of entries and sets order, starts and rows, which must fill `in`. */
static rs_status open_numbers(rs_saved_index *self, rs_slice in, uint64_t offset, rs_error *err) {
    uint64_t n = self->index.n_entries, r = self->n_records, numbers;
    if (self->kind == RS_FMT_SAVED_RECORDS) {
        if (self->in_order ? n != r : n >= r) return bad_index(err, offset, "the entries do not fit the records");
        numbers = self->in_order ? 0 : 2 * n;
        if (!self->in_order) self->order = in.ptr;
    } else {
        if (n > r || (n == 0) != (r == 0)) return bad_index(err, offset, "the groups do not fit the records");
        numbers = n + 1 + (self->in_order ? 0 : r);
        self->starts = in.ptr;
    }
    /* With at most 2^48 entries and records, nothing overflows. */
    if (rs_slice_left(&in) != numbers * self->width) {
        return bad_index(err, offset, "the size of the section does not match its parts");
    }
    if (self->starts != NULL && !self->in_order) self->rows = in.ptr + (n + 1) * self->width;
    return RS_OK;
}

rs_status rs_saved_index_open(rs_slice segment, const rs_section *section, uint64_t n_records, rs_saved_index *out,
                              rs_error *err) {
    uint8_t h[RS_FMT_SAVED_HEAD_SIZE];
    rs_slice in = rs_slice_of(segment.ptr + section->off, (size_t)section->size_bytes), zeros;
    uint64_t at = section->off;
    memset(out, 0, sizeof *out);
    if (section->size_bytes < sizeof h) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, at, "saved index: the section is shorter than its head");
    }
    memcpy(h, in.ptr, sizeof h); /* the mapped bytes may change, so one copy is checked and used */
    in.ptr += sizeof h;
    out->kind = rs_load_u32(h + RS_FMT_S_KIND);
    if (out->kind != RS_FMT_SAVED_RECORDS && out->kind != RS_FMT_SAVED_GROUPS) {
        return rs_error_set(err, RS_E_FMT_VERSION, at, "this reader does not know the saved index kind %u", out->kind);
    }
    for (size_t i = RS_FMT_S_RESERVED; i < sizeof h; i++) {
        if (h[i] != 0) {
            return rs_error_set(err, RS_E_FMT_RESERVED, at + i, "saved index: a reserved field is not zero");
        }
    }
    uint64_t in_order = rs_load_u32(h + RS_FMT_S_IN_ORDER);
    out->n_records = rs_load_u64(h + RS_FMT_S_N_RECORDS);
    uint64_t path_size = rs_load_u64(h + RS_FMT_S_PATH_SIZE);
    uint64_t keys_size = rs_load_u64(h + RS_FMT_S_KEYS_SIZE);
    if (in_order > 1 || out->n_records != n_records || path_size == 0 || path_size > RS_FMT_INDEX_PATH) {
        return bad_index(err, at, "its head does not fit the segment");
    }
    out->in_order = in_order == 1;
    out->width = rs_keys_order_width(n_records);
    RS_TRY(take(&in, path_size, at, &out->path, err));
    RS_TRY(take(&in, rs_align_up(path_size, 8) - path_size, at, &zeros, err));
    RS_TRY(take(&in, keys_size, at, &out->keys, err));
    RS_TRY(open_keys(out, (uint64_t)(out->keys.ptr - segment.ptr), err));
    if (out->index.n_entries != section->count)
        return bad_index(err, at, "its number of entries does not match the directory");
    return open_numbers(out, in, at, err);
}

rs_status rs_saved_index_write_head(const rs_saved_index_parts *parts, rs_buffer *out, rs_error *err) {
    uint64_t path_size = rs_slice_left(&parts->path);
    RS_ASSERT(out->size_bytes == 0);
    if (path_size == 0 || path_size > RS_FMT_INDEX_PATH) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                            "the path of a saved index takes %llu bytes; the limit is %d",
                            (unsigned long long)path_size, RS_FMT_INDEX_PATH);
    }
    RS_TRY(rs_buffer_append_zeros(out, RS_FMT_SAVED_HEAD_SIZE, err));
    uint8_t *h = out->data;
    rs_store_u32(h + RS_FMT_S_KIND, parts->kind);
    rs_store_u32(h + RS_FMT_S_IN_ORDER, parts->in_order);
    rs_store_u64(h + RS_FMT_S_N_RECORDS, parts->n_records);
    rs_store_u64(h + RS_FMT_S_PATH_SIZE, path_size);
    rs_store_u64(h + RS_FMT_S_KEYS_SIZE, rs_slice_left(&parts->keys));
    RS_TRY(rs_buffer_append(out, parts->path.ptr, (size_t)path_size, err));
    return rs_buffer_append_zeros(out, (size_t)(rs_align_up(path_size, 8) - path_size), err);
}
