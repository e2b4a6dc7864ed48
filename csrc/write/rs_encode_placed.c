/* rs_encode_placed.c: writes places. */
#include "write/rs_encode_placed.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"

enum { MAX_START = 65535, FINE_SHIFT = 20 };

static rs_status no_memory(rs_error *err) { return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for places"); }

static rs_status too_many(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "the places of a block grow too large");
}

/* ---- Collecting ---- */

rs_status rs_places_part_begin(rs_places_part *self, const rs_tree *tree, rs_error *err) {
    uint32_t i;
    if (self->capacity < tree->n_placed) {
        rs_placed_values *grown = (rs_placed_values *)realloc(self->nodes, tree->n_placed * sizeof *grown);
        if (grown == NULL) return no_memory(err);
        memset(grown + self->capacity, 0, (tree->n_placed - self->capacity) * sizeof *grown);
        self->nodes = grown;
        self->capacity = tree->n_placed;
    }
    self->n_nodes = tree->n_placed;
    self->local = 0;
    for (i = 0; i < self->n_nodes; i++) {
        rs_placed_values *v = &self->nodes[i];
        v->locals.size_bytes = v->values.size_bytes = v->ends.size_bytes = 0;
        v->last = rs_slice_of(NULL, 0);
    }
    return RS_OK;
}

void rs_places_part_clear(rs_places_part *self) {
    uint32_t i;
    for (i = 0; i < self->capacity; i++) {
        rs_buffer_clear(&self->nodes[i].locals);
        rs_buffer_clear(&self->nodes[i].values);
        rs_buffer_clear(&self->nodes[i].ends);
    }
    free(self->nodes);
    memset(self, 0, sizeof *self);
}

rs_status rs_places_put_number(rs_places_part *self, const rs_node *node, uint64_t number, rs_error *err) {
    rs_placed_values *v = &self->nodes[node->placed];
    RS_TRY(rs_buffer_append(&v->locals, &self->local, sizeof self->local, err));
    return rs_buffer_append(&v->values, &number, sizeof number, err);
}

rs_status rs_places_end_value(rs_places_part *self, const rs_node *node, rs_error *err) {
    rs_placed_values *v = &self->nodes[node->placed];
    uint32_t end = (uint32_t)v->values.size_bytes;
    RS_TRY(rs_buffer_append(&v->locals, &self->local, sizeof self->local, err));
    if (node->kind != RS_FMT_NODE_EXCEPTIONS) return RS_OK;
    if (v->values.size_bytes > UINT32_MAX) return too_many(err);
    return rs_buffer_append(&v->ends, &end, sizeof end, err);
}

/* ---- Marks ---- */

unsigned rs_marks_form(uint32_t n_records, uint32_t n_marks) {
    return rs_marks_size(RS_FMT_MARKS_LOW, n_records, n_marks) <= rs_marks_size(RS_FMT_MARKS_BITS, n_records, n_marks)
               ? RS_FMT_MARKS_LOW
               : RS_FMT_MARKS_BITS;
}

/* Writes the marks of m records, whose numbers are u32 at `locals`, at `to`, which is zeroed. */
static void put_marks(unsigned form, uint32_t n_records, const uint8_t *locals, uint32_t m, uint8_t *to) {
    uint32_t each = form == RS_FMT_MARKS_LOW ? RS_FMT_MARKS_LOW_RECORDS : RS_FMT_MARKS_BITS_RECORDS;
    uint32_t n = (n_records + each - 1) / each, i = 0, f;
    uint8_t *lows = to + 2 * (size_t)n;
    for (f = 0; f < n; f++) {
        uint8_t *part = to + (size_t)f * (form == RS_FMT_MARKS_LOW ? 2 : RS_FMT_MARKS_BITS_SIZE);
        uint64_t bits = 0;
        rs_store_u16(part, (uint16_t)i);
        for (; i < m && rs_load_u32(locals + 4 * (size_t)i) / each == f; i++) {
            uint32_t low = rs_load_u32(locals + 4 * (size_t)i) % each;
            if (form == RS_FMT_MARKS_LOW) lows[i] = (uint8_t)low;
            else bits |= UINT64_C(1) << low;
        }
        if (form == RS_FMT_MARKS_BITS) rs_store_u64(part + 2, bits);
    }
}

/* Appends head and marks of runs or exceptions. */
static rs_status append_marks(const uint8_t *locals, uint32_t m, uint32_t n_records, rs_buffer *out, rs_error *err) {
    unsigned form = rs_marks_form(n_records, m);
    uint64_t size = rs_marks_size(form, n_records, m);
    uint8_t *head;
    if (m >= RS_FMT_BLOCK_RECORDS) return too_many(err);
    RS_TRY(rs_buffer_append_zeros(out, RS_FMT_PLACED_HEAD_SIZE + (size_t)size, err));
    head = out->data + out->size_bytes - size - RS_FMT_PLACED_HEAD_SIZE;
    rs_store_u32(head + RS_FMT_P_COUNT, m);
    head[RS_FMT_P_FORM] = (uint8_t)form;
    put_marks(form, n_records, locals, m, head + RS_FMT_PLACED_HEAD_SIZE);
    return RS_OK;
}

/* Puts all parts of one node together. Values of runs that equal the one before are left out. */
static rs_status join(const rs_places_part *parts, size_t n_parts, const rs_node *node, rs_placed_values *all,
                      rs_error *err) {
    const size_t size =
        node->kind == RS_FMT_NODE_RUNS ? (size_t)(node->children->alone_bytes + node->children->size_bytes) : 0;
    size_t p, skip;
    for (p = 0; p < n_parts; p++) {
        const rs_placed_values *v = &parts[p].nodes[node->placed];
        uint32_t before = (uint32_t)all->values.size_bytes, end;
        size_t i;
        if (v->locals.size_bytes == 0) continue;
        if (all->values.size_bytes + v->values.size_bytes > UINT32_MAX) return too_many(err);
        skip = node->kind == RS_FMT_NODE_RUNS && all->locals.size_bytes > 0 &&
               memcmp(all->values.data + all->values.size_bytes - size, v->values.data, size) == 0;
        RS_TRY(rs_buffer_append(&all->locals, v->locals.data + 4 * skip, v->locals.size_bytes - 4 * skip, err));
        RS_TRY(rs_buffer_append(&all->values, rs_buffer_at(&v->values, size * skip), v->values.size_bytes - size * skip,
                                err));
        for (i = 0; i < v->ends.size_bytes; i += 4) {
            end = before + rs_load_u32(v->ends.data + i);
            RS_TRY(rs_buffer_append(&all->ends, &end, sizeof end, err));
        }
    }
    return RS_OK;
}

/* ---- Rising numbers ---- */

void rs_rising_fill(const uint32_t *locals, const uint64_t *known, uint32_t n_known, uint64_t *numbers,
                    uint32_t n_records) {
    uint32_t i, j = 0, k;
    for (; j < locals[0]; j++) numbers[j] = known[0];
    for (i = 0; i + 1 < n_known; i++) {
        uint32_t gap = locals[i + 1] - locals[i];
        int64_t way = (int64_t)(known[i + 1] - known[i]) / (int64_t)gap;
        for (k = 0; k < gap; k++) numbers[j++] = known[i] + (uint64_t)way * k;
    }
    for (; j < n_records; j++) numbers[j] = known[n_known - 1];
}

static uint64_t line_at(const rs_rising *r, uint32_t j) {
    return r->base + (uint64_t)((int64_t)((uint64_t)r->step * j) >> r->shift);
}

/* Returns corner f without the line: the number of record 64 f, or of the last one. */
static int64_t corner_at(const uint64_t *numbers, uint32_t n, const rs_rising *r, uint32_t f) {
    uint32_t j = f * RS_FMT_RISING_RECORDS < n ? f * RS_FMT_RISING_RECORDS : n - 1;
    return (int64_t)(numbers[j] - line_at(r, j));
}

/* Sets residuals[] of the 64 records from number 64 f on, and returns the bits that one of them needs. */
static unsigned residuals_of(const uint64_t *numbers, uint32_t n, const rs_rising *r, uint32_t f, int64_t a, int64_t b,
                             int64_t residuals[RS_FMT_RISING_RECORDS]) {
    uint32_t k, j = f * RS_FMT_RISING_RECORDS;
    uint64_t all = 0;
    for (k = 0; k < RS_FMT_RISING_RECORDS && j < n; k++, j++) {
        uint64_t way = (uint64_t)((int64_t)(((uint64_t)b - (uint64_t)a) * k) >> 6);
        int64_t z = (int64_t)(numbers[j] - line_at(r, j) - (uint64_t)a - way);
        residuals[k] = z;
        all |= (uint64_t)(z < 0 ? ~z : z) << 1 | (uint64_t)(z != 0);
    }
    return all >> 63 != 0 ? 64 : rs_packed_ints_width(all);
}

/* Weighs one line: sets form, width and base, and size_bytes to the size of the section. */
static void weigh_line(const uint64_t *numbers, uint32_t n, rs_rising *r) {
    int64_t low = 0, high = 0;
    uint32_t j;
    r->base = numbers[0];
    for (j = 0; j < n; j++) {
        int64_t z = (int64_t)(numbers[j] - line_at(r, j));
        low = z < low ? z : low;
        high = z > high ? z : high;
    }
    r->form = RS_FMT_RISING_LINE;
    r->width = (uint8_t)rs_packed_ints_width((uint64_t)high - (uint64_t)low);
    r->base += (uint64_t)low;
    r->size_bytes = RS_FMT_RISING_HEAD_SIZE + ((uint64_t)n * r->width + 7) / 8;
}

/* Weighs corners around the line of step and shift. size_bytes becomes UINT64_MAX when the residuals are too many. */
static void weigh_corners(const uint64_t *numbers, uint32_t n, rs_rising *r) {
    int64_t residuals[RS_FMT_RISING_RECORDS], a, b, low, high;
    uint32_t f, frames = (n + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS;
    uint64_t widths = 0;
    r->form = RS_FMT_RISING_CORNERS;
    r->base = numbers[0];
    low = high = a = corner_at(numbers, n, r, 0);
    for (f = 0; f < frames; f++, a = b) {
        b = corner_at(numbers, n, r, f + 1);
        low = b < low ? b : low;
        high = b > high ? b : high;
        widths += residuals_of(numbers, n, r, f, a, b, residuals);
    }
    r->width = (uint8_t)rs_packed_ints_width((uint64_t)high - (uint64_t)low);
    r->base += (uint64_t)low; /* corners count from the lowest, so none is negative */
    r->size_bytes =
        RS_FMT_RISING_HEAD_SIZE + ((uint64_t)(frames + 1) * r->width + 7) / 8 + 2 * ((uint64_t)frames + 1) + 8 * widths;
    if (widths > MAX_START) r->size_bytes = UINT64_MAX;
}

void rs_rising_choose(const uint64_t *numbers, uint32_t n, rs_rising *out) {
    int64_t way = (int64_t)(numbers[n - 1] - numbers[0]), span = n > 1 ? (int64_t)n - 1 : 1;
    rs_rising tried;
    memset(out, 0, sizeof *out);
    memset(&tried, 0, sizeof tried);
    out->step = n > 1 ? (int64_t)(numbers[1] - numbers[0]) : 0;
    weigh_line(numbers, n, out);
    if (out->width == 0) return;
    /* The line through the first and the last number, in parts of 2^-20 where the products stay within 64 bits. */
    tried.shift = way < INT64_C(1) << 42 && way > -(INT64_C(1) << 42) ? FINE_SHIFT : 0;
    tried.step = way * (INT64_C(1) << tried.shift) / span;
    weigh_line(numbers, n, &tried);
    if (tried.size_bytes < out->size_bytes) *out = tried;
    weigh_corners(numbers, n, &tried);
    if (tried.size_bytes < out->size_bytes) *out = tried;
}

static rs_status append_rising(const uint64_t *numbers, uint32_t n, rs_buffer *out, rs_error *err) {
    uint32_t j, f, frames = (n + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS, widths = 0;
    int64_t residuals[RS_FMT_RISING_RECORDS];
    uint8_t *head, *corners, *starts, *data;
    rs_rising r;
    rs_rising_choose(numbers, n, &r);
    RS_TRY(rs_buffer_append_zeros(out, (size_t)r.size_bytes, err));
    head = out->data + out->size_bytes - r.size_bytes;
    rs_store_u64(head + RS_FMT_R_BASE, r.base);
    rs_store_u64(head + RS_FMT_R_STEP, (uint64_t)r.step);
    head[RS_FMT_R_SHIFT] = r.shift;
    head[RS_FMT_R_FORM] = r.form;
    head[RS_FMT_R_WIDTH] = r.width;
    corners = head + RS_FMT_RISING_HEAD_SIZE;
    if (r.form == RS_FMT_RISING_LINE) {
        for (j = 0; j < n; j++) {
            rs_store_bits(corners, (uint64_t)j * r.width, r.width, numbers[j] - line_at(&r, j));
        }
        return RS_OK;
    }
    starts = corners + ((uint64_t)(frames + 1) * r.width + 7) / 8;
    data = starts + 2 * ((size_t)frames + 1);
    for (f = 0; f <= frames; f++) {
        int64_t a = corner_at(numbers, n, &r, f), b = corner_at(numbers, n, &r, f + 1);
        unsigned w = f < frames ? residuals_of(numbers, n, &r, f, a, b, residuals) : 0;
        uint64_t half = w == 0 ? 0 : UINT64_C(1) << (w - 1);
        rs_store_bits(corners, (uint64_t)f * r.width, r.width, (uint64_t)a);
        rs_store_u16(starts + 2 * (size_t)f, (uint16_t)widths);
        for (j = 0; w != 0 && j < RS_FMT_RISING_RECORDS && f * RS_FMT_RISING_RECORDS + j < n; j++) {
            rs_store_bits(data + 8 * (size_t)widths, (uint64_t)j * w, w, (uint64_t)residuals[j] + half);
        }
        widths += w;
    }
    return RS_OK;
}

/* ---- All of a block ---- */

static rs_status write_rising(const rs_placed_values *all, uint32_t n_records, rs_buffer *out, rs_error *err) {
    uint32_t n_known = (uint32_t)(all->locals.size_bytes / 4);
    uint64_t *numbers, none = 0;
    rs_status status;
    uint32_t local = 0;
    numbers = (uint64_t *)malloc(n_records * sizeof *numbers);
    if (numbers == NULL) return no_memory(err);
    rs_rising_fill(n_known > 0 ? (const uint32_t *)(const void *)all->locals.data : &local,
                   n_known > 0 ? (const uint64_t *)(const void *)all->values.data : &none, n_known > 0 ? n_known : 1,
                   numbers, n_records);
    status = append_rising(numbers, n_records, out, err);
    free(numbers);
    return status;
}

static rs_status write_section(const rs_placed_values *all, const rs_node *node, uint32_t n_records, rs_buffer *out,
                               rs_error *err) {
    uint32_t n = (uint32_t)(all->locals.size_bytes / 4);
    switch (node->kind) {
    case RS_FMT_NODE_RISING: return write_rising(all, n_records, out, err);
    case RS_FMT_NODE_RUNS:
        if (n > 0) { /* the first run begins with record 0, which is not marked */
            RS_TRY(append_marks(all->locals.data + 4, n - 1, n_records, out, err));
            return rs_buffer_append(out, all->values.data, all->values.size_bytes, err);
        }
        RS_TRY(append_marks(NULL, 0, n_records, out, err));
        return rs_buffer_append_zeros(out, (size_t)(node->children->alone_bytes + node->children->size_bytes), err);
    default:
        RS_TRY(append_marks(all->locals.data, n, n_records, out, err));
        RS_TRY(rs_buffer_append(out, all->ends.data, all->ends.size_bytes, err));
        return rs_buffer_append(out, all->values.data, all->values.size_bytes, err);
    }
}

rs_status rs_places_write(const rs_places_part *parts, size_t n_parts, const rs_tree *tree, uint32_t n_records,
                          rs_buffer *out, rs_error *err) {
    const size_t at = out->size_bytes;
    rs_placed_values all;
    rs_status status = RS_OK;
    uint32_t i;
    if (tree->n_placed == 0) return RS_OK;
    RS_TRY(rs_buffer_append_zeros(out, 4 * (size_t)tree->n_placed, err));
    memset(&all, 0, sizeof all);
    for (i = 0; i < tree->n_nodes && status == RS_OK; i++) {
        const rs_node *node = &tree->nodes[i];
        if (!rs_node_is_placed(node)) continue;
        all.locals.size_bytes = all.values.size_bytes = all.ends.size_bytes = 0;
        if (out->size_bytes - at > UINT32_MAX) status = too_many(err);
        else rs_store_u32(out->data + at + 4 * (size_t)node->placed, (uint32_t)(out->size_bytes - at));
        if (status == RS_OK) status = join(parts, n_parts, node, &all, err);
        if (status == RS_OK) status = write_section(&all, node, n_records, out, err);
    }
    rs_buffer_clear(&all.locals);
    rs_buffer_clear(&all.values);
    rs_buffer_clear(&all.ends);
    return status;
}
