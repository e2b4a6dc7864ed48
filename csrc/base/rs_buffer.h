/* rs_buffer.h: a growable run of bytes. Zero the struct before the first use and call rs_buffer_clear at the end. One
 * thread at a time may use a buffer. */
#pragma once

#include "base/rs_bytes.h"
#include "base/rs_status.h"

/* Owns `data` (NULL while capacity is 0) and `old`. */
typedef struct rs_buffer {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
    bool pinned;               /* see rs_buffer_pin */
    struct rs_buffer_old *old; /* old memory, kept while pinned */
} rs_buffer;

/* Returns the address of byte `at`; NULL for byte 0 of a buffer without memory, because NULL + 0 is undefined in C. */
static inline uint8_t *rs_buffer_at(const rs_buffer *self, size_t at) { return at == 0 ? self->data : self->data + at; }

/* Frees the bytes. The buffer is then empty and can be used again. */
void rs_buffer_clear(rs_buffer *self);

/* Releases unused capacity, which invalidates pointers into the bytes. Does nothing to a pinned or empty buffer. */
void rs_buffer_fit(rs_buffer *self);

/* Lets other threads read the bytes of the buffer while its owner appends more: growing copies the bytes and keeps the
 * old memory. rs_buffer_unpin frees the old memory; call it when other threads no longer read the buffer. */
static inline void rs_buffer_pin(rs_buffer *self) { self->pinned = true; }
void rs_buffer_unpin(rs_buffer *self);

/* Makes room for `extra` more bytes, which invalidates pointers into the bytes. RS_E_MEM leaves the buffer
 * unchanged. */
RS_NODISCARD RS_COLD rs_status rs_buffer_grow(rs_buffer *self, size_t extra, rs_error *err);

/* As rs_buffer_grow, but does nothing if the capacity is enough. */
RS_NODISCARD static inline rs_status rs_buffer_reserve(rs_buffer *self, size_t extra, rs_error *err) {
    if (RS_LIKELY(extra <= self->capacity_bytes - self->size_bytes)) return RS_OK;
    return rs_buffer_grow(self, extra, err);
}

/* Each of the following appends at the end of the buffer. RS_E_MEM leaves the buffer unchanged. `bytes` may be NULL
 * when n is 0, and must not point into the buffer. */
RS_NODISCARD static inline rs_status rs_buffer_append(rs_buffer *self, const void *bytes, size_t n, rs_error *err) {
    RS_TRY(rs_buffer_reserve(self, n, err));
    if (n != 0) memcpy(self->data + self->size_bytes, bytes, n);
    self->size_bytes += n;
    return RS_OK;
}

RS_NODISCARD static inline rs_status rs_buffer_append_u64(rs_buffer *self, uint64_t value, rs_error *err) {
    RS_TRY(rs_buffer_reserve(self, 8, err));
    rs_store_u64(self->data + self->size_bytes, value);
    self->size_bytes += 8;
    return RS_OK;
}

RS_NODISCARD static inline rs_status rs_buffer_append_varint(rs_buffer *self, uint64_t value, rs_error *err) {
    RS_TRY(rs_buffer_reserve(self, 10, err));
    self->size_bytes += rs_put_varint(self->data + self->size_bytes, value);
    return RS_OK;
}

RS_NODISCARD static inline rs_status rs_buffer_append_zeros(rs_buffer *self, size_t n, rs_error *err) {
    RS_TRY(rs_buffer_reserve(self, n, err));
    if (n != 0) memset(self->data + self->size_bytes, 0, n);
    self->size_bytes += n;
    return RS_OK;
}
