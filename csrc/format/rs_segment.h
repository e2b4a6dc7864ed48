/* rs_segment.h: a mapped segment with its descriptor, and its writer. Both know only bytes: no header, no checksum, no
 * segment names. A segment is never mapped writable: a forked child that inherits a writable mapping would block
 * sealing, and writing to a mapping of a full file system raises SIGBUS. */
#pragma once

#include "os/rs_os.h"

/* The file that holds a segment's bytes. */
typedef enum rs_backing {
    RS_BACKING_ANONYMOUS = 1, /* an anonymous memory file, sealed at the end */
    RS_BACKING_DIRECTORY = 2, /* a file in a private 0700 directory, memory-backed or not */
    RS_BACKING_FILE = 3,      /* a file at a path of the caller's choice: a saved store */
    RS_BACKING_NAMED = 4,     /* a leased file in any directory, without a name until rs_os_publish */
    RS_BACKING_TEMPORARY = 5  /* as RS_BACKING_NAMED, but with a temporary name from the start */
} rs_backing;

/* A mapped segment. Owns `fd` and the mapping, which begins `start_bytes` before `data`. It is open while data is not
 * NULL; a zeroed struct is closed. Any number of threads may read `data`; no other thread may use the struct while one
 * opens or closes it. A forked child may read and close its copy. `identity` dates from opening. */
typedef struct rs_segment {
    int fd;
    const uint8_t *data;
    uint64_t size_bytes;
    uint64_t start_bytes; /* of the file before the segment: 0, except for a sealed cache */
    rs_os_identity identity;
} rs_segment;

/* Maps the whole file of `fd`, which may be a sealed cache. On success `self` owns `fd`; after a failure the caller
 * keeps it. RS_E_FMT_TRUNCATED for an empty file; rule 50 for a cache. `self` need not be initialised, and is a closed
 * segment after a failure. */
RS_NODISCARD rs_status rs_segment_adopt(rs_segment *self, int fd, rs_error *err);

/* Opens and maps a regular file read-only. Does not check the owner: the caller can check self->identity. Errors of
 * rs_os_open_readonly and rs_segment_adopt. `self` is a closed segment after a failure. */
RS_NODISCARD rs_status rs_segment_open_path(rs_segment *self, const char *path, bool follow_links, rs_error *err);

/* As rs_segment_open_path, for a published file. `fd` holds the lease: a caller may close it to end the lease, set it
 * to -1 and keep the mapping. Without a second descriptor of the file, the lease ends with the mapping. Errors of
 * rs_os_open_leased and rs_segment_adopt. */
RS_NODISCARD rs_status rs_segment_open_leased(rs_segment *self, const char *path, rs_error *err);

/* Copies the first size_bytes bytes of src, which stays open, into anonymous memory, sealed if possible. size_bytes is
 * at most src->size_bytes; bytes after the segment may be a hole of terabytes. RS_E_FMT_TRUNCATED, not SIGBUS, if the
 * file of src shrinks during the copy; RS_E_SPACE as in the writer; RS_E_SYS without anonymous memory files. `out` need
 * not be initialised, and is a closed segment after a failure. */
RS_NODISCARD rs_status rs_segment_copy(rs_segment *out, const rs_segment *src, uint64_t size_bytes, rs_error *err);

/* Unmaps and closes the segment, which invalidates all pointers into its data; does nothing if it is closed. */
void rs_segment_close(rs_segment *self);

/* Writes a segment. Owns `fd`, `path` and, until finish, the file's name. It is active while backing is not 0; a zeroed
 * struct is inactive. All functions but open, finish and abort need an active writer. One thread at a time. */
typedef struct rs_segment_writer {
    int fd;
    rs_backing backing;
    bool sealable;
    bool memory_backed;
    uint64_t position;       /* the number of bytes written so far */
    uint64_t reserved;       /* the size of the file; position <= reserved */
    uint64_t step;           /* the bytes of the next reservation */
    int64_t process_id;      /* the process that opened the writer: a forked child must not unlink the file */
    rs_os_identity identity; /* of the file, so that abort does not remove another one */
    char *path;              /* the file's name, or NULL */
} rs_segment_writer;

/* Starts an empty segment.
 *   anonymous: dir and name are ignored;
 *   directory: a new file `name` in `dir`, which is checked as in rs_os_create_in_directory;
 *   named:     a leased file without a name in `dir`. If the system does not have such files, it has the temporary name
 *              `name`, which is in self->path and which rs_os_publish removes;
 *   temporary: as named, but always with the temporary name;
 *   file:      dir is NULL, and name is the path of a new file. The caller uses a temporary path beside the target and
 *              renames it after finish.
 * `self` need not be initialised, and is inactive after a failure. The strings are copied. RS_E_STATE_EXISTS if the
 * name exists, RS_E_SYS without anonymous memory files, RS_E_ARG_RANGE for names that do not fit the backing. */
RS_NODISCARD rs_status rs_segment_writer_open(rs_segment_writer *self, rs_backing backing, const char *dir,
                                              const char *name, rs_error *err);

/* Appends n bytes. Reserves space ahead in steps that grow from 64 KiB to 32 MiB, or only the needed pages if a whole
 * step is refused. RS_E_SPACE with the numbers of the last try; RS_E_STATE_FINISHED in a forked child;
 * RS_E_ARG_LIMIT beyond the largest file size. After a failure position is unchanged, and the call may be repeated. */
RS_NODISCARD rs_status rs_segment_writer_append(rs_segment_writer *self, const void *bytes, size_t n, rs_error *err);

/* Appends n zeros. Errors of rs_segment_writer_append. */
RS_NODISCARD rs_status rs_segment_writer_append_zeros(rs_segment_writer *self, uint64_t n, rs_error *err);

/* Appends zeros up to a multiple of `alignment`. RS_E_ARG_RANGE unless it is a power of two up to 32 MiB; errors of
 * rs_segment_writer_append. */
RS_NODISCARD rs_status rs_segment_writer_align(rs_segment_writer *self, uint64_t alignment, rs_error *err);

/* Overwrites n bytes at `offset`. RS_E_ARG_RANGE unless they are within the bytes written so far; RS_E_STATE_FINISHED
 * in a forked child. */
RS_NODISCARD rs_status rs_segment_writer_write_at(rs_segment_writer *self, uint64_t offset, const void *bytes, size_t n,
                                                  rs_error *err);

/* Drops the bytes from `position` on: the next append overwrites them. RS_E_ARG_RANGE for a position beyond the end. */
RS_NODISCARD rs_status rs_segment_writer_rewind(rs_segment_writer *self, uint64_t position, rs_error *err);

/* Ends writing: truncates the file to position, protects it, gives up write access and maps the result as `out`.
 * Anonymous memory is sealed if possible. Other files get mode 0400, but a saved file (RS_BACKING_FILE) keeps the mode
 * of the user's umask. Saved files, and named files on a disk, are synced. The writer is then inactive, and the caller
 * owns the file's name, if any. RS_E_STATE_FINISHED for an inactive writer and in a forked child; RS_E_FMT_TRUNCATED
 * if nothing was written. After a failure the writer may only be aborted, and `out` is a closed segment. `out` need not
 * be initialised. */
RS_NODISCARD rs_status rs_segment_writer_finish(rs_segment_writer *self, rs_segment *out, rs_error *err);

/* Closes the file and, except in a forked child, removes its name. The writer is then inactive. Does nothing for an
 * inactive writer. Reports no errors: a name that cannot be removed stays. */
void rs_segment_writer_abort(rs_segment_writer *self);
