/* rs_buffer.c: growth of rs_buffer, its only operation that can fail. */
#include "base/rs_buffer.h"

#include <stdlib.h>

typedef struct rs_buffer_old {
    struct rs_buffer_old *next;
    uint8_t *data;
} old_memory;

void rs_buffer_unpin(rs_buffer *self) {
    while (self->old != NULL) {
        old_memory *old = self->old;
        self->old = old->next;
        free(old->data);
        free(old);
    }
    self->pinned = false;
}

/* Copies the bytes to new memory of `capacity` bytes and keeps the old memory. NULL if out of memory. */
static uint8_t *move_pinned(rs_buffer *self, size_t capacity) {
    old_memory *old = (old_memory *)malloc(sizeof *old);
    uint8_t *data = old == NULL ? NULL : (uint8_t *)malloc(capacity);
    if (data == NULL) {
        free(old);
        return NULL;
    }
    memcpy(data, self->data, self->size_bytes);
    old->data = self->data;
    old->next = self->old;
    self->old = old;
    return data;
}

void rs_buffer_clear(rs_buffer *self) {
    rs_buffer_unpin(self);
    free(self->data);
    self->data = NULL;
    self->size_bytes = 0;
    self->capacity_bytes = 0;
}

void rs_buffer_fit(rs_buffer *self) {
    if (self->pinned || self->size_bytes == self->capacity_bytes || self->size_bytes == 0) return;
    uint8_t *data = (uint8_t *)realloc(self->data, self->size_bytes);
    if (data == NULL) return;
    self->data = data;
    self->capacity_bytes = self->size_bytes;
}

rs_status rs_buffer_grow(rs_buffer *self, size_t extra, rs_error *err) {
    uint64_t needed;
    if (rs_add_overflows(self->size_bytes, extra, &needed) || needed > PTRDIFF_MAX) {
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "a buffer of %zu bytes cannot grow by %zu bytes",
                            self->size_bytes, extra);
    }
    /* Grow by a quarter instead of doubling: block buffers have megabytes, and unused capacity adds to peak memory. */
    uint64_t grown = self->capacity_bytes + self->capacity_bytes / 4;
    if (grown < needed) grown = needed;
    if (grown < 256) grown = 256;
    uint8_t *data = self->pinned ? move_pinned(self, (size_t)grown) : (uint8_t *)realloc(self->data, (size_t)grown);
    if (data == NULL) {
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a buffer of %llu bytes",
                            (unsigned long long)grown);
    }
    self->data = data;
    self->capacity_bytes = (size_t)grown;
    return RS_OK;
}
