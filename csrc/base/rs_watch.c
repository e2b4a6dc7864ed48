/* rs_watch.c: asks the caller of a long loop whether to stop. */
#include "base/rs_watch.h"

rs_status rs_watch_ask(rs_watch *self, rs_error *err) {
    self->work = 0;
    if (!self->stopped(self->arg)) return RS_OK;
    return rs_error_set(err, RS_E_STATE_STOPPED, RS_NOWHERE, "%s", rs_status_text(RS_E_STATE_STOPPED));
}
