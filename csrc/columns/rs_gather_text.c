/* rs_gather_text.c: takes texts, and the numbers of categories. */
#include "columns/rs_gather_text.h"

static rs_status end_text(rs_gather_field *self, rs_error *err) {
    return rs_buffer_append_u64(&self->ends, self->values.size_bytes, err);
}

/* Takes the bytes value at a place. Sets *taken to false for another value. */
static rs_status take_bytes(rs_buffer *out, rs_cursor *cursor, const rs_place *place, bool *taken, rs_error *err) {
    rs_cursor aux = *cursor;
    const uint8_t *bytes;
    uint64_t n;
    *taken = false;
    if (place->node != NULL && place->node->kind == RS_FMT_NODE_BYTES) {
        RS_TRY(rs_decode_bytes(cursor, place->node, &n, &bytes, err));
    } else {
        if (place->node != NULL) {
            if (place->node->kind != RS_FMT_NODE_CONST) return RS_OK;
            aux.in = rs_slice_of(place->node->aux, place->node->aux_size_bytes);
        }
        RS_TRY(rs_decode_take(&aux, 1, &bytes, err));
        if (*bytes != RS_FMT_TAG_BYTES) return RS_OK;
        RS_TRY(rs_decode_varint(&aux, &n, err));
        RS_TRY(rs_decode_take(&aux, n, &bytes, err));
    }
    *taken = true;
    return rs_buffer_append(out, bytes, (size_t)n, err);
}

/* Takes the name of a category, a text or a whole number, at a place. */
static rs_status take_code(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                           rs_error *err) {
    rs_cursor again = *cursor;
    int64_t code = RS_NAMES_NONE;
    bool taken;
    self->scratch_value.size_bytes = 0;
    RS_TRY(rs_utf8_take(&self->scratch_value, cursor, place, &taken, err));
    if (taken) {
        code = rs_names_of_text(self->spec->names, self->scratch_value.data, self->scratch_value.size_bytes);
    } else {
        rs_column *number = &self->column;
        rs_column_empty(number);
        RS_TRY(rs_column_take_number(number, &again, place, &taken, err));
        if (taken) {
            const uint8_t *data = number->values.data;
            const double value = number->seen == RS_COLUMN_FLOAT ? rs_load_f64(data) : 0;
            const bool whole = value >= -9007199254740992.0 && value <= 9007199254740992.0;
            const int64_t integer = number->seen == RS_COLUMN_BOOL  ? *data
                                    : number->seen == RS_COLUMN_INT ? (int64_t)rs_load_u64(data)
                                    : whole                         ? (int64_t)value
                                                                    : 0;
            if (number->seen != RS_COLUMN_FLOAT || (whole && (double)integer == value)) {
                code = rs_names_of_int(self->spec->names, integer);
            }
        }
    }
    if (code == RS_NAMES_NONE) stop->why = RS_GATHER_UNNAMED;
    else rs_store_u64(self->to + self->done * 8, (uint64_t)code);
    return RS_OK;
}

rs_status rs_gather_take_text(rs_gather_field *self, rs_cursor *cursor, const rs_place *place, rs_gather_stop *stop,
                              rs_error *err) {
    rs_cursor again = *cursor;
    bool taken;
    if (self->spec->form == RS_GATHER_CODES) return take_code(self, cursor, place, stop, err);
    RS_TRY(rs_utf8_take(&self->values, cursor, place, &taken, err));
    if (!taken && self->spec->form == RS_GATHER_TEXT) {
        RS_TRY(take_bytes(&self->values, &again, place, &taken, err));
    }
    if (taken) return end_text(self, err);
    stop->why = RS_GATHER_KIND;
    return RS_OK;
}

bool rs_gather_take_code_entry(rs_gather_field *self, const rs_entry *entry) {
    int64_t code = RS_NAMES_NONE;
    if (entry->kind == RS_ENTRY_TEXT) {
        const uint8_t *text = rs_buffer_at(&self->entries.text, (size_t)entry->bits);
        code = rs_names_of_text(self->spec->names, text, entry->size_bytes);
    } else if (entry->kind == RS_ENTRY_BOOL || entry->kind == RS_ENTRY_INT) {
        code = rs_names_of_int(self->spec->names, (int64_t)entry->bits);
    }
    if (code == RS_NAMES_NONE) return false;
    rs_store_u64(self->to + self->done * 8, (uint64_t)code);
    return true;
}

rs_status rs_gather_skip_text(rs_gather_field *self, rs_error *err) {
    RS_TRY(end_text(self, err));
    if (self->valid != NULL) self->valid[self->done] = 1;
    self->done++;
    return RS_OK;
}
