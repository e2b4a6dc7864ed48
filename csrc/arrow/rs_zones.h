/* rs_zones.h: a cache of the offsets of time zones from UTC. The caller of the core supplies a finder, which reads the
 * time zone database. An offset changes about twice a year, and timestamps of a table are usually close together. So
 * the finder is rarely called. */
#pragma once

#include "base/rs_buffer.h"

/* A span of time, in seconds of UTC since 1970-01-01, with one offset of local times from UTC. `fold` is 1 if the local
 * times occur for the second time, because clocks were set back. */
typedef struct rs_zone_span {
    int64_t begin_s, end_s;
    int32_t offset_s; /* local time minus UTC */
    uint32_t fold;
} rs_zone_span;

/* Appends adjacent spans in ascending order to `out`. One of them must include utc_s. `zone` is the name of the
 * zone. Returns any status other than RS_OK to give up; it then fills `err`. */
typedef rs_status (*rs_zone_finder)(void *context, rs_slice zone, int64_t utc_s, rs_buffer *out, rs_error *err);

/* One zone. Owns `spans`; `name` is borrowed. Zero the struct before the first use and call rs_zone_clear at the end.
 * One thread at a time may use it. */
typedef struct rs_zone {
    rs_slice name;
    rs_buffer spans;   /* sorted, disjoint rs_zone_span */
    rs_zone_span last; /* the last span that was looked up */
} rs_zone;

void rs_zone_clear(rs_zone *self);

/* Sets *out to the span that includes utc_s. Calls the finder if no known span does. Errors of the finder;
 * RS_E_ARG_RANGE if the finder returns no such span; RS_E_MEM. */
RS_NODISCARD rs_status rs_zone_find(rs_zone *self, int64_t utc_s, rs_zone_finder finder, void *context,
                                    rs_zone_span *out, rs_error *err);
