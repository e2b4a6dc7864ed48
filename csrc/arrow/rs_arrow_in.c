/* rs_arrow_in.c: appends rows of Arrow arrays to builders and parcels. */
#include "arrow/rs_arrow_in.h"

#include <stdlib.h>

#include "arrow/rs_arrow_values.h"

rs_status rs_arrow_in_open(rs_arrow_in *self, const struct ArrowSchema *schema, const rs_arrow_options *options,
                           rs_error *err) {
    RS_TRY(rs_arrow_schema_compile(&self->schema, schema, options, err));
    self->columns = (rs_arrow_column *)calloc(self->schema.n_nodes, sizeof *self->columns);
    if (self->columns != NULL) return RS_OK;
    rs_arrow_in_close(self);
    return rs_no_memory(err);
}

void rs_arrow_in_close(rs_arrow_in *self) {
    rs_arrow_schema_clear(&self->schema);
    free(self->columns);
    memset(self, 0, sizeof *self);
}

rs_status rs_arrow_in_bind(rs_arrow_in *self, const struct ArrowArray *array, rs_error *err) {
    self->n_rows = 0;
    self->next = 0;
    RS_TRY(rs_arrow_columns_bind(&self->schema, array, self->columns, err));
    self->n_rows = self->columns[0].length;
    return RS_OK;
}

/* ---- Streams ---- */

static rs_status stream_error(struct ArrowArrayStream *stream, int code, rs_error *err) {
    const char *message = stream->get_last_error == NULL ? NULL : stream->get_last_error(stream);
    rs_status status = rs_error_set(err, RS_E_IN_FAILED, RS_NOWHERE, "%s",
                                    message == NULL || *message == '\0' ? "no message" : message);
    if (err != NULL) err->sys_errno = code;
    return status;
}

rs_status rs_arrow_in_open_stream(rs_arrow_in *self, struct ArrowArrayStream *stream, const rs_arrow_options *options,
                                  rs_error *err) {
    struct ArrowSchema schema = {0};
    if (stream->release == NULL || stream->get_schema == NULL || stream->get_next == NULL) {
        return rs_error_set(err, RS_E_IN_BROKEN, RS_NOWHERE, "a released stream, or one without its functions");
    }
    int code = stream->get_schema(stream, &schema);
    if (code != 0) return stream_error(stream, code, err);
    rs_status status = rs_arrow_in_open(self, &schema, options, err);
    rs_arrow_schema_release(&schema);
    return status;
}

rs_status rs_arrow_in_next(rs_arrow_in *self, struct ArrowArrayStream *stream, struct ArrowArray *array,
                           rs_error *err) {
    self->n_rows = 0;
    self->next = 0;
    rs_arrow_array_release(array);
    memset(array, 0, sizeof *array);
    if (self->ended) return RS_OK;
    int code = stream->get_next(stream, array);
    if (code != 0) {
        array->release = NULL; /* after an error there is nothing to release, even if the producer wrote an array */
        return stream_error(stream, code, err);
    }
    if (array->release == NULL) {
        self->ended = true;
        return RS_OK;
    }
    rs_status status = rs_arrow_in_bind(self, array, err);
    if (status != RS_OK) rs_arrow_array_release(array);
    return status;
}

/* ---- Rows ---- */

static rs_arrow_writer writer_of(rs_arrow_in *self, rs_buffer *raw, rs_scan *scan, rs_error *err) {
    rs_arrow_writer writer = {&self->schema, self->columns, raw, NULL, 0, 0, scan, {0, 0, 0}, RS_OK, err};
    return writer;
}

rs_status rs_arrow_in_append(rs_arrow_in *self, rs_builder *builder, uint64_t max_rows, rs_error *err) {
    rs_arrow_writer writer = writer_of(self, &builder->raw, &builder->scan, err);
    for (; self->next < self->n_rows && max_rows > 0; max_rows--) {
        const size_t key_sets = builder->scan.n_key_sets;
        rs_status status = rs_arrow_append_value(&writer, self->next);
        if (status == RS_OK) status = rs_builder_end_record_unchecked(builder, &writer.counts, err);
        if (RS_UNLIKELY(status != RS_OK)) {
            if (err != NULL) err->record = builder->n_records;
            builder->scan.n_key_sets = key_sets;
            rs_builder_drop_record(builder, builder->arrays.size_bytes);
            return status;
        }
        self->next++;
        if (rs_builder_is_full(builder)) return rs_builder_flush_beside(builder, err);
    }
    return RS_OK;
}

rs_status rs_arrow_in_append_parcel(rs_arrow_in *self, rs_parcel *parcel, uint64_t max_rows, size_t max_bytes,
                                    rs_error *err) {
    rs_arrow_writer writer = writer_of(self, &parcel->raw, NULL, err);
    for (; self->next < self->n_rows && max_rows > 0 && rs_parcel_size(parcel) < max_bytes; max_rows--) {
        rs_status status = rs_arrow_append_value(&writer, self->next);
        if (status == RS_OK) status = rs_parcel_end_record(parcel, err);
        if (RS_UNLIKELY(status != RS_OK)) {
            rs_parcel_drop_record(parcel, parcel->arrays.size_bytes, parcel->array_slots.size_bytes);
            if (err != NULL) err->record = rs_parcel_n_records(parcel);
            return status;
        }
        self->next++;
    }
    return RS_OK;
}
