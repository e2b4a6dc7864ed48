/* rs_map.c: reads the keys and the values of a map node in parallel. */
#include "read/rs_map.h"

static uint64_t bits_at(const rs_node *child, const rs_slice *group, uint64_t i) {
    return rs_decode_bits_unchecked(group, i * child->bits, child->bits);
}

rs_status rs_map_begin(rs_map *self, rs_cursor *cursor, const rs_node *node, rs_error *err) {
    self->key = &node->children[0];
    self->value = &node->children[1];
    RS_TRY(rs_decode_map_head(cursor, &self->n, err));
    RS_TRY(rs_decode_elements(cursor, self->key, self->n, &self->key_group, &self->key_bodies, err));
    self->key_at = cursor->in.ptr;
    if (self->key_bodies == NULL) {
        const rs_budget before = cursor->budget; /* reading the keys later counts them */
        for (uint64_t i = 0; i < self->n; i++) {
            RS_TRY(rs_path_pass(cursor, self->key, bits_at(self->key, &self->key_group, i), err));
        }
        cursor->budget = before;
    }
    return rs_decode_elements(cursor, self->value, self->n, &self->value_group, &self->value_bodies, err);
}

rs_status rs_map_key(rs_map *self, const rs_cursor *cursor, uint64_t i, rs_cursor *at, rs_place *out, rs_error *err) {
    *at = *cursor;
    out->node = self->key;
    out->bits = bits_at(self->key, &self->key_group, i);
    out->body = self->key_bodies == NULL ? NULL : self->key_bodies + i * self->key->size_bytes;
    if (self->key_bodies != NULL) return RS_OK;
    at->in.ptr = self->key_at;
    rs_cursor passed = *at;
    RS_TRY(rs_path_pass(&passed, self->key, out->bits, err));
    self->key_at = passed.in.ptr;
    return RS_OK;
}

void rs_map_value(const rs_map *self, uint64_t i, rs_place *out) {
    out->node = self->value;
    out->bits = bits_at(self->value, &self->value_group, i);
    out->body = self->value_bodies == NULL ? NULL : self->value_bodies + i * self->value->size_bytes;
}

rs_status rs_map_pass_value(const rs_map *self, rs_cursor *cursor, uint64_t i, rs_error *err) {
    if (self->value_bodies != NULL) return RS_OK;
    return rs_path_pass(cursor, self->value, bits_at(self->value, &self->value_group, i), err);
}
