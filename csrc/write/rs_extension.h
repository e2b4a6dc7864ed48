/* rs_extension.h: adds saved indexes to a segment that a writer holds whole. */
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
    uint8_t first[RS_FMT_HEADER_SIZE]; /* the header's bytes, with the sections that lie there */
} rs_extension;

/* Begins to extend the list whose bytes `segment` are also the bytes that the writer has written so far. Its saved
 * indexes stay; other optional sections but LABEL are dropped. `segment` may be a mapping of the writer's own file: the
 * function reads header, directory and label, and afterwards everything before them stays as it is. RS_E_ARG_RANGE for
 * a mapping; errors of rs_header_read and rs_directory_read. `self` need not be initialised. */
RS_NODISCARD rs_status rs_extension_begin(rs_extension *self, rs_segment_writer *writer, rs_slice segment,
                                          rs_error *err);
/* Appends one saved index. RS_E_ARG_LIMIT when there are RS_FMT_SAVED_INDEXES; RS_E_ARG_RANGE when the parts do not fit
 * one another or the segment; the writer's errors. After a failure the writer may only be aborted. Needs no lock. */
RS_NODISCARD rs_status rs_extension_add(rs_extension *self, const rs_saved_index_parts *parts, rs_error *err);
/* Writes label, directory and header. The segment has a new id, because a process that knows the old id has mapped a
 * segment without these indexes. The caller finishes the writer. Needs no lock. */
RS_NODISCARD rs_status rs_extension_finish(rs_extension *self, rs_error *err);
/* Frees the label and zeroes the struct. */
void rs_extension_clear(rs_extension *self);
