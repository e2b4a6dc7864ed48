/* rs_alphabet.h: the texts of alphabet and hex nodes (FORMAT.md, Alphabets). */
#pragma once

#include "format/rs_schema.h"

/* Returns how many characters denote whole bytes: the length of a padded text is a multiple of it. */
static inline unsigned rs_alphabet_group(unsigned bits) { return bits % 2 != 0 ? 8 : bits == 4 ? 2 : 4; }

/* Returns the length of the text of n characters, with padding and hyphens. */
static inline uint64_t rs_alphabet_length(const rs_node *node, uint64_t n) {
    const uint64_t group = rs_alphabet_group(node->letter_bits);
    if (node->letter_form == RS_FMT_ALPHABET_UUID) return RS_FMT_UUID_TEXT;
    return node->letter_form == RS_FMT_ALPHABET_PADDED ? (n + group - 1) / group * group : n;
}

/* Writes the text of n characters of a compiled node, whose rs_alphabet_bytes bytes are at `body`. `to` has room for
 * rs_alphabet_length bytes. */
void rs_alphabet_put_unchecked(const rs_node *node, const uint8_t *body, uint64_t n, uint8_t *to);
