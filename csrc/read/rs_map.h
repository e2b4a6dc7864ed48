/* rs_map.h: the entries of a map node. Its keys are stored before its values; both are read in parallel. */
#pragma once

#include "read/rs_path.h"

/* A map that is being read. Borrows node and record. Use it with the cursor that began it, which is within the
 * values. */
typedef struct rs_map {
    const rs_node *key, *value; /* the two children */
    uint64_t n;                 /* number of entries */
    rs_slice key_group, value_group;
    const uint8_t *key_bodies;   /* NULL if keys are not fixed */
    const uint8_t *value_bodies; /* NULL if values are not fixed */
    const uint8_t *key_at;       /* the beginning of the next key if keys are not fixed */
} rs_map;

/* Begins the map at the cursor, and enters the dict. The cursor is then at the first value if values are not fixed,
 * else after the map. Errors of all functions here: rules 20 to 23 of FORMAT.md. Any thread may call them, each with a
 * cursor of its own. */
RS_NODISCARD rs_status rs_map_begin(rs_map *self, rs_cursor *cursor, const rs_node *node, rs_error *err);

/* Sets *at to a copy of `cursor` for reading key i, and *out to the unsettled place of the key. Keys are taken in
 * order. Reading the key counts against at->budget: the caller copies it back. */
RS_NODISCARD rs_status rs_map_key(rs_map *self, const rs_cursor *cursor, uint64_t i, rs_cursor *at, rs_place *out,
                                  rs_error *err);

/* Sets *out to the unsettled place of value i. If values are not fixed, all earlier ones must be read or skipped. */
void rs_map_value(const rs_map *self, uint64_t i, rs_place *out);

/* Skips value i, after all earlier ones. */
RS_NODISCARD rs_status rs_map_pass_value(const rs_map *self, rs_cursor *cursor, uint64_t i, rs_error *err);
