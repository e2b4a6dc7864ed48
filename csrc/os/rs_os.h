/* rs_os.h: the core's interface to the operating system: descriptors, anonymous memory, reserving space, sealing,
 * mapping, named files, locks, threads, randomness, and free memory. It knows nothing about the format.
 *
 * A function that does not return RS_OK fills `err` (NULL is allowed), owns nothing and leaves its out parameters
 * unchanged, except bools, buffers and rs_os_lock. Any thread may call any function at any time, as long as no two
 * threads use one descriptor in conflicting ways. The functions read no environment variables, and keep no state but a
 * list of open lock files. */
#pragma once

#include "base/rs_status.h"

/* The fields of fstat that identify a file or that callers check. A snapshot at the time of the call. */
typedef struct rs_os_identity {
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;
    uint32_t mode; /* st_mode, type bits included */
    uint32_t uid;
} rs_os_identity;

enum {
    RS_OS_LIMIT_NAME_SIZE = 128, /* bytes for the name of a limit; longer cgroup paths lose their front */
    RS_OS_HUGE_PAGE = 2 << 20,   /* the size on most systems; on others the code for huge pages has no effect */
    RS_OS_WRITE_CHUNK = 1 << 30, /* the most bytes of one pwrite: macOS rejects more than INT_MAX */
    RS_OS_KEPT_FREE_DIVISOR = 20 /* 1/20 (5%) of every memory limit stays free */
};

/* --- Creating, opening, closing. The caller owns the descriptors. All are close-on-exec. --- */

/* Creates an anonymous memory file (memfd) of size 0, readable and writable. Sets *out_sealable to whether rs_os_seal
 * will work. RS_E_SYS if it fails, as without memfd (macOS, a seccomp filter): callers then use a directory. */
RS_NODISCARD rs_status rs_os_create_anonymous(int *out_fd, bool *out_sealable, rs_error *err);

/* Creates the file `name` (no slash, not "." or "..") with mode 0600 in `dir`, open for reading and writing. A missing
 * `dir` is created with mode 0700, but not its parents. An existing `dir` must be a directory, not a link, belong to
 * this user and be closed to group and others, else RS_E_SYS_NOT_OURS. RS_E_STATE_EXISTS if the name exists,
 * RS_E_ARG_RANGE for a bad name. */
RS_NODISCARD rs_status rs_os_create_in_directory(const char *dir, const char *name, int *out_fd, rs_error *err);

/* Creates a file at `path` in any directory, open for reading and writing. Its mode is 0666 minus the umask. A link in
 * the last component is not followed. RS_E_STATE_EXISTS if the name exists, RS_E_SYS_NOT_FOUND if the directory is
 * missing. */
RS_NODISCARD rs_status rs_os_create_file(const char *path, int *out_fd, rs_error *err);

/* Opens a regular file for reading, without blocking on any kind of file. RS_E_SYS_NOT_FOUND if it does not exist,
 * RS_E_SYS_NOT_OURS if it is not a regular file, or is a link and follow_links is false. */
RS_NODISCARD rs_status rs_os_open_readonly(const char *path, bool follow_links, int *out_fd, rs_error *err);

/* Opens a second, read-only descriptor of the same file. On Linux it is opened through /proc/self/fd; without /proc a
 * sealed fd is duplicated, because its seals forbid writing. On other systems the file is opened by its known path and
 * compared. RS_E_SYS if this fails. `fd` stays open. */
RS_NODISCARD rs_status rs_os_reopen_readonly(int fd, int *out_fd, rs_error *err);

/* Closes *fd and sets it to -1; does nothing if it is -1. Reports no errors, so first sync data that must last. */
void rs_os_close(int *fd);

/* --- Space and bytes. --- */

/* Allocates the bytes [from, to) of the file, so that writing them cannot run out of space. Unwritten bytes read as
 * zero. With memory_backed, it first compares the size with rs_os_memory_headroom, because the kernel kills a process
 * that passes a limit; it skips this for the first RS_OS_UNCHECKED bytes of a file, because finding the limits takes
 * longer than building such a store. It also makes huge pages of whole units of RS_OS_HUGE_PAGE if the system allows
 * it, which is cheap only for units without pages. RS_E_SPACE has needed, available and, in the message, the limit; if
 * the comparison failed, the file is unchanged. If the file system cannot allocate, the file is only extended. */
enum { RS_OS_UNCHECKED = 512 * 1024 };
RS_NODISCARD rs_status rs_os_reserve(int fd, uint64_t from, uint64_t to, bool memory_backed, rs_error *err);

/* Returns whether the file's pages are in memory only (memfd, tmpfs, ramfs, hugetlbfs); false if that is unknown. */
bool rs_os_is_memory_backed(int fd);

/* Writes all n bytes at `offset`; the descriptor's position is not used. RS_E_SPACE without space, RS_E_ARG_RANGE for
 * an offset that is too large, else RS_E_SYS. If `bytes` is a mapping whose file has shrunk, sys_errno is EFAULT and
 * the process is not killed. After a failure some of the bytes may have been written. n may be 0. */
RS_NODISCARD rs_status rs_os_write_at(int fd, const void *bytes, size_t n, uint64_t offset, rs_error *err);

/* Sets the size of the file. RS_E_SPACE without space. */
RS_NODISCARD rs_status rs_os_truncate(int fd, uint64_t size_bytes, rs_error *err);

/* Waits until the file's bytes are on the device. */
RS_NODISCARD rs_status rs_os_sync(int fd, rs_error *err);

/* Waits until the entries of the directory that contains `path` are on the device. Call it after a rename. */
RS_NODISCARD rs_status rs_os_sync_directory(const char *path, rs_error *err);

/* --- Protection. --- */

/* Seals a memory file: writing, growing, shrinking and further seals are forbidden forever, through all descriptors.
 * Waits some seconds for pages that the kernel holds for a moment, for example in a pipe. RS_E_SYS if the file cannot
 * be sealed or is mapped writable, or if a page stays held. */
RS_NODISCARD rs_status rs_os_seal(int fd, rs_error *err);

/* Takes a lease: a shared flock that marks the file as in use. It ends when this descriptor and its copies in forked
 * children are closed. Waits while another process has locked the file exclusively. */
RS_NODISCARD rs_status rs_os_lease(int fd, rs_error *err);

/* Returns whether the file has all seals of rs_os_seal; false on systems without seals. */
bool rs_os_is_sealed(int fd);

/* Sets the mode to 0400. Open descriptors keep their access. */
RS_NODISCARD rs_status rs_os_protect(int fd, rs_error *err);

/* --- Names. --- */

/* Fills *out from fstat. */
RS_NODISCARD rs_status rs_os_identify(int fd, rs_os_identity *out, rs_error *err);

/* Returns whether both identify the same file, by device and inode alone. */
static inline bool rs_os_same_file(const rs_os_identity *a, const rs_os_identity *b) {
    return a->device == b->device && a->inode == b->inode;
}

/* The fields of stat that change when a file is replaced, rewritten or resized. */
typedef struct rs_os_stamp {
    uint64_t size_bytes;
    uint64_t modified_ns;
    uint64_t inode;
} rs_os_stamp;

/* Fills *out for the file that `path` leads to. RS_E_SYS_NOT_FOUND for a missing file. */
RS_NODISCARD rs_status rs_os_stamp_of(const char *path, rs_os_stamp *out, rs_error *err);

/* Renames `from` to `to`, and replaces an existing `to`. RS_E_SYS_NOT_FOUND if `from` or a directory is missing. */
RS_NODISCARD rs_status rs_os_rename(const char *from, const char *to, rs_error *err);

/* Removes the name `path`. With `expected` (may be NULL), only a name of that file. RS_OK for a missing name. */
RS_NODISCARD rs_status rs_os_unlink(const char *path, const rs_os_identity *expected, rs_error *err);

/* --- Named files (rs_os_names.c). Processes find them by name and keep them in use by locks.
 *
 * A file gets its name only when it is complete, and most files are read-only afterwards. Each process that uses the
 * file has a *lease*, a shared flock on its descriptor. A lease ends when the descriptor is closed; LOCK_UN is never
 * called, because in a forked child it would drop the parent's lease. So a file that can be locked exclusively is not
 * in use, and the process with the exclusive lock may remove it. A path may lead to another file before the lock is
 * taken, so each lock is followed by a check that the path still leads to the locked file. Only files of the effective
 * user are read or removed. Only rs_os_create_nameless may wait for a lock; otherwise the caller tries again. --- */

/* Creates a leased file in `dir` with mode 0600, open for reading and writing. With allow_nameless, if the system and
 * the file system support it (O_TMPFILE), the file has no name and *out_nameless is true. Else it has the path
 * `temporary`, which is in `dir`. RS_E_STATE_EXISTS if that name exists. */
RS_NODISCARD rs_status rs_os_create_nameless(const char *dir, const char *temporary, bool allow_nameless, int *out_fd,
                                             bool *out_nameless, rs_error *err);

/* Gives the file of `fd` the name `path`. `temporary` is its old name, which is removed, or NULL. If `between` is NULL
 * the name `path` must be free, else RS_E_STATE_EXISTS; if two processes publish at once, one succeeds. If `between` is
 * a free name, the file atomically replaces the file at `path`. After a failure the file has its old name, or none. */
RS_NODISCARD rs_status rs_os_publish(int fd, const char *temporary, const char *path, const char *between,
                                     rs_error *err);

/* Opens a published file for reading and takes a lease. RS_E_SYS_NOT_FOUND for a missing file; RS_E_SYS_NOT_OURS unless
 * it is a regular file of this user with mode 0400; RS_E_STATE_BUSY while another process has locked it exclusively and
 * may be removing it: try again. */
RS_NODISCARD rs_status rs_os_open_leased(const char *path, int *out_fd, rs_error *err);

/* As rs_os_open_leased, for a file of mode 0600 that its users write to: opens it for reading and writing. */
RS_NODISCARD rs_status rs_os_open_leased_writable(const char *path, int *out_fd, rs_error *err);

/* Removes the name of a file without leases. Sets *out_removed to whether it did. If `expected` is not NULL, removes
 * only that file. RS_OK, without removing anything, if the file is in use, belongs to another user (unless `group`) or
 * does not exist. A lease of the caller counts as a use. */
RS_NODISCARD rs_status rs_os_unlink_unused(const char *path, bool group, const rs_os_identity *expected,
                                           bool *out_removed, rs_error *err);

/* The identity and modification time of a file when the caller decided that it may be removed. */
typedef struct rs_os_removable {
    uint64_t device;
    uint64_t inode;
    uint64_t modified_ns;
} rs_os_removable;

/* As rs_os_unlink_unused, but removes the file only if it still matches `removable`. A file that has replaced it stays,
 * and so does a file that was touched since then: a process that attaches to a kept file touches it. */
RS_NODISCARD rs_status rs_os_unlink_removable(const char *path, const rs_os_removable *removable, bool *out_removed,
                                              rs_error *err);

/* Sets *out to whether a process has a lease or lock on the file now. RS_E_SYS_NOT_FOUND for a missing file. */
RS_NODISCARD rs_status rs_os_is_leased(const char *path, bool *out, rs_error *err);

/* Sets the file's times to now, to record the last use of a kept file. Ignores failures. */
void rs_os_touch(int fd);

/* An open lock file; in a forked child `fd` is -1, because the child closes its copy. The caller must not move the
 * struct between rs_os_open_lock and rs_os_close_lock. */
typedef struct rs_os_lock {
    int fd;
    struct rs_os_lock *before, *after; /* the list of this process; only for rs_os_names.c */
} rs_os_lock;

/* Opens a lock file for reading and writing, and creates a missing one with mode 0600 or, with `group`, 0660. Does not
 * lock the file. RS_E_SYS_NOT_OURS if the file is a link or has a second name, belongs to another user (unless `group`)
 * or has rights beyond this mode; missing rights are added. After an error out->fd is -1. Safe from several threads at
 * once, as is rs_os_close_lock. */
RS_NODISCARD rs_status rs_os_open_lock(const char *path, bool group, rs_os_lock *out, rs_error *err);

/* Closes the file, which ends the lock. Does nothing if fd is -1. */
void rs_os_close_lock(rs_os_lock *lock);

/* Locks the file exclusively; RS_E_STATE_BUSY if it is locked through another descriptor. Sets *out_named to whether
 * `path` still leads to this file. If not, the lock protects nothing and the caller opens the file again. */
RS_NODISCARD rs_status rs_os_try_lock(int fd, const char *path, bool *out_named, rs_error *err);

/* Returns whether `path` leads to the file of `fd`. A link in the last component is not followed. */
bool rs_os_leads_to(const char *path, int fd);

/* --- Mapping. --- */

/* Maps the first size_bytes bytes read-only and shared; RS_E_ARG_RANGE if size_bytes is 0, RS_E_SPACE if the process
 * may not map that much. *out stays valid until rs_os_unmap, even after the descriptor is closed. The bytes of a file
 * may change while they are mapped. Reading beyond the end of a file that has shrunk raises SIGBUS. Neither can happen
 * to sealed memory. */
RS_NODISCARD rs_status rs_os_map(int fd, uint64_t size_bytes, const uint8_t **out, rs_error *err);

/* Ends a mapping of rs_os_map with its size. Does nothing if data is NULL. */
void rs_os_unmap(const uint8_t *data, uint64_t size_bytes);

/* Returns whole pages with size_bytes (not 0) zeroed bytes; NULL without memory. They hold nothing else, unlike those
 * of malloc, so rs_os_pages_free returns them to the system at once. */
void *rs_os_pages(size_t size_bytes);
/* Frees pages of rs_os_pages with their size. Does nothing if data is NULL. */
void rs_os_pages_free(void *data, size_t size_bytes);
/* Returns to the system the whole pages within n bytes from malloc or rs_os_pages. The bytes stay allocated, but their
 * values are lost. Does nothing if data is NULL, or if the system does not support it. */
void rs_os_forget(void *data, size_t n);

/* --- Files that change (rs_os_shared.c): several processes write to one file at once. --- */

/* Allocates the bytes [from, to) of the file, so that writing them through a mapping cannot run out of space; it
 * changes no bytes. RS_E_SPACE; RS_E_SYS if the file system cannot do it. On macOS it only extends the file. */
RS_NODISCARD rs_status rs_os_allocate(int fd, uint64_t from, uint64_t to, rs_error *err);

/* Returns whether the file is on a network file system, as far as the system tells. */
bool rs_os_is_network(int fd);

/* Maps the first size_bytes bytes shared and writable; rs_os_unmap ends the mapping. A byte must not be touched before
 * its space is allocated: on a full disk the kernel would kill the process. */
RS_NODISCARD rs_status rs_os_map_writable(int fd, uint64_t size_bytes, uint8_t **out, rs_error *err);

/* Maps size_bytes bytes from `offset`, a multiple of the page size, read-only. They may lie beyond the end of the file,
 * where they must not be read yet. rs_os_unmap ends the mapping. */
RS_NODISCARD rs_status rs_os_map_from(int fd, uint64_t offset, uint64_t size_bytes, const uint8_t **out, rs_error *err);

/* Opens the file of `fd` again for reading and writing: a descriptor with locks of its own. */
RS_NODISCARD rs_status rs_os_reopen_writable(int fd, int *out_fd, rs_error *err);

/* Returns whether the next two functions lock. If not (macOS), the first always sets *locked. */
bool rs_os_has_range_locks(void);

/* Locks the numbers [first, first + n) of a file, below 2^40, for this descriptor and its copies. Sets *locked to
 * whether it succeeded; it never waits. The locks end when the descriptor is closed. Threads with one descriptor share
 * them. */
RS_NODISCARD rs_status rs_os_try_lock_range(int fd, uint64_t first, uint64_t n, bool *locked, rs_error *err);
void rs_os_unlock_range(int fd, uint64_t first, uint64_t n);

/* Returns whether a process with this id runs, in the PID namespace of the caller. */
bool rs_os_is_running(int64_t pid);

/* --- Threads (rs_os_thread.c). --- */

/* A thread that runs one function. The struct must not be moved or copied between start and join. */
typedef struct rs_os_thread {
    void (*run)(void *argument);
    void *argument;
    uint64_t id; /* the bytes of its pthread_t */
} rs_os_thread;

/* Runs run(argument) in a new thread. The thread blocks all signals except those for its own faults, so other threads
 * handle the blocked signals. After RS_OK the same process must call rs_os_thread_join; a forked child has the struct,
 * but not the thread. RS_E_SYS if the system cannot start a thread. */
RS_NODISCARD rs_status rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument,
                                          rs_error *err);

/* Waits until the thread has ended. Its writes to memory are then visible to the caller. */
void rs_os_thread_join(rs_os_thread *self);

/* A lock with a condition: one thread at a time is inside, and may step out to wait until another thread wakes it. A
 * forked child must not use a monitor that threads of its parent may have entered. */
typedef struct rs_os_monitor rs_os_monitor;

/* Makes a monitor; rs_os_monitor_close frees it after all threads have left it. RS_E_MEM, RS_E_SYS. */
RS_NODISCARD rs_status rs_os_monitor_open(rs_os_monitor **out, rs_error *err);
/* Does nothing for NULL. */
void rs_os_monitor_close(rs_os_monitor *self);
void rs_os_monitor_enter(rs_os_monitor *self);
void rs_os_monitor_leave(rs_os_monitor *self);
/* Leaves the monitor, waits up to `milliseconds` to be woken, and enters it again. Returns false after a timeout. A
 * thread may wake without a reason, so the caller checks its condition again. */
bool rs_os_monitor_wait(rs_os_monitor *self, uint32_t milliseconds);
/* Wakes all threads that wait. The caller is inside. */
void rs_os_monitor_wake(rs_os_monitor *self);

/* --- The rest. --- */

/* Fills `out` with n bytes from the system's cryptographic random generator. */
RS_NODISCARD rs_status rs_os_random(void *out, size_t n, rs_error *err);

/* Returns the nanoseconds since 1970-01-01 UTC by the wall clock, which may go backwards; 0 without a clock. */
uint64_t rs_os_now_ns(void);

/* Returns the id of the calling process. The owner of a resource compares it to notice that it is a forked child. */
int64_t rs_os_process_id(void);

/* Returns the free memory of the C allocator to the system, if the C library can (glibc). */
void rs_os_trim(void);

/* --- Available memory (rs_os_headroom.c). --- */

/* The directories with the limits of memory, borrowed. The system's are {"/proc", ""}; tests use their own. */
typedef struct rs_os_memory_roots {
    const char *proc;        /* holds meminfo, self/cgroup, self/mountinfo, self/limits, self/statm */
    const char *file_system; /* put in front of every mount point that mountinfo names */
} rs_os_memory_roots;

/* Sets *out_bytes to the bytes that may be allocated before the machine, a memory cgroup of this process (with all
 * ancestors, v1 and v2) or its address space (RLIMIT_AS) is 95% full; UINT64_MAX if no limit is known. limit_name
 * receives the name of the limit that leaves the least, "MemAvailable of the machine", "the address space of the
 * process (ulimit -v)" or "memory cgroup /foo/bar"; it may be NULL if its size is 0. Swap and memory.high are not
 * counted. Ignores a limit that cannot be read. */
void rs_os_memory_headroom(uint64_t *out_bytes, char *limit_name, size_t limit_name_size);

/* As rs_os_memory_headroom, but reads below `roots`. */
void rs_os_memory_headroom_at(const rs_os_memory_roots *roots, uint64_t *out_bytes, char *limit_name,
                              size_t limit_name_size);

/* Returns RS_E_SPACE, with the numbers and the limit's name, if `needed` more bytes of memory exceed the headroom.
 * `roots` may be NULL for the system's directories. */
RS_NODISCARD rs_status rs_os_require_memory(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err);

/* The same for mapping `needed` more bytes, compared with the address space alone: their pages may exist already. */
RS_NODISCARD rs_status rs_os_require_address_space(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err);
