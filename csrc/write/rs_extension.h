/* rs_extension.h: adds saved indexes to a complete segment of a writer. */
#pragma once

#include "format/rs_saved_index.h"
#include "format/rs_segment.h"

/* A segment that is being extended. Owns a copy of its label, borrows the writer. No reader may find the file before
 * rs_extension_finish. One thread at a time. */
typedef struct rs_extension {
    rs_segment_writer *writer;
    rs_header header;
    rs_directory directory;
    rs_buffer label;
    uint8_t first[RS_FMT_LONG_SIZE]; /* the header's bytes, and the sections placed within them */
} rs_extension;

/* Begins to extend a list. `segment` has the bytes that the writer has written so far, and may be a mapping of the
 * writer's own file. Keeps the saved indexes and LABEL; drops other optional sections. Only LABEL and the directory
 * move. RS_E_ARG_RANGE for a RecordDict; errors of rs_header_read, rs_directory_read and the writer; RS_E_MEM. `self`
 * need not be initialised. */
RS_NODISCARD rs_status rs_extension_begin(rs_extension *self, rs_segment_writer *writer, rs_slice segment,
                                          rs_error *err);
/* Appends one saved index. RS_E_ARG_LIMIT when there are RS_FMT_SAVED_INDEXES already; RS_E_ARG_RANGE when the parts do
 * not fit one another or the segment; the writer's errors. After a failure the writer may only be aborted. Needs no
 * lock. */
RS_NODISCARD rs_status rs_extension_add(rs_extension *self, const rs_saved_index_parts *parts, rs_error *err);
/* Writes label, directory and header. The segment gets a new id, because processes may have mapped the old segment
 * without these indexes. The caller finishes the writer. Needs no lock. */
RS_NODISCARD rs_status rs_extension_finish(rs_extension *self, rs_error *err);
/* Frees the label and zeroes the struct. */
void rs_extension_clear(rs_extension *self);
