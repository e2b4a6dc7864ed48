/* rs_path.h: from a record to one value within it. A walk goes down the record's tree; what lies before the way is
 * passed by width or length, and its elements are neither looked at nor made. What is passed is not checked either,
 * only bounded: whoever reads it checks it. So a damaged record may give a field that is sound, and never leads beyond
 * its bytes. */
#ifndef RS_PATH_H
#define RS_PATH_H

#include "read/rs_decode.h"

/* A value that a walk has come to. Borrows tree and record; used with the cursor that came here, by one thread at a
 * time. Either `node` is NULL: an `any` value at the cursor. Or it is a node, never a union or `any`, whose body stands
 * at `body`, already taken, or, where `body` is NULL, at the cursor; or it is an optional, and there is no such key. A
 * walk into an entry of a table leaves the record: the cursor then stands in the entry. */
typedef struct rs_place {
    const rs_node *node;
    const uint8_t *body;
    uint64_t bits;
} rs_place;

/* The place of `root` standing alone at the cursor. Errors: rules 21 and 22 of FORMAT.md. Any thread, as all below. */
RS_NODISCARD rs_status rs_path_begin(rs_cursor *cursor, const rs_node *root, rs_place *out, rs_error *err);

/* Makes a place of the node, body and bits in `place`, which may be those of a union or `any`. */
RS_NODISCARD rs_status rs_path_settle(rs_cursor *cursor, rs_place *place, rs_error *err);

/* The same, but stays at a dict-coded node, whose entry the caller finds. */
RS_NODISCARD rs_status rs_path_settle_near(rs_cursor *cursor, rs_place *place, rs_error *err);

/* The same for an element after which others follow. *outer says where the cursor was, once *left is true: the value is
 * then elsewhere. rs_path_return goes back when it has been read. */
RS_NODISCARD rs_status rs_path_settle_element(rs_cursor *cursor, rs_place *place, rs_outer *outer, bool *left,
                                              rs_error *err);

static inline void rs_path_return(rs_cursor *cursor, const rs_outer *outer, bool left) {
    if (!left) return;
    cursor->in = outer->in;
    cursor->arrays_size = outer->arrays_size;
}

/* Whether a settled place is that of a key which the record lacks. */
static inline bool rs_path_is_lacking(const rs_place *place) {
    return place->node != NULL && place->node->kind == RS_FMT_NODE_OPTIONAL;
}

/* Whether a settled place is None. */
static inline bool rs_path_is_none(const rs_cursor *cursor, const rs_place *place) {
    if (place->node == NULL) return cursor->in.ptr != cursor->in.end && *cursor->in.ptr == RS_FMT_TAG_NONE;
    return place->node->kind == RS_FMT_NODE_CONST && *place->node->aux == RS_FMT_TAG_NONE;
}

/* Makes a const or an ext the `any` value or the payload that it stands for; other places stay. */
RS_NODISCARD rs_status rs_path_open(rs_cursor *cursor, rs_place *place, rs_error *err);

/* Passes the children before `end` of a tuple or struct that are not fixed, whose bodies follow one another at the
 * cursor; `group` is its bit group. */
RS_NODISCARD rs_status rs_path_pass_children(rs_cursor *cursor, const rs_node *node, const rs_slice *group,
                                             uint32_t end, rs_error *err);

/* Goes to child `i`, below n_children, of a tuple or struct. */
RS_NODISCARD rs_status rs_path_child(rs_cursor *cursor, rs_place *place, uint32_t i, rs_error *err);

/* Goes to element `i` (negative: from the end) of a place that is a list or tuple, of a node or of `any`; *found is
 * false, and the place no longer of use, where it has no such element or is neither. */
RS_NODISCARD rs_status rs_path_element(rs_cursor *cursor, rs_place *place, int64_t i, bool *found, rs_error *err);

/* Takes the head of an `any` dict or sequence after its tag: the count, spent. `per_element` values of at least a byte
 * each follow. */
RS_NODISCARD rs_status rs_path_any_enter(rs_cursor *cursor, uint64_t per_element, uint64_t *n, rs_error *err);

/* Passes one `any` value. */
RS_NODISCARD static inline rs_status rs_path_any_pass(rs_cursor *cursor, rs_error *err) {
    return rs_any_skip(&cursor->in, cursor->arrays_size, &cursor->budget, err);
}

#endif
