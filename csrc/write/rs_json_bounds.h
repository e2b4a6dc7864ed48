/* rs_json_bounds.h: finds where the elements of a JSON array, or the members of a JSON object, begin and end
 * (RFC 8259). The text comes in pieces, which may be cut anywhere: so a document of any size is read in bounded memory.
 *
 * Only strings and brackets are looked at: they are enough to tell the commas between elements from all others. A
 * decoder of JSON reads the elements afterwards and checks all the rest. */
#pragma once

#include "base/rs_buffer.h"

/* The most brackets that may be open at once. Decoders of JSON stop at about as many. */
enum { RS_JSON_DEPTH = 1024, RS_JSON_BLOCK = 64 };

/* The state of the scan of one array or object. Owns nothing. rs_json_bounds_begin starts it; one thread at a time. */
typedef struct rs_json_bounds {
    uint64_t n_commas;                      /* those between the elements of the container */
    uint64_t is_object[RS_JSON_DEPTH / 64]; /* bit d: the bracket that was opened at depth d is a brace */
    uint32_t depth;                         /* open brackets, that of the container included; 0 when it is closed */
    bool in_string;
    bool escaped; /* the last byte of the text so far was a backslash that escapes the next byte */
    bool filled;  /* the container has something other than blanks in it */
} rs_json_bounds;

/* Starts within a container, behind its opening bracket. `object` says that it is an object. */
void rs_json_bounds_begin(rs_json_bounds *self, bool object);

/* Scans the next n bytes of the text, up to the bracket that closes the container. `*consumed` is the number of bytes
 * that were scanned: n, or fewer when the container was closed; then self->depth is 0. `ends` gets a u64 for each comma
 * between elements and for the closing bracket: its position in `bytes`. `ends` may be NULL: then commas are only
 * counted. The container must not be closed.
 *
 * RS_E_FMT_VALUE for a bracket that closes another kind, RS_E_ARG_LIMIT when more than RS_JSON_DEPTH brackets are open;
 * err->offset is then the position in `bytes`, and the scan cannot go on. RS_E_MEM. */
RS_NODISCARD rs_status rs_json_bounds_run(rs_json_bounds *self, const uint8_t *bytes, size_t n, rs_buffer *ends,
                                          size_t *consumed, rs_error *err);

/* Returns whether n bytes hold a run of digits that may be an integer beyond 64 bits: some decoders make a float of it.
 * True also for such digits within a string or behind a sign of an exponent; false for the digits behind a point. */
bool rs_json_has_long_int(const uint8_t *bytes, size_t n);

/* Returns a bit for each of RS_JSON_BLOCK bytes, the first the lowest: whether it is `c`. The portable form is declared
 * for the tests. */
uint64_t rs_json_equal(const uint8_t *bytes, uint8_t c);
uint64_t rs_json_equal_portable(const uint8_t *bytes, uint8_t c);
