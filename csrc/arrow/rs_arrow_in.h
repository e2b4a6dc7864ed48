/* rs_arrow_in.h: appends the rows of Arrow arrays to a builder or a parcel, without an object for each value. A caller
 * opens it with the schema of a stream, binds one array after another, and appends the rows of each. */
#pragma once

#include "write/rs_parcel.h"
#include "write/rs_builder.h"
#include "arrow/rs_arrow_columns.h"
#include "arrow/rs_arrow_schema.h"

/* The rows of arrays of one schema. A row is a value of the outermost type: of a table, which is an array of structs, a
 * dict. Owns the compiled schema, never an array. Zero the struct before the first use and call rs_arrow_in_close at
 * the end. One thread at a time may use it. */
typedef struct rs_arrow_in {
    rs_arrow_schema schema;
    rs_arrow_column *columns;
    uint64_t n_rows; /* of the bound array; 0 when there is none */
    uint64_t next;   /* the next row */
    bool ended;      /* the stream has given its last array */
} rs_arrow_in;

/* Compiles a live schema, which is only read. `self` is zeroed, and is so again after an error. Errors as
 * rs_arrow_schema_compile. */
RS_NODISCARD rs_status rs_arrow_in_open(rs_arrow_in *self, const struct ArrowSchema *schema,
                                        const rs_arrow_options *options, rs_error *err);
/* Frees the memory and zeroes the struct. */
void rs_arrow_in_close(rs_arrow_in *self);

/* Makes a live array of the schema the one whose rows come next. The array stays the caller's: it must stay live and
 * unchanged until its rows are appended or another one is bound. RS_E_IN_BROKEN; then no array is bound. */
RS_NODISCARD rs_status rs_arrow_in_bind(rs_arrow_in *self, const struct ArrowArray *array, rs_error *err);

/* As rs_arrow_in_open, with the schema that a live stream gives. The stream stays the caller's. RS_E_IN_FAILED with the
 * producer's message; sys_errno is the code that it returned. */
RS_NODISCARD rs_status rs_arrow_in_open_stream(rs_arrow_in *self, struct ArrowArrayStream *stream,
                                               const rs_arrow_options *options, rs_error *err);
/* Releases *array, which may be a released struct, takes the next array of the stream into it and binds it. At the end
 * of the stream `ended` is set, *array is released, and the stream is not asked again. The caller releases *array after
 * the last call. RS_E_IN_FAILED, RS_E_IN_BROKEN; then *array is released. */
RS_NODISCARD rs_status rs_arrow_in_next(rs_arrow_in *self, struct ArrowArrayStream *stream, struct ArrowArray *array,
                                        rs_error *err);

/* Each appends further rows: at most max_rows, and none after the builder has handed a full block over
 * (rs_builder_flush_beside), or the parcel has max_bytes. `next` tells how far it came.
 * Errors of a row: those of rs_arrow_append_value, and of rs_builder_end_record or rs_parcel_end_record. The builder or
 * parcel then has the rows before, whole; err->record is the number of the row in it. Other errors of the builder; it
 * may only be closed after them. Needs no lock. */
RS_NODISCARD rs_status rs_arrow_in_append(rs_arrow_in *self, rs_builder *builder, uint64_t max_rows, rs_error *err);
RS_NODISCARD rs_status rs_arrow_in_append_parcel(rs_arrow_in *self, rs_parcel *parcel, uint64_t max_rows,
                                                 size_t max_bytes, rs_error *err);
