/* rs_zones.h: the offsets of time zones from UTC, as far as they were asked for. The core knows no zone by itself: the
 * caller of the core has a finder, which reads the zones of the system. A zone's offset changes about twice a year, and
 * timestamps of a table lie close together, so the finder is called seldom. */
#pragma once

#include "base/rs_buffer.h"

/* A stretch of time, in seconds of UTC since 1970-01-01, in which local times differ from UTC by one offset. `fold` is
 * 1 where the local times came once before, because clocks were set back. */
typedef struct rs_zone_span {
    int64_t begin_s, end_s;
    int32_t offset_s; /* local time minus UTC */
    uint32_t fold;
} rs_zone_span;

/* Appends spans to `out`, as an array of rs_zone_span in the order of time, each beginning where the one before ends,
 * of which one has utc_s. `zone` is the name of the zone. Returns any status other than RS_OK to give up; it then fills
 * `err`. */
typedef rs_status (*rs_zone_finder)(void *context, rs_slice zone, int64_t utc_s, rs_buffer *out, rs_error *err);

/* One zone. Owns `spans`; `name` is borrowed. Zero the struct before the first use and call rs_zone_clear at the end.
 * One thread at a time may use it. */
typedef struct rs_zone {
    rs_slice name;
    rs_buffer spans;   /* sorted, disjoint rs_zone_span */
    rs_zone_span last; /* the span that was found last */
} rs_zone;

void rs_zone_clear(rs_zone *self);

/* Sets *out to the span that has utc_s, asking the finder when no span known so far has it. The finder's errors;
 * RS_E_ARG_RANGE when the finder does not give such a span; RS_E_MEM. */
RS_NODISCARD rs_status rs_zone_find(rs_zone *self, int64_t utc_s, rs_zone_finder finder, void *context,
                                    rs_zone_span *out, rs_error *err);
