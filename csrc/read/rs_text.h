/* rs_text.h: makes strings whose units the record does not hold: from symbol codes, digits, parts of a concat. */
#pragma once

#include "read/rs_decode.h"

enum { RS_TEXT_INLINE = 1024 };

/* A text in memory of the reader. Owns `owned`. Call rs_text_begin, and rs_text_clear at the end; the struct must not
 * be moved in between. One thread at a time may use it. */
typedef struct rs_text {
    uint8_t *units; /* n_units of unit_bytes each */
    uint64_t n_units;
    uint64_t capacity;   /* in bytes */
    unsigned unit_bytes; /* 1, 2 or 4: the widest of the parts, not always the narrowest possible */
    uint32_t n_parts;    /* number of parts of concats so far */
    uint8_t *owned;      /* NULL while the text is short and lies in `within` */
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
 * that gives no str; else rules 21 to 23 and 31 of FORMAT.md; RS_E_MEM. */
RS_NODISCARD rs_status rs_text_put(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                   uint64_t bits, rs_error *err);

/* Puts together the str of a node that is short and has 1-byte units, faster than rs_text_take. The body of a fixed
 * node is at `body`, any other at the cursor. Returns the number of units; -1, with the cursor as it was, when the
 * text is malformed, long, wide, or has parts in parts of parts: rs_text_take then gives the text or the error. It
 * counts nothing against a budget. */
int rs_text_short(rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                  uint8_t out[RS_TEXT_INLINE]);

/* Writes a number of up to 20 digits, zeros on the left up to `width`, and returns how many. `to` has room for 24. */
unsigned rs_text_digits(uint64_t number, unsigned width, uint8_t *to);

/* Makes the text that of one value, as rs_text_put does, and counts its units against the budget of bytes. */
RS_NODISCARD rs_status rs_text_take(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                    uint64_t bits, rs_error *err);
