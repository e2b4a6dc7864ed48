/* rs_stops.h: ends the deep check of a segment at up to 1,000 points that are spread over its work. */
#pragma once

#include "rs_built.h"
#include "verify/rs_verify.h"

typedef struct stops_question {
    unsigned times;
    bool answer;
} stops_question;

static inline bool stops_answer(void *arg) {
    stops_question *question = (stops_question *)arg;
    question->times++;
    return question->answer;
}

/* Checks a sound segment again and again. Each time the watch asks a little later whether to stop, until the check has
 * no more work. A check that is told to stop ends after one question. Returns the work of the whole check. */
static inline uint64_t stops_everywhere(const built *b) {
    rs_error err;
    stops_question question = {0, false};
    rs_watch watch = {stops_answer, &question, 0};
    rs_error_clear(&err);
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    uint64_t total_work = watch.work;
    CHECK(question.times == 0 && total_work > 0 && total_work < RS_WATCH_EVERY);
    uint64_t step = total_work / 1000 + 1;
    for (uint64_t n = 1; n <= total_work; n += step) {
        question.times = 0, question.answer = true, watch.work = RS_WATCH_EVERY - n;
        CHECK_CODE(rs_verify_segment(built_slice(b), NULL, &watch, &err), RS_E_STATE_STOPPED, &err);
        CHECK(question.times == 1);
        question.times = 0, question.answer = false, watch.work = RS_WATCH_EVERY - n;
        if (n % 7 == 0) CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    }
    watch.work = RS_WATCH_EVERY - total_work - 1, question.answer = true;
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, &watch, &err), &err);
    return total_work;
}
