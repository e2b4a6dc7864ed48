/* rs_plan_log.h: the candidates for the plan of one field. Filled if rs_choices.log is set. */
#pragma once

#include "base/rs_bytes.h"
#include "format/rs_format.h"

/* One candidate for the values of one kind at one position. */
typedef struct rs_weighed {
    uint32_t run;      /* the number of the block, from 1 */
    uint32_t n_keys;   /* how many of the log's keys lead to the position */
    uint32_t depth;    /* 0 for the value of that key, more for elements and payloads within it */
    uint32_t position; /* the number of the alternative in planning order; the same for all its candidates */
    uint8_t of;        /* the kind of the values: the kind of node that stores them plainly */
    uint8_t kind;      /* the kind of the candidate's node */
    uint8_t child;     /* of a list, the kind of its child; else 0 */
    bool chosen;
    uint64_t values, fits; /* all values, and the values that fit the node; the rest need another node */
    uint64_t bits;         /* of all values, misfits included */
} rs_weighed;

/* Zero the struct and set the keys, which it borrows. Clear it at the end. One thread at a time may use it. */
typedef struct rs_plan_log {
    const rs_slice *keys; /* the path to the field, as any values; lists and tuples on it are skipped */
    uint32_t n_keys;
    rs_weighed *at;
    uint32_t n, capacity;
    bool cut; /* memory ran out, so entries are missing */
} rs_plan_log;

/* Appends an entry. Without memory it sets `cut`. */
void rs_plan_log_add(rs_plan_log *self, const rs_weighed *entry);
/* Frees the entries. */
void rs_plan_log_clear(rs_plan_log *self);
