/* rs_pipeline.h: threads that survey, encode and write blocks while the caller fills the next. Builders with one writer
 * share one pipeline; their blocks are written in the order in which they were closed. The bytes are the same for any
 * number of threads, and without threads. */
#pragma once

#include "os/rs_os.h"
#include "write/rs_block_writer.h"

/* The records of a chunk that is surveyed while its block is filled have about so many bytes: a third of those before
 * it, within these limits. So threads share the work of a small block too. */
enum { RS_PIPELINE_CHUNK = 32 * 1024, RS_PIPELINE_CHUNK_MOST = 256 * 1024 };

/* Made by rs_pipeline_open. One thread at a time, the caller, may use it beside its own threads. Its threads run only
 * while there is work: one that has had none for some milliseconds ends, so an idle builder has no thread. */
typedef struct rs_pipeline rs_pipeline;

/* Makes a pipeline of at most `threads` threads, 1 to RS_PIPELINE_THREADS, for the blocks of builders with one writer.
 * Starts no thread yet. RS_E_MEM, RS_E_SYS. */
enum { RS_PIPELINE_THREADS = 256 };
RS_NODISCARD rs_status rs_pipeline_open(rs_pipeline **out, unsigned threads, rs_error *err);
/* Stops all work, waits for the threads, and frees the blocks that were not written. No block can be added afterwards.
 * In a forked child it does nothing to memory that the parent's threads were using. */
void rs_pipeline_stop(rs_pipeline *self);
/* Stops and frees the pipeline, after its builders were closed. Does nothing for NULL. */
void rs_pipeline_close(rs_pipeline *self);

/* Returns whether the caller is a forked child of the process that opened the pipeline, and a thread had been started
 * before: then the memory of blocks and block writers may be in use by no thread and yet be inconsistent. */
bool rs_pipeline_is_left(const rs_pipeline *self);

/* Excludes the threads while the caller changes a block that was handed over, and calls the three functions below. */
void rs_pipeline_enter(rs_pipeline *self);
void rs_pipeline_leave(rs_pipeline *self);
/* Inside: has the chunks of a block that stays open surveyed. Its base and ends are the memory that the builder fills
 * further, but of the records in chunks nothing may move or change until the block is closed or withdrawn. RS_E_MEM. */
RS_NODISCARD rs_status rs_pipeline_add_open(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block,
                                            rs_error *err);
/* Inside: waits until no thread reads an open block, and forgets it. */
void rs_pipeline_withdraw(rs_pipeline *self, const rs_raw_block *block);
/* Inside: hands over a closed block, which may have been open here before. The pipeline owns it from now on. RS_E_MEM
 * leaves it to the caller, withdrawn. */
RS_NODISCARD rs_status rs_pipeline_add_closed(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block,
                                              rs_error *err);

/* Waits until no block is being settled or written, and keeps the threads from both until rs_pipeline_release: the
 * caller then has the block writers and the segment writer for itself. */
void rs_pipeline_hold(rs_pipeline *self);
void rs_pipeline_release(rs_pipeline *self);

/* Waits until the blocks take so little memory that the next may be filled or, with `all`, until all blocks are
 * written, or one has failed. Returns false when that is not so after about `milliseconds`: the caller may then look
 * for signals and wait again. Where the system gives no thread, the caller's thread does the work. */
bool rs_pipeline_wait(rs_pipeline *self, bool all, uint32_t milliseconds);
/* Returns the error of the first block that could not be written. No later block is written then. */
RS_NODISCARD rs_status rs_pipeline_status(rs_pipeline *self, rs_error *err);
/* Returns a block that was written, for its memory; NULL when there is none. */
rs_raw_block *rs_pipeline_take_spare(rs_pipeline *self);

/* Returns the number of threads that are running now, for tests. */
unsigned rs_pipeline_n_running(rs_pipeline *self);
