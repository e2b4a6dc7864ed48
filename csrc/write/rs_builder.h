/* rs_builder.h: makes a store: collects records into blocks, has each block encoded and written, and closes the segment
 * with tables, directory and header. rs_store.h reads the result. */
#ifndef RS_BUILDER_H
#define RS_BUILDER_H

#include "os/rs_os.h"
#include "format/rs_header.h"
#include "format/rs_offsets.h"
#include "format/rs_segment.h"
#include "write/rs_block_encoding.h"
#include "write/rs_scan.h"

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
    rs_encoded_run run;  /* its records as its tree says */
    rs_span *spans;      /* where they are in the block */
    size_t spans_capacity;
    uint64_t raw_size;
    rs_buffer offsets, groups, blocks;
    rs_block_encoding encoding;
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

/* ---- The steps of finishing, for a caller that composes several stores into one segment (rs_mapping_builder.h)
 * ---- */

/* Takes back the record that rs_builder_end_record ended last, in the open block still. `key_sets` is
 * scan.n_key_sets as of before it. The maxima of the scan keep what it said: they bound the records from above. */
void rs_builder_pop_record(rs_builder *self, size_t key_sets);
/* The extent of HEAP, once all blocks of all stores are flushed. */
RS_NODISCARD rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, rs_section *heap, rs_error *err);
/* Writes OFFSETS to TREE_TABLE of this store and says in `directory` where they are. */
RS_NODISCARD rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err);
/* Writes one section, aligned. */
RS_NODISCARD rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count,
                                                rs_section *out, rs_error *err);
/* Fills what the header says of this store's records, over what it says already: maxima, sizes, features. */
void rs_builder_describe(const rs_builder *self, rs_header *header);
/* Writes the label, directory (`keys` NULL for a list) and header: content and the rest of `header` are the
 * caller's. */
RS_NODISCARD rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                               const rs_directory *keys, rs_error *err);
static inline uint64_t rs_builder_n_blocks(const rs_builder *self) {
    return self->blocks.size_bytes / RS_FMT_BLOCK_SIZE;
}

#endif
