/* rs_string_template.h: finds the common parts of strings that follow one pattern (FORMAT.md, concat). For example,
 * "n01440764_10026.JPEG" is a word, a constant, a number and a constant. */
#ifndef RS_STRING_TEMPLATE_H
#define RS_STRING_TEMPLATE_H

#include "write/rs_stats.h"

enum { RS_TEMPLATE_PARTS_MAX = 48, RS_TEMPLATE_UNITS = 2048 };

typedef enum rs_part_kind {
    RS_PART_CONST = 0,
    RS_PART_SAME = 1,
    RS_PART_DIGITS = 2,
    RS_PART_HEX = 3,
    RS_PART_DICT_CODED = 4,
    RS_PART_TEXT = 5
} rs_part_kind;

/* One part of the template. Borrows from the arena and the values. */
typedef struct rs_template_part {
    rs_part_kind kind;
    rs_slice first;         /* const: the text */
    uint32_t of;            /* same: the number of the part that is repeated */
    uint64_t min, max;      /* digits: the range of the numbers */
    uint32_t count;         /* digits: the width that zeros pad to, or 0; hex: the number of digits */
    bool upper;             /* hex: the digits are A to F */
    const uint8_t *base;    /* dict-coded: the bytes of the distinct texts, as any values */
    rs_value_set *distinct; /* dict-coded: the spans of the distinct texts, from base */
} rs_template_part;

/* The ways to divide characters into classes. Strings are cut where the class changes. */
typedef enum rs_template_classes {
    RS_TEMPLATE_WORDS = 1,  /* two classes: letters and digits; others */
    RS_TEMPLATE_FINE = 2,   /* three classes: letters; digits; others */
    RS_TEMPLATE_PATHS = 3,  /* two classes: separators of fields or of a path; others */
    RS_TEMPLATE_FIELDS = 4, /* two classes: separators of fields; others */
    RS_TEMPLATE_CLASSES = 5 /* one more than the last; 0 means no way */
} rs_template_classes;

typedef struct rs_template {
    rs_template_classes classes;
    uint32_t n;
    rs_template_part at[RS_TEMPLATE_PARTS_MAX];
    uint64_t bits;   /* bits of all strings that fit the template */
    uint64_t n_fits; /* number of these strings */
} rs_template;

/* Returns the class of a character under `classes`, which is one of the four ways. */
unsigned rs_template_class(rs_template_classes classes, uint8_t c);

/* Looks for a template of the strings at a->where, which have 1-byte units. *found becomes false unless about nine in
 * ten strings follow one pattern. *out borrows memory of the stats. RS_E_MEM. */
RS_NODISCARD rs_status rs_template_find(rs_stats *stats, const rs_alternative *a, rs_template *out, bool *found,
                                        rs_error *err);

#endif
