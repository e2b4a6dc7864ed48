/* rs_choices.h: the options of planning: how much time to spend, and which nodes are allowed. */
#pragma once

#include "base/rs_crew.h"
#include "format/rs_format.h"

/* How much time the build spends on choosing nodes. NONE keeps every value as an `any` value. FAST leaves out the
 * slowest searches. SMALL measures some costs that AUTO only estimates, and repeats in each block the attempts that
 * failed in earlier ones, except for shared symbol tables. */
typedef enum rs_level { RS_LEVEL_NONE = 0, RS_LEVEL_FAST = 1, RS_LEVEL_AUTO = 2, RS_LEVEL_SMALL = 3 } rs_level;

/* The bit of a kind of node (RS_FMT_NODE_*) in rs_choices.without. */
#define RS_FORM(kind) (UINT64_C(1) << (kind))
RS_STATIC_ASSERT(RS_FMT_NODE_LAST < 64, "a bit for each kind of node");

/* The bit of offset groups whose ends are distances from a line; no node has the kind 0. */
#define RS_FORM_ENDS RS_FORM(0)

/* The nodes that RS_LEVEL_FAST leaves out. Coding text by symbols takes half the time of a build of sentences. */
#define RS_FAST_WITHOUT RS_FORM(RS_FMT_NODE_SYMBOLS)

/* The choices of one store. They must not change while its blocks are encoded. Any thread may read them. */
typedef struct rs_choices {
    rs_level level;
    /* The RS_FORM bits of nodes and offset groups that the level or the caller excludes. The bit of `any` has no
     * effect. */
    uint64_t without;
    rs_crew *crew; /* threads that help with a block; borrowed; NULL for none. A pipeline sets it */
} rs_choices;

/* Returns the choices of a level. */
static inline rs_choices rs_choices_of(rs_level level) {
    rs_choices choices = {.level = level, .without = level == RS_LEVEL_FAST ? RS_FAST_WITHOUT : 0};
    return choices;
}

/* Returns whether a tree may have nodes of a kind, RS_FMT_NODE_*. */
static inline bool rs_choices_allow(const rs_choices *self, unsigned kind) {
    return (self->without & RS_FORM(kind)) == 0;
}

/* Returns whether offset groups may hold distances from a line. */
static inline bool rs_choices_allow_lines(const rs_choices *self) {
    return self->level != RS_LEVEL_NONE && (self->without & RS_FORM_ENDS) == 0;
}
