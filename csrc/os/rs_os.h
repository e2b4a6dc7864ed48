/* rs_os.h: the core's only way to the operating system: descriptors, anonymous memory, reserving space, sealing,
 * mapping, named files, locks, threads, randomness, and the memory that is left. It knows nothing of the format.
 *
 * For every function: on a status other than RS_OK it fills `err` (NULL is allowed), leaves its out parameters
 * unchanged and holds nothing. Any thread may call it at any time, as long as no two threads use one descriptor in
 * conflicting ways. It needs no lock, reads no environment variable and keeps no state. */
#pragma once

#include "base/rs_status.h"

/* The fields of fstat that identify a file, and those that callers check. A snapshot at the time of the call. */
typedef struct rs_os_identity {
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;
    uint32_t mode; /* st_mode, type bits included */
    uint32_t uid;
} rs_os_identity;

enum {
    RS_OS_LIMIT_NAME_SIZE = 128, /* bytes for the name of a limit; longer cgroup paths lose their front */
    RS_OS_HUGE_PAGE = 2 << 20,   /* the size on most systems; on others the code for huge pages does nothing useful */
    RS_OS_WRITE_CHUNK = 1 << 30, /* most bytes in one pwrite: macOS refuses INT_MAX and more */
    RS_OS_KEPT_FREE_DIVISOR = 20 /* one part in 20 (5%) of every memory limit stays free */
};

/* --- Creating, opening, closing. The caller owns each descriptor that it gets. All are close-on-exec. --- */

/* Creates an anonymous memory file (memfd) of size 0, readable and writable. *out_sealable says whether rs_os_seal will
 * work. RS_E_SYS where the system has none (macOS, a seccomp filter): callers use a directory. */
RS_NODISCARD rs_status rs_os_create_anonymous(int *out_fd, bool *out_sealable, rs_error *err);

/* Creates the file `name` (no slash, not "." or "..") with mode 0600 in `dir`, open for reading and writing. A missing
 * `dir` is created with mode 0700, but not its parents. An existing `dir` must be a directory and no link, belong to
 * this user and be closed to group and others, else RS_E_SYS_NOT_OURS. RS_E_STATE_EXISTS when the name is taken,
 * RS_E_ARG_RANGE for a bad name. */
RS_NODISCARD rs_status rs_os_create_in_directory(const char *dir, const char *name, int *out_fd, rs_error *err);

/* Creates a file at `path` in any directory, open for reading and writing. Its mode is 0666 less the umask. A link in
 * the last component is not followed. RS_E_STATE_EXISTS when the name is taken, RS_E_SYS_NOT_FOUND when the directory
 * is missing. */
RS_NODISCARD rs_status rs_os_create_file(const char *path, int *out_fd, rs_error *err);

/* Opens a regular file for reading and never blocks, whatever `path` is. RS_E_SYS_NOT_FOUND when it does not exist,
 * RS_E_SYS_NOT_OURS when it is not a regular file, or is a link and follow_links is false. */
RS_NODISCARD rs_status rs_os_open_readonly(const char *path, bool follow_links, int *out_fd, rs_error *err);

/* Opens a second descriptor of the same file that cannot write. On Linux it is opened through /proc/self/fd; without
 * /proc a sealed fd is duplicated, because its seals forbid writing. Other systems open the path that they know for the
 * file and compare the two files. RS_E_SYS when this fails. `fd` stays open. */
RS_NODISCARD rs_status rs_os_reopen_readonly(int fd, int *out_fd, rs_error *err);

/* Closes *fd and sets it to -1; does nothing when it is -1. It reports no error: sync data that must last before. */
void rs_os_close(int *fd);

/* --- Space and bytes. --- */

/* Allocates the bytes [from, to) of the file, so that writing them cannot run out of space. Bytes that were never
 * written read as zero. With memory_backed, two more things happen. The size is first compared with
 * rs_os_memory_headroom, because the kernel kills a process that passes a limit; but not the first RS_OS_UNCHECKED
 * bytes of a file, because finding the limits takes longer than building such a store. And whole units of
 * RS_OS_HUGE_PAGE become huge pages where the system gives them; this is cheap only for units that hold no pages yet.
 * RS_E_SPACE gives needed, available and, in the message, the limit; the file's size is unchanged when a limit of
 * memory refused. Where the file system cannot allocate, the file is only extended. */
enum { RS_OS_UNCHECKED = 512 * 1024 };
RS_NODISCARD rs_status rs_os_reserve(int fd, uint64_t from, uint64_t to, bool memory_backed, rs_error *err);

/* Returns whether the file's pages are in memory only (memfd, tmpfs, ramfs, hugetlbfs); false when it is unknown. */
bool rs_os_is_memory_backed(int fd);

/* Writes all n bytes at `offset`; the descriptor's position is not used. RS_E_SPACE when there is no room,
 * RS_E_ARG_RANGE for an offset that is too large, else RS_E_SYS. When `bytes` is a mapping whose file has shrunk,
 * sys_errno is EFAULT and the process is not killed. After a failure some of the bytes may be written. n may be 0. */
RS_NODISCARD rs_status rs_os_write_at(int fd, const void *bytes, size_t n, uint64_t offset, rs_error *err);

/* Sets the size of the file. RS_E_SPACE when there is no room. */
RS_NODISCARD rs_status rs_os_truncate(int fd, uint64_t size_bytes, rs_error *err);

/* Waits until the file's bytes are on the device. */
RS_NODISCARD rs_status rs_os_sync(int fd, rs_error *err);

/* Waits until the entries of the directory that holds `path` are on the device. Call it after a rename. */
RS_NODISCARD rs_status rs_os_sync_directory(const char *path, rs_error *err);

/* --- Protection. --- */

/* Seals a memory file: writing, growing, shrinking and further seals are forbidden for ever, through all descriptors.
 * The kernel may hold a page for a moment, for example in a pipe; the function waits for it, some seconds at most.
 * RS_E_SYS when the file cannot be sealed, is mapped writable somewhere, or a page stays held. */
RS_NODISCARD rs_status rs_os_seal(int fd, rs_error *err);

/* Takes a lease: a shared flock that marks the file as in use. It ends when this descriptor and its copies in forked
 * children are closed. Waits while another process has locked the file exclusively. */
RS_NODISCARD rs_status rs_os_lease(int fd, rs_error *err);

/* Returns whether the file has all seals of rs_os_seal; false where the system has no seals. */
bool rs_os_is_sealed(int fd);

/* Sets the mode to 0400. Descriptors that are open already keep their access. */
RS_NODISCARD rs_status rs_os_protect(int fd, rs_error *err);

/* --- Names. --- */

/* Fills *out from fstat. */
RS_NODISCARD rs_status rs_os_identify(int fd, rs_os_identity *out, rs_error *err);

/* Returns whether both are the same file. Size, mode and owner are not compared. */
static inline bool rs_os_same_file(const rs_os_identity *a, const rs_os_identity *b) {
    return a->device == b->device && a->inode == b->inode;
}

/* Renames `from` to `to`, which it replaces. RS_E_SYS_NOT_FOUND when `from` or a directory is missing. */
RS_NODISCARD rs_status rs_os_rename(const char *from, const char *to, rs_error *err);

/* Removes the name `path`, with `expected` (may be NULL) only while it leads to that file. RS_OK without a name. */
RS_NODISCARD rs_status rs_os_unlink(const char *path, const rs_os_identity *expected, rs_error *err);

/* --- Named files (rs_os_names.c). Processes find them by name and hold them by locks.
 *
 * A file gets its name only when it is whole, and it is read-only from then on. Each process that uses the file holds a
 * *lease*, a shared flock on its descriptor. A lease ends when the descriptor is closed; LOCK_UN is never called,
 * because in a forked child it would drop the parent's lease. So no process uses a file that can be locked exclusively,
 * and the process that locks it so may remove it. A path may lead to another file before the lock is taken, so each
 * lock is followed by a check that the path still leads to the locked file. Only files of the effective user are read
 * or removed. No function here waits for a lock: the caller tries again. --- */

/* Creates a leased file in `dir` with mode 0600, open for reading and writing. With allow_nameless, and where the
 * system and the file system support it (O_TMPFILE), the file has no name and *out_nameless is true. Else it has the
 * path `temporary`, which lies in `dir`. RS_E_STATE_EXISTS when that name is taken. */
RS_NODISCARD rs_status rs_os_create_nameless(const char *dir, const char *temporary, bool allow_nameless, int *out_fd,
                                             bool *out_nameless, rs_error *err);

/* Gives the file of `fd` the name `path`. `temporary` is its name so far, which is removed; NULL when it has none. With
 * `between` NULL the name `path` must be free, else RS_E_STATE_EXISTS; of two processes that publish at once one
 * succeeds. With `between`, a free name, the file atomically replaces the one at `path`. After a failure the file has
 * its old name, or none. */
RS_NODISCARD rs_status rs_os_publish(int fd, const char *temporary, const char *path, const char *between,
                                     rs_error *err);

/* Opens a published file for reading and takes a lease. RS_E_SYS_NOT_FOUND when there is no such file;
 * RS_E_SYS_NOT_OURS unless it is a regular file of this user with mode 0400; RS_E_STATE_BUSY while another process has
 * locked it exclusively. That process may be removing the file: try again. */
RS_NODISCARD rs_status rs_os_open_leased(const char *path, int *out_fd, rs_error *err);

/* Removes the name of a file that has no lease; *out_removed says whether it did. With `expected` (may be NULL) it
 * removes that file only. RS_OK, and nothing is removed, when the file is in use, belongs to another user or does not
 * exist. A lease of the caller counts as a use. */
RS_NODISCARD rs_status rs_os_unlink_unused(const char *path, const rs_os_identity *expected, bool *out_removed,
                                           rs_error *err);

/* The identity and modification time of a file at the time when the caller decided that it may be removed. */
typedef struct rs_os_judged {
    uint64_t device;
    uint64_t inode;
    uint64_t modified_ns;
} rs_os_judged;

/* As rs_os_unlink_unused, but removes the file only while it still matches `judged`. A file that has replaced it stays,
 * and so does a file that was touched since: a process that attaches to a kept file touches it. */
RS_NODISCARD rs_status rs_os_unlink_judged(const char *path, const rs_os_judged *judged, bool *out_removed,
                                           rs_error *err);

/* Sets *out to whether a process has a lease or lock on the file now. RS_E_SYS_NOT_FOUND when it does not exist. */
RS_NODISCARD rs_status rs_os_is_leased(const char *path, bool *out, rs_error *err);

/* Sets the file's times to now, which record when a kept file was last used. A failure is ignored. */
void rs_os_touch(int fd);

/* An open lock file; in a forked child `fd` is -1, because a child closes the locks of its parent. The caller keeps the
 * structure where it is from rs_os_open_lock to rs_os_close_lock. */
typedef struct rs_os_lock {
    int fd;
    struct rs_os_lock *before,
        *after; /* those of this process; only rs_os_open_lock, rs_os_close_lock and forks use it */
} rs_os_lock;

/* Opens a lock file for reading and writing, and creates it with mode 0600 where it is missing. It does not lock the
 * file. RS_E_SYS_NOT_OURS when the file is a link or has a second name, belongs to another user or has another mode.
 * After an error out->fd is -1. Safe from several threads at once, as is rs_os_close_lock. */
RS_NODISCARD rs_status rs_os_open_lock(const char *path, rs_os_lock *out, rs_error *err);

/* Closes the file, which ends the lock. Does nothing where fd is -1. */
void rs_os_close_lock(rs_os_lock *lock);

/* Locks the file exclusively; RS_E_STATE_BUSY when it is locked through another descriptor. *out_named says whether
 * `path` still leads to this file. When it does not, the lock protects nothing and the caller opens the file again. */
RS_NODISCARD rs_status rs_os_try_lock(int fd, const char *path, bool *out_named, rs_error *err);

/* Returns whether `path` leads to the file of `fd`. A link in the last component is not followed. */
bool rs_os_leads_to(const char *path, int fd);

/* --- Mapping. --- */

/* Maps the first size_bytes bytes read-only and shared; RS_E_ARG_RANGE when size_bytes is 0, RS_E_SPACE when the
 * process may not map as much. *out stays valid until
 * rs_os_unmap, also after the descriptor is closed. The bytes of a file may change while they are mapped. Reading
 * beyond the end of a file that has shrunk raises SIGBUS. Neither can happen to sealed memory. */
RS_NODISCARD rs_status rs_os_map(int fd, uint64_t size_bytes, const uint8_t **out, rs_error *err);

/* Ends a mapping of rs_os_map. size_bytes is the size that was given there. Does nothing when data is NULL. */
void rs_os_unmap(const uint8_t *data, uint64_t size_bytes);

/* Returns size_bytes zeroed bytes, at least 1, of whole pages; NULL without memory. Unlike malloc it never divides the
 * pages of others, so rs_os_pages_free gives them back to the system at once. */
void *rs_os_pages(size_t size_bytes);
/* Frees the pages; size_bytes is the size that was given there. Does nothing when data is NULL. */
void rs_os_pages_free(void *data, size_t size_bytes);
/* Gives the pages that lie within n bytes of malloc or rs_os_pages back to the system. The bytes stay allocated, but
 * their values are lost. Does nothing when data is NULL, or where the system offers no such call. */
void rs_os_forget(void *data, size_t n);

/* --- Threads (rs_os_thread.c). --- */

/* A thread that runs one function. The struct must not be moved or copied between start and join. */
typedef struct rs_os_thread {
    void (*run)(void *argument);
    void *argument;
    uint64_t id; /* the bytes of its pthread_t */
} rs_os_thread;

/* Runs run(argument) in a new thread. The thread blocks all signals but those of its own faults, so the other threads
 * handle them. After RS_OK the same process must call rs_os_thread_join; a forked child has the struct, but not the
 * thread. RS_E_SYS when the system gives no thread. */
RS_NODISCARD rs_status rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument,
                                          rs_error *err);

/* Waits until the thread has ended. Its writes to memory are then visible to the caller. */
void rs_os_thread_join(rs_os_thread *self);

/* A lock with a condition: threads that enter it exclude one another, and may wait inside until another thread wakes
 * them. A forked child must not use a monitor that threads of its parent may have entered. */
typedef struct rs_os_monitor rs_os_monitor;

/* Makes a monitor; rs_os_monitor_close frees it when no thread uses it any more. RS_E_MEM, RS_E_SYS. */
RS_NODISCARD rs_status rs_os_monitor_open(rs_os_monitor **out, rs_error *err);
/* Does nothing for NULL. */
void rs_os_monitor_close(rs_os_monitor *self);
void rs_os_monitor_enter(rs_os_monitor *self);
void rs_os_monitor_leave(rs_os_monitor *self);
/* Leaves the monitor, waits to be woken for at most `milliseconds`, and enters it again. Returns false when the time is
 * over. A thread may wake without a reason, so the caller looks at its condition again. */
bool rs_os_monitor_wait(rs_os_monitor *self, uint32_t milliseconds);
/* Wakes all threads that wait. The caller is inside. */
void rs_os_monitor_wake(rs_os_monitor *self);

/* --- The rest. --- */

/* Fills `out` with n bytes from the system's cryptographic random generator. */
RS_NODISCARD rs_status rs_os_random(void *out, size_t n, rs_error *err);

/* Returns the nanoseconds since 1970-01-01 UTC by the wall clock, which may go backwards; 0 when there is no clock. */
uint64_t rs_os_now_ns(void);

/* Returns the id of the calling process. The owner of a resource compares it to notice that it is a forked child. */
int64_t rs_os_process_id(void);

/* Gives the free memory of the C allocator back to the system, where the C library can (glibc). */
void rs_os_trim(void);

/* --- How much memory is left (rs_os_memory.c). --- */

/* The folders that the numbers are read from, borrowed. The system's are {"/proc", ""}; a test sets both to its own. */
typedef struct rs_os_memory_roots {
    const char *proc;        /* holds meminfo, self/cgroup, self/mountinfo, self/limits, self/statm */
    const char *file_system; /* put in front of every mount point that mountinfo names */
} rs_os_memory_roots;

/* Sets *out_bytes to the bytes of memory that may be taken before the machine or a memory cgroup of this process (every
 * ancestor, v1 and v2) is 95% full, or 95% of the address space of this process (RLIMIT_AS); UINT64_MAX when no limit
 * is known. limit_name receives the name of the smallest limit, "MemAvailable of the machine", "the address space of
 * the process (ulimit -v)" or "memory cgroup /foo/bar"; it may be NULL when its size is 0. Swap and memory.high are not
 * counted. Cannot fail: a limit that cannot be read is ignored. */
void rs_os_memory_headroom(uint64_t *out_bytes, char *limit_name, size_t limit_name_size);

/* As rs_os_memory_headroom, but reads below `roots`. */
void rs_os_memory_headroom_at(const rs_os_memory_roots *roots, uint64_t *out_bytes, char *limit_name,
                              size_t limit_name_size);

/* Returns RS_E_SPACE, with the numbers and the limit's name, when `needed` more bytes of memory exceed the headroom.
 * `roots` may be NULL for the system's folders. */
RS_NODISCARD rs_status rs_os_require_memory(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err);

/* The same for `needed` more bytes that are mapped and whose pages may be there already. */
RS_NODISCARD rs_status rs_os_require_address_space(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err);
