/* rs_string_template.h: strings that are all made alike: what their parts are (FORMAT.md, concat).
 * "n01440764_10026.JPEG" is a word, a sign, a number, a constant. */
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

/* One column of the strings. Borrows from the arena and the values. */
typedef struct rs_template_part {
    rs_part_kind kind;
    rs_slice first;       /* const: the text */
    uint32_t of;          /* same: which part */
    uint64_t min, max;    /* digits */
    uint32_t count;       /* digits: padded to; hex: digits */
    bool upper;           /* hex */
    const uint8_t *base;  /* dict-coded: bytes of the entries, as `any` values */
    rs_value_set *distinct;
} rs_template_part;

/* Where a part that is not told by its neighbours ends: before the first character of another class. */
typedef enum rs_template_classes {
    RS_TEMPLATE_WORDS = 1,  /* letters and digits, others */
    RS_TEMPLATE_FINE = 2,   /* letters, digits, others */
    RS_TEMPLATE_PATHS = 3,  /* what separates fields or parts of a path, others */
    RS_TEMPLATE_FIELDS = 4, /* what separates fields, others */
    RS_TEMPLATE_CLASSES = 5
} rs_template_classes;

typedef struct rs_template {
    rs_template_classes classes;
    uint32_t n;
    rs_template_part at[RS_TEMPLATE_PARTS_MAX];
    uint64_t bits;        /* of all strings that are made like this */
    uint64_t n_fits;      /* how many those are */
} rs_template;

/* The class of a character under `classes`. */
unsigned rs_template_class(rs_template_classes classes, uint8_t c);

/* Looks at the strings that begin at a->where, all of 1-byte units. False when they are not made alike: at least nine
 * in ten have to be. Memory is that of the stats. RS_E_MEM. */
RS_NODISCARD rs_status rs_template_find(rs_stats *stats, const rs_alternative *a, rs_template *out, bool *found,
                                      rs_error *err);

#endif
