/* rs_store.h: reads a store: finds a record by its number. rs_builder.h builds it. */
#pragma once

#include "format/rs_header.h"
#include "format/rs_offsets.h"
#include "format/rs_schema.h"
#include "read/rs_decode.h"

enum { RS_STORE_CHUNK = 1 << 16 };

/* An open store. Owns its caches of blocks, trees and tables; borrows the segment's bytes, which must outlive it. The
 * functions that take a non-const store fill the caches, so one thread at a time may call them, unless the store is
 * frozen. */
typedef struct rs_store {
    rs_slice segment;
    rs_header header;
    rs_directory directory;
    const uint8_t *groups;
    rs_block *blocks; /* n_records is 0 before the block is read */
    rs_tree *trees;   /* nodes is NULL before the tree is compiled */
    rs_table *tables; /* kind is 0 before the table is read */
    uint64_t n_blocks;
    uint64_t n_trees;
    uint64_t n_tables;
    uint64_t heap_left;     /* bytes of HEAP that no loaded block or table has used */
    uint64_t trees_left;    /* bytes of TREES that no loaded tree has used */
    const uint8_t *present; /* for each RS_STORE_CHUNK bytes whether the segment has them yet; NULL if it is whole */
    rs_block *known;        /* with `present`, the blocks whose records are located one by one; as `blocks` */
    bool frozen;            /* the caches do not change any more */
    uint64_t damaged;       /* with `frozen`, the first block that could not be loaded; RS_NOWHERE for none */
    rs_error damage;        /* its error */
} rs_store;

/* The bytes of a record, with its block and tree. Borrows from store and segment. */
typedef struct rs_record {
    rs_slice bytes;
    const rs_block *block;
    const rs_tree *tree;
    uint32_t local; /* its number in the block */
} rs_record;

/* Opens a list, or the values of a mapping, and checks rules 1 to 12 of FORMAT.md. `limits` may be NULL for the
 * defaults. `bytes` must outlive `self`. On failure `self` owns nothing. */
RS_NODISCARD rs_status rs_store_open(rs_store *self, rs_slice bytes, const rs_limits *limits, rs_error *err);
/* Opens the keys of the mapping with the values `values`. `self` has caches of its own, and `values` may be closed
 * first. RS_E_ARG_RANGE if the segment is a list. On failure `self` owns nothing. */
RS_NODISCARD rs_status rs_store_open_keys(rs_store *self, const rs_store *values, rs_error *err);
/* Opens a store, such as an unfinished one, from a given header and directory. On failure `self` owns nothing. */
RS_NODISCARD rs_status rs_store_open_prepared(rs_store *self, rs_slice bytes, const rs_header *header,
                                              const rs_directory *directory, rs_error *err);
/* Makes the new store one of a segment that is still being fetched. `present` outlives it. Header, directory, the head
 * of KEY_INDEX and all sections except HEAP, OFFSETS and the saved indexes must be there; their checksums are checked.
 * Functions that would read an absent byte return RS_E_STATE_ABSENT, with the range in `err`, and may be called again.
 * Such a store is not frozen. RS_E_FMT_CHECKSUM; RS_E_MEM. */
RS_NODISCARD rs_status rs_store_set_present(rs_store *self, const uint8_t *present, rs_error *err);
/* Frees the caches and zeroes the struct. Does nothing for a zeroed struct. */
void rs_store_close(rs_store *self);

/* Loads all intact blocks and tables, with their trees. Afterwards any number of threads may read the store at once.
 * Records of the first block that cannot be loaded give its error, those of further such blocks RS_E_FMT_BLOCK; the
 * deep check gives details. RS_E_MEM; then the store is not frozen. Takes time proportional to blocks and tables. */
RS_NODISCARD rs_status rs_store_freeze(rs_store *self, rs_error *err);

/* Each of these loads one block, tree or table into the cache if it is not there; `number` must be in range. A block
 * and a value table load their tree. A tree is compiled and its checksum is checked, and it is linked with its tables,
 * whose checksums are not checked. Errors: rules 14, 17 to 19, 29, 30, 33, 39, 40 and 44; RS_E_MEM. */
RS_NODISCARD RS_COLD rs_status rs_store_load_block(rs_store *self, uint64_t number, rs_error *err);
/* As rs_store_load_block, but without the records, and sets *out to the block. */
RS_NODISCARD RS_COLD rs_status rs_store_know_block(rs_store *self, uint64_t number, const rs_block **out,
                                                   rs_error *err);
RS_NODISCARD RS_COLD rs_status rs_store_load_tree(rs_store *self, uint32_t number, rs_error *err);
RS_NODISCARD RS_COLD rs_status rs_store_load_table(rs_store *self, uint32_t number, rs_error *err);
/* Each fills `err`: RS_E_ARG_RANGE for an index that is not below header.n_records; RS_E_FMT_BLOCK (rule 13) for a
 * record that no block has. */
RS_COLD rs_status rs_store_no_record(const rs_store *self, uint64_t index, rs_error *err);
RS_COLD rs_status rs_store_no_block(const rs_store *self, uint64_t index, rs_error *err);
/* rs_store_find for blocks that are not loaded or begin within a group, and for errors. `block` is from GROUPS. */
RS_NODISCARD rs_status rs_store_find_slowly(rs_store *self, uint64_t index, uint64_t block, rs_record *out,
                                            rs_error *err);

/* Prefetches the first nodes of a block's tree. The processor fetches the lines after them. */
RS_INLINE void rs_store_prefetch_tree(const rs_block *block) {
    for (unsigned i = 0; i < 4; i++) RS_PREFETCH((const uint8_t *)block->root + i * RS_CACHE_LINE);
}

/* Returns the block of record `index`, below header.n_records, or NULL for a block that is not loaded or begins within
 * a group; *number is then where to search. Most blocks of large stores are full. The address of a full block comes
 * from `index`, so that the processor, which predicts the branch, fetches it without waiting for GROUPS. */
RS_INLINE const rs_block *rs_store_block_of(const rs_store *self, uint64_t index, uint64_t *number) {
    uint64_t full = index / RS_FMT_BLOCK_RECORDS;
    RS_OPAQUE(full);
    *number = rs_load_u32(self->groups + index / RS_FMT_GROUP_RECORDS * 4);
    if (RS_UNLIKELY(*number >= self->n_blocks)) return NULL;
    const rs_block *block = &self->blocks[*number];
    if (RS_LIKELY(*number == index / RS_FMT_BLOCK_RECORDS)) {
        block = &self->blocks[full];
        RS_KEEP_BRANCH();
    }
    return RS_LIKELY(index - block->first_record < block->n_records) ? block : NULL;
}

/* Finds record `index`, below header.n_records. *out is valid until close. Rules 13 and 15, and the errors of
 * rs_store_load_block. */
RS_NODISCARD RS_INLINE rs_status rs_store_find(rs_store *self, uint64_t index, rs_record *out, rs_error *err) {
    uint64_t number;
    const rs_block *block = rs_store_block_of(self, index, &number);
    if (RS_UNLIKELY(block == NULL)) return rs_store_find_slowly(self, index, number, out, err);
    out->block = block;
    out->tree = &self->trees[block->tree];
    out->local = (uint32_t)(index - block->first_record);
    /* Load the tree and the record at once: in a large store neither is in the caches. */
    rs_store_prefetch_tree(block);
    RS_TRY(rs_offsets_locate(self->segment.ptr, block, out->local, &out->bytes, err));
    RS_PREFETCH(out->bytes.ptr);
    return RS_OK;
}

/* Returns a cursor over the bytes of record number `local` of a block, with the limits of the header as budget. */
static inline rs_cursor rs_store_cursor_over(const rs_store *self, const rs_block *block, uint32_t local,
                                             rs_slice bytes) {
    rs_cursor c;
    c.in = bytes;
    c.arrays = self->segment.ptr + block->arrays_off;
    c.arrays_size = block->arrays_size_bytes;
    c.budget.values = self->header.max_values - (self->header.max_values > 0); /* one is the record itself */
    c.budget.bytes = self->header.max_bytes;
    c.budget.depth = self->header.max_depth;
    c.budget.arrays_begin = c.budget.arrays_end = 0;
    c.shared = false;
    c.local = local;
    c.placed = block->placed;
    return c;
}

static inline rs_cursor rs_store_cursor(const rs_store *self, const rs_record *record) {
    return rs_store_cursor_over(self, record->block, record->local, record->bytes);
}

/* ---- Comparing keys, and prefetching ---- */

typedef enum rs_key_match { RS_KEY_DIFFERS = 0, RS_KEY_EQUAL = 1, RS_KEY_UNKNOWN = 2 } rs_key_match;

typedef enum rs_scalar_kind {
    RS_SCALAR_UNKNOWN = 0, /* another value, a malformed one, or an assembled str of more than RS_SCALAR_TEXT bytes */
    RS_SCALAR_NONE = 1,
    RS_SCALAR_INT = 2, /* also a bool */
    RS_SCALAR_FLOAT = 3,
    RS_SCALAR_STR = 4,
    RS_SCALAR_BYTES = 5,
    RS_SCALAR_BIGINT = 6, /* an int beyond 64 bits; as with a tuple, its value is not read */
    RS_SCALAR_TUPLE = 7
} rs_scalar_kind;
enum { RS_SCALAR_TEXT = 1024 };
/* The scalar value of a record. `units` borrows from the segment, from a tree (const) or from `within`, so the struct
 * must not be copied. */
typedef struct rs_scalar {
    rs_scalar_kind kind;
    unsigned unit_bytes; /* of a str: 1, 2 or 4, not always the narrowest possible */
    uint64_t n;          /* number of units of a str, of bytes of a bytes value */
    const uint8_t *units;
    int64_t integer;
    double number;
    uint8_t within[RS_SCALAR_TEXT]; /* the units of a short assembled str */
} rs_scalar;

/* Reads the value of record `index`, which is below header.n_records. Cannot fail: other values and errors give
 * RS_SCALAR_UNKNOWN; reading the record reports the error. Only the fields of the kind are set. */
void rs_store_scalar(rs_store *self, uint64_t index, rs_scalar *out);

/* Compares record `index`, which is below header.n_records, with a str of n units of unit_bytes (1, 2 or 4; `units` is
 * not NULL). RS_KEY_UNKNOWN if only Python can compare the two (an enum, a numpy scalar, a long assembled str), and
 * for a malformed record; reading the record reports the error. */
RS_NODISCARD rs_key_match rs_store_key_equals_str(rs_store *self, uint64_t index, unsigned unit_bytes,
                                                  const uint8_t *units, uint64_t n);
/* As rs_store_key_equals_str, for an int. RS_KEY_UNKNOWN also for floats and ints beyond 64 bits. */
RS_NODISCARD rs_key_match rs_store_key_equals_int(rs_store *self, uint64_t index, int64_t value);

/* Two steps of prefetching, for a loop over known indices: first the record's offsets, some iterations later the
 * record. They ignore blocks that are not loaded and invalid offsets. `index` is below header.n_records. */
RS_INLINE void rs_store_prefetch_offsets(const rs_store *self, uint64_t index) {
    uint64_t number;
    const rs_block *block = rs_store_block_of(self, index, &number);
    if (RS_UNLIKELY(block == NULL)) return;
    rs_offsets_prefetch(self->segment.ptr, block, (uint32_t)(index - block->first_record));
    rs_store_prefetch_tree(block);
}

RS_INLINE void rs_store_prefetch(const rs_store *self, uint64_t index) {
    uint64_t number;
    rs_slice bytes;
    const rs_block *block = rs_store_block_of(self, index, &number);
    if (RS_UNLIKELY(block == NULL)) return;
    uint32_t local = (uint32_t)(index - block->first_record);
    if (rs_offsets_locate(self->segment.ptr, block, local, &bytes, NULL) == RS_OK) RS_PREFETCH(bytes.ptr);
}
