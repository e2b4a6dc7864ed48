/* rs_node_kinds.c: makes tables from the X-macros of rs_format.h. */
#include "format/rs_node_kinds.h"

#include <stddef.h>

/* The words of the rows as numbers. */
#define MANY UINT32_MAX
#define FLAG_NONE 0
#define FLAG_FIXED RS_FMT_FLAG_FIXED
#define FLAG_REST RS_FMT_FLAG_REST
#define FLAG_RARE RS_FMT_FLAG_RARE
#define FLAG_IN_BITS RS_FMT_FLAG_IN_BITS
#define FLAG_EITHER (RS_FMT_FLAG_FIXED | RS_FMT_FLAG_REST)
#define FEATURE_NONE 0
#define FEATURE_PACKED RS_FMT_FEATURE_PACKED
#define FEATURE_TABLES RS_FMT_FEATURE_TABLES
#define FEATURE_TEXT RS_FMT_FEATURE_TEXT
#define FEATURE_OPTIONAL RS_FMT_FEATURE_OPTIONAL
#define FEATURE_MAP RS_FMT_FEATURE_MAP
#define FEATURE_PLACED RS_FMT_FEATURE_PLACED
#define FEATURE_ALPHABET RS_FMT_FEATURE_ALPHABET

const rs_node_kind *rs_node_kind_of(unsigned kind) {
    static const rs_node_kind rows[RS_FMT_NODE_END] = {
#define ROW(name, number, text, flag, count, param, min_children, max_children, min_aux, max_aux, tail, part, feature) \
    [number] = {text,         FLAG_##flag,  param,   RS_COUNT_##count, RS_TAIL_##tail,   RS_CONCAT_PART_##part, \
                min_children, max_children, min_aux, max_aux,          FEATURE_##feature},
        RS_FMT_NODE_ROWS(ROW)
#undef ROW
    };
    return kind < RS_FMT_NODE_END && rows[kind].name != NULL ? &rows[kind] : NULL;
}

const char *rs_node_name(unsigned kind) {
    const rs_node_kind *row = rs_node_kind_of(kind);
    return row == NULL ? NULL : row->name;
}

const char *rs_ext_name(unsigned code) {
    static const char *const names[RS_FMT_EXT_END] = {
#define NAME(name, number, text) [number] = text,
        RS_FMT_EXT_ROWS(NAME)
#undef NAME
    };
    return code < RS_FMT_EXT_END ? names[code] : NULL;
}

const char *rs_section_name(unsigned kind) {
    switch (kind) {
#define NAME(name, number, text) \
    case number: return text;
        RS_FMT_SECTION_ROWS(NAME)
#undef NAME
    default: return NULL;
    }
}
