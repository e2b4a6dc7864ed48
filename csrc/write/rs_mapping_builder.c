/* rs_mapping_builder.c: writes keys and values as two stores of one segment, then the key index. */
#include "write/rs_mapping_builder.h"

rs_status rs_mapping_builder_open(rs_mapping_builder *self, rs_segment_writer *writer, const rs_choices *choices,
                                  rs_error *err) {
    memset(self, 0, sizeof *self);
    rs_builder_begin(&self->keys, writer, choices);
    return rs_builder_open(&self->values, writer, choices, err);
}

void rs_mapping_builder_close(rs_mapping_builder *self) {
    rs_builder_close(&self->values);
    rs_builder_close(&self->keys);
    memset(self, 0, sizeof *self);
}

static uint64_t open_end(const rs_builder *b) { return b->n_open == 0 ? 0 : b->ends[b->n_open - 1]; }

static rs_status end_record(rs_builder *builder, const rs_scan_counts *counts, rs_error *err) {
    return counts != NULL ? rs_builder_end_record_unchecked(builder, counts, err) : rs_builder_end_record(builder, err);
}

rs_status rs_mapping_builder_end_pair(rs_mapping_builder *self, rs_error *err) {
    return rs_mapping_builder_end_counted_pair(self, NULL, NULL, err);
}

rs_status rs_mapping_builder_end_counted_pair(rs_mapping_builder *self, const rs_scan_counts *key,
                                              const rs_scan_counts *value, rs_error *err) {
    rs_status status = RS_E_STATE_FINISHED;
    if (self->tables_written) {
        (void)rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the mapping is finished");
    } else {
        status = end_record(&self->keys, key, err);
        if (status == RS_OK) {
            status = end_record(&self->values, value, err);
            if (status != RS_OK) rs_builder_pop_record(&self->keys);
        }
    }
    if (status != RS_OK) {
        self->keys.raw.size_bytes = (size_t)open_end(&self->keys);
        self->values.raw.size_bytes = (size_t)open_end(&self->values);
    }
    return status;
}

void rs_mapping_builder_drop_pair(rs_mapping_builder *self, size_t keys_arrays_mark, size_t values_arrays_mark) {
    rs_builder_drop_record(&self->keys, keys_arrays_mark);
    rs_builder_drop_record(&self->values, values_arrays_mark);
}

rs_status rs_mapping_builder_write_tables(rs_mapping_builder *self, rs_error *err) {
    rs_section *heap = &self->directories[0].sections[RS_FMT_SECTION_HEAP];
    if (self->tables_written) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the mapping is finished");
    self->tables_written = true;
    RS_TRY(rs_builder_flush(&self->values, err));
    RS_TRY(rs_builder_flush(&self->keys, err));
    RS_TRY(rs_builder_end_heap(&self->values, rs_builder_n_blocks(&self->values) + rs_builder_n_blocks(&self->keys),
                               rs_builder_least_heap(&self->values) + rs_builder_least_heap(&self->keys), heap, err));
    self->directories[1].sections[RS_FMT_SECTION_HEAP] = *heap;
    RS_TRY(rs_builder_write_tables(&self->values, &self->directories[0], err));
    return rs_builder_write_tables(&self->keys, &self->directories[1], err);
}

static void describe(const rs_mapping_builder *self, rs_header *header) {
    memset(header, 0, sizeof *header);
    header->content = RS_FMT_CONTENT_MAPPING;
    header->features_required = RS_FMT_FEATURE_MAPPING;
    rs_builder_describe(&self->values, header);
    rs_builder_describe(&self->keys, header);
}

/* Maps the bytes written so far, through a read-only descriptor if the system provides one: if another thread forks,
 * the child keeps the mapping, and a mapping that could become writable would block sealing while the child lives. */
static rs_status map_written(const rs_segment_writer *writer, const uint8_t **data, rs_error *err) {
    int read_only_fd = -1;
    rs_status status = rs_os_reopen_readonly(writer->fd, &read_only_fd, NULL);
    status = rs_os_map(status == RS_OK ? read_only_fd : writer->fd, writer->position, data, err);
    rs_os_close(&read_only_fd);
    return status;
}

rs_status rs_mapping_builder_map_keys(rs_mapping_builder *self, rs_written_keys *out, rs_error *err) {
    const rs_segment_writer *writer = self->keys.writer;
    const uint8_t *data;
    if (!self->tables_written || self->finished) {
        return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE,
                            "keys can be read back only after the tables and before the key index");
    }
    describe(self, &out->header);
    out->header.segment_size = writer->position;
    out->directory = self->directories[1];
    RS_TRY(map_written(writer, &data, err));
    out->bytes = rs_slice_of(data, (size_t)writer->position);
    return RS_OK;
}

void rs_written_keys_unmap(rs_written_keys *self) {
    rs_os_unmap(self->bytes.ptr, rs_slice_left(&self->bytes));
    memset(self, 0, sizeof *self);
}

/* Appends the bytes of ORDER. RS_E_ARG_RANGE unless the key records ascend and all records exist. */
static rs_status make_order(const uint64_t *order, uint64_t n, uint64_t n_records, rs_buffer *out, rs_error *err) {
    uint32_t w = rs_keys_order_width(n_records);
    RS_TRY(rs_buffer_reserve(out, (size_t)(2 * w * n), err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = order[2 * i], value = order[2 * i + 1];
        if (key >= n_records || value >= n_records || (i > 0 && key <= order[2 * i - 2])) {
            return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                                "entry %llu cannot have the records %llu and %llu of %llu", (unsigned long long)i,
                                (unsigned long long)key, (unsigned long long)value, (unsigned long long)n_records);
        }
        memcpy(out->data + out->size_bytes, &key, w);
        memcpy(out->data + out->size_bytes + w, &value, w);
        out->size_bytes += 2 * w;
    }
    return RS_OK;
}

static rs_status write_order(rs_mapping_builder *self, const uint64_t *order, uint64_t n, rs_error *err) {
    rs_buffer bytes = {0};
    rs_status status = make_order(order, n, self->keys.n_records, &bytes, err);
    if (status == RS_OK) {
        status =
            rs_builder_write_section(&self->keys, &bytes, n, &self->directories[1].sections[RS_FMT_SECTION_ORDER], err);
    }
    rs_buffer_clear(&bytes);
    return status;
}

rs_status rs_mapping_builder_finish(rs_mapping_builder *self, const rs_buffer *table, const uint64_t *order, uint64_t n,
                                    rs_error *err) {
    rs_header header;
    rs_keys parsed;
    uint64_t n_records = self->keys.n_records;
    if (!self->tables_written || self->finished) {
        return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "a mapping can be finished once, after its tables");
    }
    RS_TRY(rs_keys_open(rs_slice_of(table->data, table->size_bytes), 0, &parsed, err));
    if (parsed.n_entries != n || (order == NULL ? n != n_records : n > n_records)) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                            "a key index of %llu entries does not fit %llu entries of %llu records",
                            (unsigned long long)parsed.n_entries, (unsigned long long)n, (unsigned long long)n_records);
    }
    self->finished = true;
    self->values.finished = self->keys.finished = true;
    RS_TRY(rs_builder_write_section(&self->keys, table, n, &self->directories[1].sections[RS_FMT_SECTION_KEY_INDEX],
                                    err));
    if (order != NULL) RS_TRY(write_order(self, order, n, err));
    describe(self, &header);
    return rs_builder_write_header(&self->keys, &header, &self->directories[0], &self->directories[1], err);
}
