/* rs_rising.h: sizes rising numbers for the planner and writes them for the encoder (FORMAT.md, Placed nodes). */
#pragma once

#include "base/rs_buffer.h"
#include "format/rs_places.h"

/* The section of a rising node, without its residuals and corners. */
typedef struct rs_rising {
    uint8_t form, shift, width;
    uint64_t base;
    int64_t step;
    uint64_t size_bytes; /* of the whole section */
} rs_rising;

/* Sets *out to the smallest section for the numbers of n records, n not 0. */
void rs_rising_choose(const uint64_t *numbers, uint32_t n, rs_rising *out);

/* Returns the form of marks that takes fewer bytes. */
unsigned rs_marks_form(uint32_t n_records, uint32_t n_marks);

/* Sets all n_records numbers. known[i] is the number of record locals[i], in record order; n_known is not 0. Between
 * these records, numbers are interpolated; before the first and after the last, they equal the nearest. */
void rs_rising_fill(const uint32_t *locals, const uint64_t *known, uint32_t n_known, uint64_t *numbers,
                    uint32_t n_records);

/* Appends the smallest section for the numbers of n records, n not 0. RS_E_MEM. */
RS_NODISCARD rs_status rs_rising_append(const uint64_t *numbers, uint32_t n, rs_buffer *out, rs_error *err);
