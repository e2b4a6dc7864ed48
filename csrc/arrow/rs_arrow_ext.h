/* rs_arrow_ext.h: reads the payloads of ext values that become Arrow scalars: dates, times, datetimes, timedeltas,
 * Decimals, UUIDs; and the field names of objects. Errors of all functions: rules 20 to 23 and 31 of FORMAT.md,
 * RS_E_MEM. Any thread may call them, each with a cursor of its own. */
#pragma once

#include "read/rs_path.h"
#include "read/rs_utf8.h"

enum {
    RS_ARROW_ZONE_NONE = 0,
    RS_ARROW_ZONE_FIXED = 1, /* a fixed offset from UTC */
    RS_ARROW_ZONE_OTHER = 2, /* another zone: only Python knows its offset */

    RS_ARROW_DECIMAL_WORDS = 4
};

/* The payload of a datetime or time. */
typedef struct rs_arrow_moment {
    int64_t us;        /* microseconds since midnight, or since 0001-01-01 for a datetime; in its zone */
    int64_t offset_us; /* with RS_ARROW_ZONE_FIXED: microseconds east of UTC */
    int zone;          /* RS_ARROW_ZONE_* */
    rs_slice name;     /* with RS_ARROW_ZONE_OTHER: the name of the zone if the value has it; else ptr is NULL */
} rs_arrow_moment;

/* A Decimal: its digits as an integer, least significant word first, and the position of the point. */
typedef struct rs_arrow_decimal {
    uint64_t words[RS_ARROW_DECIMAL_WORDS];
    uint32_t digits; /* number of digits before the point, 0 for values below 1 */
    uint32_t scale;  /* number of digits after the point */
    bool negative;
    bool finite;
} rs_arrow_decimal;

/* Each function takes the value at a place (rs_path.h): the any value at the cursor if `node` is NULL, else a value
 * with its body at `body`, or at the cursor if `body` is NULL. The cursor is then after the value. */

/* Takes an int. RS_E_FMT_VALUE for another value. Sets *fits to false for an int that an i64 cannot hold. */
RS_NODISCARD rs_status rs_arrow_take_int(rs_cursor *cursor, const rs_place *place, int64_t *out, bool *fits,
                                         rs_error *err);
/* Takes the payload of a datetime or time. */
RS_NODISCARD rs_status rs_arrow_take_moment(rs_cursor *cursor, const rs_place *place, rs_arrow_moment *out,
                                            rs_error *err);
/* Takes the payload of a Decimal. `scratch` is for its text. If digits + scale exceed 76, `words` are not valid. */
RS_NODISCARD rs_status rs_arrow_take_decimal(rs_cursor *cursor, const rs_place *place, rs_buffer *scratch,
                                             rs_arrow_decimal *out, rs_error *err);
/* Takes the payload of a UUID. *out borrows its 16 bytes. */
RS_NODISCARD rs_status rs_arrow_take_uuid(rs_cursor *cursor, const rs_place *place, const uint8_t **out, rs_error *err);

/* Stores the integer of a Decimal with `scale` digits after the point as a two's complement number of 16 or 32 bytes.
 * The caller knows that the digits fit. */
void rs_arrow_store_decimal(const rs_arrow_decimal *self, uint32_t scale, unsigned size_bytes, uint8_t *to);

/* Reads the field names of an object from the EXTRA of its ext value. Sets *names to a slice over n any values, each a
 * str; sets *n to 0 and names->ptr to NULL for a class without such names. */
RS_NODISCARD rs_status rs_arrow_names(rs_slice extra, rs_slice *names, uint64_t *n, rs_error *err);
