/* rs_json_bounds.h: finds the bounds of the elements of a JSON array, or of the members of a JSON object (RFC 8259).
 * The text comes in pieces, cut anywhere, so a document of any size is read in bounded memory.
 *
 * Strings and brackets are enough to find the commas between elements. A JSON decoder later reads the elements and
 * checks everything else. */
#pragma once

#include "base/rs_buffer.h"

enum {
    RS_JSON_DEPTH = 1024, /* the most brackets that may be open at once; JSON decoders have a similar limit */
    RS_JSON_BLOCK = 64    /* bytes that are scanned at once */
};

/* The state of the scan of one array or object. Owns nothing. rs_json_bounds_begin starts it; one thread at a time. */
typedef struct rs_json_bounds {
    uint64_t n_commas;                      /* between the elements of the container */
    uint64_t is_object[RS_JSON_DEPTH / 64]; /* bit d: the bracket that was opened at depth d is a brace */
    uint32_t depth;                         /* open brackets, the container included; 0 after its end */
    bool in_string;
    bool escaped; /* the last byte so far was a backslash that escapes the next byte */
    bool filled;  /* the container is not empty */
} rs_json_bounds;

/* Starts within a container, after its opening bracket: of an object, or of an array if `object` is false. */
void rs_json_bounds_begin(rs_json_bounds *self, bool object);

/* Scans the next n bytes of the text, up to the end of the container, which must not have ended before. *consumed
 * becomes the number of scanned bytes: n, or fewer when the container ends and self->depth becomes 0. Appends to `ends`
 * a u64 for each comma between elements and for the closing bracket: its position in `bytes`. `ends` may be NULL to
 * only count commas.
 *
 * RS_E_FMT_VALUE for a closing bracket of the wrong kind, RS_E_ARG_LIMIT when more than RS_JSON_DEPTH brackets are
 * open; err->offset is then the position in `bytes`, and the scan cannot go on. RS_E_MEM. */
RS_NODISCARD rs_status rs_json_bounds_run(rs_json_bounds *self, const uint8_t *bytes, size_t n, rs_buffer *ends,
                                          size_t *consumed, rs_error *err);

/* Returns whether n bytes have a run of digits that may be an integer beyond 64 bits, which some decoders turn into a
 * float. True also for such digits in a string, an exponent or the whole part of a float; false for digits after a
 * decimal point. */
bool rs_json_has_long_int(const uint8_t *bytes, size_t n);

/* Returns a mask with a bit for each of RS_JSON_BLOCK bytes, the lowest for the first: whether the byte is `c`. The
 * portable variant is declared for tests. */
uint64_t rs_json_equal(const uint8_t *bytes, uint8_t c);
uint64_t rs_json_equal_portable(const uint8_t *bytes, uint8_t c);
