/* rs_arrow_builder.c: the batch of a field. */
#include "arrow/rs_arrow_builder.h"

#include "arrow/rs_arrow_infer.h"
#include "columns/rs_run.h"

enum {
    PATH_BYTES = 80, /* the most bytes of a path in a message, with a NUL */
    ITEMS = 64       /* items of an array that are loaded at once */
};

static bool is_float_kind(const rs_arrow_field *self) {
    return self->kind == RS_ARROW_KIND_FLOAT16 || self->kind == RS_ARROW_KIND_FLOAT32 ||
           self->kind == RS_ARROW_KIND_FLOAT64;
}

rs_status rs_arrow_begin(rs_arrow_field *self, uint64_t rows, rs_error *err) {
    self->n = self->n_null = 0;
    self->valid.size_bytes = self->bytes.size_bytes = self->offsets.size_bytes = 0;
    self->numbers.values.size_bytes = 0;
    self->numbers.inexact = false;
    self->numbers.seen = self->layout == RS_ARROW_LAYOUT_BITS ? (unsigned)RS_COLUMN_BOOL
                         : is_float_kind(self)                ? (unsigned)(RS_COLUMN_FLOAT | RS_COLUMN_INT)
                                                              : (unsigned)RS_COLUMN_INT;
    if (self->layout == RS_ARROW_LAYOUT_NUMBERS) RS_TRY(rs_column_reserve(&self->numbers, rows, err));
    if (self->layout == RS_ARROW_LAYOUT_BYTES || self->layout == RS_ARROW_LAYOUT_LIST) {
        RS_TRY(rs_buffer_reserve(&self->offsets, (size_t)(rows + 1) * 8, err));
        RS_TRY(rs_buffer_append_zeros(&self->offsets, 8, err));
    }
    if (self->last_bytes != 0) { /* reserve once: growing by doubling would copy */
        const size_t expected = self->last_bytes + self->last_bytes / 16;
        if (self->layout == RS_ARROW_LAYOUT_BYTES) RS_TRY(rs_buffer_reserve(&self->bytes, expected, err));
        if (self->layout == RS_ARROW_LAYOUT_NUMBERS && rows == 0)
            RS_TRY(rs_column_reserve(&self->numbers, expected / 8, err));
    }
    if (self->layout == RS_ARROW_LAYOUT_LIST) return rs_arrow_begin(self->element, 0, err);
    if (self->layout != RS_ARROW_LAYOUT_STRUCT) return RS_OK;
    for (uint32_t i = 0; i < self->n_known; i++) RS_TRY(rs_arrow_begin(self->children[i], rows, err));
    return RS_OK;
}

rs_status rs_arrow_misfit(const rs_arrow_field *self, rs_error *err) {
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE,
                        "a value of the field '%.60s' does not match the schema: the records, or the view's indices, "
                        "changed during the export",
                        self->name);
}

rs_status rs_arrow_inexact(const rs_arrow_field *self, rs_error *err) {
    char path[PATH_BYTES];
    rs_arrow_field_path(self, path, sizeof path);
    return rs_error_set(err, RS_E_ARG_TEXT, RS_NOWHERE,
                        "the field '%s' has floats and an int beyond 2^53, which a column of floats would round", path);
}

rs_status rs_arrow_surrogate(const rs_arrow_field *self, rs_error *err) {
    char path[PATH_BYTES];
    rs_arrow_field_path(self, path, sizeof path);
    return rs_error_set(err, RS_E_ARG_TEXT, RS_NOWHERE,
                        "the field '%s' has a str with a lone surrogate, which UTF-8 cannot express", path);
}

/* ---- Nulls ---- */

rs_status rs_arrow_mark_valid(rs_arrow_field *self, uint64_t n, rs_error *err) {
    if (n == 0) return RS_OK;
    RS_TRY(rs_buffer_reserve(&self->valid, (size_t)n, err));
    memset(self->valid.data + self->valid.size_bytes, 1, (size_t)n);
    self->valid.size_bytes += (size_t)n;
    return RS_OK;
}

/* Appends the placeholder of a null to the buffers. */
static rs_status append_filler(rs_arrow_field *self, rs_error *err) {
    switch (self->layout) {
    case RS_ARROW_LAYOUT_BITS:
    case RS_ARROW_LAYOUT_NUMBERS:
        RS_TRY(rs_column_reserve(&self->numbers, 1, err));
        rs_column_put_unchecked(&self->numbers,
                                self->layout == RS_ARROW_LAYOUT_BITS ? RS_COLUMN_BOOL
                                : is_float_kind(self)                ? RS_COLUMN_FLOAT
                                                                     : RS_COLUMN_INT,
                                0);
        return RS_OK;
    case RS_ARROW_LAYOUT_FIXED:
        return rs_buffer_append_zeros(&self->bytes, self->kind == RS_ARROW_KIND_UUID ? 16u : self->wide, err);
    case RS_ARROW_LAYOUT_BYTES:
    case RS_ARROW_LAYOUT_LIST: {
        uint8_t last[8];
        memcpy(last, self->offsets.data + self->offsets.size_bytes - 8, 8);
        return rs_buffer_append(&self->offsets, last, 8, err);
    }
    case RS_ARROW_LAYOUT_STRUCT:
        for (uint32_t i = 0; i < self->n_children; i++) RS_TRY(rs_arrow_append_null(self->children[i], err));
        return RS_OK;
    default: return RS_OK;
    }
}

rs_status rs_arrow_append_null(rs_arrow_field *self, rs_error *err) {
    RS_TRY(append_filler(self, err));
    if (self->layout != RS_ARROW_LAYOUT_NONE) {
        if (self->valid.size_bytes == 0) RS_TRY(rs_arrow_mark_valid(self, self->n, err));
        RS_TRY(rs_buffer_append_zeros(&self->valid, 1, err));
    }
    self->n++;
    self->n_null++;
    return RS_OK;
}

/* ---- Lists and numbers ---- */

rs_status rs_arrow_end_even_lists(rs_arrow_field *self, uint64_t n, uint64_t count, rs_error *err) {
    RS_TRY(rs_buffer_reserve(&self->offsets, (size_t)n * 8, err));
    uint8_t *to = self->offsets.data + self->offsets.size_bytes;
    uint64_t end = rs_load_u64(to - 8);
    for (uint64_t i = 0; i < n; i++) rs_store_u64(to + 8 * i, end + (i + 1) * count);
    self->offsets.size_bytes += (size_t)n * 8;
    return rs_arrow_grown(self, n, err);
}

static bool is_not_a_time(const rs_array_type *type, uint64_t bits) {
    return type->code >= RS_FMT_DTYPE_DATETIME && bits == UINT64_C(1) << 63;
}

rs_status rs_arrow_append_items(rs_arrow_field *self, const rs_array_type *type, const uint8_t *data, uint64_t n,
                                rs_error *err) {
    const uint32_t seen = rs_arrow_dtype_seen(type);
    const unsigned column = seen == RS_ARROW_SEEN_BOOL           ? RS_COLUMN_BOOL
                            : (seen & RS_ARROW_SEEN_FLOATS) != 0 ? RS_COLUMN_FLOAT
                                                                 : RS_COLUMN_INT;
    const uint8_t code = type->code >= RS_FMT_DTYPE_DATETIME ? RS_FMT_DTYPE_INT64 : type->code;
    uint64_t items[ITEMS];
    if ((self->seen & seen) == 0) return n == 0 ? RS_OK : rs_arrow_misfit(self, err);
    RS_TRY(rs_column_reserve(&self->numbers, n, err));
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = i % ITEMS;
        if (at == 0) {
            rs_run_load_items(code, type->big_endian, data + i * type->item_bytes, n - i < ITEMS ? n - i : ITEMS,
                              items);
        }
        const uint64_t bits = items[at];
        if (is_not_a_time(type, bits)) {
            RS_TRY(rs_arrow_append_null(self, err));
            RS_TRY(rs_column_reserve(&self->numbers, n - i, err));
            continue;
        }
        if (type->code == 9 && is_float_kind(self)) {
            uint8_t bytes[8];
            self->numbers.inexact |= bits > UINT64_C(1) << 53;
            rs_store_f64(bytes, (double)bits);
            rs_column_put_unchecked(&self->numbers, RS_COLUMN_FLOAT, rs_load_u64(bytes));
        } else {
            rs_column_put_unchecked(&self->numbers, column, bits);
        }
        RS_TRY(rs_arrow_grown(self, 1, err));
    }
    return self->numbers.inexact ? rs_arrow_inexact(self, err) : RS_OK;
}

uint64_t rs_arrow_batch_bytes(const rs_arrow_field *self) {
    uint64_t all =
        self->valid.size_bytes + self->numbers.values.size_bytes + self->bytes.size_bytes + self->offsets.size_bytes;
    if (self->layout == RS_ARROW_LAYOUT_LIST) return all + rs_arrow_batch_bytes(self->element);
    if (self->layout != RS_ARROW_LAYOUT_STRUCT) return all;
    for (uint32_t i = 0; i < self->n_children; i++) all += rs_arrow_batch_bytes(self->children[i]);
    return all;
}
