/* rs_os_posix.c: the functions of rs_os.h for files, memory, mappings and randomness, on Linux and macOS. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/random.h>
#include <sys/statfs.h>
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#endif
#if defined(__APPLE__)
#include <limits.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

static RS_COLD rs_status fail(rs_error *err, const char *message) {
    return rs_error_set_errno(err, RS_E_SYS, errno, "%s", message);
}

/* ---------------------------------------------------------------- creating, opening, closing */

rs_status rs_os_create_anonymous(int *out_fd, bool *out_sealable, rs_error *err) {
#if defined(__linux__)
    /* MFD_NOEXEC_SEAL needs Linux 6.3. The last attempt gives up sealing; then only read-only descriptors protect the
     * file. */
    static const unsigned attempts[] = {MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL,
                                        MFD_CLOEXEC | MFD_ALLOW_SEALING, MFD_CLOEXEC};
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        int fd = memfd_create("recstore", attempts[i]);
        if (fd >= 0) {
            *out_fd = fd;
            *out_sealable = (attempts[i] & MFD_ALLOW_SEALING) != 0;
            return RS_OK;
        }
        if (errno != EINVAL) break;
    }
    return fail(err, "memfd_create failed");
#else
    (void)out_fd;
    (void)out_sealable;
    errno = ENOSYS;
    return fail(err, "this system has no anonymous memory files");
#endif
}

static rs_status create_failed(rs_error *err, const char *name) {
    rs_status code = errno == EEXIST ? RS_E_STATE_EXISTS : errno == ENOENT ? RS_E_SYS_NOT_FOUND : RS_E_SYS;
    if (errno == ENOSPC || errno == EDQUOT) code = RS_E_SPACE;
    return rs_error_set_errno(err, code, errno, "cannot create %s", name);
}

/* Opens or creates `dir`, and checks it through the descriptor, so that it cannot be swapped between check and use. */
static rs_status open_private_directory(const char *dir, int *out_fd, rs_error *err) {
    struct stat st;
    if (mkdir(dir, 0700) == 0) {
        (void)chmod(dir, 0700); /* the umask may have removed permissions; a later call reports a failure */
    } else if (errno != EEXIST) {
        return create_failed(err, dir);
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ELOOP || errno == ENOTDIR) {
            return rs_error_set_errno(err, RS_E_SYS_NOT_OURS, errno, "%s is a link or not a directory", dir);
        }
        return rs_error_set_errno(err, RS_E_SYS, errno, "cannot open the directory %s", dir);
    }
    if (fstat(fd, &st) != 0) {
        rs_status code = fail(err, "fstat of a directory failed");
        rs_os_close(&fd);
        return code;
    }
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        rs_os_close(&fd);
        return rs_error_set(err, RS_E_SYS_NOT_OURS, RS_NOWHERE,
                            "the directory must belong to user %lu with mode 0700, not to %lu with mode %04o: %s",
                            (unsigned long)geteuid(), (unsigned long)st.st_uid, (unsigned)(st.st_mode & 07777), dir);
    }
    *out_fd = fd;
    return RS_OK;
}

rs_status rs_os_create_in_directory(const char *dir, const char *name, int *out_fd, rs_error *err) {
    int dir_fd = -1;
    rs_status code = RS_OK;
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "not a file name: '%s'", name);
    }
    RS_TRY(open_private_directory(dir, &dir_fd, err));
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) code = create_failed(err, name);
    rs_os_close(&dir_fd);
    if (code == RS_OK) *out_fd = fd;
    return code;
}

rs_status rs_os_create_file(const char *path, int *out_fd, rs_error *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return create_failed(err, path);
    *out_fd = fd;
    return RS_OK;
}

rs_status rs_os_open_readonly(const char *path, bool follow_links, int *out_fd, rs_error *err) {
    struct stat st;
    /* Without O_NONBLOCK, opening a FIFO without a writer would block. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (follow_links ? 0 : O_NOFOLLOW));
    if (fd < 0) {
        rs_status code = RS_E_SYS;
        if (errno == ENOENT) code = RS_E_SYS_NOT_FOUND;
        if ((errno == ELOOP && !follow_links) || errno == ENXIO) code = RS_E_SYS_NOT_OURS; /* a link; a socket */
        return rs_error_set_errno(err, code, errno, "cannot open %s", path);
    }
    if (fstat(fd, &st) != 0) {
        rs_status code = fail(err, "fstat failed");
        rs_os_close(&fd);
        return code;
    }
    if (!S_ISREG(st.st_mode)) {
        rs_os_close(&fd);
        return rs_error_set(err, RS_E_SYS_NOT_OURS, RS_NOWHERE, "not a regular file: %s", path);
    }
    *out_fd = fd;
    return RS_OK;
}

#if !defined(__linux__)
/* On other systems /dev/fd duplicates a descriptor with its write access, so the file is opened by its known path. */
static int reopen_by_path(int fd) {
#if defined(F_GETPATH)
    char path[PATH_MAX];
    struct stat before, after;
    if (fstat(fd, &before) != 0 || fcntl(fd, F_GETPATH, path) != 0) return -1;
    int out = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (out < 0) return -1;
    if (fstat(out, &after) != 0 || before.st_dev != after.st_dev || before.st_ino != after.st_ino) {
        rs_os_close(&out);
        errno = ESTALE;
        return -1;
    }
    return out;
#else
    (void)fd;
    errno = ENOSYS;
    return -1;
#endif
}
#endif

rs_status rs_os_reopen_readonly(int fd, int *out_fd, rs_error *err) {
    int out;
#if defined(__linux__)
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    out = open(path, O_RDONLY | O_CLOEXEC);
    if (out < 0 && rs_os_is_sealed(fd)) out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
#else
    out = reopen_by_path(fd);
#endif
    if (out < 0) return fail(err, "cannot reopen a segment read-only");
    *out_fd = out;
    return RS_OK;
}

void rs_os_close(int *fd) {
    /* Not repeated on EINTR: Linux has closed the descriptor then, and another thread may have its number already. */
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

/* ---------------------------------------------------------------- space and bytes */

static bool is_no_space(int code) {
    /* A memory cgroup denies a page of tmpfs with ENOMEM; RLIMIT_FSIZE gives EFBIG. */
    return code == ENOSPC || code == EDQUOT || code == ENOMEM || code == EFBIG;
}

static RS_COLD rs_status no_space(int fd, uint64_t needed, int code, rs_error *err) {
    struct statvfs vfs;
    uint64_t available = 0;
    const char *limit = code == EDQUOT   ? "the quota"
                        : code == ENOMEM ? "memory"
                        : code == EFBIG  ? "the limit on the size of a file"
                                         : "the file system";
    if (code == ENOSPC && fstatvfs(fd, &vfs) == 0) available = (uint64_t)vfs.f_bavail * (uint64_t)vfs.f_frsize;
    (void)rs_error_set(err, RS_E_SPACE, RS_NOWHERE, "%llu more bytes are needed and %s leaves %llu",
                       (unsigned long long)needed, limit, (unsigned long long)available);
    if (err != NULL) {
        err->sys_errno = code;
        err->needed = needed;
        err->available = available;
    }
    return RS_E_SPACE;
}

#if defined(__linux__)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels answer EINVAL, and the pages stay small */
#endif

/* Maps the first n bytes of `fd` read-only at a multiple of RS_OS_HUGE_PAGE. Returns MAP_FAILED when it cannot. */
static void *map_aligned(int fd, size_t n) {
    size_t wide = n + RS_OS_HUGE_PAGE;
    if (wide < n) return MAP_FAILED;
    uint8_t *space = (uint8_t *)mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return MAP_FAILED;
    size_t before = (size_t)(-(uintptr_t)space & (RS_OS_HUGE_PAGE - 1));
    if (mmap(space + before, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        (void)munmap(space, wide);
        return MAP_FAILED;
    }
    if (before > 0) (void)munmap(space, before);
    /* The mapping takes whole pages, so the unused space starts at the end of its last page. */
    n = (size_t)rs_align_up(n, (uint64_t)sysconf(_SC_PAGESIZE));
    if (before + n < wide) (void)munmap(space + before + n, wide - before - n);
    return space + before;
}

/* Makes huge pages of the whole units in [from, to), if the system allows it. Random reads then wait less for page
 * tables, and the page tables of each process shrink by 0.2 % of the store. The function allocates one small page in
 * each unit and collapses the unit into a huge page, which works even if memory files get none by default. A huge page
 * costs less than the small ones in its place, unless memory must be compacted first (numbers: bench/NOTES.md). */
static void reserve_huge(int fd, uint64_t from, uint64_t to) {
    from = rs_align_up(from, RS_OS_HUGE_PAGE);
    to -= to % RS_OS_HUGE_PAGE;
    if (to <= from || to > PTRDIFF_MAX) return;
    if (fallocate(fd, 0, (off_t)(to - 1), 1) != 0) return;
    for (uint64_t at = from; at < to; at += RS_OS_HUGE_PAGE) {
        if (fallocate(fd, 0, (off_t)at, 1) != 0) return;
    }
    uint8_t *data = (uint8_t *)map_aligned(fd, (size_t)to);
    if (data == MAP_FAILED) return;
    (void)madvise(data + from, (size_t)(to - from), MADV_COLLAPSE);
    (void)munmap(data, (size_t)to);
}
#endif

static rs_status extend(int fd, uint64_t to, rs_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail(err, "fstat failed");
    if ((uint64_t)st.st_size >= to) return RS_OK;
    return rs_os_truncate(fd, to, err);
}

rs_status rs_os_reserve(int fd, uint64_t from, uint64_t to, bool memory_backed, rs_error *err) {
    if (to < from || to > INT64_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "cannot reserve the bytes %llu to %llu",
                            (unsigned long long)from, (unsigned long long)to);
    }
    if (to == from) return RS_OK;
    if (memory_backed && to > RS_OS_UNCHECKED) {
        RS_TRY(rs_os_require_memory(NULL, to - from, err));
        /* The whole segment is mapped when it is finished. */
        RS_TRY(rs_os_require_address_space(NULL, to, err));
    }
#if defined(__linux__)
    if (memory_backed) reserve_huge(fd, from, to);
    for (;;) {
        /* Not posix_fallocate: glibc's emulation would write every block if the file system does not support it. */
        if (fallocate(fd, 0, (off_t)from, (off_t)(to - from)) == 0) return RS_OK;
        if (errno == EINTR) continue;
        if (is_no_space(errno)) return no_space(fd, to - from, errno, err);
        if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS) return fail(err, "reserving space failed");
        break;
    }
#endif
    return extend(fd, to, err);
}

bool rs_os_is_memory_backed(int fd) {
#if defined(__linux__)
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    switch ((uint32_t)fs.f_type) {
    case 0x01021994u: /* tmpfs, memfd */
    case 0x858458f6u: /* ramfs */
    case 0x958458f6u: /* hugetlbfs */ return true;
    default: return false;
    }
#else
    (void)fd;
    return false;
#endif
}

rs_status rs_os_write_at(int fd, const void *bytes, size_t n, uint64_t offset, rs_error *err) {
    const uint8_t *p = (const uint8_t *)bytes;
    uint64_t end;
    if (rs_add_overflows(offset, n, &end) || end > INT64_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "cannot write %zu bytes at %llu", n,
                            (unsigned long long)offset);
    }
    while (n > 0) {
        size_t chunk = n < RS_OS_WRITE_CHUNK ? n : RS_OS_WRITE_CHUNK;
        ssize_t done = pwrite(fd, p, chunk, (off_t)offset);
        if (done < 0) {
            if (errno == EINTR) continue;
            if (is_no_space(errno)) return no_space(fd, n, errno, err);
            return fail(err, "writing a segment failed");
        }
        if (done == 0) {
            errno = EIO;
            return fail(err, "writing a segment made no progress");
        }
        p += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return RS_OK;
}

rs_status rs_os_truncate(int fd, uint64_t size_bytes, rs_error *err) {
    int rc;
    if (size_bytes > INT64_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a file cannot have %llu bytes",
                            (unsigned long long)size_bytes);
    }
    do {
        rc = ftruncate(fd, (off_t)size_bytes);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) return RS_OK;
    if (is_no_space(errno)) return no_space(fd, size_bytes, errno, err);
    return fail(err, "setting the size of a segment failed");
}

rs_status rs_os_sync(int fd, rs_error *err) {
    int rc;
#if defined(F_FULLFSYNC)
    /* macOS: fsync leaves the bytes in the device's own cache. */
    if (fcntl(fd, F_FULLFSYNC) == 0) return RS_OK;
#endif
    do {
        rc = fsync(fd);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EINVAL || errno == EROFS) return RS_OK; /* the file cannot or need not be synced */
    if (is_no_space(errno)) return no_space(fd, 0, errno, err);
    return fail(err, "syncing a segment failed");
}

rs_status rs_os_sync_directory(const char *path, rs_error *err) {
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    if (slash == path) n = 1;
    char *dir = (char *)malloc(n + 2);
    if (dir == NULL) return rs_no_memory(err);
    memcpy(dir, path, n);
    if (slash == NULL) dir[n++] = '.';
    dir[n] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rs_status code =
        fd < 0 ? rs_error_set_errno(err, RS_E_SYS, errno, "cannot open the directory %s", dir) : rs_os_sync(fd, err);
    rs_os_close(&fd);
    free(dir);
    return code;
}

/* ---------------------------------------------------------------- protection */

#if defined(F_ADD_SEALS)
enum {
    SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
    SEAL_TRIES = 50 /* of up to 0.15 s each, the time that the kernel itself waits for held pages */
};
#endif

rs_status rs_os_seal(int fd, rs_error *err) {
#if defined(F_ADD_SEALS)
    static const struct timespec moment = {0, 20 * 1000 * 1000};
    for (unsigned i = 0; i < SEAL_TRIES; i++) {
        if (fcntl(fd, F_ADD_SEALS, (int)SEALS) == 0) return RS_OK;
        if (errno != EBUSY) return fail(err, "sealing a segment failed");
        (void)nanosleep(&moment, NULL);
    }
    errno = EBUSY;
    return fail(err, "sealing a segment failed: its pages are still held by the kernel, or mapped writable");
#else
    (void)fd;
    errno = ENOSYS;
    return fail(err, "sealing a segment failed");
#endif
}

rs_status rs_os_lease(int fd, rs_error *err) {
    int code;
    do {
        code = flock(fd, LOCK_SH);
    } while (code != 0 && errno == EINTR);
    return code == 0 ? RS_OK : rs_error_set_errno(err, RS_E_SYS, errno, "locking a segment failed");
}

bool rs_os_is_sealed(int fd) {
#if defined(F_ADD_SEALS)
    int saved = errno;
    int seals = fcntl(fd, F_GET_SEALS);
    errno = saved; /* callers on error paths report the errno of the failed call */
    return seals >= 0 && (seals & (int)SEALS) == (int)SEALS;
#else
    (void)fd;
    return false;
#endif
}

rs_status rs_os_protect(int fd, rs_error *err) {
    return fchmod(fd, 0400) == 0 ? RS_OK : fail(err, "making a segment read-only failed");
}

/* ---------------------------------------------------------------- names */

static void identity_of(const struct stat *st, rs_os_identity *out) {
    out->device = (uint64_t)st->st_dev;
    out->inode = (uint64_t)st->st_ino;
    out->size_bytes = (uint64_t)st->st_size;
    out->mode = (uint32_t)st->st_mode;
    out->uid = (uint32_t)st->st_uid;
}

rs_status rs_os_identify(int fd, rs_os_identity *out, rs_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail(err, "fstat failed");
    identity_of(&st, out);
    return RS_OK;
}

rs_status rs_os_rename(const char *from, const char *to, rs_error *err) {
    if (rename(from, to) == 0) return RS_OK;
    return rs_error_set_errno(err, errno == ENOENT ? RS_E_SYS_NOT_FOUND : RS_E_SYS, errno, "cannot rename to %s", to);
}

rs_status rs_os_unlink(const char *path, const rs_os_identity *expected, rs_error *err) {
    if (expected != NULL) {
        struct stat st;
        rs_os_identity found;
        if (lstat(path, &st) != 0) {
            return errno == ENOENT ? RS_OK
                                   : rs_error_set_errno(err, RS_E_SYS, errno, "cannot read the state of %s", path);
        }
        identity_of(&st, &found);
        if (!rs_os_same_file(&found, expected)) return RS_OK;
    }
    if (unlink(path) == 0 || errno == ENOENT) return RS_OK;
    return rs_error_set_errno(err, RS_E_SYS, errno, "cannot remove %s", path);
}

/* ---------------------------------------------------------------- mapping */

static RS_COLD rs_status no_room_to_map(uint64_t size_bytes, rs_error *err) {
    RS_TRY(rs_os_require_address_space(NULL, size_bytes, err));
    (void)rs_error_set(err, RS_E_SPACE, RS_NOWHERE,
                       "%llu bytes cannot be mapped: the process may have too many mappings (vm.max_map_count)",
                       (unsigned long long)size_bytes);
    if (err != NULL) {
        err->sys_errno = ENOMEM;
        err->needed = size_bytes;
    }
    return RS_E_SPACE;
}

rs_status rs_os_map(int fd, uint64_t size_bytes, const uint8_t **out, rs_error *err) {
    if (size_bytes == 0 || size_bytes > PTRDIFF_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "cannot map %llu bytes", (unsigned long long)size_bytes);
    }
    void *data = MAP_FAILED;
#if defined(__linux__)
    if (size_bytes >= RS_OS_HUGE_PAGE) data = map_aligned(fd, (size_t)size_bytes); /* huge pages need the alignment */
#endif
    if (data == MAP_FAILED) data = mmap(NULL, (size_t)size_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED && errno == ENOMEM) return no_room_to_map(size_bytes, err);
    if (data == MAP_FAILED) return fail(err, "mapping a segment failed");
    *out = (const uint8_t *)data;
    return RS_OK;
}

void rs_os_unmap(const uint8_t *data, uint64_t size_bytes) {
    /* Through an integer: munmap takes a plain pointer, and compilers warn about a cast that drops const. */
    if (data != NULL) (void)munmap((void *)(uintptr_t)data, (size_t)size_bytes);
}

void *rs_os_pages(size_t size_bytes) {
    void *data = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

void rs_os_pages_free(void *data, size_t size_bytes) {
    if (data != NULL) (void)munmap(data, size_bytes);
}

void rs_os_forget(void *data, size_t n) {
#if defined(__linux__)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + n) / page * page;
    if (data != NULL && begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
#else
    (void)data;
    (void)n;
#endif
}

/* ---------------------------------------------------------------- the rest */

static rs_status random_from_device(uint8_t *out, size_t n, rs_error *err) {
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(err, "cannot open /dev/urandom");
    while (n > 0) {
        ssize_t got = read(fd, out, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (got == 0) errno = EIO;
            rs_status code = fail(err, "reading /dev/urandom failed");
            rs_os_close(&fd);
            return code;
        }
        out += got;
        n -= (size_t)got;
    }
    rs_os_close(&fd);
    return RS_OK;
}

rs_status rs_os_random(void *out, size_t n, rs_error *err) {
    uint8_t *p = (uint8_t *)out;
#if defined(__linux__)
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break; /* an old kernel or a seccomp filter: read the device instead */
        p += got;
        n -= (size_t)got;
    }
    if (n == 0) return RS_OK;
#endif
    return random_from_device(p, n, err);
}

uint64_t rs_os_now_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int64_t rs_os_process_id(void) { return (int64_t)getpid(); }

void rs_os_trim(void) {
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}
