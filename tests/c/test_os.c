/* test_os.c: rs_os.h against the real system. Memory limits are read from made-up folders. */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "rs_folder.h"
#include "os/rs_os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static rs_error err;

static void write_text(const char *name, const char *text) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s", at(name));
    for (char *slash = strchr(path + strlen(base) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

/* ---------------------------------------------------------------- descriptors */

TEST(test_anonymous_and_seal) {
    bool sealable = false;
    int fd = -1, readonly = -1, writable;
    char path[64];
    char byte = 0;
    rs_status code = rs_os_create_anonymous(&fd, &sealable, &err);
#if !defined(__linux__)
    CHECK_CODE(code, RS_E_SYS, &err);
#else
    REQUIRE_OK(code, &err);
    CHECK(sealable);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(rs_os_is_memory_backed(fd));
    CHECK(!rs_os_is_sealed(fd));
    CHECK_OK(rs_os_write_at(fd, "abc", 3, 0, &err), &err);
    CHECK_OK(rs_os_seal(fd, &err), &err);
    CHECK(rs_os_is_sealed(fd));
    CHECK_CODE(rs_os_write_at(fd, "x", 1, 0, &err), RS_E_SYS, &err);
    CHECK_U64(err.sys_errno, EPERM);
    CHECK_CODE(rs_os_truncate(fd, 0, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_os_truncate(fd, 100, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_os_seal(fd, &err), RS_E_SYS, &err);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    writable = open(path, O_RDWR | O_CLOEXEC);
    if (writable >= 0) {
        CHECK(pwrite(writable, "x", 1, 0) == -1 && errno == EPERM);
        CHECK(mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, writable, 0) == MAP_FAILED);
        (void)close(writable);
    }
    CHECK_OK(rs_os_reopen_readonly(fd, &readonly, &err), &err);
    CHECK((fcntl(readonly, F_GETFL) & O_ACCMODE) == O_RDONLY);
    CHECK((fcntl(readonly, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(pread(readonly, &byte, 1, 2) == 1 && byte == 'c');
    rs_os_close(&readonly);
    rs_os_close(&fd);
    CHECK(fd == -1);
    rs_os_close(&fd);
#endif
}

#if defined(__linux__)
/* Reads the page after half a second, and then returns its argument. It cannot use checks, which are single-threaded.
 */
static void *let_go_later(void *pipe_end) {
    static const struct timespec later = {0, 500 * 1000 * 1000};
    char page[4096];
    (void)nanosleep(&later, NULL);
    return read(*(const int *)pipe_end, page, sizeof page) == sizeof page ? pipe_end : NULL;
}

/* A pipe holds a page of the memory, as the kernel does while it moves a page. */
TEST(test_sealing_waits_for_held_pages) {
    static const char page[4096] = {1};
    bool sealable = false;
    int fd = -1, ends[2];
    loff_t from = 0;
    pthread_t thread;
    void *done = NULL;
    REQUIRE_OK(rs_os_create_anonymous(&fd, &sealable, &err), &err);
    REQUIRE_OK(rs_os_write_at(fd, page, sizeof page, 0, &err), &err);
    REQUIRE(pipe(ends) == 0);
    REQUIRE(splice(fd, &from, ends[1], NULL, sizeof page, 0) == sizeof page);
    REQUIRE(pthread_create(&thread, NULL, let_go_later, ends) == 0);
    CHECK_OK(rs_os_seal(fd, &err), &err);
    CHECK(pthread_join(thread, &done) == 0 && done == ends);
    CHECK(rs_os_is_sealed(fd));
    rs_os_close(&fd);
    (void)close(ends[0]), (void)close(ends[1]);
}

/* A writable mapping keeps the memory from being sealed: EBUSY after some time. */
TEST(test_sealing_gives_up) {
    bool sealable = false;
    int fd = -1;
    REQUIRE_OK(rs_os_create_anonymous(&fd, &sealable, &err), &err);
    REQUIRE_OK(rs_os_write_at(fd, "abc", 3, 0, &err), &err);
    void *data = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(data != MAP_FAILED);
    CHECK_CODE(rs_os_seal(fd, &err), RS_E_SYS, &err);
    CHECK_U64(err.sys_errno, EBUSY);
    CHECK(!rs_os_is_sealed(fd));
    CHECK(munmap(data, 3) == 0);
    CHECK_OK(rs_os_seal(fd, &err), &err);
    rs_os_close(&fd);
}
#endif

TEST(test_seal_refuses_a_plain_file) {
    int fd = -1;
    REQUIRE_OK(rs_os_create_file(at("plain"), &fd, &err), &err);
    CHECK_CODE(rs_os_seal(fd, &err), RS_E_SYS, &err);
    CHECK_OK(rs_os_protect(fd, &err), &err);
    rs_os_close(&fd);
    CHECK_OK(rs_os_unlink(at("plain"), NULL, &err), &err);
}

TEST(test_private_directory) {
    struct stat st;
    int fd = -1, again = -1;
    REQUIRE_OK(rs_os_create_in_directory(at("private"), "one", &fd, &err), &err);
    CHECK(stat(at("private"), &st) == 0 && (st.st_mode & 07777) == 0700);
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_CODE(rs_os_create_in_directory(at("private"), "one", &again, &err), RS_E_STATE_EXISTS, &err);
    CHECK_CODE(rs_os_create_in_directory(at("private"), "../two", &again, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_create_in_directory(at("private"), "..", &again, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_create_in_directory(at("private"), "", &again, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_create_in_directory(at("no/parent"), "one", &again, &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK(symlink(at("elsewhere"), at("private/link")) == 0);
    CHECK_CODE(rs_os_create_in_directory(at("private"), "link", &again, &err), RS_E_STATE_EXISTS, &err);
    CHECK(access(at("elsewhere"), F_OK) != 0);
    CHECK(again == -1);
    rs_os_close(&fd);
}

TEST(test_foreign_directories_are_refused) {
    int fd = -1;
    CHECK(mkdir(at("open"), 0700) == 0 && chmod(at("open"), 0750) == 0);
    CHECK_CODE(rs_os_create_in_directory(at("open"), "one", &fd, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(mkdir(at("mine"), 0700) == 0 && symlink(at("mine"), at("link")) == 0);
    CHECK_CODE(rs_os_create_in_directory(at("link"), "one", &fd, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(symlink(at("nowhere"), at("dangling")) == 0);
    CHECK_CODE(rs_os_create_in_directory(at("dangling"), "one", &fd, &err), RS_E_SYS_NOT_OURS, &err);
    write_text("file", "x");
    CHECK_CODE(rs_os_create_in_directory(at("file"), "one", &fd, &err), RS_E_SYS_NOT_OURS, &err);
    if (geteuid() == 0) {
        CHECK(mkdir(at("theirs"), 0700) == 0 && chown(at("theirs"), 12345, 12345) == 0);
        CHECK_CODE(rs_os_create_in_directory(at("theirs"), "one", &fd, &err), RS_E_SYS_NOT_OURS, &err);
    }
    CHECK(fd == -1);
    CHECK(access(at("open/one"), F_OK) != 0 && access(at("mine/one"), F_OK) != 0);
}

TEST(test_open_readonly) {
    int fd = -1;
    write_text("regular", "hello");
    CHECK(symlink(at("regular"), at("to_regular")) == 0);
    CHECK(mkfifo(at("fifo"), 0600) == 0);
    CHECK_CODE(rs_os_open_readonly(at("missing"), true, &fd, &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK_U64(err.sys_errno, ENOENT);
    CHECK_CODE(rs_os_open_readonly(at("to_regular"), false, &fd, &err), RS_E_SYS_NOT_OURS, &err);
    (void)alarm(5); /* ends the test if the open of the FIFO blocks */
    CHECK_CODE(rs_os_open_readonly(at("fifo"), true, &fd, &err), RS_E_SYS_NOT_OURS, &err);
    (void)alarm(0);
    CHECK_CODE(rs_os_open_readonly(base, true, &fd, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK_CODE(rs_os_open_readonly("/dev/null", true, &fd, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK_CODE(rs_os_open_readonly(at("regular/below"), true, &fd, &err), RS_E_SYS, &err);
    CHECK(fd == -1);
    REQUIRE_OK(rs_os_open_readonly(at("to_regular"), true, &fd, &err), &err);
    CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    rs_os_close(&fd);
    CHECK_OK(rs_os_open_readonly(at("regular"), false, &fd, NULL), NULL);
    rs_os_close(&fd);
}

TEST(test_reserve_write_truncate) {
    rs_os_identity id;
    rs_os_stamp before, after;
    const uint8_t *data = NULL;
    int fd = -1;
    REQUIRE_OK(rs_os_create_file(at("space"), &fd, &err), &err);
    CHECK_OK(rs_os_reserve(fd, 0, 10000, false, &err), &err);
    CHECK_OK(rs_os_identify(fd, &id, &err), &err);
    CHECK_U64(id.size_bytes, 10000);
    CHECK_U64(id.uid, geteuid());
    CHECK_OK(rs_os_reserve(fd, 0, 5000, false, &err), &err); /* never shrinks */
    CHECK_OK(rs_os_identify(fd, &id, &err), &err);
    CHECK_U64(id.size_bytes, 10000);
    CHECK_CODE(rs_os_reserve(fd, 10, 5, false, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_reserve(fd, 0, UINT64_MAX, false, &err), RS_E_ARG_RANGE, &err);
    CHECK_OK(rs_os_write_at(fd, "end", 3, 9997, &err), &err);
    CHECK_OK(rs_os_write_at(fd, NULL, 0, 0, &err), &err);
    CHECK_CODE(rs_os_write_at(fd, "x", 1, UINT64_MAX, &err), RS_E_ARG_RANGE, &err);
    CHECK_OK(rs_os_sync(fd, &err), &err);
    CHECK_OK(rs_os_sync_directory(at("space"), &err), &err);
    CHECK_OK(rs_os_sync_directory("no_slash", &err), &err);
    CHECK_CODE(rs_os_map(fd, 0, &data, &err), RS_E_ARG_RANGE, &err);
    REQUIRE_OK(rs_os_map(fd, 10000, &data, &err), &err);
    CHECK(data[0] == 0 && memcmp(data + 9997, "end", 3) == 0);
    rs_os_unmap(data, 10000);
    rs_os_unmap(NULL, 0);
    CHECK_OK(rs_os_stamp_of(at("space"), &before, &err), &err);
    CHECK_OK(rs_os_truncate(fd, 7, &err), &err);
    CHECK_OK(rs_os_identify(fd, &id, &err), &err);
    CHECK_U64(id.size_bytes, 7);
    CHECK_OK(rs_os_stamp_of(at("space"), &after, &err), &err);
    CHECK(before.size_bytes == 10000 && after.size_bytes == 7 && after.modified_ns >= before.modified_ns);
    CHECK(before.inode == id.inode && after.inode == id.inode && before.modified_ns > 0);
    CHECK_CODE(rs_os_stamp_of(at("missing"), &after, &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK_CODE(rs_os_stamp_of(at("space/below"), &after, &err), RS_E_SYS, &err);
    rs_os_close(&fd);
    CHECK_CODE(rs_os_write_at(-1, "x", 1, 0, &err), RS_E_SYS, &err);
    CHECK_U64(err.sys_errno, EBADF);
}

/* Whole units and ragged ends read back as written, with huge pages or without. */
TEST(test_large_reservations) {
    enum { UNIT = RS_OS_HUGE_PAGE, SIZE = 5 * UNIT + 12345 };
    static const uint64_t steps[] = {0, 1000, UNIT + 1, 4 * UNIT, SIZE + UNIT};
    bool sealable;
    const uint8_t *data = NULL;
    uint64_t wrong = 0;
    uint8_t *bytes = (uint8_t *)malloc(SIZE);
    int fd;
    if (bytes == NULL || rs_os_create_anonymous(&fd, &sealable, NULL) != RS_OK) {
        free(bytes);
        return;
    }
    for (uint64_t at = 0; at < SIZE; at++) bytes[at] = (uint8_t)(at * 2654435761u >> 13);
    for (uint64_t i = 0; i + 1 < sizeof steps / sizeof steps[0]; i++) {
        uint64_t end = steps[i + 1] < SIZE ? steps[i + 1] : SIZE;
        REQUIRE_OK(rs_os_reserve(fd, steps[i], steps[i + 1], true, &err), &err);
        REQUIRE_OK(rs_os_write_at(fd, bytes + steps[i], (size_t)(end - steps[i]), steps[i], &err), &err);
    }
    REQUIRE_OK(rs_os_truncate(fd, SIZE, &err), &err);
    if (sealable) CHECK_OK(rs_os_seal(fd, &err), &err);
    REQUIRE_OK(rs_os_map(fd, SIZE, &data, &err), &err);
    CHECK(memcmp(data, bytes, SIZE) == 0);
#if defined(__linux__)
    CHECK((uintptr_t)data % RS_OS_HUGE_PAGE == 0);
#endif
    for (uint64_t at = SIZE; at % 4096 != 0; at++) wrong += data[at] != 0; /* after the end, within the last page */
    CHECK(wrong == 0);
    rs_os_unmap(data, SIZE);
    rs_os_close(&fd);
    free(bytes);
}

TEST(test_rename_and_unlink) {
    rs_os_identity id;
    int fd = -1;
    write_text("target", "old");
    REQUIRE_OK(rs_os_create_file(at("temporary"), &fd, &err), &err);
    CHECK_OK(rs_os_identify(fd, &id, &err), &err);
    CHECK_OK(rs_os_unlink(at("target"), &id, &err), &err);
    CHECK(access(at("target"), F_OK) == 0); /* another file: left alone */
    CHECK_OK(rs_os_rename(at("temporary"), at("target"), &err), &err);
    CHECK_CODE(rs_os_rename(at("temporary"), at("target"), &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK_OK(rs_os_unlink(at("target"), &id, &err), &err);
    CHECK(access(at("target"), F_OK) != 0);
    CHECK_OK(rs_os_unlink(at("target"), &id, &err), &err);
    CHECK_OK(rs_os_unlink(at("target"), NULL, &err), &err);
    rs_os_close(&fd);
}

TEST(test_random_and_time) {
    uint8_t a[300] = {0}, b[300] = {0};
    CHECK_OK(rs_os_random(a, sizeof a, &err), &err);
    CHECK_OK(rs_os_random(b, sizeof b, &err), &err);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK_OK(rs_os_random(NULL, 0, &err), &err);
    CHECK(rs_os_now_ns() > UINT64_C(1700000000) * 1000000000u);
    CHECK_U64(rs_os_process_id(), getpid());
    rs_os_trim();
}

/* ---------------------------------------------------------------- memory limits */

#if defined(__linux__)
enum { MIB = 1 << 20 };

/* Writes the files of a machine with 600 of 1000 MiB available: 550 MiB of headroom. */
static void write_machine(const char *name, const char *cgroup, const char *mountinfo) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", name);
    write_text(path, "MemTotal:        1024000 kB\nMemFree:          1000 kB\nMemAvailable:     614400 kB\n");
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", name);
    write_text(path, cgroup);
    (void)snprintf(path, sizeof path, "%s/proc/self/mountinfo", name);
    write_text(path, mountinfo);
}

static void write_number(const char *dir, const char *file, unsigned long long value) {
    char path[640], text[64];
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    (void)snprintf(text, sizeof text, "%llu\n", value);
    write_text(path, text);
}

static void write_cgroup2(const char *dir, unsigned limit_mib, unsigned usage_mib, unsigned inactive_mib) {
    char path[256], text[128];
    write_number(dir, "memory.max", (unsigned long long)limit_mib * MIB);
    write_number(dir, "memory.current", (unsigned long long)usage_mib * MIB);
    (void)snprintf(path, sizeof path, "%s/memory.stat", dir);
    (void)snprintf(text, sizeof text, "anon 5\ninactive_file %llu\nactive_file 9\n",
                   (unsigned long long)inactive_mib * MIB);
    write_text(path, text);
}

static void expect(const char *name, uint64_t bytes, const char *limit) {
    char proc[512], file_system[512], got[RS_OS_LIMIT_NAME_SIZE];
    rs_os_memory_roots roots;
    uint64_t headroom = 1;
    (void)snprintf(proc, sizeof proc, "%s/%s/proc", base, name);
    (void)snprintf(file_system, sizeof file_system, "%s/%s", base, name);
    roots.proc = proc;
    roots.file_system = file_system;
    rs_os_memory_headroom_at(&roots, &headroom, got, sizeof got);
    CHECK_U64(headroom, bytes);
    CHECK_STR(got, limit);
    if (bytes == UINT64_MAX) return;
    CHECK_OK(rs_os_require_memory(&roots, bytes, &err), &err);
    CHECK_CODE(rs_os_require_memory(&roots, bytes + 1, &err), RS_E_SPACE, &err);
    CHECK_U64(err.needed, bytes + 1);
    CHECK_U64(err.available, bytes);
    CHECK(strstr(err.message, limit) != NULL);
    CHECK_CODE(rs_os_require_memory(&roots, bytes + 1, NULL), RS_E_SPACE, NULL);
}

static const char MOUNT_2[] = "22 1 0:5 / /proc rw - proc proc rw\n"
                              "30 23 0:26 / /cg rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(test_headroom_of_the_machine) {
    uint64_t bytes = 0;
    expect("absent", UINT64_MAX, "");
    write_machine("m0", "", "");
    expect("m0", 550u * MIB, "MemAvailable of the machine");
    write_text("m0/proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 1000 kB\n");
    expect("m0", 0, "MemAvailable of the machine");
    write_text("m0/proc/meminfo", "MemTotal: banana\nMemAvailable: -4 kB\n");
    expect("m0", UINT64_MAX, "");
    rs_os_memory_headroom(&bytes, NULL, 0);
    CHECK(bytes > 0);
}

TEST(test_headroom_version_2) {
    write_machine("a", "0::/foo/bar\n", MOUNT_2);
    expect("a", 550u * MIB, "MemAvailable of the machine"); /* no such folder */
    write_cgroup2("a/cg/foo/bar", 400, 100, 20);
    expect("a", 300u * MIB, "memory cgroup /foo/bar"); /* 95% of 400, less 100, plus 20 */
    write_cgroup2("a/cg/foo", 200, 150, 0);
    expect("a", 40u * MIB, "memory cgroup /foo"); /* the parent is tighter */
    write_text("a/cg/foo/memory.max", "max\n");
    expect("a", 300u * MIB, "memory cgroup /foo/bar");
    write_number("a/cg/foo/bar", "memory.high", 1);
    expect("a", 300u * MIB, "memory cgroup /foo/bar");
    write_cgroup2("a/cg/foo/bar", 100, 99, 0);
    expect("a", 0, "memory cgroup /foo/bar");
    write_cgroup2("a/cg/foo/bar", 400, 100, 200); /* more cache than usage, which cannot be true */
    expect("a", 280u * MIB, "memory cgroup /foo/bar");
    CHECK(unlink(at("a/cg/foo/bar/memory.current")) == 0);
    expect("a", 550u * MIB, "MemAvailable of the machine");
}

TEST(test_headroom_inside_containers) {
    /* The namespace hides parent cgroups: the top of the mount is our cgroup. */
    write_machine("b", "0::/\n", MOUNT_2);
    write_cgroup2("b/cg", 200, 100, 0);
    expect("b", 90u * MIB, "memory cgroup /");
    /* A path as seen from outside the namespace. */
    write_machine("c", "0::/../../other\n", MOUNT_2);
    write_cgroup2("c/cg", 200, 120, 0);
    write_cgroup2("c/other", 1, 1, 0);
    expect("c", 70u * MIB, "memory cgroup /");
    /* A bind mount, with a space in its name, shows only a part of the tree. */
    write_machine("d", "0::/docker/xyz/work\n", "30 23 0:26 /docker/xyz /my\\040cg rw - cgroup2 cgroup2 rw\n");
    write_cgroup2("d/my cg", 200, 130, 0);
    write_cgroup2("d/my cg/work", 200, 100, 0);
    expect("d", 60u * MIB, "memory cgroup /docker/xyz");
    /* Our cgroup is outside the mounted part. The top of the mount counts. */
    write_machine("e", "0::/docker/xyzzy\n", "30 23 0:26 /docker/xyz /cg rw - cgroup2 cgroup2 rw\n");
    write_cgroup2("e/cg", 200, 140, 0);
    expect("e", 50u * MIB, "memory cgroup /docker/xyz");
    /* The mount that shows our cgroup wins over an earlier mount. */
    write_machine("f", "0::/here\n",
                  "30 23 0:26 /there /one rw - cgroup2 cgroup2 rw\n"
                  "31 23 0:26 / /two rw - cgroup2 cgroup2 rw\n");
    write_cgroup2("f/one", 200, 189, 0);
    write_cgroup2("f/two/here", 200, 150, 0);
    expect("f", 40u * MIB, "memory cgroup /here");
}

TEST(test_headroom_version_1_and_hybrid) {
    write_machine("g", "9:name=systemd:/x\n4:cpu,memory:/job\n0::/slice\n",
                  "31 23 0:29 / /cg rw - tmpfs tmpfs rw\n"
                  "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n"
                  "33 31 0:32 / /cg/memory rw shared:1 master:2 - cgroup cgroup rw,cpu,memory\n"
                  "34 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    write_number("g/cg/memory", "memory.limit_in_bytes", 9223372036854771712ull);
    write_number("g/cg/memory", "memory.usage_in_bytes", 5);
    write_number("g/cg/memory/job", "memory.limit_in_bytes", 200u * MIB);
    write_number("g/cg/memory/job", "memory.usage_in_bytes", 100u * MIB);
    write_text("g/cg/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
    expect("g", 100u * MIB, "memory cgroup /job");
    write_cgroup2("g/cg/unified/slice", 100, 50, 0);
    expect("g", 45u * MIB, "memory cgroup /slice");
}

TEST(test_headroom_long_names_and_junk) {
    char cgroup[400], long_name[301], dir[512], got[24];
    char proc[512], root[512];
    rs_os_memory_roots roots;
    uint64_t bytes;
    memset(long_name, 'n', sizeof long_name - 1);
    memcpy(long_name + 296, "tail", 5);
    memcpy(long_name + 150, "/", 1);
    (void)snprintf(cgroup, sizeof cgroup, "0::/%s\n", long_name);
    write_machine("h", cgroup, MOUNT_2);
    (void)snprintf(dir, sizeof dir, "h/cg/%.150s/%s", long_name, long_name + 151);
    (void)snprintf(proc, sizeof proc, "%s/h/proc", base);
    (void)snprintf(root, sizeof root, "%s/h", base);
    roots.proc = proc;
    roots.file_system = root;
    write_number(dir, "memory.max", 100u * MIB);
    write_number(dir, "memory.current", 0);
    rs_os_memory_headroom_at(&roots, &bytes, got, sizeof got);
    CHECK_U64(bytes, 95u * MIB);
    CHECK_STR(got, "memory cgroup ...nntail");
    rs_os_memory_headroom_at(&roots, &bytes, got, 3);
    CHECK_STR(got, "");
    write_machine("i", "junk\n1:memory\n::\n0::/a\n:memory:",
                  "\n - \n1 2 - cgroup2\n1 2 3 - cgroup cgroup\n1 2 3 / - cgroup2\n");
    expect("i", 550u * MIB, "MemAvailable of the machine");
}

/* With 5% kept free, a limit of 400 MiB allows 380 MiB. */
static void write_limits(const char *limit, unsigned mapped_mib) {
    char text[256];
    (void)snprintf(text, sizeof text,
                   "Limit                     Soft Limit           Hard Limit           Units     \n"
                   "Max address space         %-20s unlimited            bytes     \n",
                   limit);
    write_text("as/proc/self/limits", text);
    (void)snprintf(text, sizeof text, "%llu 5 5 5 0 5 0\n",
                   (unsigned long long)mapped_mib * MIB / (unsigned long long)sysconf(_SC_PAGESIZE));
    write_text("as/proc/self/statm", text);
}

TEST(test_headroom_of_the_address_space) {
    static const char LIMIT[] = "the address space of the process (ulimit -v)";
    char proc[512];
    rs_os_memory_roots roots = {proc, base};
    (void)snprintf(proc, sizeof proc, "%s/as/proc", base);
    write_machine("as", "", "");
    write_limits("unlimited", 100);
    expect("as", 550u * MIB, "MemAvailable of the machine");
    CHECK_OK(rs_os_require_address_space(&roots, UINT64_MAX, &err), &err);
    write_limits("419430400", 80);
    expect("as", 300u * MIB, LIMIT);
    CHECK_OK(rs_os_require_address_space(&roots, 300u * MIB, &err), &err);
    CHECK_CODE(rs_os_require_address_space(&roots, 300u * MIB + 1, &err), RS_E_SPACE, &err);
    CHECK_U64(err.available, 300u * MIB);
    write_limits("419430400", 390);
    expect("as", 0, LIMIT);
    write_limits("4194304000", 100);
    expect("as", 550u * MIB, "MemAvailable of the machine");
    write_text("as/proc/self/statm", "junk\n");
    CHECK_OK(rs_os_require_address_space(&roots, UINT64_MAX, &err), &err);
}

TEST(test_map_beyond_the_address_space) {
    const uint8_t *data = NULL;
    struct rlimit before;
    bool sealable;
    int fd = -1;
    REQUIRE_OK(rs_os_create_anonymous(&fd, &sealable, &err), &err);
    REQUIRE_OK(rs_os_truncate(fd, UINT64_C(1) << 40, &err), &err);
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    struct rlimit now = before;
    now.rlim_cur = (rlim_t)1 << 39;
    if (before.rlim_cur >= now.rlim_cur && setrlimit(RLIMIT_AS, &now) == 0) {
        CHECK_CODE(rs_os_map(fd, UINT64_C(1) << 40, &data, &err), RS_E_SPACE, &err);
        CHECK_U64(err.needed, UINT64_C(1) << 40);
        CHECK(err.available < err.needed && strstr(err.message, "ulimit -v") != NULL);
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    }
    rs_os_close(&fd);
}

TEST(test_reserve_beyond_headroom) {
    bool sealable;
    rs_os_identity id;
    uint64_t free_bytes;
    int fd = -1;
    rs_os_memory_headroom(&free_bytes, NULL, 0);
    if (free_bytes > INT64_MAX / 2) return;
    REQUIRE_OK(rs_os_create_anonymous(&fd, &sealable, &err), &err);
    CHECK_CODE(rs_os_reserve(fd, 0, free_bytes * 2, true, &err), RS_E_SPACE, &err);
    CHECK_U64(err.needed, free_bytes * 2);
    CHECK(err.available < err.needed);
    CHECK_OK(rs_os_identify(fd, &id, &err), &err);
    CHECK_U64(id.size_bytes, 0);
    CHECK_OK(rs_os_reserve(fd, 0, 4096, true, &err), &err);
    rs_os_close(&fd);
}
#endif

static int thread_mask; /* 1, plus 1 for SIGINT and 2 for SIGSEGV; 0 before the thread runs */
static void record_mask(void *argument) {
    sigset_t mask;
    int *out = (int *)argument;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *out = 1 + sigismember(&mask, SIGINT) + 2 * sigismember(&mask, SIGSEGV);
}

/* The thread runs and blocks SIGINT, but not SIGSEGV. It leaves the signal mask of its starter alone. */
TEST(test_thread) {
    rs_os_thread thread;
    sigset_t mask;
    REQUIRE_OK(rs_os_thread_start(&thread, record_mask, &thread_mask, &err), &err);
    rs_os_thread_join(&thread);
    CHECK(thread_mask == 2);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK(sigismember(&mask, SIGINT) == 0);
}

/* Forgotten pages read as zeros on Linux; pages that the range covers in part keep their bytes. */
TEST(test_forgetting) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *data = (uint8_t *)rs_os_pages(4 * page);
    REQUIRE(data != NULL);
    for (size_t from = 0; from <= 2; from++) {
        for (size_t to = 3 * page - 1; to <= 3 * page + 1; to++) {
            bool ok = true;
            memset(data, 1, 4 * page);
            rs_os_forget(data + from, to - from);
            for (size_t i = 0; ok && i < 4 * page; i++) {
                const size_t begin = i / page * page, end = begin + page;
                ok = data[i] == 1 || (begin >= from && end <= to);
#if defined(__linux__)
                ok = ok && (data[i] == 0 || begin < from || end > to);
#endif
            }
            CHECK(ok);
        }
    }
    rs_os_pages_free(data, 4 * page);
}

int main(void) {
    if (!folder_begin("test_os")) return 1;
    rs_test_run();
    folder_end();
    return rs_test_finish();
}
