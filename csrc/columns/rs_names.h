/* rs_names.h: a hash table from the name of a category, a str or an int, to its number. */
#pragma once

#include "base/rs_buffer.h"

enum { RS_NAMES_NONE = -1 };

/* Owns its memory. Zero it; call rs_names_clear at the end. After the last name is added, any thread may look up. */
typedef struct rs_names {
    rs_buffer keys;   /* the bytes of all keys */
    uint64_t *ends;   /* the end of the key of each name; an extra bit marks ints, see rs_names.c */
    uint32_t *slots;  /* 0, or the number of a name plus 1 */
    uint64_t n, room; /* number and capacity of names; there are 4 * room slots */
} rs_names;

/* Frees the memory and zeroes the struct. */
void rs_names_clear(rs_names *self);

/* Adds a name, a str of n bytes of UTF-8 or an int, with the next number. Sets *is_new to false and adds nothing if the
 * name exists. RS_E_MEM; RS_E_ARG_LIMIT for more than 2^31 names. */
RS_NODISCARD rs_status rs_names_add_text(rs_names *self, const uint8_t *text, uint64_t n, bool *is_new, rs_error *err);
RS_NODISCARD rs_status rs_names_add_int(rs_names *self, int64_t value, bool *is_new, rs_error *err);

/* Returns the number of a name, or RS_NAMES_NONE. */
int64_t rs_names_of_text(const rs_names *self, const uint8_t *text, uint64_t n);
int64_t rs_names_of_int(const rs_names *self, int64_t value);
