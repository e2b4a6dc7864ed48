/* rs_extension.c: writes saved indexes after the sections of a segment, then a new label, directory and header. */
#include "write/rs_extension.h"

#include "base/rs_crc.h"

/* Returns the end of the last section that stays in place. */
static uint64_t end_of(const rs_header *header, const rs_directory *directory) {
    uint64_t end = rs_header_size(header); /* sections may be within a long one */
    for (unsigned i = 1; i <= RS_FMT_SECTION_LAST; i++) {
        const rs_section *s = &directory->sections[i];
        if (s->off + s->size_bytes > end) end = s->off + s->size_bytes;
    }
    for (unsigned i = 0; i < directory->n_saved_indexes; i++) {
        const rs_section *s = &directory->saved_indexes[i];
        if (s->off + s->size_bytes > end) end = s->off + s->size_bytes;
    }
    return end;
}

rs_status rs_extension_begin(rs_extension *self, rs_segment_writer *writer, rs_slice segment, rs_error *err) {
    const rs_limits any_limits = {UINT64_MAX, UINT64_MAX};
    const rs_section *label = &self->directory.label;
    memset(self, 0, sizeof *self);
    RS_TRY(rs_header_read(segment, &any_limits, &self->header, err));
    if (self->header.content != RS_FMT_CONTENT_LIST) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "only a list can have saved indexes");
    }
    RS_TRY(rs_directory_read(segment, &self->header, 0, &self->directory, err));
    memcpy(self->first, segment.ptr, rs_header_size(&self->header));
    if (label->off != 0) {
        RS_TRY(rs_buffer_append(&self->label, segment.ptr + label->off, (size_t)label->size_bytes, err));
    }
    self->writer = writer;
    return rs_segment_writer_rewind(writer, end_of(&self->header, &self->directory), err);
}

static rs_status append(rs_extension *self, const void *bytes, size_t n, rs_section *section, rs_error *err) {
    if (n == 0) return RS_OK;
    section->crc = rs_crc32c(section->crc, bytes, n);
    section->size_bytes += n;
    return rs_segment_writer_append(self->writer, bytes, n, err);
}

static rs_status append_slice(rs_extension *self, rs_slice bytes, rs_section *section, rs_error *err) {
    return append(self, bytes.ptr, rs_slice_left(&bytes), section, err);
}

static rs_status begin_section(rs_extension *self, uint64_t count, rs_section *section, rs_error *err) {
    memset(section, 0, sizeof *section);
    RS_TRY(rs_segment_writer_align(self->writer, RS_FMT_ALIGNMENT, err));
    section->off = self->writer->position;
    section->count = count;
    return RS_OK;
}

/* Sets *n_entries to the number of keys. RS_E_ARG_RANGE unless key index and record numbers fit each other and the
 * segment. */
static rs_status check_parts(const rs_extension *self, const rs_saved_index_parts *parts, uint64_t *n_entries,
                             rs_error *err) {
    rs_keys keys;
    uint64_t r = self->header.n_records;
    RS_TRY(rs_keys_open(parts->keys, 0, &keys, err));
    uint64_t n = keys.n_entries;
    uint64_t numbers = parts->kind == RS_FMT_SAVED_GROUPS ? n + 1 + (parts->in_order ? 0 : r)
                       : parts->in_order                  ? 0
                                                          : 2 * n;
    if ((parts->kind != RS_FMT_SAVED_GROUPS && parts->kind != RS_FMT_SAVED_RECORDS) || parts->n_records != r || n > r ||
        keys.factory != RS_FMT_FACTORY_NONE || (parts->kind == RS_FMT_SAVED_RECORDS && (n == r) != parts->in_order) ||
        rs_slice_left(&parts->numbers) != numbers * rs_keys_order_width(r)) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                            "a saved index of %llu keys and %zu bytes of record numbers does not fit %llu records",
                            (unsigned long long)n, rs_slice_left(&parts->numbers), (unsigned long long)r);
    }
    *n_entries = n;
    return RS_OK;
}

rs_status rs_extension_add(rs_extension *self, const rs_saved_index_parts *parts, rs_error *err) {
    rs_buffer head = {0};
    rs_section section;
    uint64_t n_entries = 0;
    if (self->directory.n_saved_indexes == RS_FMT_SAVED_INDEXES) {
        return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a store has at most %d saved indexes",
                            RS_FMT_SAVED_INDEXES);
    }
    RS_TRY(check_parts(self, parts, &n_entries, err));
    rs_status status = rs_saved_index_write_head(parts, &head, err);
    if (status == RS_OK) status = begin_section(self, n_entries, &section, err);
    if (status == RS_OK) status = append(self, head.data, head.size_bytes, &section, err);
    if (status == RS_OK) status = append_slice(self, parts->keys, &section, err);
    if (status == RS_OK) status = append_slice(self, parts->numbers, &section, err);
    rs_buffer_clear(&head);
    if (status == RS_OK) self->directory.saved_indexes[self->directory.n_saved_indexes++] = section;
    return status;
}

/* Writes the directory (bytes from rs_directory_write) and the header. */
static rs_status write_end(rs_extension *self, const rs_buffer *directory, rs_error *err) {
    RS_TRY(rs_segment_writer_align(self->writer, RS_FMT_ALIGNMENT, err));
    self->header.directory_off = self->writer->position;
    RS_TRY(rs_segment_writer_append(self->writer, directory->data, directory->size_bytes, err));
    self->header.segment_size = self->writer->position;
    RS_TRY(rs_os_random(self->header.segment_id, sizeof self->header.segment_id, err));
    rs_header_write(&self->header, self->first);
    return rs_segment_writer_write_at(self->writer, 0, self->first, rs_header_size(&self->header), err);
}

rs_status rs_extension_finish(rs_extension *self, rs_error *err) {
    rs_buffer directory = {0};
    rs_section *label = &self->directory.label;
    if (label->off != 0) {
        RS_TRY(begin_section(self, label->count, label, err));
        RS_TRY(append(self, self->label.data, self->label.size_bytes, label, err));
    }
    rs_status status = rs_directory_write(&self->directory, NULL, &self->header, &directory, err);
    if (status == RS_OK) status = write_end(self, &directory, err);
    rs_buffer_clear(&directory);
    return status;
}

void rs_extension_clear(rs_extension *self) {
    rs_buffer_clear(&self->label);
    memset(self, 0, sizeof *self);
}
