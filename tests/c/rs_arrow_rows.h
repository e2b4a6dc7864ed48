/* rs_arrow_rows.h: checks the rows of handmade arrays and the refusal of broken ones. Include from one file only. */
#pragma once

#include "arrow/rs_arrow_in.h"
#include "rs_arrow_make.h"

static const rs_arrow_options PLAIN = {false, RS_ARROW_NANOSECONDS_EXACT, NULL, 0, NULL, NULL};

/* Appends all rows of an array to `parcel`. */
static inline rs_status append(const arrow_made *m, const rs_arrow_options *options, rs_parcel *parcel, rs_error *err) {
    rs_arrow_in in = {0};
    rs_status status = rs_arrow_in_open(&in, &m->schema, options, err);
    if (status != RS_OK) return status;
    status = rs_arrow_in_bind(&in, &m->array, err);
    if (status == RS_OK) status = rs_arrow_in_append_parcel(&in, parcel, UINT64_MAX, SIZE_MAX, err);
    rs_arrow_in_close(&in);
    return status;
}

/* Checks that the rows of an array are the any values in `expected`, and clears it. */
static inline void check_rows_as(const arrow_made *m, const rs_arrow_options *options, rs_buffer *expected) {
    rs_parcel parcel = {0};
    rs_error err;
    if (CHECK_OK(append(m, options, &parcel, &err), &err)) {
        CHECK_U64(parcel.raw.size_bytes, expected->size_bytes);
        CHECK(parcel.raw.size_bytes == expected->size_bytes &&
              (expected->size_bytes == 0 || memcmp(parcel.raw.data, expected->data, expected->size_bytes) == 0));
    }
    rs_parcel_clear(&parcel);
    rs_buffer_clear(expected);
}

static inline void check_rows(const arrow_made *m, rs_buffer *expected) { check_rows_as(m, &PLAIN, expected); }

/* Checks that an array is refused with a code and a message that begins with `text`. */
static inline void check_refused_as(const arrow_made *m, const rs_arrow_options *options, rs_status code,
                                    const char *text) {
    rs_parcel parcel = {0};
    rs_error err;
    if (CHECK_CODE(append(m, options, &parcel, &err), code, &err) &&
        !CHECK(strncmp(err.message, text, strlen(text)) == 0)) {
        (void)fprintf(stderr, "    got:    %s\n    expected: %s\n", err.message, text);
    }
    CHECK_U64(m->schemas_released + m->arrays_released, 0);
    rs_parcel_clear(&parcel);
}

static inline void check_refused(const arrow_made *m, rs_status code, const char *text) {
    check_refused_as(m, &PLAIN, code, text);
    arrow_drop();
}
