/* rs_segment.h: a run of bytes with the descriptor it is mapped from, and the writer that makes one.
 * Knows only bytes: no header, no checksum, no name scheme. A segment is never mapped writable (a forked child that
 * inherited a writable map would block sealing, and a full file system would be SIGBUS). */
#ifndef RS_SEGMENT_H
#define RS_SEGMENT_H

#include "os/rs_os.h"

/* Where a segment's bytes live. */
typedef enum rs_backing {
    RS_BACKING_ANONYMOUS = 1, /* nameless memory, sealed once finished */
    RS_BACKING_DIRECTORY = 2, /* a file in a private 0700 directory, memory-backed or not */
    RS_BACKING_FILE = 3,      /* a file at a path of the caller's choice: a saved store */
    RS_BACKING_NAMED = 4,     /* a leased file in any directory, without a name until rs_segment_publish */
    RS_BACKING_TEMPORARY = 5  /* the same with a temporary name, as where the system knows no nameless files */
} rs_backing;

/* Owns `fd` and the mapping. Open while data is not NULL; a zeroed one is closed. Reading `data` is free to every
 * thread; opening and closing are not: the caller keeps readers away from a close. A forked child may read and close
 * its copy. `identity` is as of the opening. */
typedef struct rs_segment {
    int fd;
    const uint8_t *data;
    uint64_t size_bytes;
    rs_os_identity identity;
} rs_segment;

/* Maps the whole file. Takes `fd` over on success only, so that a failing caller still closes it. An empty file is
 * RS_E_FMT_TRUNCATED. `self` need not be initialised and is a closed segment after a failure. */
RS_NODISCARD rs_status rs_segment_adopt(rs_segment *self, int fd, rs_error *err);

/* Opens and maps a regular file, read-only; errors of rs_os_open_readonly and rs_segment_adopt. Who may own the file
 * is the caller's question, to be asked of self->identity. `self` is a closed segment after a failure. */
RS_NODISCARD rs_status rs_segment_open_path(rs_segment *self, const char *path, bool follow_links, rs_error *err);

/* The same for a published file, which is leased for as long as `fd` lives: whoever closes it earlier sets it to -1
 * and keeps the mapping. Errors of rs_os_open_leased and rs_segment_adopt. */
RS_NODISCARD rs_status rs_segment_open_leased(rs_segment *self, const char *path, rs_error *err);

/* Copies src, which stays open, into sealed anonymous memory. A source whose file shrank meanwhile is
 * RS_E_FMT_TRUNCATED, never SIGBUS; RS_E_SPACE as of the writer; RS_E_SYS where there is no anonymous memory.
 * `out` need not be initialised and is a closed segment after a failure. */
RS_NODISCARD rs_status rs_segment_copy(rs_segment *out, const rs_segment *src, rs_error *err);

/* Unmaps and closes; nothing when closed already. Stale after it: every pointer into data. */
void rs_segment_close(rs_segment *self);

/* Owns `fd`, `path` and, until finished, the name it made. Active while backing is not 0; a zeroed one is inactive.
 * One thread at a time. Every function but open, finish and abort needs an active writer. */
typedef struct rs_segment_writer {
    int fd;
    rs_backing backing;
    bool sealable;
    bool memory_backed;
    uint64_t position;       /* the bytes written so far: the size that the segment will have */
    uint64_t reserved;       /* the file's size by now; position <= reserved */
    uint64_t step;           /* bytes of the next reservation */
    int64_t process_id;      /* of the creator: a forked child must not unlink */
    rs_os_identity identity; /* of the file made, so that abort removes no other */
    char *path;              /* the name made; NULL for anonymous and nameless */
} rs_segment_writer;

/* Starts an empty segment.
 *   anonymous: dir and name are not looked at (NULL);
 *   directory: a new file `name` in `dir`, checked as rs_os_create_in_directory does;
 *   named:     a leased file in `dir`, whichever that is, without a name; where there is no such thing, and with the
 *              backing temporary always, under the temporary name `name`, which self->path then says. The name goes
 *              with rs_os_publish;
 *   file:      dir is NULL and name the path of a new file, in practice a temporary one beside the target, which the
 *              caller renames after finish.
 * `self` need not be initialised and is inactive after a failure. RS_E_STATE_EXISTS where the name is taken, RS_E_SYS
 * where there is no anonymous memory. The strings are copied. */
RS_NODISCARD rs_status rs_segment_writer_open(rs_segment_writer *self, rs_backing backing, const char *dir,
                                              const char *name, rs_error *err);

/* Adds n bytes at the end. Space is reserved ahead, 1 MiB growing to 32 MiB at a time, or only what is needed where a
 * whole step is refused. RS_E_SPACE with the numbers of the step refused. After a failure position is as before, and
 * the call may be repeated. */
RS_NODISCARD rs_status rs_segment_writer_append(rs_segment_writer *self, const void *bytes, size_t n, rs_error *err);

/* Moves the end up to a multiple of `alignment` (a power of two, else RS_E_ARG_RANGE); the bytes between are zero.
 * Errors of append. */
RS_NODISCARD rs_status rs_segment_writer_align(rs_segment_writer *self, uint64_t alignment, rs_error *err);

/* Overwrites n bytes at `offset`; RS_E_ARG_RANGE unless they lie within [0, position). */
RS_NODISCARD rs_status rs_segment_writer_write_at(rs_segment_writer *self, uint64_t offset, const void *bytes,
                                                  size_t n, rs_error *err);

/* Cuts to position, makes the bytes immutable (sealed; mode 0400 in a directory; synced for what outlives a power cut:
 * a named file on a disk, and a saved one, which keeps the mode of the user's umask), gives up write access and maps
 * the result. The writer is inactive then and the name, if any, the caller's. RS_E_STATE_FINISHED on an inactive
 * writer; RS_E_FMT_TRUNCATED when nothing was written. After a failure the writer is fit for abort only and `out` is a
 * closed segment. `out` need not be initialised. */
RS_NODISCARD rs_status rs_segment_writer_finish(rs_segment_writer *self, rs_segment *out, rs_error *err);

/* Closes and removes the name it made (not from a forked child); nothing when inactive. The writer is inactive then.
 * Never fails: a name that cannot be removed stays. */
void rs_segment_writer_abort(rs_segment_writer *self);

#endif
