/* rs_block_writer.h: writes blocks of raw records into a segment. A block is surveyed, settled, encoded (see
 * rs_block_encoding.h) and written. Its records are divided into *chunks*, which are surveyed one after another, even
 * while the block is being filled, and encoded in any order. The bytes depend neither on the chunks nor on the order in
 * which threads do the steps. */
#pragma once

#include "write/rs_block_encoding.h"

/* Adjacent records of a block. Owns `scan`, `encoded` and `places`. */
typedef struct rs_chunk {
    struct rs_chunk *next;
    uint32_t first, n; /* the records */
    rs_scan scan;      /* has scanned these records */
    rs_buffer encoded; /* in the last chunk, the places of the block follow */
    rs_places_part places;
} rs_chunk;

/* The trial of a block with the tree of the last one, which saves the survey. */
typedef enum rs_trial {
    RS_TRIAL_NONE = 0, /* no trial so far */
    RS_TRIAL_RUNS,     /* the chunks are being encoded under the tree of the last block */
    RS_TRIAL_FAILED,
    RS_TRIAL_PASSED /* the chunks are encoded; settling keeps them */
} rs_trial;

/* A block of raw records. It borrows base (the bytes of raw), tree and next, and owns the rest. Until the block is
 * closed, base and ends are the builder's, raw and arrays are memory for the builder's next block, and the block knows
 * the records up to the end of its last chunk. */
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
    /* The survey. One thread at a time works on it; only the preparation of alternatives is shared. */
    rs_stats survey;
    rs_span *spans; /* of the records that were surveyed */
    size_t spans_capacity;
    rs_chunk *to_survey;         /* the next chunk; NULL after the last */
    rs_alternative **to_prepare; /* the alternatives to prepare; NULL before rs_block_writer_list */
    uint32_t n_to_prepare, next_to_prepare;
    bool surveyed; /* the whole survey is done, or has failed */
    rs_status survey_status;
    rs_trial trial;
    /* From settling on. */
    const rs_settled *tree; /* the tree of the encoded chunks; NULL if the records stay raw */
    rs_settled settled;
    uint64_t places_size;      /* bytes of the places */
    uint64_t *encoded_ends;    /* where each record ends in `encoded` of its chunk */
    rs_status status;          /* of settling and encoding */
    rs_error error;            /* of the failed step */
    uint32_t tree_number;      /* after rs_block_writer_accept */
    bool is_raw;               /* the same: its records stay raw */
    struct rs_raw_block *next; /* for the owner of several blocks */
} rs_raw_block;

/* A survey uses the failed attempts of a block a few blocks back, so that several blocks can be surveyed at once. The
 * distance grows with the number of the block, because most stores have few blocks. */
enum { RS_SURVEY_LAG = 8 };

/* Writes the blocks of one store. Owns its buffers; borrows the writer. Must not be moved. */
typedef struct rs_block_writer {
    rs_segment_writer *writer;
    rs_buffer offsets, groups, blocks; /* the sections so far */
    rs_block_encoding encoding;
    uint64_t raw_size;
    uint64_t memory;                  /* bytes that the dictionaries owned when the last block was settled */
    uint64_t n_settled;               /* blocks that were settled, counted by the caller of rs_block_writer_settle */
    rs_attempts hints[RS_SURVEY_LAG]; /* the attempts after block b, at b % RS_SURVEY_LAG */
    uint64_t next_trial;              /* blocks before this one have no trial */
    unsigned n_failed;                /* trials that failed since one passed */
    double planned;                   /* bytes of the last block that was planned, by its raw bytes */
    double planned_heap;              /* the same without its places */
} rs_block_writer;

/* Begins a store. The writer must outlive `self`. Cannot fail. */
void rs_block_writer_begin(rs_block_writer *self, rs_segment_writer *writer, const rs_choices *choices);
/* Frees everything. */
void rs_block_writer_clear(rs_block_writer *self);

/* Empties a block for the next records. Keeps only the memory of raw, arrays, ends and spans. */
void rs_raw_block_reset(rs_raw_block *block);
/* Frees a block; does nothing for NULL. */
void rs_raw_block_free(rs_raw_block *block);
/* Appends a chunk of the n records from `first` on. The chunk takes the key sets of *scan and gives *scan new memory
 * for the key sets from n_key_sets on, which belong to later records. RS_E_MEM changes nothing. */
RS_NODISCARD rs_status rs_raw_block_add_chunk(rs_raw_block *block, uint32_t first, uint32_t n, rs_scan *scan,
                                              size_t n_key_sets, rs_error *err);
/* Returns the bytes of memory of the block. An open block, which its builder owns, counts as full. */
uint64_t rs_raw_block_memory(const rs_raw_block *block);
/* Returns whether the failed attempts that the survey of block number `number` uses are known. */
bool rs_block_writer_may_survey(const rs_block_writer *self, uint64_t number);
/* Surveys the chunk block->to_survey, which the caller then advances. After the last chunk of a closed block, ends the
 * survey. Any thread may do it, one at a time for each block, once rs_block_writer_may_survey returns true. An error
 * stays with the block until it is settled. */
void rs_block_writer_survey(const rs_block_writer *self, rs_raw_block *block);
/* Replaces the last call of rs_block_writer_survey, so that threads share its work: lists the alternatives to prepare,
 * the largest first. Ends the survey if there are none. */
void rs_block_writer_list(rs_raw_block *block);
/* Takes the next few of these alternatives. Sets *first to the number of the first, and returns how many there are, 0
 * when all are taken. *part becomes stats for preparing them, which the caller ends with rs_stats_end_part. After the
 * last part, rs_block_writer_weigh follows. Only one thread at a time may take or end a part. */
uint32_t rs_block_writer_take(rs_raw_block *block, uint32_t *first, rs_stats *part);
/* Prepares these alternatives. Several threads may do so at once. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_prepare(const rs_raw_block *block, uint32_t first, uint32_t n, rs_stats *part,
                                               rs_error *err);
/* Computes the costs of placed nodes, and ends the survey. An error stays with the block. Any thread. */
void rs_block_writer_weigh(rs_raw_block *block);
/* Returns whether a block must not be surveyed before its trial: most blocks of a store are alike, and few records
 * rarely save the bytes of a tree of their own. The answer for a block may become false when an earlier one is counted,
 * and true only when the block is closed. */
bool rs_block_writer_may_try(const rs_block_writer *self, const rs_raw_block *block);
/* Begins the trial of a closed block after the previous block is accepted: encodes a sample. While block->trial is
 * RS_TRIAL_RUNS, the caller then encodes the chunks (rs_block_writer_encode) and calls rs_block_writer_end_trial.
 * RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_begin_trial(rs_block_writer *self, rs_raw_block *block, rs_error *err);
/* Ends a trial that runs: it passes if the records fit the tree of the last block and take about as few bytes as that
 * block. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_end_trial(rs_block_writer *self, rs_raw_block *block, rs_error *err);
/* Counts a trial that has passed or failed. Separate because threads call rs_block_writer_may_try during a trial. */
void rs_block_writer_count_trial(rs_block_writer *self, const rs_raw_block *block);
/* Settles a block that was surveyed or passed its trial. The blocks of a store are settled in their order, each after
 * the previous one is written. After RS_E_MEM and the errors of the writer the store cannot be continued. */
RS_NODISCARD rs_status rs_block_writer_settle(rs_block_writer *self, rs_raw_block *block);
/* Encodes a chunk of a settled block whose `tree` is not NULL. Several threads may encode chunks at once. RS_E_MEM;
 * RS_E_ARG_LIMIT when the block stays raw. The caller stores the error in block->status. */
RS_NODISCARD rs_status rs_block_writer_encode(const rs_raw_block *block, rs_chunk *chunk, rs_error *err);
/* Chooses between the encoded and the raw records of a block whose chunks are encoded. Then the next block may be
 * tried. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_accept(rs_block_writer *self, rs_raw_block *block, rs_error *err);
/* Writes an accepted block. Errors of rs_block_writer_settle. */
RS_NODISCARD rs_status rs_block_writer_write(rs_block_writer *self, rs_raw_block *block, rs_error *err);
/* Adds the elements of BLOCKS and GROUPS for the store's next block. RS_E_MEM. */
RS_NODISCARD rs_status rs_block_writer_add_entry(rs_block_writer *self, const rs_block *block, rs_error *err);
/* Does all steps of a closed block on this thread. */
RS_NODISCARD rs_status rs_block_writer_run(rs_block_writer *self, rs_raw_block *block, rs_error *err);
