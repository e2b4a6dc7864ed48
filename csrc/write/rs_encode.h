/* rs_encode.h: encodes raw any values under a schema tree. */
#pragma once

#include "base/rs_buffer.h"
#include "format/rs_schema.h"
#include "plan/rs_dictionaries.h"
#include "plan/rs_scan.h"
#include "write/rs_encode_placed.h"

/* The hashes of the key sets that a struct with optional keys accepts, in ascending order. */
typedef struct rs_key_set_hashes {
    struct rs_key_set_hashes *next;
    uint32_t n;
    uint64_t hashes[];
} rs_key_set_hashes;

/* Links from nodes of a tree to other data for encoding: from dict-coded to its rs_dictionary, from symbols to its
 * rs_symbol_table (both borrowed from the dictionaries), from concat to its rs_template_cut (owned), from a struct with
 * optional keys to its rs_key_set_hashes (owned). Zero the struct before the first use and call rs_links_clear at the
 * end. One thread at a time may use it. */
typedef struct rs_links {
    uint32_t *nodes;
    void **links;
    uint32_t n, capacity;
    rs_key_set_hashes *key_sets;
    struct rs_links_copy *copies;
} rs_links;

/* Frees the links, the hashes and the copies, and zeroes the struct. */
void rs_links_clear(rs_links *self);
/* Adds the link of node number `node`. RS_E_MEM. */
RS_NODISCARD rs_status rs_links_add(rs_links *self, uint32_t node, void *link, rs_error *err);
/* Allocates n hashes for the caller to fill in. *out lives as long as `self`. RS_E_MEM. */
RS_NODISCARD rs_status rs_links_new_key_sets(rs_links *self, uint32_t n, rs_key_set_hashes **out, rs_error *err);
/* Copies `size` bytes. *out lives as long as `self`; `out` may point to the variable that holds `bytes`. RS_E_MEM. */
RS_NODISCARD rs_status rs_links_copy(rs_links *self, const void *bytes, size_t size, void **out, rs_error *err);
/* Sets the slots of the nodes of a compiled tree to the links. Afterwards the tree is for encoding only. */
void rs_links_apply(const rs_links *self, rs_tree *tree);

/* Appends the value `raw`, encoded under `tree`. `scan` has scanned the value, and scan->next is the number of its
 * first dict. RS_E_ARG_RANGE when the value does not fit the tree; RS_E_ARG_LIMIT when the rows of a list or map would
 * take thousands of times the remaining raw bytes; RS_E_MEM. On failure `out` has part of the value, which the caller
 * drops. */
RS_NODISCARD rs_status rs_encode_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_buffer *out,
                                        rs_error *err);

/* As rs_encode_record, for a tree that may have placed nodes: `places` collects their values. The caller has set
 * places->local. Errors of rs_places_end_value too. */
RS_NODISCARD rs_status rs_encode_placed_record(const rs_tree *tree, rs_slice raw, rs_scan *scan, rs_places_part *places,
                                               rs_buffer *out, rs_error *err);

/* ---- Used between the files of the encoder ---- */

/* Checks that a value is a str that fits a concat, alphabet or hex node, else RS_E_ARG_RANGE. With `out` not NULL it
 * also writes the str or its parts: bits and fixed bodies into the zeroed head at `at` in `out`, other bodies at the
 * end of `out`. */
RS_NODISCARD rs_status rs_encode_parts(const rs_node *node, rs_slice value, rs_buffer *out, size_t at, rs_error *err);

/* Appends a text of n units that fits a symbols node: the number of bytes of its codes, unless the node has REST, and
 * the codes. The units have 4 bytes for RS_FMT_SYMBOLS_PAIRS, else those of the table. RS_E_MEM. */
RS_NODISCARD rs_status rs_encode_symbols(const rs_node *node, const uint8_t *units, uint64_t n, rs_buffer *out,
                                         rs_error *err);

/* Returns whether a value, from its tag on, is a list or tuple of numbers that fits a numbers node. */
bool rs_encode_numbers_fit(const rs_node *node, rs_slice value);
/* Takes such a list off `in` and appends it. RS_E_ARG_RANGE when it does not fit the node; RS_E_MEM. */
RS_NODISCARD rs_status rs_encode_numbers(const rs_node *node, rs_slice *in, rs_buffer *out, rs_error *err);

/* Sets *stored to the stored number of a float in a decimal node. Returns false when the node cannot store it. */
bool rs_encode_decimal(const rs_node *node, double value, uint64_t *stored);

/* Stores the bits of a child in the zeroed bit group at `at`. May store a whole word, but keeps the bytes after the
 * group. */
static inline void rs_encode_bits(rs_buffer *out, size_t at, uint64_t bit_off, unsigned n_bits, uint64_t value) {
    size_t byte = at + (size_t)(bit_off >> 3);
    unsigned shift = (unsigned)(bit_off & 7);
    uint8_t *p = out->data + byte;
    if (RS_UNLIKELY(shift + n_bits > 63 || out->capacity_bytes - byte < 8)) {
        rs_store_bits(out->data + at, bit_off, n_bits, value);
        return;
    }
    rs_store_u64(p, rs_load_u64(p) | (value & ((UINT64_C(1) << n_bits) - 1)) << shift);
}
