/* test_os_interrupted.c: system calls that are interrupted, do part of their work, or fail. The linker replaces them
 * with functions of this file (CMakeLists.txt). */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "rs_folder.h"
#include "os/rs_os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static rs_error err;

/* The results of the next calls. The first `times` calls fail with `code`; with code 0, reads, writes and draws return
 * 0. Later calls reach the system, with at most `max_bytes` bytes if it is not 0. */
typedef struct plan {
    unsigned times;
    int code;
    size_t max_bytes;
    unsigned calls; /* since make_plan */
} plan;

static plan writing, truncating, syncing, reserving, drawing, reading, locking, making;

static void make_plan(plan *p, unsigned times, int code, size_t max_bytes) {
    p->times = times, p->code = code, p->max_bytes = max_bytes, p->calls = 0;
}

static bool fails(plan *p) {
    if (p->calls++ >= p->times) return false;
    errno = p->code;
    return true;
}

static size_t at_most(const plan *p, size_t n) { return p->max_bytes != 0 && n > p->max_bytes ? p->max_bytes : n; }

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t offset);
int __real_ftruncate(int fd, off_t size);
int __real_fsync(int fd);
int __real_fallocate(int fd, int mode, off_t from, off_t n);
ssize_t __real_getrandom(void *out, size_t n, unsigned flags);
ssize_t __real_read(int fd, void *out, size_t n);
int __real_flock(int fd, int how);
int __real_mkdir(const char *path, mode_t mode);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_fsync(int fd);
int __wrap_fallocate(int fd, int mode, off_t from, off_t n);
ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags);
ssize_t __wrap_read(int fd, void *out, size_t n);
int __wrap_flock(int fd, int how);
int __wrap_mkdir(const char *path, mode_t mode);

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset) {
    if (fails(&writing)) return writing.code == 0 ? 0 : -1;
    return __real_pwrite(fd, bytes, at_most(&writing, n), offset);
}
int __wrap_ftruncate(int fd, off_t size) { return fails(&truncating) ? -1 : __real_ftruncate(fd, size); }
int __wrap_fsync(int fd) { return fails(&syncing) ? -1 : __real_fsync(fd); }
int __wrap_fallocate(int fd, int mode, off_t from, off_t n) {
    return fails(&reserving) ? -1 : __real_fallocate(fd, mode, from, n);
}
ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags) {
    if (fails(&drawing)) return drawing.code == 0 ? 0 : -1;
    return __real_getrandom(out, at_most(&drawing, n), flags);
}
ssize_t __wrap_read(int fd, void *out, size_t n) {
    if (fails(&reading)) return reading.code == 0 ? 0 : -1;
    return __real_read(fd, out, at_most(&reading, n));
}
int __wrap_mkdir(const char *path, mode_t mode) { return fails(&making) ? -1 : __real_mkdir(path, mode); }
int __wrap_flock(int fd, int how) { return fails(&locking) ? -1 : __real_flock(fd, how); }

static int new_file(const char *name) {
    int fd = -1;
    if (!CHECK_OK(rs_os_create_file(at(name), &fd, &err), &err)) abort();
    return fd;
}

/* Checks an error of the system, and that the call was not repeated. */
static void check_failed(rs_status status, rs_status expected, int code, const plan *p) {
    CHECK_CODE(status, expected, &err);
    CHECK_U64(err.sys_errno, code);
    CHECK_U64(p->calls, 1);
}

/* ---- Writing ---- */

TEST(test_writes_go_on) {
    static const char text[] = "0123456789abcdef";
    char got[sizeof text] = "";
    int fd = new_file("write");
    make_plan(&writing, 2, EINTR, 3);
    CHECK_OK(rs_os_write_at(fd, text, 16, 5, &err), &err);
    CHECK_U64(writing.calls, 2 + 6);
    CHECK(pread(fd, got, 16, 5) == 16 && strcmp(got, text) == 0);
    make_plan(&writing, 0, 0, 0);
    CHECK_OK(rs_os_write_at(fd, text, 0, 0, &err), &err);
    CHECK_U64(writing.calls, 0);
    rs_os_close(&fd);
}

TEST(test_failed_writes) {
    static const struct {
        int code;
        const char *says;
    } full[] = {{ENOSPC, "the file system"}, {EDQUOT, "the quota"}, {ENOMEM, "memory"}, {EFBIG, "size of a file"}};
    int fd = new_file("full");
    for (unsigned i = 0; i < 4; i++) {
        make_plan(&writing, 9, full[i].code, 0);
        check_failed(rs_os_write_at(fd, "abc", 3, 0, &err), RS_E_SPACE, full[i].code, &writing);
        CHECK(err.needed == 3 && strstr(err.message, full[i].says) != NULL);
        CHECK((err.available != 0) == (full[i].code == ENOSPC));
    }
    make_plan(&writing, 9, EIO, 0);
    check_failed(rs_os_write_at(fd, "abc", 3, 0, &err), RS_E_SYS, EIO, &writing);
    make_plan(&writing, 9, 0, 0);
    check_failed(rs_os_write_at(fd, "abc", 3, 0, &err), RS_E_SYS, EIO, &writing);
    make_plan(&writing, 0, 0, 0);
    rs_os_close(&fd);
}

/* ---- Sizes, syncs and space ---- */

TEST(test_sizes) {
    int fd = new_file("size");
    make_plan(&truncating, 3, EINTR, 0);
    CHECK_OK(rs_os_truncate(fd, 100, &err), &err);
    CHECK_U64(truncating.calls, 4);
    CHECK(lseek(fd, 0, SEEK_END) == 100);
    make_plan(&truncating, 9, ENOSPC, 0);
    check_failed(rs_os_truncate(fd, 200, &err), RS_E_SPACE, ENOSPC, &truncating);
    CHECK_U64(err.needed, 200);
    make_plan(&truncating, 9, EPERM, 0);
    check_failed(rs_os_truncate(fd, 200, &err), RS_E_SYS, EPERM, &truncating);
    make_plan(&truncating, 0, 0, 0);
    rs_os_close(&fd);
}

TEST(test_syncs) {
    int fd = new_file("sync");
    make_plan(&syncing, 3, EINTR, 0);
    CHECK_OK(rs_os_sync(fd, &err), &err);
    CHECK_U64(syncing.calls, 4);
    make_plan(&syncing, 9, EINVAL, 0); /* a file that cannot be synced */
    CHECK_OK(rs_os_sync(fd, &err), &err);
    make_plan(&syncing, 9, EROFS, 0);
    CHECK_OK(rs_os_sync(fd, &err), &err);
    make_plan(&syncing, 9, EDQUOT, 0);
    check_failed(rs_os_sync(fd, &err), RS_E_SPACE, EDQUOT, &syncing);
    make_plan(&syncing, 9, EIO, 0);
    check_failed(rs_os_sync(fd, &err), RS_E_SYS, EIO, &syncing);
    make_plan(&syncing, 9, EIO, 0);
    check_failed(rs_os_sync_directory(at("sync"), &err), RS_E_SYS, EIO, &syncing);
    make_plan(&syncing, 0, 0, 0);
    rs_os_close(&fd);
}

TEST(test_reserving) {
    static const int missing[] = {EOPNOTSUPP, EINVAL, ENOSYS};
    int fd = new_file("space");
    make_plan(&reserving, 3, EINTR, 0);
    CHECK_OK(rs_os_reserve(fd, 100, 300, false, &err), &err);
    CHECK_U64(reserving.calls, 4);
    CHECK(lseek(fd, 0, SEEK_END) == 300);
    for (unsigned i = 0; i < 3; i++) { /* without the call the file still grows, and does not shrink */
        const off_t expected = (off_t)(400 + 100 * i);
        make_plan(&reserving, 9, missing[i], 0);
        CHECK_OK(rs_os_reserve(fd, 0, (uint64_t)expected, false, &err), &err);
        CHECK(lseek(fd, 0, SEEK_END) == expected);
        CHECK_OK(rs_os_reserve(fd, 0, 10, false, &err), &err);
        CHECK(lseek(fd, 0, SEEK_END) == expected);
    }
    make_plan(&reserving, 9, ENOSPC, 0);
    check_failed(rs_os_reserve(fd, 100, 1000, false, &err), RS_E_SPACE, ENOSPC, &reserving);
    CHECK(err.needed == 900 && err.available > 0);
    make_plan(&reserving, 9, EBADF, 0);
    check_failed(rs_os_reserve(fd, 100, 1000, false, &err), RS_E_SYS, EBADF, &reserving);
    make_plan(&reserving, 0, 0, 0);
    rs_os_close(&fd);
}

TEST(test_creating) {
    static const struct {
        int code;
        rs_status status;
    } cases[] = {{ENOSPC, RS_E_SPACE}, {EDQUOT, RS_E_SPACE}, {ENOENT, RS_E_SYS_NOT_FOUND}, {EIO, RS_E_SYS}};
    int fd = -1;
    for (unsigned i = 0; i < 4; i++) {
        make_plan(&making, 9, cases[i].code, 0);
        check_failed(rs_os_create_in_directory(at("folder"), "one", &fd, &err), cases[i].status, cases[i].code,
                     &making);
        CHECK(fd == -1);
    }
    make_plan(&making, 0, 0, 0);
}

/* ---- Random bytes ---- */

/* Returns whether draws of n bytes set each of the n bytes at least once, and never a later byte. */
static bool all_drawn(size_t n) {
    uint8_t seen[64] = {0}, bytes[64];
    for (size_t k = 0; k < 20; k++) {
        memset(bytes, 0, sizeof bytes);
        drawing.calls = reading.calls = 0;
        if (!CHECK_OK(rs_os_random(bytes, n, &err), &err)) return false;
        for (size_t i = 0; i < sizeof bytes; i++) seen[i] |= bytes[i];
    }
    for (size_t i = 0; i < sizeof seen; i++) {
        if ((seen[i] != 0) != (i < n)) return false;
    }
    return true;
}

TEST(test_random_bytes) {
    static const int codes[] = {ENOSYS, 0};
    uint8_t bytes[8];
    make_plan(&drawing, 2, EINTR, 5);
    make_plan(&reading, 99, EIO, 0); /* the device is not read */
    CHECK(all_drawn(33) && drawing.calls == 2 + 7 && reading.calls == 0);
    for (unsigned i = 0; i < 2; i++) {
        make_plan(&drawing, 99, codes[i], 0);
        make_plan(&reading, 2, EINTR, 5);
        CHECK(all_drawn(33) && drawing.calls == 1 && reading.calls == 2 + 7);
        make_plan(&reading, 99, EIO, 0);
        CHECK_CODE(rs_os_random(bytes, 8, &err), RS_E_SYS, &err);
        CHECK(err.sys_errno == EIO && reading.calls == 1);
        make_plan(&reading, 99, 0, 0);
        errno = 0;
        CHECK_CODE(rs_os_random(bytes, 8, &err), RS_E_SYS, &err);
        CHECK(err.sys_errno == EIO && reading.calls == 1);
    }
    make_plan(&drawing, 0, 0, 0), make_plan(&reading, 0, 0, 0);
}

/* ---- Locks ---- */

TEST(test_locks) {
    int fd = new_file("lock"), other = open(at("lock"), O_RDWR | O_CLOEXEC);
    bool named = false;
    REQUIRE(other >= 0);
    make_plan(&locking, 3, EINTR, 0);
    CHECK_OK(rs_os_lease(fd, &err), &err);
    CHECK_U64(locking.calls, 4);
    make_plan(&locking, 3, EINTR, 0);
    CHECK_CODE(rs_os_try_lock(other, at("lock"), &named, &err), RS_E_STATE_BUSY, &err);
    CHECK_U64(locking.calls, 4);
    CHECK(flock(fd, LOCK_UN) == 0);
    make_plan(&locking, 3, EINTR, 0);
    CHECK_OK(rs_os_try_lock(other, at("lock"), &named, &err), &err);
    CHECK(named && locking.calls == 4);
    make_plan(&locking, 9, ENOLCK, 0);
    check_failed(rs_os_lease(fd, &err), RS_E_SYS, ENOLCK, &locking);
    make_plan(&locking, 9, ENOLCK, 0);
    check_failed(rs_os_try_lock(fd, at("lock"), &named, &err), RS_E_SYS, ENOLCK, &locking);
    make_plan(&locking, 0, 0, 0);
    rs_os_close(&fd), rs_os_close(&other);
}

int main(void) {
    if (!folder_begin("interrupted")) return 1;
    rs_test_run();
    folder_end();
    return rs_test_finish();
}
