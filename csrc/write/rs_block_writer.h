/* rs_block_writer.h: full blocks of raw records on their way into a segment. A block is surveyed, settled, encoded and
 * written (rs_block_encoding.h has these steps). Its records are divided into *chunks*, which are surveyed one after
 * another, also while the block is still being filled, and encoded in any order. The bytes do not depend on the chunks,
 * and not on which thread does a step when. */
#pragma once

#include "write/rs_block_encoding.h"

/* Adjacent records of a block. Owns `scan` and `encoded`. */
typedef struct rs_chunk {
    struct rs_chunk *next;
    uint32_t first, n; /* the records */
    rs_scan scan;      /* has scanned these records */
    rs_buffer encoded; /* of the last chunk: then the places of the block */
    rs_places_part places;
} rs_chunk;

/* A block of raw records. It owns all but base, which points to the bytes of raw once it has them. Until the block is
 * closed, its builder has raw, arrays and ends, and the block knows the records up to the end of its last chunk. */
typedef struct rs_raw_block {
    rs_buffer raw; /* the records as any values */
    rs_buffer arrays;
    const uint8_t *base;
    uint64_t *ends; /* where each record ends in raw; borrowed while the block is open */
    size_t ends_capacity;
    uint64_t number, first_record; /* of the block and of its first record in the store */
    uint32_t n_records;
    bool closed; /* no chunk follows */
    rs_chunk *chunks, *last;
    /* The survey. One thread at a time works on it, until alternatives are prepared. */
    rs_stats survey;
    rs_span *spans; /* of the records that were surveyed */
    size_t spans_capacity;
    rs_chunk *to_survey;         /* the next chunk; NULL after the last */
    rs_alternative **to_prepare; /* the alternatives that are to be prepared, once they are listed */
    uint32_t n_to_prepare, next_to_prepare;
    bool surveyed; /* the whole survey is done, or has failed */
    rs_status survey_status;
    /* From settling on. */
    const rs_settled *tree; /* the tree that the chunks are encoded under; NULL: the records stay raw */
    rs_settled settled;
    uint64_t places_size;      /* bytes of the places */
    uint64_t *encoded_ends;    /* where each record ends in `encoded` of its chunk */
    rs_status status;          /* of settling and encoding */
    rs_error error;            /* of the step that failed */
    struct rs_raw_block *next; /* for the owner of several blocks */
} rs_raw_block;

/* A survey may know the notes of blocks that are at least a few blocks back, so that many blocks can be surveyed at
 * once. The distance grows with the number of the block, because most stores have few blocks. */
enum { RS_SURVEY_LAG = 8 };

/* The blocks of one store that are written. Owns its buffers; borrows the writer. Must not be moved. */
typedef struct rs_block_writer {
    rs_segment_writer *writer;
    rs_buffer offsets, groups, blocks; /* the sections so far */
    rs_block_encoding encoding;
    uint64_t raw_size;
    uint64_t memory;               /* bytes that the dictionaries owned when the last block was settled */
    uint64_t n_settled;            /* blocks that were settled, counted by the caller of rs_block_writer_settle */
    rs_notes hints[RS_SURVEY_LAG]; /* the notes after block b, at b % RS_SURVEY_LAG */
} rs_block_writer;

/* Begins a store. The writer must outlive `self`. Cannot fail. */
void rs_block_writer_begin(rs_block_writer *self, rs_segment_writer *writer, const rs_choices *choices);
/* Frees everything. */
void rs_block_writer_clear(rs_block_writer *self);

/* Frees what a block owns but the memory of raw, arrays and ends, and zeroes the rest: it can be filled again. */
void rs_raw_block_reset(rs_raw_block *block);
/* Frees a block; does nothing for NULL. */
void rs_raw_block_free(rs_raw_block *block);
/* Appends a chunk of the n records from `first` on. It takes over the key sets of *scan and gives it new memory for
 * those from n_key_sets on, which belong to the records that follow. RS_E_MEM leaves all as it was. */
RS_NODISCARD rs_status rs_raw_block_add_chunk(rs_raw_block *block, uint32_t first, uint32_t n, rs_scan *scan,
                                              size_t n_key_sets, rs_error *err);
/* The bytes of memory that the block owns. The builder owns the records of an open block, which count as full. */
uint64_t rs_raw_block_memory(const rs_raw_block *block);
/* Returns whether a closed block is tried with the tree of the last block first: few records, which do not fill a
 * block, seldom save the bytes of a tree of their own. Such a block is surveyed only by rs_block_writer_settle. */
bool rs_raw_block_is_short(const rs_raw_block *block);

/* Returns whether the notes are there that the survey of block number `number` may know. */
bool rs_block_writer_may_survey(const rs_block_writer *self, uint64_t number);
/* Surveys the next chunk or, after the last chunk of a closed block, ends the survey. Any thread may do it, one at a
 * time for each block, after rs_block_writer_may_survey. An error stays with the block until it is settled. */
void rs_block_writer_survey(const rs_block_writer *self, rs_raw_block *block);
/* The same as rs_block_writer_survey after the last chunk, in steps that threads share: the first one lists the
 * alternatives that are to be prepared, the largest first. */
void rs_block_writer_list(rs_raw_block *block);
/* Takes the next few of these alternatives: *first becomes the number of the first. Returns their number; 0 when all
 * are taken. *part becomes stats for preparing them, which the caller ends with rs_stats_end_part; when it has done so
 * for all, rs_block_writer_weigh follows. One thread at a time takes or ends. */
uint32_t rs_block_writer_take(rs_raw_block *block, uint32_t *first, rs_stats *part);
/* Prepares them. Threads may do so at once. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_prepare(const rs_raw_block *block, uint32_t first, uint32_t n, rs_stats *part,
                                               rs_error *err);
/* Weighs placed nodes for the alternatives, and ends the survey. An error stays with the block. Any thread. */
void rs_block_writer_weigh(rs_raw_block *block);
/* Settles a surveyed block; a short one need not be surveyed. The blocks of a store are settled in their order, and
 * each is written before the next is settled. RS_E_MEM and the errors of the writer: the store cannot be continued. */
RS_NODISCARD rs_status rs_block_writer_settle(rs_block_writer *self, rs_raw_block *block);
/* Encodes a chunk of a block that was settled and whose `tree` is not NULL. Threads may encode several chunks at once.
 * RS_E_MEM; RS_E_ARG_LIMIT when the block stays raw: the caller keeps the first error in block->status. */
RS_NODISCARD rs_status rs_block_writer_encode(const rs_raw_block *block, rs_chunk *chunk, rs_error *err);
/* Writes a block whose chunks are encoded. Errors of rs_block_writer_settle. */
RS_NODISCARD rs_status rs_block_writer_write(rs_block_writer *self, rs_raw_block *block, rs_error *err);
/* Adds the elements of BLOCKS and GROUPS for the store's next block. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_add_entry(rs_block_writer *self, const rs_block *block, rs_error *err);
/* Does all steps of a closed block on this thread. */
RS_NODISCARD rs_status rs_block_writer_run(rs_block_writer *self, rs_raw_block *block, rs_error *err);
