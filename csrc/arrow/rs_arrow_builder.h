/* rs_arrow_builder.h: appends values to the batch of a field, after rs_arrow_resolve has fixed its type. One thread at
 * a time may use a tree of fields. */
#pragma once

#include "arrow/rs_arrow_field.h"

/* Empties the batches of a field and its descendants, and reserves memory for `rows` records. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_begin(rs_arrow_field *self, uint64_t rows, rs_error *err);

/* Sets `err` for a value that does not fit the type, and returns RS_E_FMT_VALUE. The types were inferred from the same
 * bytes, so this error means that the bytes or the selection have changed. */
RS_COLD rs_status rs_arrow_misfit(const rs_arrow_field *self, rs_error *err);

/* Sets `err` for an int beyond 2^53 among floats, and returns RS_E_ARG_TEXT. */
RS_COLD rs_status rs_arrow_inexact(const rs_arrow_field *self, rs_error *err);
/* Sets `err` for text with a lone surrogate, and returns RS_E_ARG_TEXT. */
RS_COLD rs_status rs_arrow_surrogate(const rs_arrow_field *self, rs_error *err);

/* Marks n values as not null. Call it only if the batch has nulls. RS_E_MEM. */
RS_NODISCARD RS_COLD rs_status rs_arrow_mark_valid(rs_arrow_field *self, uint64_t n, rs_error *err);

/* Counts n appended values that are not null. RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_arrow_grown(rs_arrow_field *self, uint64_t n, rs_error *err) {
    if (RS_UNLIKELY(self->valid.size_bytes != 0)) RS_TRY(rs_arrow_mark_valid(self, n, err));
    self->n += n;
    return RS_OK;
}

/* Appends a null, and for a struct a null to each child. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_append_null(rs_arrow_field *self, rs_error *err);

/* Appends the end of a text, bytes or list value, whose bytes or elements end at `end`. RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_arrow_end_value(rs_arrow_field *self, uint64_t end, rs_error *err) {
    RS_TRY(rs_buffer_reserve(&self->offsets, 8, err));
    rs_store_u64(self->offsets.data + self->offsets.size_bytes, end);
    self->offsets.size_bytes += 8;
    return rs_arrow_grown(self, 1, err);
}

/* Appends a bytes value. RS_E_FMT_VALUE if the field does not have this kind, RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_arrow_append_bytes(rs_arrow_field *self, const uint8_t *bytes, uint64_t n,
                                                           rs_error *err) {
    if (RS_UNLIKELY((self->seen & RS_ARROW_SEEN_BYTES) == 0)) return rs_arrow_misfit(self, err);
    RS_TRY(rs_buffer_append(&self->bytes, bytes, (size_t)n, err));
    return rs_arrow_end_value(self, self->bytes.size_bytes, err);
}

/* Appends the ends of n lists of `count` elements each. RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_end_even_lists(rs_arrow_field *self, uint64_t n, uint64_t count, rs_error *err);

/* Appends a number. `seen` is its RS_ARROW_SEEN kind, `type` its RS_COLUMN type. RS_E_FMT_VALUE if the field does
 * not have this kind, RS_E_ARG_TEXT for an int that a field of floats cannot hold, RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_arrow_append_number(rs_arrow_field *self, uint32_t seen, unsigned type,
                                                            uint64_t bits, rs_error *err) {
    if (RS_UNLIKELY((self->seen & seen) == 0)) return rs_arrow_misfit(self, err);
    RS_TRY(rs_column_reserve(&self->numbers, 1, err));
    rs_column_put_unchecked(&self->numbers, type, bits);
    if (RS_UNLIKELY(self->numbers.inexact)) return rs_arrow_inexact(self, err);
    return rs_arrow_grown(self, 1, err);
}

/* As rs_arrow_append_number for an int, float or bool. */
RS_NODISCARD static inline rs_status rs_arrow_append_plain(rs_arrow_field *self, unsigned type, uint64_t bits,
                                                           rs_error *err) {
    const uint32_t seen = type == RS_COLUMN_INT     ? RS_ARROW_SEEN_INT
                          : type == RS_COLUMN_FLOAT ? RS_ARROW_SEEN_FLOAT
                                                    : RS_ARROW_SEEN_BOOL;
    return rs_arrow_append_number(self, seen, type, bits, err);
}

/* Appends the n items of an array at `data`. Errors of rs_arrow_append_number. */
RS_NODISCARD rs_status rs_arrow_append_items(rs_arrow_field *self, const rs_array_type *type, const uint8_t *data,
                                             uint64_t n, rs_error *err);

/* Returns the bytes in the batches of the field and its descendants. */
uint64_t rs_arrow_batch_bytes(const rs_arrow_field *self);
