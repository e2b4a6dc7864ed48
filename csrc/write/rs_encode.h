/* rs_encode.h: rewrites a raw `any` value as a schema tree says. */
#ifndef RS_ENCODE_H
#define RS_ENCODE_H

#include "base/rs_buffer.h"
#include "format/rs_schema.h"
#include "write/rs_dictionaries.h"
#include "write/rs_scan.h"

/* The key sets of dicts that a struct with optional keys takes, by their hashes in ascending order. */
typedef struct rs_key_set_hashes {
    struct rs_key_set_hashes *next;
    uint32_t n;
    uint64_t hashes[];
} rs_key_set_hashes;

/* What encoding needs beside a tree, by node: of dict-coded its rs_dictionary, of symbols its rs_symbol_table
 * (both borrowed from the dictionaries), of concat its rs_template_classes as a byte, of a struct with optional
 * keys its rs_key_set_hashes (owned). Zero it to begin, rs_links_clear at the end. Not thread-safe. */
typedef struct rs_links {
    uint32_t *nodes;
    void **links;
    uint32_t n, capacity;
    rs_key_set_hashes *key_sets;
} rs_links;

void rs_links_clear(rs_links *self);
RS_NODISCARD rs_status rs_links_add(rs_links *self, uint32_t node, void *link, rs_error *err);
/* A set for n hashes, which the caller fills in; it lives as long as `self`. */
RS_NODISCARD rs_status rs_links_new_key_sets(rs_links *self, uint32_t n, rs_key_set_hashes **out, rs_error *err);
/* Sets the slots of a compiled tree, which is then for encoding only. */
void rs_links_apply(const rs_links *self, rs_tree *tree);

/* Appends the value `raw` (one that `scan` has read; scan->next stands at its first dict) as `tree` says.
 * RS_E_ARG_RANGE when it does not fit the tree, RS_E_ARG_LIMIT where the rows of a list would take thousands of times
 * its bytes; `out` then holds part of it, and the caller drops that.
 * Allocates only in `out`; needs no lock. */
RS_NODISCARD rs_status rs_encode_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_buffer *out,
                                        rs_error *err);

/* ---- Between the files of the encoder ---- */

/* RS_E_ARG_RANGE unless a str of 1-byte units is of the parts of a concat node; with `out` not NULL they are written:
 * into the head, which stands zeroed at `at` in `out`, and behind what `out` holds. */
RS_NODISCARD rs_status rs_encode_parts(const rs_node *node, rs_slice text, rs_buffer *out, size_t at, rs_error *err);

/* Whether the value of a list or tuple of numbers (at its tag) fits a numbers node. */
bool rs_encode_numbers_fit(const rs_node *node, rs_slice value);
/* Takes such a list off `in` and appends it. */
RS_NODISCARD rs_status rs_encode_numbers(const rs_node *node, rs_slice *in, rs_buffer *out, rs_error *err);

/* The stored bits of a float in a decimal node; false when it is none of its values. */
bool rs_encode_decimal(const rs_node *node, double value, uint64_t *stored);

#endif
