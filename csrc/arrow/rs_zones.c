/* rs_zones.c: keeps the spans of zones sorted. */
#include "arrow/rs_zones.h"

void rs_zone_clear(rs_zone *self) {
    rs_buffer_clear(&self->spans);
    memset(self, 0, sizeof *self);
}

static size_t n_spans(const rs_buffer *spans) { return spans->size_bytes / sizeof(rs_zone_span); }

static rs_zone_span span_at(const rs_buffer *spans, size_t i) {
    rs_zone_span span;
    memcpy(&span, spans->data + i * sizeof span, sizeof span);
    return span;
}

/* Returns the number of spans that end at or before utc_s. */
static size_t count_before(const rs_buffer *spans, int64_t utc_s) {
    size_t low = 0, high = n_spans(spans);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (span_at(spans, middle).end_s <= utc_s) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns whether a known span includes utc_s, and sets `last` to it. */
static bool is_known(rs_zone *self, int64_t utc_s) {
    size_t i = count_before(&self->spans, utc_s);
    if (i == n_spans(&self->spans) || span_at(&self->spans, i).begin_s > utc_s) return false;
    self->last = span_at(&self->spans, i);
    return true;
}

/* Inserts the unknown part of a span between its neighbours. */
static rs_status insert(rs_buffer *spans, rs_zone_span span, rs_error *err) {
    const size_t size = sizeof span;
    size_t at = count_before(spans, span.begin_s);
    if (at < n_spans(spans) && span_at(spans, at).begin_s <= span.begin_s) span.begin_s = span_at(spans, at++).end_s;
    if (at < n_spans(spans) && span_at(spans, at).begin_s < span.end_s) span.end_s = span_at(spans, at).begin_s;
    if (span.begin_s >= span.end_s) return RS_OK;
    RS_TRY(rs_buffer_append_zeros(spans, size, err));
    memmove(spans->data + (at + 1) * size, spans->data + at * size, spans->size_bytes - (at + 1) * size);
    memcpy(spans->data + at * size, &span, size);
    return RS_OK;
}

rs_status rs_zone_find(rs_zone *self, int64_t utc_s, rs_zone_finder finder, void *context, rs_zone_span *out,
                       rs_error *err) {
    rs_buffer found = {0};
    if (RS_LIKELY(utc_s >= self->last.begin_s && utc_s < self->last.end_s) || is_known(self, utc_s)) {
        *out = self->last;
        return RS_OK;
    }
    rs_status status = finder(context, self->name, utc_s, &found, err);
    for (size_t i = 0; status == RS_OK && i < n_spans(&found); i++)
        status = insert(&self->spans, span_at(&found, i), err);
    rs_buffer_clear(&found);
    RS_TRY(status);
    if (!is_known(self, utc_s)) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "the offset of the zone at this time is not known");
    }
    *out = self->last;
    return RS_OK;
}
