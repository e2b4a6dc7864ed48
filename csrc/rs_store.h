/* rs_store.h: a store is a segment read as records: the builder that makes one, the reader that finds a record in
 * one. Composition only: the bytes are the other modules' business. */
#ifndef RS_STORE_H
#define RS_STORE_H

#include "rs_decode.h"
#include "rs_forms.h"
#include "rs_header.h"
#include "rs_offsets.h"
#include "rs_os.h"
#include "rs_path.h"
#include "rs_scan.h"
#include "rs_schema.h"
#include "rs_segment.h"

/* ---- Reading ---- */

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

/* What a record is, where it is of one piece. `units` borrows from the segment, from a tree (of a const) or from the
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

/* Reads record `index`, which is below header.n_records, without making an object of it. Never fails: what is not of
 * one piece and what is malformed is UNKNOWN, and reading it says how. Fields beside those of the kind are not set.
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

/* ---- Building ---- */

/* A full block, as whoever writes it gets it. Owns its buffers. */
typedef struct rs_block_input {
    rs_buffer raw;          /* `any` records */
    rs_buffer arrays;
    uint64_t *ends;         /* where each record ends in raw */
    size_t ends_capacity;
    uint32_t n_records;
    uint64_t first_record;
    rs_scan scan;
} rs_block_input;

/* A thread that writes one block while the caller fills the next. It lives for that block only, so that an idle
 * builder has none. The builders that share a writer share one of these, and so write in the order in which their
 * blocks were full. Zero it to begin; the caller owns it, and it outlives its builders and does not move. */
typedef struct rs_flusher {
    struct rs_builder *builder; /* whose block the thread has; NULL: there is no thread */
    int64_t process_id;         /* that has the thread */
    rs_os_thread thread;
} rs_flusher;

/* Owns its buffers; borrows the writer. The binding appends one `any` value at a time to `raw` (array data of
 * RS_FMT_ARRAY_INLINE bytes and more to `arrays`, 64-aligned) and ends each with rs_builder_end_record. One thread
 * at a time, that of the flusher apart. A forked child may close its copy, and nothing else. */
typedef struct rs_builder {
    rs_segment_writer *writer;
    bool finished;
    rs_flusher *flusher; /* NULL: the caller's thread writes. Set before the first record */
    uint64_t features_required; /* bits that the caller adds to those of the header */
    rs_slice label;      /* the bytes of LABEL, borrowed until finish; empty: the segment has none */
    uint64_t label_pairs;
    /* The open block, which the caller fills. */
    rs_buffer raw;
    rs_buffer arrays;
    uint64_t *ends;
    size_t ends_capacity;
    uint32_t n_open;     /* records of the open block */
    uint64_t n_records;  /* all of them */
    rs_scan scan;
    /* What follows belongs to whoever writes a block: to the flusher's thread while there is one. */
    rs_block_input block;
    rs_form form;        /* its records as its tree says */
    rs_span *spans;      /* where they are in the block */
    size_t spans_capacity;
    uint64_t raw_size;
    rs_buffer offsets, groups, blocks;
    rs_forms forms;
    rs_status failed;    /* of a block that could not be written: nothing can follow it */
    rs_error failure;
} rs_builder;

/* Starts a store in an open, empty writer, which outlives the builder. */
RS_NODISCARD rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, bool compress, rs_error *err);
/* The same for a further store of a segment whose header has its room already. Cannot fail. */
void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, bool compress);

/* Ends the record that was appended to `raw`. On failure the record is dropped, and the builder goes on as if it had
 * not been given. Never writes to the segment. */
RS_NODISCARD rs_status rs_builder_end_record(rs_builder *self, rs_error *err);
/* Drops what was appended to `raw` and `arrays` since the last record ended. arrays_mark is arrays.size_bytes as of
 * then. */
void rs_builder_drop_record(rs_builder *self, size_t arrays_mark);

/* Whether the open block is full: then call rs_builder_flush(_beside) before the next record. */
static inline bool rs_builder_is_full(const rs_builder *self) {
    uint64_t raw = self->raw.size_bytes + self->arrays.size_bytes;
    return raw >= RS_FMT_BLOCK_RAW_HARD ||
           (self->n_open % RS_FMT_GROUP_RECORDS == 0 &&
            (self->n_open >= RS_FMT_BLOCK_RECORDS || raw >= RS_FMT_BLOCK_RAW));
}

/* Chooses a tree for the open block, encodes and writes it. Needs no lock. After a failure the builder is fit only to
 * be closed, and every further call fails alike. In a forked child RS_E_STATE_FINISHED. */
RS_NODISCARD rs_status rs_builder_flush(rs_builder *self, rs_error *err);
/* The same by the flusher's thread, where there is a flusher and the system gives a thread: returns once the block
 * before is written, with its error if it failed, and the open block is the thread's. Its own error comes with the
 * next flush of any builder of the flusher, or with finish. The bytes are those of rs_builder_flush. */
RS_NODISCARD rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err);

/* Flushes, writes tables, directory and, last, the header. `self` is then fit only to be closed; the caller finishes
 * the writer. */
RS_NODISCARD rs_status rs_builder_finish(rs_builder *self, rs_error *err);
/* Waits for the flusher's thread and gives everything back. In a forked child, which has no such thread, what that had
 * in hand is left alone. */
void rs_builder_close(rs_builder *self);

/* ---- The steps of finishing, for who composes several stores into one segment (rs_mapping.h) ---- */

/* Takes back the record that rs_builder_end_record ended last, in the open block still. `shapes` is scan.n_shapes as
 * of before it. The maxima of the scan keep what it said: they bound the records from above. */
void rs_builder_pop_record(rs_builder *self, size_t shapes);
/* The extent of HEAP, once all blocks of all stores are flushed. */
RS_NODISCARD rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, rs_section *heap, rs_error *err);
/* Writes OFFSETS to TREE_TABLE of this store and says in `directory` where they are. */
RS_NODISCARD rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err);
/* Writes one section, aligned. */
RS_NODISCARD rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count,
                                                rs_section *out, rs_error *err);
/* Fills what the header says of this store's records, over what it says already: maxima, sizes, features. */
void rs_builder_describe(const rs_builder *self, rs_header *header);
/* Writes the label, directory (`keys` NULL for a list) and header: content and the rest of `header` are the caller's. */
RS_NODISCARD rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                               const rs_directory *keys, rs_error *err);
static inline uint64_t rs_builder_n_blocks(const rs_builder *self) {
    return self->blocks.size_bytes / RS_FMT_BLOCK_SIZE;
}

#endif
