/* readers.h: the ways to read a store, shared by the targets. They return nothing; the sanitizers and FUZZ_MUST find
 * errors. */
#pragma once

#include "fuzz.h"

/* Checks a sample of the records. Decodes each valid record to an any value, which must be valid too. */
void fuzz_read_records(rs_store *store);
/* The sizes of the nodes in the blocks and value tables, as in info(). */
void fuzz_read_sizes(rs_store *store);
/* Compiled paths, and the values at their ends: elements, numbers, text, runs. */
void fuzz_read_paths(rs_store *store, uint64_t seed);
/* Fields as columns, and in batches of one field. */
void fuzz_read_columns(rs_store *store, uint64_t seed);
/* Fields in a batch, in the forms of rs_gather.h. */
void fuzz_read_gathers(rs_store *store, uint64_t seed);
/* Records, or a field of them, to Arrow and back. */
void fuzz_read_arrow(rs_store *store, uint64_t seed);
/* The entries of a mapping, and lookups of present and missing keys. */
void fuzz_read_keys(rs_store *values, uint64_t seed);
/* The saved indexes of a list. */
void fuzz_read_saved(rs_store *store);

/* Everything above. */
void fuzz_read_all(rs_store *store, uint64_t seed);

/* ---- Fields, for columns, gathers and paths ---- */

enum { FUZZ_FIELDS = 6, FUZZ_FIELD_KEYS = 16 };

typedef struct fuzz_tree_fields {
    rs_compiled_path compiled[FUZZ_FIELDS];
    const rs_compiled_path *of_field[FUZZ_FIELDS];
    uint32_t order[FUZZ_FIELDS];
    rs_tree_paths paths;
    bool known;
} fuzz_tree_fields;

/* Paths of keys, mostly from the store's trees, and the source over it. Owns everything but the store. */
typedef struct fuzz_fields {
    rs_store *store;
    rs_source source;
    uint32_t n; /* number of fields, 1 or more */
    rs_path_key keys[FUZZ_FIELD_KEYS];
    uint32_t n_keys;
    rs_path_name names[2 * FUZZ_FIELDS];
    rs_key_path paths[FUZZ_FIELDS];
    fuzz_tree_fields *trees;
    uint64_t seed;
} fuzz_fields;

/* Chooses fields. fuzz_fields_close frees the memory. */
void fuzz_fields_open(fuzz_fields *self, rs_store *store, uint64_t seed);
void fuzz_fields_close(fuzz_fields *self);
/* Loads a block and compiles the paths for its tree. */
RS_NODISCARD rs_status fuzz_fields_know(fuzz_fields *self, uint64_t block);
