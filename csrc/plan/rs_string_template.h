/* rs_string_template.h: finds the common parts of strings that follow one pattern (FORMAT.md, concat). For example,
 * "n01440764_10026.JPEG" is a word, a constant, a number and a constant. */
#pragma once

#include "symbols/rs_symbols_train.h"
#include "plan/rs_stats.h"
#include "plan/rs_string_search.h"

typedef enum rs_part_kind {
    RS_PART_CONST = 0,
    RS_PART_SAME = 1,
    RS_PART_DIGITS = 2,
    RS_PART_ALPHABET = 3,
    RS_PART_DICT_CODED = 4,
    RS_PART_TEXT = 5
} rs_part_kind;

/* One part of the template. Borrows from the arena and the values. */
typedef struct rs_template_part {
    rs_part_kind kind;
    rs_slice first;              /* const: the text */
    uint32_t of;                 /* same: the number of the repeated part */
    uint64_t min, max;           /* digits: the range of the numbers */
    uint32_t count;              /* digits: the width after padding with zeros, or 0 */
    const rs_alphabet *alphabet; /* alphabet: in the arena */
    const uint8_t *base;         /* dict-coded: the bytes of the distinct texts, as any values */
    rs_value_set *distinct;      /* dict-coded: the spans of the distinct texts, from base */
    uint64_t units;              /* text: units of this part in all strings that fit */
    rs_symbol_string *texts;     /* text: this part of all strings that fit, in their order */
} rs_template_part;

/* The cut of a template, for the encoder. Each leaf is a part of its own or a constant. The struct has size_bytes bytes
 * and may be copied with memcpy. */
typedef struct rs_template_cut {
    uint32_t size_bytes;
    uint8_t unit_bytes;           /* of the strings */
    uint8_t parts[RS_CUT_LEAVES]; /* of each leaf: the number of its part; RS_TEMPLATE_NO_PART for a constant */
    uint16_t ends[RS_CUT_LEAVES]; /* of each leaf: the end of its constant in `texts`, where the next one begins */
    rs_cut cut;
    uint8_t texts[]; /* the constants of all leaves */
} rs_template_cut;
enum { RS_TEMPLATE_NO_PART = 0xFF };

typedef struct rs_template {
    uint32_t n;
    rs_template_part at[RS_FMT_CONCAT_CHILDREN];
    rs_template_cut *cut; /* in the arena */
    uint64_t bits;        /* bits of all strings that fit the template */
    uint64_t n_fits;      /* number of these strings */
    uint32_t *misfits;    /* the numbers of the other strings, in ascending order */
    uint64_t plain;       /* an estimate of the bits of all strings without a template */
} rs_template;

/* Finds a template of the strings of `a`, which have units of 1 or 2 bytes. Sets *found to whether about five in six of
 * them follow one pattern that saves bits in a sample. *out borrows memory of the stats. RS_E_MEM. */
RS_NODISCARD rs_status rs_template_find(rs_stats *stats, const rs_alternative *a, rs_template *out, bool *found,
                                        rs_error *err);
