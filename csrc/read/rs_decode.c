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

rs_status rs_decode_rare(rs_cursor *self, const rs_node *node, rs_slice *group, rs_rare_group *room, rs_error *err) {
    const uint64_t stored = rs_decode_bits_unchecked(group, 0, (unsigned)node->rare_bytes);
    uint8_t *rare = room->bytes + node->group_bytes;
    const uint8_t *from;
    rs_copy_few(room->bytes, group->ptr, node->group_bytes);
    if (node->rare_bytes <= 8) rs_store_u64(rare, 0);
    else memset(rare, 0, (size_t)node->rare_bytes);
    *group = rs_slice_of(room->bytes, (size_t)(node->group_bytes + node->rare_bytes));
    if (RS_LIKELY(stored == 0)) return RS_OK;
    RS_TRY(rs_decode_take(self, rs_count_bits(stored), &from, err));
    for (unsigned k = 0; k < node->rare_bytes; k++) {
        if ((stored >> k & 1) != 0) rare[k] = *from++;
    }
    return RS_OK;
}
