/* rs_arrow_walk_any.h: the part of the walk through records (rs_arrow_walk.h) that does not follow ops: any values, ext
 * values, arrays, text. It checks rules 20 to 23 of FORMAT.md, as decoding does. */
#pragma once

#include "arrow/rs_arrow_builder.h"
#include "arrow/rs_arrow_infer.h"
#include "columns/rs_run.h"

enum {
    RS_ARROW_PUT = 0,        /* append */
    RS_ARROW_INFER_REST = 1, /* add the kinds of values under ops that are not `sure` */
    RS_ARROW_INFER_ALL = 2   /* add the kinds of all values */
};

/* The state of a walk. Borrows the ops, owns scratch. One thread at a time may use it. */
typedef struct rs_arrow_walk {
    struct rs_arrow_program *program;
    int mode;          /* RS_ARROW_PUT, INFER_REST or INFER_ALL */
    rs_buffer scratch; /* the text of a Decimal or of a map's key, the items of a narrow array */
} rs_arrow_walk;

/* Takes the text at a place; place->node is NULL for the any value at the cursor. */
RS_NODISCARD static inline rs_status rs_arrow_put_text(rs_arrow_field *field, rs_cursor *cursor, const rs_place *place,
                                                       rs_error *err) {
    bool taken = false;
    if (RS_UNLIKELY((field->seen & RS_ARROW_SEEN_TEXT) == 0)) return rs_arrow_misfit(field, err);
    RS_TRY(rs_utf8_take(&field->bytes, cursor, place, &taken, err));
    if (RS_LIKELY(taken)) return rs_arrow_end_value(field, field->bytes.size_bytes, err);
    return rs_arrow_surrogate(field, err);
}

/* Ends a value of a struct: appends nulls for its missing fields, unless it is `whole`, and counts the value. */
RS_NODISCARD static inline rs_status rs_arrow_end_struct(rs_arrow_field *field, bool whole, rs_error *err) {
    for (uint32_t i = 0; !whole && i < field->n_children; i++) {
        if (field->children[i]->n == field->n) RS_TRY(rs_arrow_append_null(field->children[i], err));
    }
    return rs_arrow_grown(field, 1, err);
}

/* Takes the any value at the cursor. Errors as for rs_arrow_put in rs_arrow_walk.h. */
RS_NODISCARD rs_status rs_arrow_put_any(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor, rs_error *err);

/* Takes an ext value with the `code` of a scalar type; `payload` is the place of its payload. For any other code, sets
 * *taken to false and takes nothing. */
RS_NODISCARD rs_status rs_arrow_put_ext(rs_arrow_walk *self, rs_arrow_field *field, unsigned code, rs_cursor *cursor,
                                        const rs_place *payload, bool *taken, rs_error *err);

/* Takes an array or numpy scalar as rs_run_array does. */
RS_NODISCARD rs_status rs_arrow_put_array(rs_arrow_walk *self, rs_arrow_field *field, rs_cursor *cursor,
                                          const rs_node *node, const uint8_t *body, rs_error *err);

/* Takes the any tuple at the cursor as the values of the n fields `items`. */
RS_NODISCARD rs_status rs_arrow_put_items(rs_arrow_walk *self, rs_arrow_field *field, rs_arrow_field **items,
                                          uint64_t n, rs_cursor *cursor, rs_error *err);

/* Adds the kinds of the any value at the cursor. Rules 20 to 23 of FORMAT.md; errors of rs_arrow_field_named. */
RS_NODISCARD rs_status rs_arrow_infer_any(rs_arrow_field *field, rs_cursor *cursor, rs_error *err);
