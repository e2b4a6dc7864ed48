/* rs_pipeline.h: threads that survey, encode and write blocks while the caller fills the next one. Builders with one
 * writer share one pipeline; their blocks are written in the order of closing. The bytes are the same with any number
 * of threads, and without threads. */
#pragma once

#include "os/rs_os.h"
#include "write/rs_block_writer.h"

/* The limits of the size of a chunk that is surveyed while its block is filled. Within them, a chunk is a third of the
 * block so far, so that threads share the work of small blocks too. */
enum { RS_PIPELINE_CHUNK = 32 * 1024, RS_PIPELINE_CHUNK_MOST = 256 * 1024 };

/* Made by rs_pipeline_open. Besides its own threads, only one thread at a time may use it: the caller. A thread without
 * work for some milliseconds ends, so an idle builder has no threads. */
typedef struct rs_pipeline rs_pipeline;

/* Makes a pipeline of at most `threads` threads, 1 to RS_PIPELINE_THREADS, for the blocks of builders with one writer.
 * Starts no thread yet. RS_E_MEM, RS_E_SYS. */
enum { RS_PIPELINE_THREADS = 256 };
RS_NODISCARD rs_status rs_pipeline_open(rs_pipeline **out, unsigned threads, rs_error *err);
/* Stops all work, waits for the threads, and frees the closed blocks. No block may be added afterwards. Does nothing if
 * rs_pipeline_is_left. */
void rs_pipeline_stop(rs_pipeline *self);
/* Stops and frees the pipeline, after its builders were closed. Does nothing for NULL or if rs_pipeline_is_left. */
void rs_pipeline_close(rs_pipeline *self);

/* Returns whether the caller is a forked child of the process that opened the pipeline, and a thread was started before
 * the fork: then the memory of blocks and block writers may be inconsistent. */
bool rs_pipeline_is_left(const rs_pipeline *self);

/* Between these calls the caller is inside, and no thread is: the caller may change a block of the pipeline and call
 * the three functions below. */
void rs_pipeline_enter(rs_pipeline *self);
void rs_pipeline_leave(rs_pipeline *self);
/* Inside: lets threads survey the chunks of a block that stays open. The builder goes on to fill its base and ends, but
 * the records in chunks must not move or change until the block is closed or withdrawn. RS_E_MEM. */
RS_NODISCARD rs_status rs_pipeline_add_open(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block,
                                            rs_error *err);
/* Inside: waits until no thread reads an open block, and removes it. */
void rs_pipeline_withdraw(rs_pipeline *self, const rs_raw_block *block);
/* Inside: hands over a closed block, which may have been added as an open one. The pipeline owns it afterwards. On
 * RS_E_MEM the caller keeps it. */
RS_NODISCARD rs_status rs_pipeline_add_closed(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block,
                                              rs_error *err);

/* Waits until no block is being settled or written, and prevents both until rs_pipeline_release, so that the caller can
 * use the block writers and the segment writer. The caller is inside until then. */
void rs_pipeline_hold(rs_pipeline *self);
void rs_pipeline_release(rs_pipeline *self);

/* Waits until the closed blocks are few and small enough to fill the next one or, with `all`, until all blocks are
 * written; a failed block ends both waits. Returns false if no step ends within `milliseconds`, or after many steps:
 * the caller may check for signals and wait again. If no thread runs, the caller's thread does the work. */
bool rs_pipeline_wait(rs_pipeline *self, bool all, uint32_t milliseconds);
/* Returns the error of the first block that failed, else RS_OK. After a failure no block is written. */
RS_NODISCARD rs_status rs_pipeline_status(rs_pipeline *self, rs_error *err);
/* Returns an emptied block, for reuse of its memory, or NULL. */
rs_raw_block *rs_pipeline_take_spare(rs_pipeline *self);

/* Returns the number of running threads, for tests. */
unsigned rs_pipeline_n_running(rs_pipeline *self);
