/* rs_store.h: a store is a segment read as records. This is its reader, which finds a record by its number;
 * rs_builder.h makes a store. Composition only: the bytes are the other modules' business. */
#ifndef RS_STORE_H
#define RS_STORE_H

#include "format/rs_header.h"
#include "format/rs_offsets.h"
#include "format/rs_schema.h"
#include "read/rs_decode.h"

/* Owns the caches of blocks and trees, borrows the segment's bytes, which outlive it. rs_store_find fills caches:
 * one thread at a time, or one store a thread. */
typedef struct rs_store {
    rs_slice segment;
    rs_header header;
    rs_directory directory;
    const uint8_t *groups;
    rs_block *blocks;    /* n_records == 0: not read yet */
    rs_tree *trees;      /* nodes == NULL: not compiled yet */
    rs_table *tables;    /* kind == 0: not read yet */
    uint64_t n_blocks;
    uint64_t n_trees;
    uint64_t n_tables;
} rs_store;

/* Where a record lies and how to read it. Borrows from store and segment. */
typedef struct rs_record {
    rs_slice bytes;
    const rs_block *block;
    const rs_tree *tree;
} rs_record;

/* Checks rules 1 to 12 and prepares to read a list, or the values of a mapping. `limits` NULL: the defaults. `bytes`
 * outlives `self`. On failure nothing is held. */
RS_NODISCARD rs_status rs_store_open(rs_store *self, rs_slice bytes, const rs_limits *limits, rs_error *err);
/* Prepares to read the keys of the mapping whose values `values` reads; `self` is then independent of `values`, with
 * caches of its own. RS_E_ARG_RANGE where the segment holds a list. On failure nothing is held. */
RS_NODISCARD rs_status rs_store_open_keys(rs_store *self, const rs_store *values, rs_error *err);
/* Prepares to read a store by header and directory that are known already, of a segment that is not finished, say. */
RS_NODISCARD rs_status rs_store_open_prepared(rs_store *self, rs_slice bytes, const rs_header *header,
                                              const rs_directory *directory, rs_error *err);
void rs_store_close(rs_store *self);

/* Reads block `number` and compiles its tree, once. */
RS_NODISCARD RS_COLD rs_status rs_store_load_block(rs_store *self, uint64_t number, rs_error *err);
/* Compiles tree `number`, which is below n_trees, and links it with the tables it names, once; its checksum is checked,
 * those of the tables are not (rules 17 to 19, 29 and 30). */
RS_NODISCARD RS_COLD rs_status rs_store_load_tree(rs_store *self, uint32_t number, rs_error *err);
/* Reads table `number`, which is below n_tables, and compiles its tree, once. */
RS_NODISCARD RS_COLD rs_status rs_store_load_table(rs_store *self, uint32_t number, rs_error *err);
/* The rest of rs_store_find: blocks that begin within a group, and all that can be wrong. */
RS_NODISCARD rs_status rs_store_find_slowly(rs_store *self, uint64_t index, uint64_t block, rs_record *out,
                                            rs_error *err);

/* Finds record `index`, which is below header.n_records. Errors: rules 13 to 19. */
RS_NODISCARD static inline rs_status rs_store_find(rs_store *self, uint64_t index, rs_record *out, rs_error *err) {
    uint32_t number = rs_load_u32(self->groups + index / RS_FMT_GROUP_RECORDS * 4);
    if (RS_LIKELY(number < self->n_blocks)) {
        const rs_block *block = &self->blocks[number];
        uint64_t local = index - block->first_record;
        if (RS_LIKELY(local < block->n_records)) {
            out->block = block;
            out->tree = &self->trees[block->tree];
            return rs_offsets_locate(self->segment.ptr, block, (uint32_t)local, &out->bytes, err);
        }
    }
    return rs_store_find_slowly(self, index, number, out, err);
}

/* A cursor over a record, with the budget that the header declares. */
static inline rs_cursor rs_store_cursor(const rs_store *self, const rs_record *record) {
    rs_cursor c;
    c.in = record->bytes;
    c.arrays = self->segment.ptr + record->block->arrays_off;
    c.arrays_size = record->block->arrays_size_bytes;
    c.budget.values = self->header.max_values - (self->header.max_values > 0); /* one is the record itself */
    c.budget.bytes = self->header.max_bytes;
    c.budget.depth = self->header.max_depth;
    return c;
}

/* ---- Keys, and reading many ---- */

typedef enum rs_key_match { RS_KEY_DIFFERS = 0, RS_KEY_EQUAL = 1, RS_KEY_UNKNOWN = 2 } rs_key_match;

/* The value of a record that is a scalar. `units` borrows from the segment, from a tree (of a const) or from the
 * scalar itself. */
typedef enum rs_scalar_kind {
    RS_SCALAR_UNKNOWN = 0, /* only its reader can tell, or it is malformed */
    RS_SCALAR_NONE = 1,
    RS_SCALAR_INT = 2,     /* bool too */
    RS_SCALAR_FLOAT = 3,
    RS_SCALAR_STR = 4,
    RS_SCALAR_BYTES = 5,
    RS_SCALAR_BIGINT = 6,  /* not looked into, like tuples */
    RS_SCALAR_TUPLE = 7
} rs_scalar_kind;
enum { RS_SCALAR_TEXT = 256 };
typedef struct rs_scalar {
    rs_scalar_kind kind;
    unsigned unit_bytes;   /* str: 1, 2, 4, not always the narrowest that would do */
    uint64_t n;            /* units of str, bytes of bytes */
    const uint8_t *units;
    int64_t integer;
    double number;
    uint8_t within[RS_SCALAR_TEXT]; /* the units of a short text that does not lie in the segment as it is */
} rs_scalar;

/* Reads record `index`, which is below header.n_records, without making an object of it. Never fails: what is no
 * scalar and what is malformed is UNKNOWN, and reading it says how. Fields beside those of the kind are not set.
 * Fills caches as rs_store_find. */
void rs_store_scalar(rs_store *self, uint64_t index, rs_scalar *out);

/* Whether record `index`, which is below header.n_records, is the str of n units of unit_bytes (1, 2, 4; `units` is
 * not NULL), without making an object of it. UNKNOWN for a record that only its reader can compare (an enum, a numpy
 * scalar) and for one that is malformed: reading it says how. Fills caches as rs_store_find does. */
RS_NODISCARD rs_key_match rs_store_key_equals_str(rs_store *self, uint64_t index, unsigned unit_bytes,
                                                  const uint8_t *units, uint64_t n);
/* The same for an int; UNKNOWN for floats and ints beyond 64 bits too. */
RS_NODISCARD rs_key_match rs_store_key_equals_int(rs_store *self, uint64_t index, int64_t value);

/* The two steps by which a loop over known indices asks for memory ahead: first where the record's offsets stand,
 * then, some steps later, where its bytes do. Neither fails: what is not in the caches or out of range is left
 * alone. `index` is below header.n_records. */
static inline void rs_store_prefetch_offsets(const rs_store *self, uint64_t index) {
    uint32_t number = rs_load_u32(self->groups + index / RS_FMT_GROUP_RECORDS * 4);
    if (RS_LIKELY(number < self->n_blocks)) {
        const rs_block *block = &self->blocks[number];
        uint64_t local = index - block->first_record;
        if (RS_LIKELY(local < block->n_records)) rs_offsets_prefetch(self->segment.ptr, block, (uint32_t)local);
    }
}

static inline void rs_store_prefetch(const rs_store *self, uint64_t index) {
    uint32_t number = rs_load_u32(self->groups + index / RS_FMT_GROUP_RECORDS * 4);
    if (RS_LIKELY(number < self->n_blocks)) {
        const rs_block *block = &self->blocks[number];
        uint64_t local = index - block->first_record;
        rs_slice bytes;
        if (RS_LIKELY(local < block->n_records) &&
            rs_offsets_locate(self->segment.ptr, block, (uint32_t)local, &bytes, NULL) == RS_OK) {
            RS_PREFETCH(bytes.ptr);
        }
    }
}

#endif
