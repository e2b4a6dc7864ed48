/* rs_decode.c: the errors of reading, and the data of arrays. */
#include "read/rs_decode.h"

void rs_decode_truncated(rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "the record ends within a value");
}

void rs_decode_past_limit(rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_LIMIT, RS_NOWHERE,
                       "the record holds more than the header declares, or more than a segment of this size may become "
                       "without limits=");
}

void rs_decode_trailing(rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "bytes are left over after an entry of a table");
}

void rs_decode_set_bad_value(rs_error *err, const char *message) {
    (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "%s", message);
}

rs_status rs_decode_array_data(rs_cursor *self, uint64_t data_bytes, const uint8_t **out, rs_error *err) {
    uint64_t outside;
    const uint8_t *here = self->in.ptr;
    RS_TRY(rs_array_data_skip(&self->in, data_bytes, self->arrays_size, &outside, err));
    *out = outside == RS_NOWHERE ? here : self->arrays + outside;
    return RS_OK;
}
