/* test_zones.c: each span of a time zone is requested once, for any order of the times. */
#include "arrow/rs_zones.h"
#include "rs_make.h"

/* A zone of spans of 1000 s. The offset of a span is its number, and every third span has fold 1. The zone answers with
 * `per_answer` spans. */
typedef struct a_zone {
    int calls, per_answer;
    rs_status status;
    bool elsewhere; /* answers with spans that lack the time */
} a_zone;

static rs_status find(void *context, rs_slice zone, int64_t utc_s, rs_buffer *out, rs_error *err) {
    a_zone *z = (a_zone *)context;
    int64_t first = utc_s / 1000 - (utc_s % 1000 < 0 ? 1 : 0);
    z->calls++;
    CHECK(rs_slice_left(&zone) == 4 && memcmp(zone.ptr, "Zone", 4) == 0);
    if (z->status != RS_OK) return rs_error_set(err, z->status, RS_NOWHERE, "no such zone");
    if (z->elsewhere) first += 10;
    for (int i = 0; i < z->per_answer; i++, first++) {
        rs_zone_span span = {first * 1000, first * 1000 + 1000, (int32_t)first, first % 3 == 0 ? 1 : 0};
        make_bytes(out, &span, sizeof span);
    }
    return RS_OK;
}

static void check_span(rs_zone *zone, a_zone *z, int64_t utc_s) {
    rs_zone_span span;
    rs_error err;
    if (!CHECK_OK(rs_zone_find(zone, utc_s, find, z, &span, &err), &err)) return;
    CHECK(span.begin_s <= utc_s && utc_s < span.end_s);
    CHECK(span.offset_s == span.begin_s / 1000 && span.fold == (span.offset_s % 3 == 0 ? 1u : 0u));
}

TEST(test_each_span_is_requested_once) {
    a_zone z = {0, 1, RS_OK, false};
    rs_zone zone = {0};
    zone.name = rs_slice_of("Zone", 4);
    for (int round = 0; round < 3; round++) {
        for (int64_t i = -50; i < 50; i++) check_span(&zone, &z, i * 7919 % 50 * 1000 + 999 * (round == 1));
    }
    CHECK_U64(z.calls, 99); /* -49 to 49 */
    rs_zone_clear(&zone);
}

TEST(test_answers_that_overlap) {
    a_zone z = {0, 5, RS_OK, false};
    rs_zone zone = {0};
    zone.name = rs_slice_of("Zone", 4);
    for (int64_t i = 0; i < 200; i++) check_span(&zone, &z, i * 7919 % 200 * 1000);
    CHECK(z.calls < 200);
    for (size_t k = 0; k + 1 < zone.spans.size_bytes / sizeof(rs_zone_span); k++) {
        rs_zone_span two[2];
        memcpy(two, zone.spans.data + k * sizeof *two, sizeof two);
        CHECK(two[0].end_s <= two[1].begin_s);
    }
    rs_zone_clear(&zone);
}

TEST(test_finders_that_fail) {
    a_zone z = {0, 1, RS_E_IN_VALUE, false};
    rs_zone zone = {0};
    rs_zone_span span;
    rs_error err;
    zone.name = rs_slice_of("Zone", 4);
    CHECK_CODE(rs_zone_find(&zone, 0, find, &z, &span, &err), RS_E_IN_VALUE, &err);
    z.status = RS_OK;
    z.elsewhere = true;
    CHECK_CODE(rs_zone_find(&zone, 0, find, &z, &span, &err), RS_E_ARG_RANGE, &err);
    z.elsewhere = false;
    check_span(&zone, &z, 0);
    rs_zone_clear(&zone);
}
