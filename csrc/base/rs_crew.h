/* rs_crew.h: threads that share the tasks of one step. */
#pragma once

#include "base/rs_base.h"

/* One of the tasks of `work`. Tasks may run at once, in any order; errors stay in `work`. */
typedef void rs_task(void *work, uint32_t number);

/* The threads, whose owner has a struct around this one. Any thread may use it. */
typedef struct rs_crew {
    void (*run)(struct rs_crew *self, rs_task *task, void *work, uint32_t n);
} rs_crew;

/* Runs the tasks 0 to n - 1 of `work`, and returns when all are done. Without a crew (NULL), this thread runs them. */
static inline void rs_crew_run(rs_crew *crew, rs_task *task, void *work, uint32_t n) {
    if (crew != NULL && n > 1) {
        crew->run(crew, task, work, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) task(work, i);
}
