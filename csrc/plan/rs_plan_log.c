/* rs_plan_log.c: a growing array of entries. */
#include "plan/rs_plan_log.h"

#include <stdlib.h>

void rs_plan_log_add(rs_plan_log *self, const rs_weighed *entry) {
    if (self->n == self->capacity) {
        uint32_t capacity = self->capacity == 0 ? 64 : self->capacity * 2;
        rs_weighed *at = capacity > UINT32_MAX / 4 ? NULL : (rs_weighed *)realloc(self->at, capacity * sizeof *at);
        if (at == NULL) {
            self->cut = true;
            return;
        }
        self->at = at;
        self->capacity = capacity;
    }
    self->at[self->n++] = *entry;
}

void rs_plan_log_clear(rs_plan_log *self) {
    free(self->at);
    self->at = NULL;
    self->n = self->capacity = 0;
}
