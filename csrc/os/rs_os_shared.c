/* rs_os_shared.c: files that several processes change at once: writable mappings, space that is reserved in place, and
 * locks on ranges, which end when their descriptor is closed. See "Files that change" in rs_os.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/statfs.h>
#endif

static RS_COLD rs_status fail(rs_error *err, const char *message) {
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return rs_error_set_errno(err, full ? RS_E_SPACE : RS_E_SYS, errno, "%s", message);
}

rs_status rs_os_allocate(int fd, uint64_t from, uint64_t to, rs_error *err) {
    if (to < from || to > INT64_MAX) return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "not a range of a file");
#if defined(__linux__)
    for (;;) {
        if (to == from || fallocate(fd, 0, (off_t)from, (off_t)(to - from)) == 0) return RS_OK;
        if (errno == ENOMEM) errno = ENOSPC; /* a memory cgroup denies pages of tmpfs */
        if (errno == EOPNOTSUPP || errno == ENOSYS) {
            return fail(err, "the file system cannot reserve space (fallocate); choose a folder on another one");
        }
        if (errno != EINTR) return fail(err, "reserving space failed");
    }
#else
    struct stat st;
    if (fstat(fd, &st) != 0) return fail(err, "fstat failed");
    return (uint64_t)st.st_size >= to ? RS_OK : rs_os_truncate(fd, to, err);
#endif
}

bool rs_os_is_network(int fd) {
#if defined(__linux__)
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    switch ((uint32_t)fs.f_type) {
    case 0x6969u:     /* NFS */
    case 0x517Bu:     /* SMB */
    case 0xFF534D42u: /* CIFS */
    case 0xFE534D42u: /* SMB 2 */
    case 0x0BD00BD0u: /* Lustre */
    case 0x00C36400u: /* Ceph */
    case 0x47504653u: /* GPFS */
    case 0x19830326u: /* BeeGFS */
    case 0x5346414Fu: /* AFS */ return true;
    default: return false;
    }
#else
    (void)fd;
    return false;
#endif
}

static rs_status map(int fd, int access, uint64_t offset, uint64_t size_bytes, void **out, rs_error *err) {
    if (size_bytes == 0 || size_bytes > PTRDIFF_MAX || offset > INT64_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "cannot map %llu bytes", (unsigned long long)size_bytes);
    }
    void *data = mmap(NULL, (size_t)size_bytes, access, MAP_SHARED, fd, (off_t)offset);
    if (data == MAP_FAILED && errno == ENOMEM) RS_TRY(rs_os_require_address_space(NULL, size_bytes, err));
    if (data == MAP_FAILED) return fail(err, "mapping a file failed");
    *out = data;
    return RS_OK;
}

rs_status rs_os_map_writable(int fd, uint64_t size_bytes, uint8_t **out, rs_error *err) {
    void *data = NULL;
    RS_TRY(map(fd, PROT_READ | PROT_WRITE, 0, size_bytes, &data, err));
    *out = (uint8_t *)data;
    return RS_OK;
}

rs_status rs_os_map_from(int fd, uint64_t offset, uint64_t size_bytes, const uint8_t **out, rs_error *err) {
    void *data = NULL;
    RS_TRY(map(fd, PROT_READ, offset, size_bytes, &data, err));
    *out = (const uint8_t *)data;
    return RS_OK;
}

rs_status rs_os_reopen_writable(int fd, int *out_fd, rs_error *err) {
    int out = -1;
#if defined(__linux__)
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    out = open(path, O_RDWR | O_CLOEXEC);
#elif defined(F_GETPATH)
    char path[PATH_MAX];
    if (fcntl(fd, F_GETPATH, path) == 0) out = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
#endif
    if (out < 0) return fail(err, "cannot reopen a file for writing");
    *out_fd = out;
    return RS_OK;
}

#if defined(F_OFD_SETLK) && defined(__linux__)
/* Numbers are locked as bytes far beyond the end of any file. */
static const off_t LOCKS_AT = (off_t)1 << 62;

static int set_lock(int fd, short kind, uint64_t first, uint64_t n) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = LOCKS_AT + (off_t)first, .l_len = (off_t)n};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &lock);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

bool rs_os_has_range_locks(void) { return true; }

rs_status rs_os_try_lock_range(int fd, uint64_t first, uint64_t n, bool *locked, rs_error *err) {
    *locked = set_lock(fd, F_WRLCK, first, n) == 0;
    return *locked || errno == EAGAIN || errno == EACCES ? RS_OK : fail(err, "cannot lock a part of a file");
}

void rs_os_unlock_range(int fd, uint64_t first, uint64_t n) { (void)set_lock(fd, F_UNLCK, first, n); }
#else
/* On macOS locks on ranges would exclude the leases of rs_os_lease. */
bool rs_os_has_range_locks(void) { return false; }

rs_status rs_os_try_lock_range(int fd, uint64_t first, uint64_t n, bool *locked, rs_error *err) {
    (void)fd, (void)first, (void)n, (void)err;
    *locked = true;
    return RS_OK;
}

void rs_os_unlock_range(int fd, uint64_t first, uint64_t n) { (void)fd, (void)first, (void)n; }
#endif

bool rs_os_is_running(int64_t pid) { return pid > 0 && pid <= INT_MAX && (kill((pid_t)pid, 0) == 0 || errno != ESRCH); }
