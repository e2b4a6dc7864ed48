/* rs_watch.h: lets a caller stop a long loop of the core that runs without the interpreter's lock. */
#pragma once

#include "base/rs_status.h"

/* The values or bytes between two calls of `stopped`: a few milliseconds of work. */
#define RS_WATCH_EVERY (UINT64_C(1) << 23)

/* `stopped`, called with `arg` on the thread that does the work, returns whether to stop. */
typedef struct rs_watch {
    bool (*stopped)(void *arg);
    void *arg;
    uint64_t work; /* since the last call; 0 at first */
} rs_watch;

RS_NODISCARD RS_COLD rs_status rs_watch_ask(rs_watch *self, rs_error *err);

/* Counts work, and calls `stopped` after every RS_WATCH_EVERY. RS_E_STATE_STOPPED if it returns true. `self` may be
 * NULL for work that cannot be stopped. One thread at a time may use a watch. */
RS_NODISCARD static inline rs_status rs_watch_count(rs_watch *self, uint64_t work, rs_error *err) {
    if (self == NULL) return RS_OK;
    self->work += work;
    return RS_LIKELY(self->work < RS_WATCH_EVERY) ? RS_OK : rs_watch_ask(self, err);
}
