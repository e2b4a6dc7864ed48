/* rs_string_search.h: finds the cheapest cut of strings from a sample. */
#pragma once

#include "plan/rs_string_alphabet.h"
#include "plan/rs_string_cut.h"

enum { RS_SAMPLE_STRINGS = 128 };

/* A sample of `size` of n strings, as units of 1 byte (rs_cut_narrow). Borrows the units. */
typedef struct rs_sample {
    rs_slice strings[RS_SAMPLE_STRINGS];
    uint32_t size;
    uint64_t n;
    unsigned unit_bytes; /* of the strings before rs_cut_narrow */
} rs_sample;

/* The kind of a leaf of a cut, judged by the sample. */
typedef enum rs_leaf_kind {
    RS_LEAF_CONST = 0,
    RS_LEAF_SAME = 1,     /* it repeats leaf `of` */
    RS_LEAF_DIGITS = 2,   /* a number */
    RS_LEAF_ALPHABET = 3, /* characters of an alphabet, drawn at random */
    RS_LEAF_WORDS = 4,    /* one of few texts */
    RS_LEAF_TEXT = 5
} rs_leaf_kind;

enum { RS_STRICT_PLAIN = 0xFF /* numbers of at most RS_STRICT_DIGITS digits without leading zeros */ };
enum { RS_STRICT_DIGITS = 18 };
enum { RS_CUT_ALPHABETS = 8 /* the most alphabets of the leaves of a search */ };

/* Returns whether a text meets the condition `strict` of a leaf, and has the form of its alphabet (NULL: any). */
bool rs_leaf_fits(unsigned strict, const rs_alphabet *alphabet, rs_slice text);

typedef struct rs_leaf_guess {
    uint8_t kind, of;
    uint8_t strict;   /* condition on the texts: 0 for none, RS_STRICT_PLAIN, or the number of digits */
    bool repeats;     /* its texts seem to repeat */
    uint8_t alphabet; /* the number of the alphabet of its texts, from 1; 0 for none */
} rs_leaf_guess;

typedef struct rs_cut_guess {
    rs_cut cut;
    rs_leaf_guess leaves[RS_CUT_LEAVES];
    rs_alphabet alphabets[RS_CUT_ALPHABETS];
    uint32_t first; /* the number of the first string of the sample that fits */
    uint64_t bits;  /* an estimate for all n strings, misfits included */
    uint64_t plain; /* an estimate without the cut */
} rs_cut_guess;

/* Returns the bits of n texts as a str node or, if estimated lower, as a symbols node. `digits` of their units are
 * digits, which symbols compress less than usual text. */
uint64_t rs_text_bits(uint64_t units, uint64_t digits, uint64_t n, unsigned unit_bytes);

/* Finds the best cut that most strings of the sample fit. Returns false if none saves enough bits. */
bool rs_cut_search(const rs_sample *sample, rs_cut_guess *out);
