/* rs_mapping.c: opens a mapping. The rules are in FORMAT.md. */
#include "read/rs_mapping.h"

static rs_status open_index(rs_mapping *self, rs_error *err) {
    const rs_section *index = &self->keys.directory.sections[RS_FMT_SECTION_KEY_INDEX];
    const rs_section *order = &self->keys.directory.sections[RS_FMT_SECTION_ORDER];
    const uint8_t *base = self->keys.segment.ptr;
    uint64_t n_records = self->keys.header.n_records, size;
    RS_TRY(rs_keys_open(rs_slice_of(base + index->off, (size_t)index->size_bytes), index->off, &self->index, err));
    self->n_entries = self->index.n_entries;
    self->order_width = rs_keys_order_width(n_records);
    if (self->n_entries != index->count) {
        return rs_error_set(err, RS_E_FMT_KEYS, index->off, "the key index has %llu entries, the directory says %llu",
                            (unsigned long long)self->n_entries, (unsigned long long)index->count);
    }
    if (order->off == 0) {
        if (self->n_entries == n_records) return RS_OK;
        return rs_error_set(err, RS_E_FMT_KEYS, index->off,
                            "the key index has %llu entries for %llu records, and there is no ORDER",
                            (unsigned long long)self->n_entries, (unsigned long long)n_records);
    }
    if (order->count != self->n_entries || order->count > n_records ||
        rs_mul_overflows(order->count, 2 * self->order_width, &size) || size != order->size_bytes) {
        return rs_error_set(err, RS_E_FMT_KEYS, order->off,
                            "ORDER has %llu entries in %llu bytes, the key index has %llu entries",
                            (unsigned long long)order->count, (unsigned long long)order->size_bytes,
                            (unsigned long long)self->n_entries);
    }
    self->order = base + order->off;
    return RS_OK;
}

rs_status rs_mapping_open(rs_mapping *self, const rs_store *values, rs_error *err) {
    memset(self, 0, sizeof *self);
    RS_TRY(rs_store_open_keys(&self->keys, values, err));
    rs_status status = open_index(self, err);
    if (status != RS_OK) rs_mapping_close(self);
    return status;
}

void rs_mapping_close(rs_mapping *self) {
    rs_store_close(&self->keys);
    memset(self, 0, sizeof *self);
}

void rs_mapping_bad_order(const rs_mapping *self, uint64_t entry, rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_KEYS,
                       (uint64_t)(self->order - self->keys.segment.ptr) + 2 * self->order_width * entry,
                       "entry %llu of ORDER names a record that does not exist", (unsigned long long)entry);
}
