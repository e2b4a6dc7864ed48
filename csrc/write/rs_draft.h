/* rs_draft.h: a tree before its bytes: which node stands where, chosen by what it would cost. */
#ifndef RS_DRAFT_H
#define RS_DRAFT_H

#include "write/rs_packer.h"
#include "write/rs_pieces.h"
#include "write/rs_survey.h"

/* One node. All memory is the survey's arena. */
typedef struct rs_draft {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t count;
    rs_slice aux;
    uint32_t n_children;
    struct rs_draft **children;
    uint64_t n;                 /* values that stand here */
    uint64_t path;              /* dict, symbols, str: whose table */
    rs_values entries;          /* dict, until it is settled: what its tables have to hold */
    bool fresh;                 /* dict: a dictionary of its own, not the path's so far */
    const rs_alternative *of;   /* symbols, until they are settled, and str that might be symbols: the strings */
    void *link;                 /* what encoding needs beside the tree: see rs_encode.h */
} rs_draft;

/* Chooses for all values of a survey, which stand in a block, or `hops` tables away from one. `packer` is asked for
 * what its dictionaries hold, and remembers what was not worth it. RS_E_ARG_LIMIT: no tree within the limits.
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_draft_choose(rs_survey *survey, rs_packer *packer, unsigned hops, rs_draft **out,
                                       rs_error *err);

/* The forms of lists of numbers and of floats, which need a look at every number: NULL where none is better than
 * *bits, else a draft for those of the n values that it fits; *bits becomes what they take, *n_fits how many they
 * are. */
RS_NODISCARD rs_status rs_draft_numbers(rs_survey *survey, const rs_alternative *a, rs_draft **out, uint64_t *bits,
                                        uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_draft_floats(rs_survey *survey, const rs_alternative *a, rs_draft **out, uint64_t *bits,
                                       uint64_t *n_fits, rs_error *err);
RS_NODISCARD rs_status rs_draft_ints(rs_survey *survey, const rs_alternative *a, rs_draft **out, uint64_t *bits,
                                     uint64_t *n_fits, rs_error *err);

/* A node without children in memory of the survey; NULL without memory. */
rs_draft *rs_draft_leaf(rs_survey *survey, unsigned kind, unsigned param, const void *aux, size_t aux_size);
/* The same with n children, which are the caller's to set. */
rs_draft *rs_draft_inner(rs_survey *survey, unsigned kind, unsigned param, uint32_t n_children);

/* Bits of an int node: whole bytes where little is lost by it, because those need no shifting. */
unsigned rs_draft_width(uint64_t range);

#endif
