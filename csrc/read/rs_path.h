/* rs_path.h: the steps of a walk from a record to one value within it. A walk goes down the record's tree. It skips
 * earlier values by their width or length, and checks only that it stays within the record; only reading those values
 * checks the rest, so an intact field of a damaged record can be read. */
#pragma once

#include "read/rs_decode.h"

/* The place of a value in a walk. Borrows tree and record. It is used together with the cursor of the walk, by one
 * thread at a time. A *settled* place has one of three forms. If `node` is NULL, it is the any value at the cursor. If
 * `node` is an optional, the record lacks the key. Else `node` is not a union, any, dict-coded or placed node, and its
 * body is at `body`, or at the cursor if `body` is NULL. A walk into an entry of a table moves the cursor into the
 * entry's bytes. */
typedef struct rs_place {
    const rs_node *node;
    const uint8_t *body;
    uint64_t bits;
} rs_place;

/* Sets *out to the place of the value of `root` that stands alone at the cursor. Errors of all functions here: rules 20
 * to 23, 31 and 41 of FORMAT.md. Any thread may call them, each with a cursor of its own. */
RS_NODISCARD rs_status rs_path_begin(rs_cursor *cursor, const rs_node *root, rs_place *out, rs_error *err);

/* Settles a place whose node may be a union, optional, any, dict-coded or placed node: steps to the child, or to the
 * entry of the table, until the place has one of the three forms of rs_place. */
RS_NODISCARD rs_status rs_path_settle(rs_cursor *cursor, rs_place *place, rs_error *err);

/* As rs_path_settle, but it stops at a dict-coded node. */
RS_NODISCARD rs_status rs_path_settle_near(rs_cursor *cursor, rs_place *place, rs_error *err);

/* As rs_path_settle, for an element that others follow. Sets *left to whether the cursor has left the record's bytes.
 * If so, *outer has its old state, which rs_path_return restores after the element has been read. */
RS_NODISCARD rs_status rs_path_settle_element(rs_cursor *cursor, rs_place *place, rs_outer *outer, bool *left,
                                              rs_error *err);

static inline void rs_path_return(rs_cursor *cursor, const rs_outer *outer, bool left) {
    if (left) rs_decode_return(cursor, outer);
}

/* Returns whether a settled place is the place of a key that the record lacks. */
static inline bool rs_path_is_lacking(const rs_place *place) {
    return place->node != NULL && place->node->kind == RS_FMT_NODE_OPTIONAL;
}

/* Returns whether the value at a settled place is None. */
static inline bool rs_path_is_none(const rs_cursor *cursor, const rs_place *place) {
    if (place->node == NULL) return cursor->in.ptr != cursor->in.end && *cursor->in.ptr == RS_FMT_TAG_NONE;
    return place->node->kind == RS_FMT_NODE_CONST && *place->node->aux == RS_FMT_TAG_NONE;
}

/* Steps from a const to its any value, and from an ext to its payload. Other places do not change. */
RS_NODISCARD rs_status rs_path_open(rs_cursor *cursor, rs_place *place, rs_error *err);

/* Skips the bodies at the cursor: those of the children `begin` to `end` - 1 of a tuple, struct or concat that are not
 * fixed. `group` is its bit group. */
RS_NODISCARD rs_status rs_path_pass_children_from(rs_cursor *cursor, const rs_node *node, const rs_slice *group,
                                                  uint32_t begin, uint32_t end, rs_error *err);
RS_NODISCARD static inline rs_status rs_path_pass_children(rs_cursor *cursor, const rs_node *node,
                                                           const rs_slice *group, uint32_t end, rs_error *err) {
    return rs_path_pass_children_from(cursor, node, group, 0, end, err);
}

/* Skips the body at the cursor of a node that is not fixed. */
RS_NODISCARD rs_status rs_path_pass(rs_cursor *cursor, const rs_node *node, uint64_t bits, rs_error *err);

/* Steps to child `i`, which is below n_children, of a tuple or struct. */
RS_NODISCARD rs_status rs_path_child(rs_cursor *cursor, rs_place *place, uint32_t i, rs_error *err);

/* Steps to element `i` (negative: from the end) of a list or tuple, under a node or as an any value. Sets *found to
 * false for another value or a missing element; the place must then not be used any more. */
RS_NODISCARD rs_status rs_path_element(rs_cursor *cursor, rs_place *place, int64_t i, bool *found, rs_error *err);

/* Takes the count of an any dict or sequence, after its tag, and enters the container. `per_element` is the least
 * number of bytes of an element. */
RS_NODISCARD rs_status rs_path_any_enter(rs_cursor *cursor, uint64_t per_element, uint64_t *n, rs_error *err);

/* Skips one any value. */
RS_NODISCARD static inline rs_status rs_path_any_pass(rs_cursor *cursor, rs_error *err) {
    return rs_any_skip(&cursor->in, cursor->arrays_size, &cursor->budget, err);
}
