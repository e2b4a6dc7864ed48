/* rs_buffer.c: growth of rs_buffer, its only operation that can fail. */
#include "base/rs_buffer.h"

#include <stdlib.h>

void rs_buffer_clear(rs_buffer *self) {
    free(self->data);
    self->data = NULL;
    self->size_bytes = 0;
    self->capacity_bytes = 0;
}

rs_status rs_buffer_grow(rs_buffer *self, size_t extra, rs_error *err) {
    uint64_t needed, wanted;
    uint8_t *data;
    if (rs_add_overflows(self->size_bytes, extra, &needed) || needed > PTRDIFF_MAX) {
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a buffer of %zu bytes cannot grow by %zu bytes",
                            self->size_bytes, extra);
    }
    /* A quarter more, not double: a block buffer has megabytes, and unused capacity counts in the peak memory. */
    wanted = self->capacity_bytes + self->capacity_bytes / 4;
    if (wanted < needed) wanted = needed;
    if (wanted < 256) wanted = 256;
    data = (uint8_t *)realloc(self->data, (size_t)wanted);
    if (data == NULL) {
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a buffer of %llu bytes",
                            (unsigned long long)wanted);
    }
    self->data = data;
    self->capacity_bytes = (size_t)wanted;
    return RS_OK;
}
