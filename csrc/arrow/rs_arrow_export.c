/* rs_arrow_export.c: Arrow structs. Each struct has one block of memory, `private_data`, for everything it points to
 * except the buffers of arrays and constant metadata. */
#include "arrow/rs_arrow_export.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rs_half.h"

/* Returns the number of children of the Arrow struct of a field. */
static uint32_t n_children(const rs_arrow_field *self) {
    if (self->layout == RS_ARROW_LAYOUT_LIST) return 1;
    return self->layout == RS_ARROW_LAYOUT_STRUCT ? self->n_children : 0;
}

static rs_arrow_field *child_at(const rs_arrow_field *self, uint32_t i) {
    return self->layout == RS_ARROW_LAYOUT_LIST ? self->element : self->children[i];
}

/* ---- Schemas ---- */

enum { FORMAT_SIZE = 4 + RS_ARROW_ZONE_BYTES };

/* The start of the private data of a schema; children, pointers to them and the name follow. */
typedef struct schema_data {
    char format[FORMAT_SIZE];
    struct ArrowSchema **pointers;
    struct ArrowSchema *children;
    char *name;
} schema_data;

static void release_schema(struct ArrowSchema *self) {
    for (int64_t i = 0; i < self->n_children; i++) rs_arrow_schema_release(self->children[i]);
    free(self->private_data);
    self->release = NULL;
}

static void put_format(const rs_arrow_field *self, char *to) {
#define RS_ARROW_FORMAT(name, format, width, layout) format,
    static const char *const formats[] = {RS_ARROW_KINDS(RS_ARROW_FORMAT)};
    const int32_t minutes = self->zone_minutes;
    const int32_t distance = minutes < 0 ? -minutes : minutes;
    const char *format = formats[self->kind];
    (void)snprintf(to, FORMAT_SIZE, "%s", format);
    switch (self->kind) {
    case RS_ARROW_KIND_TEXT:
        if (self->views) (void)snprintf(to, FORMAT_SIZE, "vu");
        else if (self->wide == 1) (void)snprintf(to, FORMAT_SIZE, "U");
        break;
    case RS_ARROW_KIND_BYTES:
        if (self->views) (void)snprintf(to, FORMAT_SIZE, "vz");
        else if (self->wide == 1) (void)snprintf(to, FORMAT_SIZE, "Z");
        break;
    case RS_ARROW_KIND_LIST:
        if (self->wide == 1) (void)snprintf(to, FORMAT_SIZE, "+L");
        break;
    case RS_ARROW_KIND_DECIMAL:
        (void)snprintf(to, FORMAT_SIZE, self->wide == 16 ? "d:%u,%u" : "d:%u,%u,256",
                       self->digits + self->scale == 0 ? 1 : self->digits + self->scale, self->scale);
        break;
    case RS_ARROW_KIND_DURATION: (void)snprintf(to, FORMAT_SIZE, "tD%c", self->unit); break;
    case RS_ARROW_KIND_TIMESTAMP:
        if ((self->seen & RS_ARROW_SEEN_AWARE) == 0) (void)snprintf(to, FORMAT_SIZE, "ts%c:", self->unit);
        else if (self->zone_name[0] != 0) (void)snprintf(to, FORMAT_SIZE, "tsu:%s", self->zone_name);
        else if (minutes == 0) (void)snprintf(to, FORMAT_SIZE, "tsu:UTC");
        else (void)snprintf(to, FORMAT_SIZE, "tsu:%c%02d:%02d", minutes < 0 ? '-' : '+', distance / 60, distance % 60);
        break;
    default: break;
    }
}

/* The metadata of the canonical extension type arrow.uuid: pairs of strings with sizes of 4 bytes. */
static const char UUID_METADATA[] = "\2\0\0\0\24\0\0\0ARROW:extension:name\12\0\0\0arrow.uuid"
                                    "\30\0\0\0ARROW:extension:metadata\0\0\0";

rs_status rs_arrow_export_schema(const rs_arrow_field *self, struct ArrowSchema *out, rs_error *err) {
    const uint32_t n = n_children(self);
    memset(out, 0, sizeof *out);
    schema_data *data = (schema_data *)calloc(1, sizeof *data + n * (sizeof *data->pointers + sizeof *data->children) +
                                                     self->name_size + 1);
    if (data == NULL) return rs_no_memory(err);
    data->children = (struct ArrowSchema *)(void *)(data + 1);
    data->pointers = (struct ArrowSchema **)(void *)(data->children + n);
    data->name = (char *)(void *)(data->pointers + n);
    memcpy(data->name, self->name, self->name_size);
    put_format(self, data->format);
    out->format = data->format;
    out->name = data->name;
    out->flags = ARROW_FLAG_NULLABLE;
    out->metadata = self->kind == RS_ARROW_KIND_UUID ? UUID_METADATA : NULL;
    out->children = n == 0 ? NULL : data->pointers;
    out->private_data = data;
    out->release = release_schema;
    for (uint32_t i = 0; i < n; i++) {
        rs_status status = rs_arrow_export_schema(child_at(self, i), &data->children[i], err);
        if (status != RS_OK) {
            rs_arrow_schema_release(out);
            return status;
        }
        data->pointers[i] = &data->children[i];
        out->n_children++;
    }
    return RS_OK;
}

/* ---- Arrays ---- */

enum { BUFFERS = 4 };

typedef struct array_data {
    const void *buffers[BUFFERS];
    struct ArrowArray **pointers;
    struct ArrowArray *children;
} array_data;

static void release_array(struct ArrowArray *self) {
    array_data *data = (array_data *)self->private_data;
    for (int64_t i = 0; i < self->n_children; i++) rs_arrow_array_release(self->children[i]);
    for (int64_t i = 0; i < BUFFERS; i++) free((void *)(uintptr_t)data->buffers[i]);
    free(data);
    self->release = NULL;
}

/* Moves the bytes of a buffer to *out and frees large spare capacity. An empty Arrow buffer must not be NULL. */
static rs_status move(rs_buffer *buffer, const void **out, rs_error *err) {
    uint8_t *data = buffer->data;
    if (data == NULL) {
        data = (uint8_t *)calloc(1, 64);
        if (data == NULL) return rs_no_memory(err);
    } else if (buffer->capacity_bytes - buffer->size_bytes > buffer->size_bytes / 8 + 64) {
        uint8_t *shrunk = (uint8_t *)realloc(data, buffer->size_bytes == 0 ? 64 : buffer->size_bytes);
        if (shrunk != NULL) data = shrunk;
    }
    *out = data;
    memset(buffer, 0, sizeof *buffer);
    return RS_OK;
}

/* Packs n bytes that are 0 or 1 into bits, in place. */
static void pack_bits(rs_buffer *bytes, uint64_t n) {
    uint8_t *p = bytes->data;
    uint64_t i;
    for (i = 0; i < n / 8; i++) {
        /* The product gathers the lowest bit of each byte in the highest byte (Warren, Hacker's Delight, 2nd edition,
         * section 7-3). */
        p[i] = (uint8_t)(rs_load_u64(p + 8 * i) * UINT64_C(0x0102040810204080) >> 56);
    }
    if (n % 8 != 0) {
        unsigned bits = 0;
        for (unsigned k = 0; k < n % 8; k++) bits |= (unsigned)p[8 * i + k] << k;
        p[i] = (uint8_t)bits;
    }
    bytes->size_bytes = (size_t)((n + 7) / 8);
}

/* Narrows the numbers of a batch in place to the width of the type. */
static void narrow(rs_arrow_field *self) {
    uint8_t *p = self->numbers.values.data;
    const uint64_t n = self->n;
#define RS_ARROW_WIDTH(name, format, bytes, layout) bytes,
    static const uint8_t widths[] = {RS_ARROW_KINDS(RS_ARROW_WIDTH)};
    unsigned width = widths[self->kind];
    self->numbers.values.size_bytes = (size_t)n * width;
    if (self->kind == RS_ARROW_KIND_FLOAT16) {
        for (uint64_t i = 0; i < n; i++) rs_store_u16(p + 2 * i, rs_half_of_double_unchecked(rs_load_f64(p + 8 * i)));
    } else if (self->kind == RS_ARROW_KIND_FLOAT32) {
        for (uint64_t i = 0; i < n; i++) {
            const float value = (float)rs_load_f64(p + 8 * i);
            memcpy(p + 4 * i, &value, 4);
        }
    } else if (width == 4) {
        for (uint64_t i = 0; i < n; i++) rs_store_u32(p + 4 * i, (uint32_t)rs_load_u64(p + 8 * i));
    } else if (width == 2) {
        for (uint64_t i = 0; i < n; i++) rs_store_u16(p + 2 * i, (uint16_t)rs_load_u64(p + 8 * i));
    } else if (width == 1) {
        for (uint64_t i = 0; i < n; i++) p[i] = p[8 * i];
    }
}

static void narrow_offsets(rs_arrow_field *self) {
    uint8_t *p = self->offsets.data;
    if (self->wide == 1) return;
    for (uint64_t i = 0; i <= self->n; i++) rs_store_u32(p + 4 * i, (uint32_t)rs_load_u64(p + 8 * i));
    self->offsets.size_bytes /= 2;
}

/* Makes the views of a batch: 16 bytes for each value. A view is the size and either a value of up to 12 bytes or the
 * first 4 bytes, the number of the buffer and the offset in it. */
static rs_status make_views(rs_arrow_field *self, rs_buffer *views, rs_error *err) {
    enum { VIEW = 16, INLINE = 12 };
    uint64_t begin = 0;
    RS_TRY(rs_buffer_reserve(views, (size_t)self->n * VIEW + VIEW, err));
    RS_TRY(rs_buffer_reserve(&self->bytes, VIEW, err)); /* up to 12 bytes are read from the start of each value */
    const uint8_t *bytes = self->bytes.data;
    for (uint64_t i = 0; i < self->n; i++) {
        const uint64_t end = rs_load_u64(self->offsets.data + 8 * (i + 1)), size = end - begin;
        uint8_t *to = views->data + VIEW * i;
        const uint64_t first = rs_load_u64(bytes + begin);
        if (size <= INLINE) {
            const uint64_t low = size >= 8 ? first : first & ((UINT64_C(1) << (8 * size)) - 1);
            const uint64_t high =
                size <= 8 ? 0 : rs_load_u32(bytes + begin + 8) & ((UINT64_C(1) << (8 * size - 64)) - 1);
            rs_store_u64(to, size | low << 32);
            rs_store_u64(to + 8, low >> 32 | high << 32);
        } else {
            rs_store_u64(to, size | first << 32);
            rs_store_u64(to + 8, begin << 32);
        }
        begin = end;
    }
    views->size_bytes = (size_t)self->n * VIEW;
    return RS_OK;
}

/* Moves the buffers of text or bytes as views: the views, the bytes, and the sizes of the byte buffers. */
static rs_status move_views(rs_arrow_field *self, const void **buffers, int64_t *n, rs_error *err) {
    rs_buffer views = {0};
    rs_status status = make_views(self, &views, err);
    uint8_t *sizes = (uint8_t *)calloc(1, 64);
    if (status == RS_OK && sizes == NULL) status = rs_no_memory(err);
    if (status == RS_OK) {
        rs_store_u64(sizes, self->bytes.size_bytes);
        status = move(&views, &buffers[1], err);
    }
    buffers[3] = sizes;
    *n = 4;
    if (status == RS_OK) return move(&self->bytes, &buffers[2], err);
    rs_buffer_clear(&views);
    return status;
}

/* Moves the buffers of one field. Sets *n to their number. */
static rs_status move_buffers(rs_arrow_field *self, const void **buffers, int64_t *n, rs_error *err) {
    *n = 0;
    if (self->layout == RS_ARROW_LAYOUT_NONE) return RS_OK;
    self->last_bytes =
        self->layout == RS_ARROW_LAYOUT_NUMBERS ? self->numbers.values.size_bytes : self->bytes.size_bytes;
    *n = 1;
    if (self->n_null > 0) {
        pack_bits(&self->valid, self->n);
        RS_TRY(move(&self->valid, &buffers[0], err));
    }
    switch (self->layout) {
    case RS_ARROW_LAYOUT_BITS:
        pack_bits(&self->numbers.values, self->n);
        *n = 2;
        return move(&self->numbers.values, &buffers[1], err);
    case RS_ARROW_LAYOUT_NUMBERS:
        narrow(self);
        *n = 2;
        return move(&self->numbers.values, &buffers[1], err);
    case RS_ARROW_LAYOUT_FIXED: *n = 2; return move(&self->bytes, &buffers[1], err);
    case RS_ARROW_LAYOUT_BYTES:
        if (self->views) return move_views(self, buffers, n, err);
        narrow_offsets(self);
        *n = 3;
        RS_TRY(move(&self->offsets, &buffers[1], err));
        return move(&self->bytes, &buffers[2], err);
    case RS_ARROW_LAYOUT_LIST:
        narrow_offsets(self);
        *n = 2;
        return move(&self->offsets, &buffers[1], err);
    default: return RS_OK;
    }
}

/* Returns whether the children and buffers of a batch have as many values as the field, and its offsets fit. */
static bool is_consistent(const rs_arrow_field *self) {
    for (uint32_t i = 0; self->layout == RS_ARROW_LAYOUT_STRUCT && i < self->n_children; i++) {
        if (self->children[i]->n != self->n) return false;
    }
    if (self->layout == RS_ARROW_LAYOUT_BITS) return self->numbers.values.size_bytes == self->n;
    if (self->layout == RS_ARROW_LAYOUT_NUMBERS) return self->numbers.values.size_bytes / 8 == self->n;
    if (self->layout != RS_ARROW_LAYOUT_BYTES && self->layout != RS_ARROW_LAYOUT_LIST) return true;
    if (self->offsets.size_bytes / 8 != self->n + 1) return false;
    if (self->wide == 1 && !self->views) return true;
    return rs_load_u64(self->offsets.data + self->offsets.size_bytes - 8) <= INT32_MAX;
}

rs_status rs_arrow_export_batch(rs_arrow_field *self, struct ArrowArray *out, rs_error *err) {
    const uint32_t n = n_children(self);
    memset(out, 0, sizeof *out);
    if (!is_consistent(self)) return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "columns of different lengths");
    array_data *data = (array_data *)calloc(1, sizeof *data + n * (sizeof *data->pointers + sizeof *data->children));
    if (data == NULL) return rs_no_memory(err);
    data->children = (struct ArrowArray *)(void *)(data + 1);
    data->pointers = (struct ArrowArray **)(void *)(data->children + n);
    out->length = (int64_t)self->n;
    out->null_count = (int64_t)self->n_null;
    out->buffers = data->buffers;
    out->children = n == 0 ? NULL : data->pointers;
    out->private_data = data;
    out->release = release_array;
    rs_status status = move_buffers(self, data->buffers, &out->n_buffers, err);
    for (uint32_t i = 0; status == RS_OK && i < n; i++) {
        status = rs_arrow_export_batch(child_at(self, i), &data->children[i], err);
        if (status != RS_OK) break;
        data->pointers[i] = &data->children[i];
        out->n_children++;
    }
    if (status != RS_OK) rs_arrow_array_release(out);
    return status;
}
