/* rs_builder.h: builds a store: collects records into blocks, encodes and writes each block, and ends the segment with
 * its tables, directory and header. rs_store.h reads the result. */
#ifndef RS_BUILDER_H
#define RS_BUILDER_H

#include "os/rs_os.h"
#include "format/rs_header.h"
#include "format/rs_offsets.h"
#include "format/rs_segment.h"
#include "write/rs_block_encoding.h"
#include "write/rs_scan.h"

/* A full block that is to be written. Owns its buffers. */
typedef struct rs_block_input {
    rs_buffer raw; /* the records as any values */
    rs_buffer arrays;
    uint64_t *ends; /* where each record ends in raw */
    size_t ends_capacity;
    uint32_t n_records;
    uint64_t first_record;
    rs_scan scan;
} rs_block_input;

/* A thread that writes one block while the caller fills the next. The thread ends with its block, so an idle
 * builder has no thread. Builders with one writer share one flusher, so blocks are written in the order in which
 * they were full. Zero the struct before the first use. The caller owns it; it must outlive its builders and must
 * not be moved. */
typedef struct rs_flusher {
    struct rs_builder *builder; /* the builder whose block the thread writes; NULL when there is no thread */
    int64_t process_id;         /* the process that started the thread */
    rs_os_thread thread;
} rs_flusher;

/* A store that is being built. Owns its buffers; borrows the writer. The caller appends one any value at a time to
 * `raw` (array data of RS_FMT_ARRAY_INLINE bytes and more to `arrays`, aligned to 64) and ends each record with
 * rs_builder_end_record. One thread at a time may use a builder, beside the flusher's thread. A forked child may call
 * rs_builder_close on its copy, and no other function. */
typedef struct rs_builder {
    rs_segment_writer *writer;
    bool finished;
    rs_flusher *flusher;        /* set before the first record; NULL when the caller's thread writes the blocks */
    uint64_t features_required; /* bits that the caller adds to those of the header */
    rs_slice label;             /* the bytes of LABEL, borrowed until finish; empty when the segment has none */
    uint64_t label_pairs;
    /* The open block, which the caller fills. */
    rs_buffer raw;
    rs_buffer arrays;
    uint64_t *ends;
    size_t ends_capacity;
    uint32_t n_open;    /* number of records in the open block */
    uint64_t n_records; /* number of all records */
    rs_scan scan;
    /* The fields that follow belong to the thread that writes a block: the flusher's while there is one. */
    rs_block_input block;
    rs_encoded_run run; /* the encoded records of `block` */
    rs_span *spans;     /* the spans of the records in block.raw */
    size_t spans_capacity;
    uint64_t raw_size;
    rs_buffer offsets, groups, blocks;
    rs_block_encoding encoding;
    rs_status failed; /* the status of a block that could not be written; no block can follow it */
    rs_error failure;
} rs_builder;

/* Starts a store in an open, empty writer, which must outlive the builder. Without `compress` all values stay any
 * values. The writer's errors. */
RS_NODISCARD rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, bool compress, rs_error *err);
/* As rs_builder_open, for the second store of a segment: it leaves no room for a header. Cannot fail. */
void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, bool compress);

/* Ends the record that was appended to `raw`. It never writes to the segment. A record that rs_scan_record refuses is
 * dropped from `raw`; err->record is its number, and further records may follow. The caller drops its arrays with
 * rs_builder_drop_record. RS_E_STATE_FINISHED after rs_builder_finish; RS_E_MEM. */
RS_NODISCARD rs_status rs_builder_end_record(rs_builder *self, rs_error *err);
/* As rs_builder_end_record, but does not read the record: the caller has written it by rs_any_put.h, added its key sets
 * to `scan`, and counted (rs_scan_note_unchecked). */
RS_NODISCARD rs_status rs_builder_end_record_unchecked(rs_builder *self, const rs_scan_counts *counts, rs_error *err);
/* Drops the bytes that were appended to `raw` and `arrays` since the last record ended. arrays_mark is the size of
 * `arrays` at that time. */
void rs_builder_drop_record(rs_builder *self, size_t arrays_mark);

/* Returns whether the open block is full. The caller then flushes it before the next record. */
static inline bool rs_builder_is_full(const rs_builder *self) {
    uint64_t raw = self->raw.size_bytes + self->arrays.size_bytes;
    return raw >= RS_FMT_BLOCK_RAW_HARD || (self->n_open % RS_FMT_GROUP_RECORDS == 0 &&
                                            (self->n_open >= RS_FMT_BLOCK_RECORDS || raw >= RS_FMT_BLOCK_RAW));
}

/* Encodes the open block under a tree and writes it. Needs no lock. After a failure the builder may only be closed, and
 * each further flush gives the same error. RS_E_STATE_FINISHED in a forked child. */
RS_NODISCARD rs_status rs_builder_flush(rs_builder *self, rs_error *err);
/* As rs_builder_flush, but the flusher's thread writes the block, where there is a flusher and the system gives a
 * thread. The call first waits for the block before, and returns its error when that failed. The error of this block
 * comes with the next flush of any builder of the flusher, or with finish. The segment's bytes are the same as with
 * rs_builder_flush. */
RS_NODISCARD rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err);

/* Flushes the open block and writes tables, directory and, last, the header. Afterwards `self` may only be closed, and
 * the caller finishes the writer. RS_E_STATE_FINISHED when it was called before. */
RS_NODISCARD rs_status rs_builder_finish(rs_builder *self, rs_error *err);
/* Waits for the flusher's thread, frees everything and zeroes the struct. A forked child does not have the thread, so
 * it does not free the fields that the thread was using. */
void rs_builder_close(rs_builder *self);

/* ---- The steps of finishing, for callers that build several stores in one segment (rs_mapping_builder.h) ---- */

/* Takes back the record that was ended last; its block is still open. `key_sets` is scan.n_key_sets from before the
 * record. The maxima of the scan still count it, so they stay upper bounds. */
void rs_builder_pop_record(rs_builder *self, size_t key_sets);
/* Ends HEAP after all blocks of all stores are flushed, and fills its directory entry. n_blocks is the number of
 * blocks of all stores. */
RS_NODISCARD rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, rs_section *heap, rs_error *err);
/* Writes the sections OFFSETS, GROUPS, BLOCKS, TREES, TREE_TABLE and, where there are tables, TABLES of this store, and
 * fills their entries in `directory`. */
RS_NODISCARD rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err);
/* Writes one section at the next multiple of 64 and fills its directory entry. */
RS_NODISCARD rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count,
                                                rs_section *out, rs_error *err);
/* Adds this store's features and sizes to the header, and raises its maxima to those of this store. */
void rs_builder_describe(const rs_builder *self, rs_header *header);
/* Writes LABEL, directory (`keys` is NULL for a list) and header. The caller has set content and described all stores;
 * the function fills the other fields of `header`. */
RS_NODISCARD rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                               const rs_directory *keys, rs_error *err);
/* Returns the number of blocks written so far. */
static inline uint64_t rs_builder_n_blocks(const rs_builder *self) {
    return self->blocks.size_bytes / RS_FMT_BLOCK_SIZE;
}

#endif
