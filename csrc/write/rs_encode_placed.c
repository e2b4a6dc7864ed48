/* rs_encode_placed.c: writes places. */
#include "write/rs_encode_placed.h"

#include <stdlib.h>

static rs_status too_many(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "the places of a block grow too large");
}

/* ---- Collecting ---- */

rs_status rs_places_part_begin(rs_places_part *self, const rs_tree *tree, rs_error *err) {
    if (self->capacity < tree->n_placed) {
        rs_placed_values *grown = (rs_placed_values *)realloc(self->nodes, tree->n_placed * sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        memset(grown + self->capacity, 0, (tree->n_placed - self->capacity) * sizeof *grown);
        self->nodes = grown;
        self->capacity = tree->n_placed;
    }
    self->n_nodes = tree->n_placed;
    self->local = 0;
    for (uint32_t i = 0; i < self->n_nodes; i++) {
        rs_placed_values *v = &self->nodes[i];
        v->locals.size_bytes = v->values.size_bytes = v->ends.size_bytes = 0;
        v->last = rs_slice_of(NULL, 0);
    }
    return RS_OK;
}

void rs_places_part_clear(rs_places_part *self) {
    for (uint32_t i = 0; i < self->capacity; i++) {
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

/* Writes the marks of the m records whose u32 numbers are at `locals` to the zeroed bytes at `to`. */
static void put_marks(unsigned form, uint32_t n_records, const uint8_t *locals, uint32_t m, uint8_t *to) {
    uint32_t each = form == RS_FMT_MARKS_LOW ? RS_FMT_MARKS_LOW_RECORDS : RS_FMT_MARKS_BITS_RECORDS;
    uint32_t n = (n_records + each - 1) / each, i = 0;
    uint8_t *lows = to + 2 * (size_t)n;
    for (uint32_t f = 0; f < n; f++) {
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

/* Appends the head and the marks of a runs or exceptions node. */
static rs_status append_marks(const uint8_t *locals, uint32_t m, uint32_t n_records, rs_buffer *out, rs_error *err) {
    unsigned form = rs_marks_form(n_records, m);
    uint64_t size = rs_marks_size(form, n_records, m);
    if (m >= RS_FMT_BLOCK_RECORDS) return too_many(err);
    RS_TRY(rs_buffer_append_zeros(out, RS_FMT_PLACED_HEAD_SIZE + (size_t)size, err));
    uint8_t *head = out->data + out->size_bytes - size - RS_FMT_PLACED_HEAD_SIZE;
    rs_store_u32(head + RS_FMT_P_COUNT, m);
    head[RS_FMT_P_FORM] = (uint8_t)form;
    put_marks(form, n_records, locals, m, head + RS_FMT_PLACED_HEAD_SIZE);
    return RS_OK;
}

/* Appends the parts of one node to `all`. Drops the first run of a part if its value equals that of the run before. */
static rs_status join(const rs_places_part *parts, size_t n_parts, const rs_node *node, rs_placed_values *all,
                      rs_error *err) {
    const size_t size =
        node->kind == RS_FMT_NODE_RUNS ? (size_t)(node->children->alone_bytes + node->children->size_bytes) : 0;
    for (size_t p = 0; p < n_parts; p++) {
        const rs_placed_values *v = &parts[p].nodes[node->placed];
        uint32_t before = (uint32_t)all->values.size_bytes, end;
        if (v->locals.size_bytes == 0) continue;
        if (all->values.size_bytes + v->values.size_bytes > UINT32_MAX) return too_many(err);
        size_t skip = node->kind == RS_FMT_NODE_RUNS && all->locals.size_bytes > 0 &&
                      memcmp(all->values.data + all->values.size_bytes - size, v->values.data, size) == 0;
        RS_TRY(rs_buffer_append(&all->locals, v->locals.data + 4 * skip, v->locals.size_bytes - 4 * skip, err));
        RS_TRY(rs_buffer_append(&all->values, rs_buffer_at(&v->values, size * skip), v->values.size_bytes - size * skip,
                                err));
        for (size_t i = 0; i < v->ends.size_bytes; i += 4) {
            end = before + rs_load_u32(v->ends.data + i);
            RS_TRY(rs_buffer_append(&all->ends, &end, sizeof end, err));
        }
    }
    return RS_OK;
}

/* ---- The places of a block ---- */

static rs_status write_rising(const rs_placed_values *all, uint32_t n_records, rs_buffer *out, rs_error *err) {
    uint32_t n_known = (uint32_t)(all->locals.size_bytes / 4);
    uint64_t none = 0;
    uint32_t local = 0;
    uint64_t *numbers = (uint64_t *)malloc(n_records * sizeof *numbers);
    if (numbers == NULL) return rs_no_memory(err);
    rs_rising_fill(n_known > 0 ? (const uint32_t *)(const void *)all->locals.data : &local,
                   n_known > 0 ? (const uint64_t *)(const void *)all->values.data : &none, n_known > 0 ? n_known : 1,
                   numbers, n_records);
    rs_status status = rs_rising_append(numbers, n_records, out, err);
    free(numbers);
    return status;
}

static rs_status write_section(const rs_placed_values *all, const rs_node *node, uint32_t n_records, rs_buffer *out,
                               rs_error *err) {
    uint32_t n = (uint32_t)(all->locals.size_bytes / 4);
    switch (node->kind) {
    case RS_FMT_NODE_RISING: return write_rising(all, n_records, out, err);
    case RS_FMT_NODE_RUNS:
        if (n > 0) { /* the first run begins with record 0, which has no mark */
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
    rs_status status = RS_OK;
    if (tree->n_placed == 0) return RS_OK;
    RS_TRY(rs_buffer_append_zeros(out, 4 * (size_t)tree->n_placed, err));
    rs_placed_values all = {0};
    for (uint32_t i = 0; i < tree->n_nodes && status == RS_OK; i++) {
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
