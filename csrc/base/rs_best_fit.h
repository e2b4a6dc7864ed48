/* rs_best_fit.h: packs documents into a fixed number of rows, by best-fit decreasing.
 *
 * A document that is longer than a row is first cut into full rows. The rest of each document goes, the longest first,
 * to the fullest row with room for it. What then fits nowhere is cut into the rows with the most room, so nothing is
 * lost, and the number of rows is known without packing.
 *
 * Source: Ding et al., Fewer Truncations Improve Language Modeling (ICML 2024). */
#pragma once

#include "base/rs_status.h"

#define RS_BEST_FIT_MAX_LENGTH (UINT64_C(1) << 31) /* the longest row, exclusive */
#define RS_BEST_FIT_MAX_ITEMS (UINT64_C(1) << 31)  /* the most documents, and the most rows, exclusive */

/* The parts of documents, sorted by row, then by document. Every array belongs to the caller. */
typedef struct rs_best_fit_parts {
    int64_t *documents; /* of each part: the number of its document; room for n + rows */
    int64_t *starts;    /* of each part: its first token in the document; room for n + rows */
    int64_t *counts;    /* of each part: its number of tokens, above 0; room for n + rows */
    int64_t *ends;      /* of each row: the end of its parts; room for `rows` */
} rs_best_fit_parts;

/* Packs n documents of counts[i] tokens into `rows` rows of `length` tokens. A document of 0 tokens has no part. If
 * there are at least as many tokens as rows, no row is empty. RS_E_ARG_RANGE for numbers beyond the limits, for a
 * negative count, and for more tokens than the rows hold; RS_E_MEM. */
RS_NODISCARD rs_status rs_best_fit_pack(const int64_t *counts, uint64_t n, uint64_t length, uint64_t rows,
                                        rs_best_fit_parts *out, rs_error *err);
