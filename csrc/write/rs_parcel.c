/* rs_parcel.c: packs records into parcels, and appends the records of a parcel to a builder. */
#include "write/rs_parcel.h"

/* A packed parcel has a head of four u64: number of records, number of array slots, bytes of raw, bytes of arrays.
 * Ends, array slots, arrays and raw follow. */
enum { HEAD_SIZE = 32 };

void rs_parcel_clear(rs_parcel *self) {
    rs_buffer_clear(&self->raw);
    rs_buffer_clear(&self->arrays);
    rs_buffer_clear(&self->array_slots);
    rs_buffer_clear(&self->ends);
    rs_scan_clear(&self->scan);
}

static uint64_t last_end(const rs_parcel *self) {
    return rs_parcel_n_records(self) == 0 ? 0 : rs_load_u64(self->ends.data + self->ends.size_bytes - 8);
}

rs_status rs_parcel_end_record(rs_parcel *self, rs_error *err) {
    uint64_t begin = last_end(self);
    rs_slice record = rs_slice_of(self->raw.data + begin, self->raw.size_bytes - (size_t)begin);
    uint8_t end[8];
    rs_status status = rs_scan_record(&self->scan, record, self->arrays.size_bytes, err);
    rs_scan_reset(&self->scan);
    if (status == RS_OK) {
        rs_store_u64(end, self->raw.size_bytes);
        status = rs_buffer_append(&self->ends, end, sizeof end, err);
    }
    if (status != RS_OK && err != NULL) err->record = rs_parcel_n_records(self);
    return status;
}

void rs_parcel_drop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark) {
    self->raw.size_bytes = (size_t)last_end(self);
    self->arrays.size_bytes = arrays_mark;
    self->array_slots.size_bytes = slots_mark;
}

void rs_parcel_pop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark) {
    RS_ASSERT(rs_parcel_n_records(self) > 0);
    self->ends.size_bytes -= 8;
    rs_parcel_drop_record(self, arrays_mark, slots_mark);
}

size_t rs_parcel_packed_size(const rs_parcel *self) {
    return HEAD_SIZE + self->ends.size_bytes + self->array_slots.size_bytes + self->arrays.size_bytes +
           self->raw.size_bytes;
}

static uint8_t *put(uint8_t *out, rs_buffer *from) {
    size_t n = from->size_bytes;
    if (n != 0) memcpy(out, from->data, n);
    from->size_bytes = 0;
    /* Does not keep the memory of a giant record for the next parcel. */
    if (from->capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) rs_buffer_clear(from);
    return out + n;
}

void rs_parcel_pack(rs_parcel *self, uint8_t *out) {
    rs_store_u64(out, rs_parcel_n_records(self));
    rs_store_u64(out + 8, self->array_slots.size_bytes / RS_PARCEL_ARRAY_SLOT_SIZE);
    rs_store_u64(out + 16, self->raw.size_bytes);
    rs_store_u64(out + 24, self->arrays.size_bytes);
    out = put(out + HEAD_SIZE, &self->ends);
    out = put(out, &self->array_slots);
    out = put(out, &self->arrays);
    (void)put(out, &self->raw);
}

rs_status rs_parcel_open(rs_slice packed, rs_parcel_reader *self, rs_error *err) {
    uint64_t n, array_slots, raw, arrays, left = rs_slice_left(&packed);
    const uint8_t *at = packed.ptr;
    memset(self, 0, sizeof *self);
    if (left < HEAD_SIZE) goto cut;
    n = rs_load_u64(at), array_slots = rs_load_u64(at + 8), raw = rs_load_u64(at + 16), arrays = rs_load_u64(at + 24);
    left -= HEAD_SIZE;
    if (n > left / 8) goto cut;
    left -= n * 8;
    if (array_slots > left / RS_PARCEL_ARRAY_SLOT_SIZE) goto cut;
    left -= array_slots * RS_PARCEL_ARRAY_SLOT_SIZE;
    if (arrays > left || raw != left - arrays) goto cut;
    self->n_records = n;
    self->n_array_slots = array_slots;
    self->ends = at + HEAD_SIZE;
    self->array_slots = self->ends + n * 8;
    self->arrays = rs_slice_of(self->array_slots + array_slots * RS_PARCEL_ARRAY_SLOT_SIZE, (size_t)arrays);
    self->raw = rs_slice_of(self->arrays.end, (size_t)raw);
    return RS_OK;
cut:
    return rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "a parcel of records has sizes that do not add up");
}

static rs_status contradiction(rs_error *err) {
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a parcel of records contradicts itself");
}

/* Takes the position of an array of `size` bytes at self->at, copies the array to the end of `arrays`, and appends its
 * new position to `raw`. `end` is the end of the record. */
static rs_status move_array(rs_parcel_reader *self, uint64_t end, uint64_t size, rs_buffer *raw, rs_buffer *arrays,
                            rs_error *err) {
    rs_slice position = rs_slice_of(self->raw.ptr + self->at, (size_t)(end - self->at));
    size_t gap = (size_t)(rs_align_up(arrays->size_bytes, RS_FMT_ALIGNMENT) - arrays->size_bytes);
    uint64_t from, total = rs_slice_left(&self->arrays);
    if (!rs_take_varint(&position, &from) || from > total / RS_FMT_ALIGNMENT ||
        size > total - from * RS_FMT_ALIGNMENT) {
        return contradiction(err);
    }
    self->at = end - rs_slice_left(&position);
    RS_TRY(rs_buffer_append_zeros(arrays, gap, err));
    RS_TRY(rs_buffer_append_varint(raw, arrays->size_bytes / RS_FMT_ALIGNMENT, err));
    return rs_buffer_append(arrays, self->arrays.ptr + from * RS_FMT_ALIGNMENT, (size_t)size, err);
}

rs_status rs_parcel_next(rs_parcel_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err) {
    RS_ASSERT(self->next < self->n_records);
    uint64_t end = rs_load_u64(self->ends + self->next * 8);
    if (end < self->at || end > rs_slice_left(&self->raw)) return contradiction(err);
    for (; self->next_array_slot < self->n_array_slots; self->next_array_slot++) {
        const uint8_t *slot = self->array_slots + self->next_array_slot * RS_PARCEL_ARRAY_SLOT_SIZE;
        uint64_t off = rs_load_u64(slot);
        if (off >= end) break;
        if (off < self->at) return contradiction(err);
        RS_TRY(rs_buffer_append(raw, self->raw.ptr + self->at, (size_t)(off - self->at), err));
        self->at = off;
        RS_TRY(move_array(self, end, rs_load_u64(slot + 8), raw, arrays, err));
    }
    RS_TRY(rs_buffer_append(raw, self->raw.ptr + self->at, (size_t)(end - self->at), err));
    self->at = end;
    self->next++;
    return RS_OK;
}

rs_status rs_parcel_append_all(rs_parcel_reader *self, rs_builder *builder, rs_error *err) {
    while (self->next < self->n_records) {
        size_t arrays = builder->arrays.size_bytes;
        rs_status status = rs_parcel_next(self, &builder->raw, &builder->arrays, err);
        if (status == RS_OK) status = rs_builder_end_record(builder, err);
        if (status != RS_OK) { /* drop the part that was appended */
            rs_builder_drop_record(builder, arrays);
            return status;
        }
        if (rs_builder_is_full(builder)) RS_TRY(rs_builder_flush_beside(builder, err));
    }
    return RS_OK;
}
