/* rs_arrow_in.h: appends the rows of Arrow arrays to a builder or a parcel, without Python objects. The caller opens an
 * rs_arrow_in with a schema, binds one array after another, and appends the rows of each. */
#pragma once

#include "write/rs_parcel.h"
#include "write/rs_builder.h"
#include "arrow/rs_arrow_columns.h"
#include "arrow/rs_arrow_schema.h"

/* The rows of arrays of one schema. A row is a value of the outermost type; a row of a table, an array of structs, is a
 * dict. Owns the compiled schema, never an array. Zero the struct before the first use and call rs_arrow_in_close at
 * the end. One thread at a time may use it. */
typedef struct rs_arrow_in {
    rs_arrow_schema schema;
    rs_arrow_column *columns;
    uint64_t n_rows; /* of the bound array; 0 when there is none */
    uint64_t next;   /* the next row */
    bool ended;      /* the stream has given its last array */
} rs_arrow_in;

/* Compiles a live schema, which is only read. `self` must be zeroed; an error zeroes it again. Errors of
 * rs_arrow_schema_compile; RS_E_MEM. */
RS_NODISCARD rs_status rs_arrow_in_open(rs_arrow_in *self, const struct ArrowSchema *schema,
                                        const rs_arrow_options *options, rs_error *err);
/* Frees the memory and zeroes the struct. */
void rs_arrow_in_close(rs_arrow_in *self);

/* Binds a live array of the schema, whose rows come next. The caller keeps the array, which must stay live and
 * unchanged until its rows are appended or another one is bound. RS_E_IN_BROKEN; then no array is bound. */
RS_NODISCARD rs_status rs_arrow_in_bind(rs_arrow_in *self, const struct ArrowArray *array, rs_error *err);

/* As rs_arrow_in_open, with the schema of a live stream, which the caller keeps. RS_E_IN_FAILED with the producer's
 * message and its code in sys_errno; RS_E_IN_BROKEN. */
RS_NODISCARD rs_status rs_arrow_in_open_stream(rs_arrow_in *self, struct ArrowArrayStream *stream,
                                               const rs_arrow_options *options, rs_error *err);
/* Releases *array, which may be released already, takes the next array of the stream into it and binds it. At the end
 * of the stream it sets `ended` and leaves *array released, and does not call the stream again. The caller releases
 * *array after the last call. RS_E_IN_FAILED, RS_E_IN_BROKEN; then *array is released. */
RS_NODISCARD rs_status rs_arrow_in_next(rs_arrow_in *self, struct ArrowArrayStream *stream, struct ArrowArray *array,
                                        rs_error *err);

/* Each appends up to max_rows more rows. It stops early once the builder has handed over a full block
 * (rs_builder_flush_beside) or the parcel has max_bytes. `next` is then the next row. Errors of a row: those of
 * rs_arrow_append_value, rs_builder_end_record and rs_parcel_end_record. The builder or parcel keeps all earlier rows;
 * err->record is the number of the row in it. After any other error, the builder may only be closed. Needs no lock.
 */
RS_NODISCARD rs_status rs_arrow_in_append(rs_arrow_in *self, rs_builder *builder, uint64_t max_rows, rs_error *err);
RS_NODISCARD rs_status rs_arrow_in_append_parcel(rs_arrow_in *self, rs_parcel *parcel, uint64_t max_rows,
                                                 size_t max_bytes, rs_error *err);
