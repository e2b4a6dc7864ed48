/* rs_pieces.h: strings that are all made alike: what their pieces are (FORMAT.md, concat). "n01440764_10026.JPEG" is a
 * word, a sign, a number, a constant. */
#ifndef RS_PIECES_H
#define RS_PIECES_H

#include "write/rs_survey.h"

enum { RS_PIECES_MAX = 48, RS_PIECES_UNITS = 2048 };

typedef enum rs_piece_kind {
    RS_PIECE_CONST = 0,
    RS_PIECE_SAME = 1,
    RS_PIECE_DIGITS = 2,
    RS_PIECE_HEX = 3,
    RS_PIECE_DICT = 4,
    RS_PIECE_TEXT = 5
} rs_piece_kind;

/* One column of the strings. Borrows from the arena and the values. */
typedef struct rs_piece {
    rs_piece_kind kind;
    rs_slice first;       /* const: the text */
    uint32_t of;          /* same: which piece */
    uint64_t min, max;    /* digits */
    uint32_t count;       /* digits: padded to; hex: digits */
    bool upper;           /* hex */
    const uint8_t *base;  /* dict: bytes of the entries, as `any` values */
    rs_value_set *distinct;
} rs_piece;

/* Where a piece that is not told by its neighbours ends: before the first character of another class. */
typedef enum rs_piece_classes {
    RS_PIECES_WORDS = 1,  /* letters and digits, others */
    RS_PIECES_FINE = 2,   /* letters, digits, others */
    RS_PIECES_PARTS = 3,  /* what separates fields or parts of a path, others */
    RS_PIECES_FIELDS = 4, /* what separates fields, others */
    RS_PIECES_CLASSES = 5
} rs_piece_classes;

typedef struct rs_pieces {
    rs_piece_classes classes;
    uint32_t n;
    rs_piece at[RS_PIECES_MAX];
    uint64_t bits;        /* of all strings that are made like this */
    uint64_t n_fits;      /* how many those are */
} rs_pieces;

/* The class of a character under `classes`. */
unsigned rs_piece_class(rs_piece_classes classes, uint8_t c);

/* Looks at the strings that begin at a->where, all of 1-byte units. False when they are not made alike: at least nine
 * in ten have to be. Memory is that of the survey. RS_E_MEM. */
RS_NODISCARD rs_status rs_pieces_find(rs_survey *survey, const rs_alternative *a, rs_pieces *out, bool *found,
                                      rs_error *err);

#endif
