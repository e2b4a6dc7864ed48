/* rs_arrow_times.c: writes values of time. */
#include "arrow/rs_arrow_times.h"

/* Microseconds from 0001-01-01 to 1970-01-01, and to the end of the year 9999. */
#define EPOCH_US ((RS_FMT_EPOCH_ORDINAL - 1) * RS_DAY_MICROSECONDS)
#define END_US (RS_DAYS_MAX * RS_DAY_MICROSECONDS)
/* A datetime.timedelta is shorter than this number of days. */
#define DURATION_DAYS INT64_C(1000000000)

static const int64_t PER_SECOND[] = {1, 1000, 1000000, 1000000000};

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

static uint8_t *fail(rs_arrow_writer *self, uint32_t node, const char *message) {
    return rs_arrow_fail(self, node, RS_E_IN_VALUE, message);
}

static uint8_t *put_date(rs_arrow_writer *self, uint32_t node, int64_t value, uint8_t *p) {
    const int64_t days = self->schema->nodes[node].width == 4 ? value : floor_div(value, 86400000);
    if (days <= -RS_FMT_EPOCH_ORDINAL || days > RS_DAYS_MAX - RS_FMT_EPOCH_ORDINAL) {
        return fail(self, node, "a date outside of the years 1 to 9999, which Python's date cannot hold");
    }
    self->counts.features |= RS_FMT_FEATURE_EXT;
    return rs_put_date(p, days + RS_FMT_EPOCH_ORDINAL);
}

/* Counts the values of a time or datetime: a tuple of 3 values and, for a fixed zone, another tuple of 2. Returns false
 * after an error. */
static bool count_moment(rs_arrow_writer *self, uint32_t node, bool zone_is_tuple) {
    const uint32_t level = self->schema->nodes[node].level;
    if (self->values_left < 5) {
        (void)rs_arrow_fail(self, node, RS_E_IN_TYPE, RS_ARROW_TOO_MANY);
        return false;
    }
    self->counts.features |= RS_FMT_FEATURE_EXT;
    rs_arrow_count(self, 3, level);
    if (zone_is_tuple) rs_arrow_count(self, 2, level + 1);
    return true;
}

static uint8_t *put_time(rs_arrow_writer *self, uint32_t node, int64_t value, uint8_t *p) {
    const int64_t per_second = PER_SECOND[self->schema->nodes[node].unit];
    if (value < 0 || value >= 86400 * per_second)
        return fail(self, node, "a time of day that is negative or not below 24 hours");
    if (!count_moment(self, node, false)) return NULL;
    value = per_second > 1000000 ? value / (per_second / 1000000) : value * (1000000 / per_second);
    return rs_put_none(rs_put_moment(p, RS_FMT_EXT_TIME, value, 0));
}

/* Writes a numpy scalar of 13 bytes: a datetime64 or timedelta64 in nanoseconds. */
static uint8_t *put_numpy(uint8_t *p, uint8_t dtype, int64_t value) {
    enum { NANOSECONDS = 10 };
    const uint8_t head[] = {RS_FMT_TAG_NDARRAY, RS_FMT_ARRAY_SCALAR, dtype, NANOSECONDS, 1};
    memcpy(p, head, sizeof head);
    rs_store_u64(p + sizeof head, (uint64_t)value);
    return p + sizeof head + 8;
}

/* Converts nanoseconds to microseconds. Returns false if the schema asks for exact values and this one is not a whole
 * microsecond. */
static bool to_microseconds(const rs_arrow_schema *schema, int64_t *value) {
    if (*value % 1000 != 0 && schema->nanoseconds == RS_ARROW_NANOSECONDS_EXACT) return false;
    *value = floor_div(*value, 1000);
    return true;
}

#define NOT_WHOLE(message) \
    message " with a fraction of a microsecond, which Python cannot hold: choose nanoseconds=\"floor\" or " \
            "\"numpy\""

static uint8_t *put_zoned(rs_arrow_writer *self, uint32_t node, int64_t us, uint8_t *p) {
    rs_arrow_schema *schema = self->schema;
    const uint32_t number = schema->nodes[node].zone;
    const rs_arrow_zone *zone = &schema->zones[number];
    rs_zone_span span = {0, 0, zone->offset_s, 0};
    if (!zone->is_fixed) {
        self->status = rs_arrow_zone_find(schema, number, floor_div(us, 1000000), &span, self->err);
        if (self->status != RS_OK) return NULL;
    }
    us += EPOCH_US + (int64_t)span.offset_s * 1000000;
    if (us < 0 || us >= END_US)
        return fail(self, node, "a timestamp whose local time is outside of the years 1 to 9999");
    p = count_moment(self, node, zone->is_fixed) ? rs_arrow_room(self, p, RS_PUT_EXT_ROOM + zone->value_size) : NULL;
    if (p == NULL) return NULL;
    p = rs_put_moment(p, RS_FMT_EXT_DATETIME, us, span.fold);
    memcpy(p, schema->keys.data + zone->value_off, zone->value_size);
    return p + zone->value_size;
}

static uint8_t *put_timestamp(rs_arrow_writer *self, uint32_t node, int64_t value, uint8_t *p) {
    const rs_arrow_node *n = &self->schema->nodes[node];
    const int64_t per_second = PER_SECOND[n->unit];
    if (n->unit == RS_ARROW_NANOSECONDS) {
        if (self->schema->nanoseconds == RS_ARROW_NANOSECONDS_NUMPY) {
            return put_numpy(p, RS_FMT_DTYPE_DATETIME, value);
        }
        if (!to_microseconds(self->schema, &value)) return fail(self, node, NOT_WHOLE("a timestamp"));
    } else {
        const int64_t factor = 1000000 / per_second;
        if (value < -(EPOCH_US / factor) || value >= (END_US - EPOCH_US) / factor) {
            return fail(self, node, "a timestamp outside of the years 1 to 9999, which Python's datetime cannot hold");
        }
        value *= factor;
    }
    if (n->zone != RS_ARROW_NO_ZONE) return put_zoned(self, node, value, p);
    if (!count_moment(self, node, false)) return NULL;
    return rs_put_none(rs_put_moment(p, RS_FMT_EXT_DATETIME, value + EPOCH_US, 0));
}

static uint8_t *put_duration(rs_arrow_writer *self, uint32_t node, int64_t value, uint8_t *p) {
    const rs_arrow_node *n = &self->schema->nodes[node];
    const int64_t per_second = PER_SECOND[n->unit], limit = 86400 * per_second;
    if (n->unit == RS_ARROW_NANOSECONDS) {
        if (self->schema->nanoseconds == RS_ARROW_NANOSECONDS_NUMPY) {
            return put_numpy(p, RS_FMT_DTYPE_TIMEDELTA, value);
        }
        if (!to_microseconds(self->schema, &value)) return fail(self, node, NOT_WHOLE("a duration"));
        self->counts.features |= RS_FMT_FEATURE_EXT;
        return rs_put_timedelta(p, value < 0 ? -1 : 0, (uint64_t)value);
    }
    if (n->unit != RS_ARROW_MICROSECONDS && (value >= DURATION_DAYS * limit || value < -(DURATION_DAYS - 1) * limit)) {
        return fail(self, node, "a duration of more than 999999999 days, which Python's timedelta cannot hold");
    }
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    uint64_t factor = (uint64_t)(1000000 / per_second);
    uint64_t low = size * factor;
    uint64_t high = rs_mul_high(size, factor);
    if (value < 0) {
        low = -low;
        high = ~high + (low == 0 ? 1 : 0);
    }
    self->counts.features |= RS_FMT_FEATURE_EXT;
    return rs_put_timedelta(p, (int64_t)high, low);
}

/* Writes a tuple (months, days, nanoseconds). */
static uint8_t *put_interval(rs_arrow_writer *self, uint32_t node, const uint8_t *value, uint8_t *p) {
    const unsigned width = self->schema->nodes[node].width;
    int64_t months = 0, days = 0, nanoseconds = 0;
    if (width == 4) {
        months = (int32_t)rs_load_u32(value);
    } else if (width == 8) {
        days = (int32_t)rs_load_u32(value);
        nanoseconds = (int64_t)(int32_t)rs_load_u32(value + 4) * 1000000;
    } else {
        months = (int32_t)rs_load_u32(value);
        days = (int32_t)rs_load_u32(value + 4);
        nanoseconds = (int64_t)rs_load_u64(value + 8);
    }
    if (self->values_left < 3) return rs_arrow_fail(self, node, RS_E_IN_TYPE, RS_ARROW_TOO_MANY);
    rs_arrow_count(self, 3, self->schema->nodes[node].level);
    p = rs_arrow_room(self, p, RS_PUT_HEAD_ROOM + 3 * RS_PUT_INT_ROOM);
    if (p == NULL) return NULL;
    p = rs_put_head(p, RS_FMT_TAG_TUPLE, 3);
    return rs_put_int(rs_put_int(rs_put_int(p, months), days), nanoseconds);
}

uint8_t *rs_arrow_put_time(rs_arrow_writer *self, uint32_t node, uint64_t at, uint8_t *p) {
    const rs_arrow_node *n = &self->schema->nodes[node];
    const uint8_t *values = self->columns[node].first;
    if (n->kind == RS_ARROW_INTERVAL) return put_interval(self, node, values + at * n->width, p);
    p = rs_arrow_room(self, p, RS_PUT_EXT_ROOM);
    if (p == NULL) return NULL;
    switch (n->kind) {
    case RS_ARROW_DATE: return put_date(self, node, rs_arrow_int(values, at, n->width), p);
    case RS_ARROW_TIME: return put_time(self, node, rs_arrow_int(values, at, n->width), p);
    case RS_ARROW_TIMESTAMP: return put_timestamp(self, node, rs_arrow_int(values, at, 8), p);
    default: return put_duration(self, node, rs_arrow_int(values, at, 8), p);
    }
}
