/* rs_arrow_writer.c: room and errors. */
#include "arrow/rs_arrow_writer.h"

uint8_t *rs_arrow_fail(rs_arrow_writer *self, uint32_t node, rs_status code, const char *message) {
    char path[RS_ARROW_PATH_SIZE];
    rs_arrow_path(self->schema, node, path);
    self->status = rs_error_set(self->err, code, RS_NOWHERE, "%s: %s", path, message);
    return NULL;
}

uint8_t *rs_arrow_grow(rs_arrow_writer *self, uint8_t *p, uint64_t n) {
    rs_buffer *raw = self->raw;
    raw->size_bytes = (size_t)(p - raw->data);
    if (n > RS_FMT_READER_BYTES || raw->size_bytes - self->begin + n > RS_FMT_READER_BYTES) {
        return rs_arrow_fail(self, 0, RS_E_IN_TYPE, "a record of more than 4 GiB, the limit of readers");
    }
    self->status = rs_buffer_grow(raw, (size_t)n, self->err);
    if (self->status != RS_OK) return NULL;
    self->end = raw->data + raw->capacity_bytes;
    return raw->data + raw->size_bytes;
}
