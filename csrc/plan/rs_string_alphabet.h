/* rs_string_alphabet.h: finds the alphabet of strings whose characters seem drawn at random, such as hashes and ids:
 * hexadecimal digits, base64, or up to 32 other characters (FORMAT.md, Alphabets). */
#pragma once

#include "base/rs_bytes.h"
#include "format/rs_format.h"

/* An alphabet and a form of its texts, for the encoder. It may be copied with memcpy. */
typedef struct rs_alphabet {
    uint8_t kind;         /* RS_FMT_NODE_HEX or ALPHABET, the node of its texts */
    uint8_t bits, form;   /* bits of a character; RS_FMT_ALPHABET_* */
    bool even;            /* it is well known, and its characters seem drawn so evenly that nothing is shorter */
    uint32_t count;       /* the number of characters of each text, without padding and hyphens; 0 for any number */
    uint8_t letters[64];  /* 2^bits */
    uint8_t numbers[256]; /* of each character, or 0xFF */
} rs_alphabet;

/* Chooses an alphabet and a form for the strings of a sample for which `fits` is set. Returns false if no alphabet has
 * seven in eight of them, or if their characters are not random. With `fits` NULL all strings count, and a quarter of
 * them is enough for a well-known alphabet. */
bool rs_alphabet_guess(const rs_slice *strings, const bool *fits, uint32_t n, rs_alphabet *out);

/* Returns whether a text has the form. Sets *n to the number of its characters, without padding and hyphens. */
bool rs_alphabet_fits(const rs_alphabet *self, rs_slice text, uint64_t *n);

/* Returns the bits of n texts of `units` characters in total. */
uint64_t rs_alphabet_bits(const rs_alphabet *self, uint64_t units, uint64_t n);

/* Returns whether a text has the length and the hyphens of a UUID. */
bool rs_alphabet_has_hyphens(rs_slice text);

/* Writes the bytes of n characters of a text that fits, rs_alphabet_bytes many. */
void rs_alphabet_encode(const rs_alphabet *self, rs_slice text, uint64_t n, uint8_t *to);
