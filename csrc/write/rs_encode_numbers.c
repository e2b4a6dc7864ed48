/* rs_encode_numbers.c: encodes decimals and packed lists of numbers, and keeps the links of nodes. */
#include "write/rs_encode.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"

static rs_status misfit(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a value does not fit the schema tree");
}

/* ---- Links ---- */

struct rs_links_copy {
    struct rs_links_copy *next;
    uint64_t bytes[]; /* aligned for any struct */
};

void rs_links_clear(rs_links *self) {
    while (self->copies != NULL) {
        struct rs_links_copy *next = self->copies->next;
        free(self->copies);
        self->copies = next;
    }
    while (self->key_sets != NULL) {
        rs_key_set_hashes *next = self->key_sets->next;
        free(self->key_sets);
        self->key_sets = next;
    }
    free(self->nodes);
    free(self->links);
    memset(self, 0, sizeof *self);
}

rs_status rs_links_add(rs_links *self, uint32_t node, void *link, rs_error *err) {
    if (self->n == self->capacity) {
        uint32_t capacity = self->capacity == 0 ? 16 : self->capacity * 2;
        uint32_t *nodes = (uint32_t *)realloc(self->nodes, capacity * sizeof *nodes);
        if (nodes != NULL) self->nodes = nodes;
        void **links = (void **)realloc(self->links, capacity * sizeof *links);
        if (links != NULL) self->links = links;
        if (nodes == NULL || links == NULL) return rs_no_memory(err);
        self->capacity = capacity;
    }
    self->nodes[self->n] = node;
    self->links[self->n++] = link;
    return RS_OK;
}

rs_status rs_links_new_key_sets(rs_links *self, uint32_t n, rs_key_set_hashes **out, rs_error *err) {
    rs_key_set_hashes *set = (rs_key_set_hashes *)calloc(1, sizeof *set + n * sizeof set->hashes[0]);
    if (set == NULL) return rs_no_memory(err);
    set->n = n;
    set->next = self->key_sets;
    self->key_sets = set;
    *out = set;
    return RS_OK;
}

rs_status rs_links_copy(rs_links *self, const void *bytes, size_t size, void **out, rs_error *err) {
    struct rs_links_copy *copy = (struct rs_links_copy *)malloc(sizeof *copy + size);
    if (copy == NULL) return rs_no_memory(err);
    memcpy(copy->bytes, bytes, size);
    copy->next = self->copies;
    self->copies = copy;
    *out = copy->bytes;
    return RS_OK;
}

void rs_links_apply(const rs_links *self, rs_tree *tree) {
    for (uint32_t i = 0; i < self->n; i++) tree->nodes[self->nodes[i]].slot = self->links[i];
}

/* ---- Numbers ---- */

bool rs_encode_decimal(const rs_node *node, double value, uint64_t *stored) {
    double product = value * node->divisor;
    uint64_t bits, back_bits, k = 0;
    unsigned width = node->param, c = node->correction;
    if (!(product > -9.3e18 / 2 && product < 9.3e18 / 2)) return false;
    int64_t m = rs_packed_ints_round(product);
    uint64_t above = (uint64_t)m - node->base;
    if (width - c < 64 && above >> (width - c) != 0) return false;
    double back = (double)m / node->divisor;
    memcpy(&bits, &value, 8);
    memcpy(&back_bits, &back, 8);
    if (c != 0) {
        k = bits - back_bits + (UINT64_C(1) << (c - 1));
        if (k >> c != 0) return false;
    } else if (bits != back_bits) {
        return false;
    }
    *stored = c == 0 ? above : above << c | k;
    return true;
}

/* Takes n numbers of a list, and sets out[i] to the integer that a numbers node packs. Returns false when the node
 * cannot store one of them. */
static bool take_numbers(const rs_node *node, uint64_t n, rs_slice *in, int64_t *out) {
    if (node->number_kind == RS_FMT_NUMBERS_FLOATS) {
        for (uint64_t i = 0; i < n; i++) {
            if (in->ptr[9 * i] != RS_FMT_TAG_FLOAT) return false;
        }
        if (rs_packed_ints_from_floats(in->ptr, n, node->scale, out) < n) return false;
        in->ptr += 9 * n;
        return true;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!rs_tag_is_int64(*in->ptr)) return false;
        out[i] = rs_any_take_int_unchecked(in);
    }
    return true;
}

static bool take_head(const rs_node *node, rs_slice *in, uint64_t *n) {
    if (*in->ptr != (node->param == 0 ? RS_FMT_TAG_LIST : RS_FMT_TAG_TUPLE)) return false;
    in->ptr++;
    *n = rs_scan_varint_unchecked(in);
    return (node->flags & RS_FMT_FLAG_FIXED) == 0 || *n == node->count;
}

bool rs_encode_numbers_fit(const rs_node *node, rs_slice value) {
    int64_t chunk[64];
    uint64_t n, count;
    if (!take_head(node, &value, &n)) return false;
    for (uint64_t left = n; left > 0; left -= count) {
        count = left < 64 ? left : 64;
        if (!take_numbers(node, count, &value, chunk)) return false;
    }
    return true;
}

rs_status rs_encode_numbers(const rs_node *node, rs_slice *in, rs_buffer *out, rs_error *err) {
    int64_t few[256], *numbers = few;
    uint64_t n;
    rs_status status = RS_OK;
    if (!take_head(node, in, &n)) return misfit(err);
    if ((node->flags & RS_FMT_FLAG_FIXED) == 0) RS_TRY(rs_buffer_append_varint(out, n, err));
    if (n == 0) return RS_OK;
    if (n > sizeof few / sizeof few[0]) {
        /* The n numbers are in memory as any values already, so n can be trusted. */
        numbers = (int64_t *)malloc((size_t)n * sizeof *numbers);
        if (numbers == NULL) return rs_no_memory(err);
    }
    if (!take_numbers(node, n, in, numbers)) status = misfit(err);
    if (status == RS_OK) status = rs_packed_ints_append(node, numbers, n, out, err);
    if (numbers != few) free(numbers);
    return status;
}
