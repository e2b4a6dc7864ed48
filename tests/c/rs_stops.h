/* rs_stops.h: ends the deep check of a segment at every place where it counts work against its watch. */
#pragma once

#include "rs_built.h"
#include "verify/rs_verify.h"

typedef struct stops_asked {
    unsigned times;
    bool answer;
} stops_asked;

static inline bool stops_answer(void *arg) {
    stops_asked *asked = (stops_asked *)arg;
    asked->times++;
    return asked->answer;
}

/* Checks a sound segment again and again. Each time the watch asks a little later whether to stop, until the check has
 * no more work. Each check ends with RS_E_STATE_STOPPED after one question. Returns the work of the whole check. */
static inline uint64_t stops_everywhere(const built *b) {
    rs_error err;
    stops_asked asked = {0, false};
    rs_watch watch = {stops_answer, &asked, 0};
    rs_error_clear(&err);
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    uint64_t all = watch.work;
    CHECK(asked.times == 0 && all > 0 && all < RS_WATCH_EVERY);
    uint64_t step = all / 1000 + 1;
    for (uint64_t n = 1; n <= all; n += step) {
        asked.times = 0, asked.answer = true, watch.work = RS_WATCH_EVERY - n;
        CHECK_CODE(rs_verify_segment(built_slice(b), NULL, &watch, &err), RS_E_STATE_STOPPED, &err);
        CHECK(asked.times == 1);
        asked.times = 0, asked.answer = false, watch.work = RS_WATCH_EVERY - n;
        if (n % 7 == 0) CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    }
    watch.work = RS_WATCH_EVERY - all - 1, asked.answer = true;
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    return all;
}
