/* rs_compiled_path.c: compiles a path for a tree, and walks through records with it. */
#include "columns/rs_compiled_path.h"

#include <stdlib.h>

/* Adds a tree, unless it is there already. */
static rs_status add_tree(rs_compiled_path *self, const rs_tree *tree, rs_error *err) {
    size_t n = (size_t)self->keys->n_keys * tree->n_nodes;
    for (size_t i = 0; i < self->n_trees; i++) {
        if (self->trees[i].tree == tree) return RS_OK;
    }
    rs_compiled_tree *grown = (rs_compiled_tree *)realloc(self->trees, (self->n_trees + 1) * sizeof *grown);
    if (grown == NULL) return rs_no_memory(err);
    self->trees = grown;
    grown += self->n_trees;
    grown->tree = tree;
    grown->steps = (int32_t *)malloc((n + 1) * sizeof *grown->steps);
    if (grown->steps == NULL) return rs_no_memory(err);
    for (size_t i = 0; i < n; i++) grown->steps[i] = RS_STEP_ASK;
    self->n_trees++;
    return RS_OK;
}

/* Adds the trees of all tables that the first tree refers to, directly or through other tables. */
static rs_status add_tables(rs_compiled_path *self, rs_error *err) {
    for (size_t i = 0; i < self->n_trees; i++) {
        const rs_tree *tree = self->trees[i].tree;
        for (uint32_t k = 0; k < tree->n_nodes; k++) {
            const rs_dict_coded *coded = tree->nodes[k].coded;
            for (uint32_t t = 0; coded != NULL && t < coded->n_tables; t++) {
                RS_TRY(add_tree(self, coded->at[t].table->tree, err));
            }
        }
    }
    return RS_OK;
}

rs_status rs_compiled_path_open(rs_compiled_path *self, const rs_key_path *path, const rs_tree *tree, rs_error *err) {
    memset(self, 0, sizeof *self);
    self->keys = path;
    rs_status status = add_tree(self, tree, err);
    if (status == RS_OK && path->n_keys > 0) status = add_tables(self, err);
    if (status != RS_OK) {
        rs_compiled_path_clear(self);
        return status;
    }
    rs_compiled_path_prepare(self);
    return RS_OK;
}

void rs_compiled_path_clear(rs_compiled_path *self) {
    for (size_t i = 0; i < self->n_trees; i++) free(self->trees[i].steps);
    free(self->trees);
    memset(self, 0, sizeof *self);
}

static uint32_t key_at(const rs_path_name *name, uint32_t part) {
    return part == 0 ? name->whole : name->parts + part - 1;
}

static int32_t step_at(const rs_compiled_path *self, uint32_t key, const rs_node *node) {
    const rs_compiled_tree *at = self->trees, *end = at + self->n_trees;
    for (; at < end; at++) {
        if (node->index < at->tree->n_nodes && node == &at->tree->nodes[node->index]) {
            return at->steps[(size_t)key * at->tree->n_nodes + node->index];
        }
    }
    return RS_STEP_ASK;
}

/* Sets *out to index i, which counts from the end if negative. Returns false if it is out of range. */
static bool resolve_index(int64_t i, uint64_t n, uint32_t *out) {
    uint64_t at = i >= 0 ? (uint64_t)i : n - (0 - (uint64_t)i);
    *out = (uint32_t)at;
    return i >= 0 ? at < n : 0 - (uint64_t)i <= n;
}

/* ---- The shared beginning of all walks ---- */

/* Steps from a tuple or struct to child `i`. If the offset of the child depends on the bytes before it, sets
 * self->row, and the shared beginning ends there; returns false if the row has no bit group of its own then. */
static bool enter_child(rs_compiled_path *self, uint32_t i) {
    const rs_node *row = self->node, *child = &row->children[i];
    bool depends = !child->fixed && row->rare_bytes != 0;
    for (uint32_t k = 0; k < i && !child->fixed && !depends; k++) depends = !row->children[k].fixed;
    if (depends && row->bits != 0) return false;
    if (depends) self->row = row;
    self->n_before = i;
    if (row->bits != 0) {
        self->bit_off += child->bit_off;
    } else {
        self->group_off = self->body_off;
        self->group_bytes = row->group_bytes;
        self->bit_off = child->bit_off;
    }
    self->body_off += child->fixed ? child->body_off : row->head_bytes;
    self->node = child;
    return true;
}

static bool enter_element(rs_compiled_path *self, const rs_path_key *key) {
    const rs_node *list = self->node, *child = list->children;
    uint32_t i;
    if (!list->fixed || !key->is_index || !resolve_index(key->index, list->count, &i)) return false;
    self->group_off = self->body_off;
    self->group_bytes = ((uint64_t)list->count * child->bits + 7) / 8;
    self->bit_off = (uint64_t)i * child->bits;
    self->body_off += self->group_bytes + i * child->size_bytes;
    self->node = child;
    return true;
}

/* Takes one more step of the path. Returns false if the step needs a walk. */
static bool advance(rs_compiled_path *self) {
    const rs_path_name *name = &self->keys->names[self->name];
    const uint32_t number = key_at(name, self->part);
    const rs_path_key *key = &self->keys->keys[number];
    const rs_node *node = self->node;
    int32_t to = RS_STEP_ASK;
    uint32_t i = 0;
    switch (node->kind) {
    case RS_FMT_NODE_EXT:
        if (step_at(self, number, node) != RS_STEP_OPEN) return false;
        self->node = node->children; /* its bits and body are the payload's */
        return true;
    case RS_FMT_NODE_STRUCT:
        to = step_at(self, number, node);
        if (to == RS_STEP_NONE && self->part == 0 && name->n_parts > 0) {
            self->part = 1;
            return true;
        }
        if (to < 0) return false;
        /* A record without the whole name may have its parts. */
        if (self->part == 0 && name->n_parts > 0 && node->partial) return false;
        if (!enter_child(self, (uint32_t)to)) return false;
        break;
    case RS_FMT_NODE_TUPLE:
        if (!key->is_index || !resolve_index(key->index, node->n_children, &i) || !enter_child(self, i)) return false;
        break;
    case RS_FMT_NODE_LIST:
        if (!enter_element(self, key)) return false;
        break;
    default: return false;
    }
    if (self->part != 0 && self->part < name->n_parts) {
        self->part++;
    } else {
        self->part = 0;
        self->name++;
    }
    return true;
}

/* Returns whether values of a fixed node may come from the places of a block. */
static bool is_placed(const rs_node *node) {
    if (rs_node_is_placed(node)) return true;
    for (uint32_t i = 0; node->kind != RS_FMT_NODE_NUMBERS && i < node->n_children; i++) {
        if (is_placed(&node->children[i])) return true;
    }
    return false;
}

void rs_compiled_path_prepare(rs_compiled_path *self) {
    const rs_node *root = self->trees->tree->nodes;
    self->node = root;
    self->group_off = 0;
    self->group_bytes = root->alone_bytes;
    self->bit_off = 0;
    self->body_off = root->alone_bytes;
    self->row = NULL;
    self->name = self->part = 0;
    while (self->row == NULL && self->name < self->keys->n_names && advance(self)) {
    }
    self->least = self->body_off + (self->node->fixed ? self->node->size_bytes : 0);
    self->placed = is_placed(self->node);
    memset(&self->cell, 0, sizeof self->cell);
    if (rs_compiled_path_is_fixed(self)) {
        rs_cell_set(&self->cell, self->node, self->group_off * 8 + self->bit_off, self->body_off, self->least);
    }
}

/* ---- Walking ---- */

static bool is_key(const rs_path_key *key, const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    if (n != key->n) return false;
    if (unit_bytes == key->unit_bytes) return n == 0 || memcmp(units, key->units, (size_t)(n * unit_bytes)) == 0;
    for (uint64_t i = 0; i < n; i++) {
        if (rs_load_unit(units, unit_bytes, i) != rs_load_unit(key->units, key->unit_bytes, i)) return false;
    }
    return true;
}

/* Finds a str key in an any dict, after its tag. A key that is not a str gives RS_WALK_UNSURE, and so does a stored key
 * that is an array or ext value, because only Python can compare it. */
static rs_status find_in_any_dict(rs_cursor *cursor, rs_place *place, const rs_path_key *key, int *found,
                                  rs_error *err) {
    uint64_t count, n;
    const uint8_t *units;
    if (key->units == NULL) {
        *found = RS_WALK_UNSURE;
        return RS_OK;
    }
    RS_TRY(rs_path_any_enter(cursor, 2, &count, err));
    for (uint64_t i = 0; i < count; i++) {
        if (cursor->in.ptr == cursor->in.end) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
        uint8_t tag = *cursor->in.ptr;
        if (tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_STR4) {
            unsigned unit = 1u << (tag - RS_FMT_TAG_STR1);
            cursor->in.ptr++;
            RS_TRY(rs_decode_varint(cursor, &n, err));
            RS_TRY(rs_decode_units(cursor, n, unit, &units, err));
            if (is_key(key, units, n, unit)) {
                place->node = NULL;
                *found = RS_WALK_FOUND;
                return RS_OK;
            }
        } else if (tag < RS_FMT_TAG_NDARRAY || rs_tag_is_small(tag)) {
            RS_TRY(rs_path_any_pass(cursor, err));
        } else {
            *found = RS_WALK_UNSURE;
            return RS_OK;
        }
        RS_TRY(rs_path_any_pass(cursor, err));
    }
    return RS_OK;
}

static rs_status find_element(rs_cursor *cursor, rs_place *place, int64_t index, int *found, rs_error *err) {
    bool is_there = false;
    RS_TRY(rs_path_element(cursor, place, index, &is_there, err));
    *found = is_there ? RS_WALK_FOUND : RS_WALK_LACKING;
    return RS_OK;
}

static rs_status find_in_any(rs_cursor *cursor, rs_place *place, const rs_path_key *key, int *found, rs_error *err) {
    if (cursor->in.ptr == cursor->in.end) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    uint8_t tag = *cursor->in.ptr;
    if (tag == RS_FMT_TAG_EXT) {
        *found = RS_WALK_UNSURE;
    } else if (tag == RS_FMT_TAG_DICT) {
        cursor->in.ptr++;
        return find_in_any_dict(cursor, place, key, found, err);
    } else if (key->is_index) {
        return find_element(cursor, place, key->index, found, err);
    }
    return RS_OK;
}

/* Steps from a place along one key. */
static rs_status follow_key(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place, uint32_t number,
                            int *found, rs_error *err) {
    const rs_path_key *key = &self->keys->keys[number];
    *found = RS_WALK_LACKING;
    for (;;) {
        const rs_node *node = place->node;
        int32_t to;
        if (node == NULL) return find_in_any(cursor, place, key, found, err);
        switch ((rs_node_code)node->kind) {
        case RS_FMT_NODE_CONST: RS_TRY(rs_path_open(cursor, place, err)); break;
        case RS_FMT_NODE_EXT:
            to = step_at(self, number, node);
            if (to == RS_STEP_ASK) *found = RS_WALK_UNSURE;
            if (to == RS_STEP_ASK || to == RS_STEP_NONE) return RS_OK;
            RS_TRY(rs_path_open(cursor, place, err));
            if (to >= 0) {
                RS_TRY(rs_path_open(cursor, place, err)); /* the payload may be a const */
                return find_element(cursor, place, to, found, err);
            }
            break;
        case RS_FMT_NODE_STRUCT:
            to = step_at(self, number, node);
            if (to == RS_STEP_NONE) return RS_OK;
            if (to < 0) {
                *found = RS_WALK_UNSURE;
                return RS_OK;
            }
            RS_TRY(rs_path_child(cursor, place, (uint32_t)to, err));
            *found = rs_path_is_lacking(place) ? RS_WALK_LACKING : RS_WALK_FOUND;
            return RS_OK;
        case RS_FMT_NODE_MAP: /* only Python can compare all keys */ *found = RS_WALK_UNSURE; return RS_OK;
        case RS_FMT_NODE_LIST:
        case RS_FMT_NODE_NUMBERS:
        case RS_FMT_NODE_TUPLE: return key->is_index ? find_element(cursor, place, key->index, found, err) : RS_OK;
        case RS_NODES_NUMBER:
        case RS_NODES_TEXT:
        case RS_NODES_STEP:
        case RS_FMT_NODE_ANY:
        case RS_FMT_NODE_BYTES:
        case RS_FMT_NODE_NDARRAY:
        case RS_FMT_NODE_SAME: return RS_OK;
        }
    }
}

/* Steps along the parts of a name, from number `part` on. */
static rs_status follow_parts(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place,
                              const rs_path_name *name, uint32_t part, int *found, rs_error *err) {
    *found = RS_WALK_FOUND;
    for (; part < name->n_parts && *found == RS_WALK_FOUND; part++) {
        RS_TRY(follow_key(self, cursor, place, name->parts + part, found, err));
    }
    return RS_OK;
}

static rs_status follow_name(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place, const rs_path_name *name,
                             int *found, rs_error *err) {
    const rs_cursor cursor_before = *cursor;
    const rs_place place_before = *place;
    RS_TRY(follow_key(self, cursor, place, name->whole, found, err));
    if (*found != RS_WALK_LACKING || name->n_parts == 0) return RS_OK;
    *cursor = cursor_before;
    *place = place_before;
    return follow_parts(self, cursor, place, name, 0, found, err);
}

/* Skips the children of self->row before the field. An earlier walk through the record may have skipped some. */
static rs_status pass_earlier_children(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor,
                                       const rs_slice *group, rs_error *err) {
    uint32_t begin = 0;
    if (passed->row == self->row && passed->n <= self->n_before) {
        begin = passed->n;
        cursor->in.ptr = passed->at;
    }
    RS_TRY(rs_path_pass_children_from(cursor, self->row, group, begin, self->n_before, err));
    passed->row = self->row;
    passed->n = self->n_before;
    passed->at = cursor->in.ptr;
    return RS_OK;
}

RS_INLINE rs_status begin_walk(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor, rs_place *place,
                               rs_error *err) {
    const uint8_t *start = cursor->in.ptr;
    if (RS_UNLIKELY(rs_slice_left(&cursor->in) < self->least)) {
        return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    }
    rs_slice group = rs_slice_of(start + self->group_off, (size_t)self->group_bytes);
    const bool rare = self->row != NULL && self->row->rare_bytes != 0;
    const bool none = rare && rs_decode_lacks(self->row, self->node, &group);
    rs_rare_group room;
    cursor->in.ptr = start + self->least;
    if (rare && !none) RS_TRY(rs_decode_rare(cursor, self->row, &group, &room, err));
    place->node = self->node;
    place->bits = none ? 0 : rs_decode_bits_unchecked(&group, self->bit_off, self->node->bits);
    place->body = self->node->fixed ? start + self->body_off : NULL;
    return self->row != NULL && !none ? pass_earlier_children(self, passed, cursor, &group, err) : RS_OK;
}

rs_status rs_compiled_path_begin(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor, rs_place *place,
                                 rs_error *err) {
    return begin_walk(self, passed, cursor, place, err);
}

rs_status rs_compiled_path_walk_on(const rs_compiled_path *self, rs_passed *passed, rs_cursor *cursor, rs_place *place,
                                   int *found, rs_error *err) {
    uint32_t i = self->name;
    *found = RS_WALK_FOUND;
    RS_TRY(begin_walk(self, passed, cursor, place, err));
    if (self->part == 0 && i == self->keys->n_names) {
        RS_TRY(rs_path_settle_near(cursor, place, err));
    } else {
        RS_TRY(rs_path_settle(cursor, place, err));
    }
    if (rs_path_is_lacking(place)) {
        *found = RS_WALK_LACKING;
        return RS_OK;
    }
    if (self->part != 0) {
        RS_TRY(follow_parts(self, cursor, place, &self->keys->names[i], self->part - 1, found, err));
        i++;
    }
    for (; i < self->keys->n_names && *found == RS_WALK_FOUND; i++) {
        RS_TRY(follow_name(self, cursor, place, &self->keys->names[i], found, err));
    }
    return RS_OK;
}

rs_status rs_compiled_path_walk(const rs_compiled_path *self, rs_cursor *cursor, rs_place *place, int *found,
                                rs_error *err) {
    rs_passed passed = {NULL, 0, NULL};
    return rs_compiled_path_walk_on(self, &passed, cursor, place, found, err);
}
