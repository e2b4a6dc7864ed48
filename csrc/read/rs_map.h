/* rs_map.h: the entries of a map node. Its keys stand before its values; both are read side by side. */
#pragma once

#include "read/rs_path.h"

/* A map that is being read. Borrows node and record. It is used together with the cursor that it began with, which
 * stands among the values. */
typedef struct rs_map {
    const rs_node *key, *value; /* the two children */
    uint64_t n;                 /* number of entries */
    rs_slice key_group, value_group;
    const uint8_t *key_bodies;   /* NULL when keys are not fixed */
    const uint8_t *value_bodies; /* NULL when values are not fixed */
    const uint8_t *key_at;       /* where the next key begins, when keys are not fixed */
} rs_map;

/* Begins the map whose body is at the cursor, and enters the dict. The cursor then stands at the first value when
 * values are not fixed, else behind the map. Errors of all functions here: rules 21 to 23 of FORMAT.md. Any thread may
 * call them, each with a cursor of its own. */
RS_NODISCARD rs_status rs_map_begin(rs_map *self, rs_cursor *cursor, const rs_node *node, rs_error *err);

/* Sets *out to the place of key i, which is not settled, for the cursor *at, a copy of `cursor`. Keys are taken in
 * their order. What reading the key counts is in at->budget: the caller copies it back. */
RS_NODISCARD rs_status rs_map_key(rs_map *self, const rs_cursor *cursor, uint64_t i, rs_cursor *at, rs_place *out,
                                  rs_error *err);

/* Sets *out to the place of value i, not settled. When values are not fixed, all before it were read or passed. */
void rs_map_value(const rs_map *self, uint64_t i, rs_place *out);

/* Passes value i, after all before it. */
RS_NODISCARD rs_status rs_map_pass_value(const rs_map *self, rs_cursor *cursor, uint64_t i, rs_error *err);
