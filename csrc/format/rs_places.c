/* rs_places.c: opens and checks the places of a block. */
#include "format/rs_places.h"

#include <stdlib.h>

rs_status rs_placed_bad(rs_error *err) {
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "the places of a block contradict themselves");
}

static rs_status bad(uint64_t at, const rs_node *node, const char *why, rs_error *err) {
    return rs_error_set(err, RS_E_FMT_BLOCK, at, "the places of tree node %u: %s", node->index, why);
}

uint64_t rs_marks_size(unsigned form, uint32_t n_records, uint32_t n_marks) {
    if (form == RS_FMT_MARKS_BITS) {
        return ((uint64_t)n_records + RS_FMT_MARKS_BITS_RECORDS - 1) / RS_FMT_MARKS_BITS_RECORDS *
               RS_FMT_MARKS_BITS_SIZE;
    }
    return ((uint64_t)n_records + RS_FMT_MARKS_LOW_RECORDS - 1) / RS_FMT_MARKS_LOW_RECORDS * 2 + n_marks;
}

/* Reads the head of a section of runs or exceptions at `at` in the segment. */
static rs_status open_marks(rs_placed *self, const rs_node *node, rs_slice section, uint64_t at, rs_error *err) {
    const uint8_t *head;
    if (!rs_take(&section, RS_FMT_PLACED_HEAD_SIZE, &head)) return bad(at, node, "its head is cut off", err);
    self->n_marks = rs_load_u32(head + RS_FMT_P_COUNT);
    self->form = head[RS_FMT_P_FORM];
    if (head[RS_FMT_P_RESERVED] != 0 || rs_load_u16(head + RS_FMT_P_RESERVED + 1) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, at, "a reserved field of places is not zero");
    }
    if (self->n_marks >= RS_FMT_BLOCK_RECORDS || self->form > RS_FMT_MARKS_BITS) {
        return bad(at, node, "a field is out of range", err);
    }
    uint64_t size = rs_marks_size(self->form, self->n_records, self->n_marks);
    if (!rs_take(&section, size, &self->marks)) return bad(at, node, "its marks are cut off", err);
    self->data = section.ptr;
    if (node->kind == RS_FMT_NODE_EXCEPTIONS) {
        size = 4 * (uint64_t)self->n_marks;
    } else {
        size = ((uint64_t)self->n_marks + 1) * (node->children->alone_bytes + node->children->size_bytes);
    }
    return size <= rs_slice_left(&section) ? RS_OK : bad(at, node, "its values or ends are cut off", err);
}

static rs_status open_rising(rs_placed *self, const rs_node *node, rs_slice section, uint64_t at, rs_error *err) {
    uint64_t n = ((uint64_t)self->n_records + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS + 1;
    const uint8_t *head;
    if (!rs_take(&section, RS_FMT_RISING_HEAD_SIZE, &head)) return bad(at, node, "its head is cut off", err);
    self->base = rs_load_u64(head + RS_FMT_R_BASE);
    self->step = (int64_t)rs_load_u64(head + RS_FMT_R_STEP);
    self->shift = head[RS_FMT_R_SHIFT];
    self->form = head[RS_FMT_R_FORM];
    self->width = head[RS_FMT_R_WIDTH];
    if (head[RS_FMT_R_RESERVED] != 0 || rs_load_u32(head + RS_FMT_R_RESERVED + 1) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, at, "a reserved field of places is not zero");
    }
    if (self->shift > RS_FMT_RISING_SHIFT_MAX || self->form > RS_FMT_RISING_CORNERS || self->width > 64) {
        return bad(at, node, "a field is out of range", err);
    }
    if (self->form == RS_FMT_RISING_LINE) {
        self->data = section.ptr;
        uint64_t size = ((uint64_t)self->n_records * self->width + 7) / 8;
        return size <= rs_slice_left(&section) ? RS_OK : bad(at, node, "its residuals are cut off", err);
    }
    if (!rs_take(&section, (n * self->width + 7) / 8, &self->corners) || !rs_take(&section, 2 * n, &self->starts)) {
        return bad(at, node, "its corners or starts are cut off", err);
    }
    self->data = section.ptr;
    return RS_OK;
}

static rs_status open_all(const uint8_t *segment, const rs_block *block, const rs_tree *tree, rs_placed *all,
                          rs_error *err) {
    uint64_t at = block->heap_off + block->rows_size_bytes, size = block->places_size_bytes;
    const uint8_t *places = segment + at;
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        if (!rs_node_is_placed(node)) continue;
        rs_placed *self = &all[node->placed];
        uint32_t begin = rs_load_u32(places + 4 * (size_t)node->placed);
        if (begin > size) return bad(at, node, "its section begins outside", err);
        self->n_records = block->n_records;
        self->end = places + size;
        if (node->kind == RS_FMT_NODE_RISING) {
            RS_TRY(open_rising(self, node, rs_slice_of(places + begin, (size_t)(size - begin)), at + begin, err));
        } else {
            RS_TRY(open_marks(self, node, rs_slice_of(places + begin, (size_t)(size - begin)), at + begin, err));
        }
    }
    return RS_OK;
}

rs_status rs_places_open(const uint8_t *segment, const rs_block *block, const rs_tree *tree, rs_placed **out,
                         rs_error *err) {
    *out = NULL;
    if ((block->places_size_bytes == 0) != (tree->n_placed == 0) || block->places_size_bytes / 4 < tree->n_placed) {
        return rs_error_set(err, RS_E_FMT_BLOCK, block->heap_off,
                            "the places of a block do not fit the nodes of its tree");
    }
    if (tree->n_placed == 0) return RS_OK;
    rs_placed *all = (rs_placed *)calloc(tree->n_placed, sizeof *all);
    if (all == NULL) return rs_no_memory(err);
    rs_status status = open_all(segment, block, tree, all, err);
    if (status == RS_OK) *out = all;
    else free(all);
    return status;
}

uint64_t rs_placed_size(const rs_placed *self, const rs_node *node) {
    uint64_t frames = ((uint64_t)self->n_records + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS, size;
    switch (node->kind) {
    case RS_FMT_NODE_RUNS:
        size = RS_FMT_PLACED_HEAD_SIZE + rs_marks_size(self->form, self->n_records, self->n_marks);
        return 4 + size + ((uint64_t)self->n_marks + 1) * (node->children->alone_bytes + node->children->size_bytes);
    case RS_FMT_NODE_EXCEPTIONS:
        size = RS_FMT_PLACED_HEAD_SIZE + rs_marks_size(self->form, self->n_records, self->n_marks);
        return 4 + size + 4 * (uint64_t)self->n_marks;
    default: break;
    }
    size = 4 + RS_FMT_RISING_HEAD_SIZE;
    if (self->form == RS_FMT_RISING_LINE) return size + ((uint64_t)self->n_records * self->width + 7) / 8;
    size += ((frames + 1) * self->width + 7) / 8 + 2 * (frames + 1);
    return size + 8 * (uint64_t)rs_load_u16(self->starts + 2 * frames);
}

/* ---- The deep check ---- */

static bool bits_are_right(const rs_placed *self) {
    uint32_t n = (self->n_records + RS_FMT_MARKS_BITS_RECORDS - 1) / RS_FMT_MARKS_BITS_RECORDS, before = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = self->marks + (size_t)i * RS_FMT_MARKS_BITS_SIZE;
        uint64_t bits = rs_load_u64(p + 2);
        uint32_t left = self->n_records - i * RS_FMT_MARKS_BITS_RECORDS;
        if (rs_load_u16(p) != before || (left < RS_FMT_MARKS_BITS_RECORDS && bits >> left != 0)) return false;
        before += rs_count_bits(bits);
    }
    return before == self->n_marks;
}

static bool lows_are_right(const rs_placed *self) {
    uint32_t n = (self->n_records + RS_FMT_MARKS_LOW_RECORDS - 1) / RS_FMT_MARKS_LOW_RECORDS, before = 0;
    const uint8_t *lows = self->marks + 2 * (size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t end = i + 1 < n ? rs_load_u16(self->marks + 2 * (size_t)i + 2) : self->n_marks;
        uint32_t left = self->n_records - i * RS_FMT_MARKS_LOW_RECORDS;
        /* The bytes may have changed since the check. */
        if (rs_load_u16(self->marks + 2 * (size_t)i) != before || end < before || end > self->n_marks) return false;
        for (uint32_t k = before; k < end; k++) {
            if (lows[k] >= left || (k > before && lows[k] <= lows[k - 1])) return false;
        }
        before = end;
    }
    return before == self->n_marks;
}

rs_status rs_placed_check(const rs_placed *self, const rs_node *node, rs_error *err) {
    uint32_t rank;
    bool marked;
    if (node->kind == RS_FMT_NODE_RISING) return RS_OK;
    for (uint32_t j = 0; self->form == RS_FMT_MARKS_LOW && j < self->n_records; j += RS_FMT_MARKS_LOW_RECORDS) {
        RS_TRY(rs_placed_rank(self, j, &rank, &marked, err));
    }
    bool right = self->form == RS_FMT_MARKS_BITS ? bits_are_right(self) : lows_are_right(self);
    if (right && node->kind == RS_FMT_NODE_RUNS) {
        RS_TRY(rs_placed_rank(self, 0, &rank, &marked, err));
        right = !marked;
    }
    return right ? RS_OK : bad(RS_NOWHERE, node, "the marks do not add up", err);
}
