/* rs_text.h: strings that do not lie in the record as they are: decoded from symbol codes, from numbers, joined of
 * parts. A text is put together in memory of the reader. */
#ifndef RS_TEXT_H
#define RS_TEXT_H

#include "read/rs_decode.h"

enum { RS_TEXT_INLINE = 1024 };

/* Owns `owned`. Begin with rs_text_begin, end with rs_text_clear; not moved in between, one thread at a time. */
typedef struct rs_text {
    uint8_t *units;      /* n_units of unit_bytes each: 1, 2 or 4, as wide as the widest part, not always as need be */
    uint64_t n_units;
    uint64_t capacity;   /* bytes */
    unsigned unit_bytes;
    uint32_t n_parts;   /* of concats so far */
    uint8_t *owned;      /* NULL: the text is short and lies in `within` */
    uint8_t within[RS_TEXT_INLINE];
} rs_text;

static inline void rs_text_begin(rs_text *self) {
    self->units = self->within;
    self->n_units = 0;
    self->capacity = RS_TEXT_INLINE;
    self->unit_bytes = 1;
    self->n_parts = 0;
    self->owned = NULL;
}

void rs_text_clear(rs_text *self);

/* Appends the text of a node to `self`: of one that is fixed its body stands at `body`, of another at the cursor. Any
 * node may be asked for its text: one that is no str is RS_E_FMT_VALUE. */
RS_NODISCARD rs_status rs_text_put(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                   uint64_t bits, rs_error *err);

/* The text of a fixed concat of short parts of 1-byte units, without the general way's steps: the usual path. Its
 * units, or -1 where anything is out of the ordinary, be it malformed, long, or a part of another kind: rs_text_take
 * then says what. Counts nothing. */
int rs_text_short(const rs_node *node, const uint8_t *head, uint8_t out[RS_TEXT_INLINE]);

/* rs_text_put for the value of a record, which is counted against its bytes; begins with an empty text. */
RS_NODISCARD rs_status rs_text_take(rs_text *self, rs_cursor *cursor, const rs_node *node, const uint8_t *body,
                                    uint64_t bits, rs_error *err);

#endif
