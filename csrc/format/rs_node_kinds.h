/* rs_node_kinds.h: RS_FMT_NODE_ROWS at run time, and the names of node kinds, ext codes and sections for messages. */
#pragma once

#include "format/rs_format.h"

typedef enum rs_count_rule { RS_COUNT_NONE = 0, RS_COUNT_IF_FIXED = 1, RS_COUNT_ALWAYS = 2 } rs_count_rule;
typedef enum rs_tail_rule { RS_TAIL_NONE = 0, RS_TAIL_EACH = 1, RS_TAIL_LAST = 2, RS_TAIL_FIRST = 3 } rs_tail_rule;
typedef enum rs_concat_part_rule {
    RS_CONCAT_PART_NONE = 0,
    RS_CONCAT_PART_SOMETIMES = 1,
    RS_CONCAT_PART_YES = 2
} rs_concat_part_rule;

/* A row of RS_FMT_NODE_ROWS; rs_format.h explains the columns. */
typedef struct rs_node_kind {
    const char *name;
    uint16_t flag;
    uint8_t max_param;
    rs_count_rule count;
    rs_tail_rule tail;
    rs_concat_part_rule part;
    uint32_t min_children, max_children;
    uint32_t min_aux, max_aux;
    uint64_t feature;
} rs_node_kind;

/* Returns the static row of a kind; NULL for a number that is not a kind. Any thread may call all functions. */
const rs_node_kind *rs_node_kind_of(unsigned kind);

/* Each returns a static name; NULL for a number without a name. */
const char *rs_node_name(unsigned kind);
const char *rs_ext_name(unsigned code);
const char *rs_section_name(unsigned kind);
