/* rs_os.h: everything the core asks of the operating system: descriptors, anonymous memory, reserving space,
 * sealing, mapping, randomness, and how much memory is left. Knows neither the format nor segments.
 *
 * Throughout: functions that return an rs_status fill `err` (NULL is allowed) on every code but RS_OK, leave
 * their out parameters alone then, and hold nothing. All may be called from any thread at once as long as no two
 * use the same descriptor in conflicting ways; none needs the GIL, reads an environment variable or keeps state. */
#ifndef RS_OS_H
#define RS_OS_H

#include "base/rs_status.h"

/* What tells one file from another, and what is checked about it. Owns nothing; valid as of the call. */
typedef struct rs_os_identity {
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;
    uint32_t mode; /* st_mode, type bits included */
    uint32_t uid;
} rs_os_identity;

enum {
    RS_OS_LIMIT_NAME_SIZE = 128,   /* enough for the name of any limit; longer cgroup paths lose their front */
    RS_OS_HUGE_PAGE = 2 << 20,     /* as most systems have it; where it is another, nothing is gained nor lost */
    RS_OS_WRITE_CHUNK = 1 << 30,   /* most bytes in one pwrite: macOS refuses INT_MAX and more */
    RS_OS_KEPT_FREE_DIVISOR = 20   /* a twentieth, 5%, of every memory limit stays free */
};

/* --- Creating, opening, closing. A descriptor handed out is the caller's, close-on-exec. --- */

/* Anonymous memory, readable and writable, of size 0 and no name. *out_sealable says whether rs_os_seal will work.
 * RS_E_SYS where the system has none (macOS, a filter): the caller then uses a directory. */
RS_NODISCARD rs_status rs_os_create_anonymous(int *out_fd, bool *out_sealable, rs_error *err);

/* A new file `name` (no slash, not "." or "..") of mode 0600, open for reading and writing, in `dir`. `dir` itself,
 * not its parents, is made with mode 0700 where missing; one that exists must be a directory and not a link, this
 * user's, closed to group and others: else RS_E_SYS_NOT_OURS. RS_E_STATE_EXISTS where the name is taken.
 * RS_E_ARG_RANGE on a bad name. */
RS_NODISCARD rs_status rs_os_create_in_directory(const char *dir, const char *name, int *out_fd, rs_error *err);

/* A new file at `path`, with the mode that the umask leaves of 0666, open for reading and writing, in whatever
 * directory that is; follows no link in the last component. RS_E_STATE_EXISTS where the name is taken,
 * RS_E_SYS_NOT_FOUND where the directory is missing. */
RS_NODISCARD rs_status rs_os_create_file(const char *path, int *out_fd, rs_error *err);

/* Opens a regular file for reading and never blocks, whatever `path` is. RS_E_SYS_NOT_FOUND when it does not exist,
 * RS_E_SYS_NOT_OURS when it is not a regular file, or is a link and follow_links is false. */
RS_NODISCARD rs_status rs_os_open_readonly(const char *path, bool follow_links, int *out_fd, rs_error *err);

/* A second descriptor of the same file that cannot write, with a position of its own. Through /proc/self/fd on
 * Linux; without /proc a sealed fd is duplicated instead (its seals forbid writing), and elsewhere the file is opened
 * by the path that the system knows for it and compared. RS_E_SYS when none works. `fd` stays open. */
RS_NODISCARD rs_status rs_os_reopen_readonly(int fd, int *out_fd, rs_error *err);

/* Closes *fd and sets it to -1; nothing when it is -1 already. Never fails: data that must last is synced before. */
void rs_os_close(int *fd);

/* --- Space and bytes. --- */

/* Makes the bytes [from, to) of the file real, so that writing them cannot run out of space; they read as zero
 * where never written. With memory_backed the step is compared with rs_os_memory_headroom first, because the
 * kernel would kill instead of refusing; its whole units of RS_OS_HUGE_PAGE become huge pages where the system
 * gives them, and must hold nothing yet for that to be cheap. RS_E_SPACE (needed, available, the limit in the
 * message) leaves the size as it was where a limit of memory refused. Where the file system cannot reserve, the
 * file is only extended. */
RS_NODISCARD rs_status rs_os_reserve(int fd, uint64_t from, uint64_t to, bool memory_backed, rs_error *err);

/* Whether the file's pages live in memory only (memfd, tmpfs, ramfs); false where that cannot be told. */
bool rs_os_is_memory_backed(int fd);

/* Writes all n bytes at `offset`; the descriptor's position is not used. RS_E_SPACE when there is no room, RS_E_SYS
 * otherwise (sys_errno EFAULT: `bytes` is a mapping whose file has shrunk; the process is not killed). A failure may
 * leave a part written. n may be 0. */
RS_NODISCARD rs_status rs_os_write_at(int fd, const void *bytes, size_t n, uint64_t offset, rs_error *err);

/* Sets the size. */
RS_NODISCARD rs_status rs_os_truncate(int fd, uint64_t size_bytes, rs_error *err);

/* Waits until the file's bytes are on the device. */
RS_NODISCARD rs_status rs_os_sync(int fd, rs_error *err);

/* Waits until the entries of the directory that holds `path` are on the device: after a rename. */
RS_NODISCARD rs_status rs_os_sync_directory(const char *path, rs_error *err);

/* --- Protection. --- */

/* Forbids writing, growing, shrinking and further seals for good, for every descriptor of this memory. A page that is
 * held for a moment (by the kernel, in a pipe) is waited for, some seconds at most. RS_E_SYS where the file is not
 * sealable, or is mapped writable somewhere, or a page stays held. */
RS_NODISCARD rs_status rs_os_seal(int fd, rs_error *err);

/* Marks a file as in use for as long as this descriptor, and its copies in forked children, live: a shared flock. */
RS_NODISCARD rs_status rs_os_lease(int fd, rs_error *err);

/* Whether the file is sealed as rs_os_seal does it; false where the system has no seals. */
bool rs_os_is_sealed(int fd);

/* Mode 0400. Descriptors that are open already keep their access. */
RS_NODISCARD rs_status rs_os_protect(int fd, rs_error *err);

/* --- Names. --- */

/* Reads what identifies the file. */
RS_NODISCARD rs_status rs_os_identify(int fd, rs_os_identity *out, rs_error *err);

/* Whether both are the same file; size, mode and owner are not compared. */
static inline bool rs_os_same_file(const rs_os_identity *a, const rs_os_identity *b) {
    return a->device == b->device && a->inode == b->inode;
}

/* Renames, replacing `to` where it exists. */
RS_NODISCARD rs_status rs_os_rename(const char *from, const char *to, rs_error *err);

/* Removes the name. With `expected` (may be NULL) only while `path` still leads to that file, else nothing happens.
 * A name that does not exist is RS_OK. */
RS_NODISCARD rs_status rs_os_unlink(const char *path, const rs_os_identity *expected, rs_error *err);

/* --- Named files (rs_os_names.c). Processes find them by name and hold them by locks.
 *
 * A file gets its name only once it is whole, and is read-only from then on. Whoever uses it holds a shared flock,
 * its *lease*, for as long as its descriptor lives; nobody ever asks for LOCK_UN, which would drop a parent's
 * lease from a forked child. So a file that can be locked exclusively is used by nobody, and who has locked it so
 * may remove it. A path may lead to another file by the time a lock is had: every lock is followed by a look
 * whether it still leads to this one. Only files of the effective user are ever read or removed. Waiting is the
 * caller's: nothing here blocks. --- */

/* A new file in `dir`, mode 0600, open for reading and writing, leased: without a name (*out_nameless) where the
 * system and the file system have such files and allow_nameless is true, else under the path `temporary`, which
 * lies in `dir`. RS_E_STATE_EXISTS where that is taken. */
RS_NODISCARD rs_status rs_os_create_nameless(const char *dir, const char *temporary, bool allow_nameless, int *out_fd,
                                             bool *out_nameless, rs_error *err);

/* Gives the file behind fd its name. `temporary` is the one that it has, NULL for none; it is gone then. With
 * `between` NULL the name must be free, else RS_E_STATE_EXISTS, and of two that publish at once one succeeds; else
 * what stands at `path` is replaced at once, by way of the free name `between`. After a failure the file is as
 * before. */
RS_NODISCARD rs_status rs_os_publish(int fd, const char *temporary, const char *path, const char *between,
                                     rs_error *err);

/* Opens a published file for reading and leases it. RS_E_SYS_NOT_FOUND; RS_E_SYS_NOT_OURS for what is no regular
 * file of this user with mode 0400; RS_E_STATE_BUSY while somebody has it locked exclusively, who may be removing
 * it: try again. */
RS_NODISCARD rs_status rs_os_open_leased(const char *path, int *out_fd, rs_error *err);

/* Removes the name of a file that nobody has leased; *out_removed says whether. With `expected` (may be NULL) only
 * of that file. A file in use, of another user, or gone is RS_OK and stays as it is. The caller's own lease counts
 * as a use. */
RS_NODISCARD rs_status rs_os_unlink_unused(const char *path, const rs_os_identity *expected, bool *out_removed,
                                           rs_error *err);

/* What a file was when somebody looked whether it may go. */
typedef struct rs_os_judged {
    uint64_t device;
    uint64_t inode;
    uint64_t modified_ns;
} rs_os_judged;

/* The same for a file that is still what it was: what came in its place meanwhile stays, and so does what was
 * touched, for who attaches to a kept file touches it. */
RS_NODISCARD rs_status rs_os_unlink_judged(const char *path, const rs_os_judged *judged, bool *out_removed,
                                           rs_error *err);

/* Whether somebody has it leased or locked, at this moment. */
RS_NODISCARD rs_status rs_os_is_leased(const char *path, bool *out, rs_error *err);

/* Sets the file's times to now, as far as that is possible: when a file that is kept was last used. */
void rs_os_touch(int fd);

/* Opens a lock file for reading and writing, and makes it where it is missing: mode 0600, this user's, no link, else
 * RS_E_SYS_NOT_OURS. Nothing is locked yet. */
RS_NODISCARD rs_status rs_os_open_lock(const char *path, int *out_fd, rs_error *err);

/* Locks it exclusively; RS_E_STATE_BUSY when another descriptor has it locked. *out_named: whether `path` leads to
 * this file still; where not, the lock is of no worth. */
RS_NODISCARD rs_status rs_os_try_lock(int fd, const char *path, bool *out_named, rs_error *err);

/* Whether `path`, links not followed, leads to the file behind fd. */
bool rs_os_leads_to(const char *path, int fd);

/* --- Mapping. --- */

/* Maps the first size_bytes (not 0, else RS_E_ARG_RANGE) read-only and shared. The mapping outlives the descriptor
 * and ends with rs_os_unmap. Bytes of a file that others may change stay theirs to change, and reading beyond its
 * end after it shrank raises SIGBUS: only sealed memory is free of both. */
RS_NODISCARD rs_status rs_os_map(int fd, uint64_t size_bytes, const uint8_t **out, rs_error *err);

/* Undoes rs_os_map, with the size given there; nothing when data is NULL. */
void rs_os_unmap(const uint8_t *data, uint64_t size_bytes);

/* --- A thread (rs_os_thread.c). --- */

/* A thread that runs one function. Does not move, and is not copied, from start to join. */
typedef struct rs_os_thread {
    void (*run)(void *argument);
    void *argument;
    uint64_t id; /* the system's own */
} rs_os_thread;

/* Runs run(argument) in a thread of its own, which takes no signals: they stay with the threads that were there. After
 * RS_OK rs_os_thread_join must follow, in the same process: a forked child has the struct and no thread. RS_E_SYS where
 * the system gives none. */
RS_NODISCARD rs_status rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument,
                                          rs_error *err);

/* Waits until it has ended; what it has written can be read then. */
void rs_os_thread_join(rs_os_thread *self);

/* --- The rest. --- */

/* n bytes that nobody can guess. */
RS_NODISCARD rs_status rs_os_random(void *out, size_t n, rs_error *err);

/* Nanoseconds since 1970 by the wall clock; may go backwards. */
uint64_t rs_os_now_ns(void);

/* The calling process: a descriptor holder compares it to tell itself from a forked child. */
int64_t rs_os_process_id(void);

/* Gives what the C allocator holds free back to the system; nothing where that is not possible. */
void rs_os_trim(void);

/* --- How much memory is left (rs_os_memory.c). --- */

/* Where the numbers are read. Borrowed strings. The system's own: {"/proc", ""}; a test points both into a folder. */
typedef struct rs_os_memory_roots {
    const char *proc;        /* holds meminfo, self/cgroup, self/mountinfo */
    const char *file_system; /* put in front of every mount point that mountinfo names */
} rs_os_memory_roots;

/* Bytes of memory that may still be taken before the machine or one of this process's memory cgroups (every
 * ancestor, v1 and v2) is 95% full; UINT64_MAX where no limit is known. limit_name (may be NULL when its size is 0)
 * gets the limit that said so, "MemAvailable of the machine" or "memory cgroup /foo/bar". Swap and memory.high are
 * not counted. Never fails: what cannot be read limits nothing. */
void rs_os_memory_headroom(uint64_t *out_bytes, char *limit_name, size_t limit_name_size);

/* The same for other roots. */
void rs_os_memory_headroom_at(const rs_os_memory_roots *roots, uint64_t *out_bytes, char *limit_name,
                              size_t limit_name_size);

/* RS_E_SPACE with the numbers and the limit's name when `needed` more bytes of memory pass the headroom. `roots`
 * may be NULL for the system's. */
RS_NODISCARD rs_status rs_os_require_memory(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err);

#endif
