/* rs_text.h: assembles strings whose units are not in the record: from symbol codes, digits and parts of a concat. */
#pragma once

#include "read/rs_decode.h"

enum { RS_TEXT_INLINE = 1024, RS_TEXT_SLACK = 16 /* bytes after a short text that may be overwritten */ };

/* A text in the reader's memory. Owns `owned`. Call rs_text_begin, and rs_text_clear at the end; the struct must not be
 * moved in between. One thread at a time may use it. */
typedef struct rs_text {
    uint8_t *units; /* n_units of unit_bytes each */
    uint64_t n_units;
    uint64_t capacity;   /* in bytes */
    unsigned unit_bytes; /* 1, 2 or 4: the widest of the parts, not always the narrowest possible */
    uint32_t n_parts;    /* number of parts of concats so far */
    uint8_t *owned;      /* NULL while the text fits `within` */
    uint8_t within[RS_TEXT_INLINE];
} rs_text;

/* Makes an empty text. */
static inline void rs_text_begin(rs_text *self) {
    self->units = self->within;
    self->n_units = 0;
    self->capacity = RS_TEXT_INLINE;
    self->unit_bytes = 1;
    self->n_parts = 0;
    self->owned = NULL;
}

/* Frees the memory and makes the text empty. */
void rs_text_clear(rs_text *self);

/* Appends the str of a node. The body of a fixed node is at `body`, any other at the cursor. RS_E_FMT_VALUE for a node
 * that is not text; rules 21 to 23, 31 and 34 of FORMAT.md; RS_E_MEM. */
RS_NODISCARD rs_status rs_text_put(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                   uint64_t bits, rs_error *err);

/* Assembles a short str of 1-byte units of a node, faster than rs_text_take. The body of a fixed node is at `body`, any
 * other at the cursor. Returns the number of units. For a text that is malformed, long, wide or of a rare form,
 * such as concats within concats of a concat, returns -1 and does not move the cursor: rs_text_take gives the text or
 * the error. Counts nothing against the budget. */
int rs_text_short(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                  uint8_t out[RS_TEXT_INLINE + RS_TEXT_SLACK]);

/* Writes a number, padded with zeros to `width`, at most RS_FMT_DIGITS_MAX, and returns its length. `to` has room for
 * RS_FMT_DIGITS_MAX bytes, all of which may be overwritten. */
unsigned rs_text_digits(uint64_t number, unsigned width, uint8_t *to);

/* Returns the bits of part `child` of a concat with its head at `head`. `first` has the first 64 bits of the head. */
static inline uint64_t rs_text_part_bits(const rs_node *concat, const rs_node *child, const uint8_t *head,
                                         uint64_t first) {
    if (child->bit_off + child->bits < 64) return first >> child->bit_off & ((UINT64_C(1) << child->bits) - 1);
    return rs_load_bits_unchecked(head, concat->group_bytes, child->bit_off, child->bits);
}

/* Returns the first 64 bits of the head of a concat, for rs_text_part_bits. */
static inline uint64_t rs_text_first_bits(const rs_node *concat, const uint8_t *head) {
    return concat->group_bytes < 8 ? rs_load_few_unchecked(head, concat->group_bytes) : rs_load_u64(head);
}

/* Sets the text to one value, as with rs_text_put, and counts its units against the budget of bytes. */
RS_NODISCARD rs_status rs_text_take(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                    uint64_t bits, rs_error *err);
