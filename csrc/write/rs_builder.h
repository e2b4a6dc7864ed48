/* rs_builder.h: builds a store: collects records into blocks, encodes and writes each block, and ends the segment with
 * its tables, directory and header. rs_store.h reads it. */
#pragma once

#include "os/rs_os.h"
#include "format/rs_header.h"
#include "format/rs_offsets.h"
#include "format/rs_segment.h"
#include "plan/rs_scan.h"
#include "write/rs_pipeline.h"

/* A store that is being built. Owns its buffers; borrows the writer. The caller appends one any value at a time to
 * `raw` (array data of RS_FMT_ARRAY_INLINE bytes or more to `arrays`, aligned to 64) and ends each record with
 * rs_builder_end_record. Besides the pipeline's threads, only one thread at a time may use a builder. A forked child
 * may call rs_builder_close on its copy, and no other function. */
typedef struct rs_builder {
    rs_segment_writer *writer;
    bool finished;
    rs_pipeline *pipeline;      /* set before the first record; NULL when the caller's thread writes the blocks */
    uint64_t features_required; /* the bits that the caller adds to the header */
    rs_slice label;             /* the bytes of LABEL, borrowed until finish; empty when the segment has none */
    uint64_t label_pairs;
    /* The open block, which the caller fills. */
    rs_buffer raw;
    rs_buffer arrays;
    uint64_t *ends;
    size_t ends_capacity;
    uint32_t n_open;                  /* number of records in the open block */
    uint64_t n_records;               /* number of all records */
    rs_scan scan;                     /* of the records that are not in a chunk yet; its maxima cover all records */
    size_t key_sets, key_sets_before; /* n_key_sets of scan after the last record, and after the record before it */
    /* The part of the open block that was handed over to the pipeline. */
    rs_raw_block *open;  /* NULL if there is none. Its raw and arrays are memory for the next open block */
    uint64_t *next_ends; /* memory for the ends of the next open block */
    size_t next_ends_capacity;
    uint32_t n_handed;   /* number of records in its chunks */
    uint64_t hand_at;    /* the size of `raw` at which the next chunk is handed over */
    uint64_t n_closed;   /* number of blocks before the open one */
    uint64_t raw_closed; /* their raw bytes, arrays included */
    rs_block_writer out; /* the threads of a pipeline use this field */
    rs_status failed;    /* the status of a block that could not be written; no block follows it */
    rs_error failure;
} rs_builder;

/* Starts a store in an open, empty writer, which must outlive the builder. Copies `choices`; NULL means RS_LEVEL_AUTO
 * with all nodes. Returns the writer's errors. */
RS_NODISCARD rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, const rs_choices *choices,
                                       rs_error *err);
/* As rs_builder_open, for the second store of a segment: it leaves no room for a header. Cannot fail. */
void rs_builder_begin(rs_builder *self, rs_segment_writer *writer, const rs_choices *choices);

/* Ends the record that was appended to `raw`. Never writes to the segment. A record that fails rs_scan_record is
 * dropped from `raw`; err->record is its number, and further records may follow. The caller drops its arrays with
 * rs_builder_drop_record. RS_E_STATE_FINISHED after rs_builder_finish; RS_E_MEM. */
RS_NODISCARD rs_status rs_builder_end_record(rs_builder *self, rs_error *err);
/* As rs_builder_end_record, but does not read the record: the caller has written it with rs_any_put.h, counted it, and
 * added its key sets to `scan`. */
RS_NODISCARD rs_status rs_builder_end_record_unchecked(rs_builder *self, const rs_scan_counts *counts, rs_error *err);
/* Drops the bytes of an unfinished record from `raw` and `arrays`. arrays_mark is the size of `arrays` before it. */
void rs_builder_drop_record(rs_builder *self, size_t arrays_mark);

/* Returns whether the open block is full. If so, the caller flushes it before the next record. */
static inline bool rs_builder_is_full(const rs_builder *self) {
    uint64_t raw = self->raw.size_bytes + self->arrays.size_bytes;
    return raw >= RS_FMT_BLOCK_RAW_HARD || (self->n_open % RS_FMT_GROUP_RECORDS == 0 &&
                                            (self->n_open >= RS_FMT_BLOCK_RECORDS || raw >= RS_FMT_BLOCK_RAW));
}

/* Encodes and writes the open block, after all earlier blocks. Needs no lock. After a failure the builder may only be
 * closed, and each further flush gives the same error. RS_E_STATE_FINISHED in a forked child. */
RS_NODISCARD rs_status rs_builder_flush(rs_builder *self, rs_error *err);
/* Closes the open block and hands it over to the pipeline, or writes it if there is none. Then waits until the blocks
 * in the pipeline take so little memory that the next may be filled. Gives the first error of the pipeline so far;
 * rs_builder_flush and rs_builder_finish give later ones. The segment's bytes are the same as with rs_builder_flush. */
RS_NODISCARD rs_status rs_builder_flush_beside(rs_builder *self, rs_error *err);
/* As rs_builder_flush_beside, but does not wait: the caller calls rs_builder_wait until it returns true. */
RS_NODISCARD rs_status rs_builder_hand_over(rs_builder *self, rs_error *err);
/* Calls rs_pipeline_wait; without a pipeline, returns true. */
bool rs_builder_wait(rs_builder *self, bool all, uint32_t milliseconds);

/* The bytes of a store that is being built. */
typedef struct rs_build_sizes {
    uint64_t raw_written; /* raw bytes of the written blocks, arrays included */
    uint64_t sections;    /* the sections of the written blocks, which are not in the segment yet */
    uint64_t written;     /* the bytes in the segment, also those of other stores */
} rs_build_sizes;
/* Measures the store. Waits for the block that a thread of the pipeline is writing. */
rs_build_sizes rs_builder_measure(const rs_builder *self);

/* Flushes the open block and writes tables, directory and, last, the header. Afterwards `self` may only be closed, and
 * the caller finishes the writer. RS_E_STATE_FINISHED if it was called before. */
RS_NODISCARD rs_status rs_builder_finish(rs_builder *self, rs_error *err);
/* Stops the pipeline, frees everything and zeroes the struct. The owner of the pipeline closes it afterwards. In a
 * forked child it leaves the memory that the parent's threads were using. */
void rs_builder_close(rs_builder *self);

/* ---- The steps of finishing, for callers that build several stores in one segment (rs_mapping_builder.h) ---- */

/* Removes the last record, whose block is still open. Cannot be called twice in a row. The maxima and n_values of the
 * scan still include the record, so they are upper bounds. */
void rs_builder_pop_record(rs_builder *self);
/* Returns an end of HEAP with which the segment meets rule 43. All blocks must be flushed. */
uint64_t rs_builder_least_heap(const rs_builder *self);
/* Ends HEAP after all blocks of all stores are flushed, pads it with zeros up to `least`, the sum of
 * rs_builder_least_heap of all stores, and fills its directory entry. n_blocks is the number of blocks of all
 * stores. */
RS_NODISCARD rs_status rs_builder_end_heap(rs_builder *self, uint64_t n_blocks, uint64_t least, rs_section *heap,
                                           rs_error *err);
/* Writes the sections OFFSETS, GROUPS, BLOCKS, TREES, TREE_TABLE and, if there are tables, TABLES of this store, and
 * fills their entries in `directory`. */
RS_NODISCARD rs_status rs_builder_write_tables(rs_builder *self, rs_directory *directory, rs_error *err);
/* Writes one section at the next multiple of 64 and fills its directory entry. */
RS_NODISCARD rs_status rs_builder_write_section(rs_builder *self, const rs_buffer *bytes, uint64_t count,
                                                rs_section *out, rs_error *err);
/* Adds this store's features and raw size to the header, sets n_records, and raises the maxima. */
void rs_builder_describe(const rs_builder *self, rs_header *header);
/* Writes LABEL, directory (`keys` is NULL for a list) and header. The caller has set content and described all stores;
 * the function fills the other fields of `header`. */
RS_NODISCARD rs_status rs_builder_write_header(rs_builder *self, rs_header *header, const rs_directory *directory,
                                               const rs_directory *keys, rs_error *err);
/* Returns the number of blocks written so far. */
static inline uint64_t rs_builder_n_blocks(const rs_builder *self) {
    return self->out.blocks.size_bytes / RS_FMT_BLOCK_SIZE;
}
