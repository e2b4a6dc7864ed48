/* test_segment.c: the writer's life from open to finish or abort on every backing, and opening of files. */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "format/rs_segment.h"
#include "rs_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

static rs_error err;

/* Returns the number of entries of a folder, or -1 if it cannot be opened. */
static int count_entries(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    if (dir == NULL) return -1;
    while (readdir(dir) != NULL) n++;
    (void)closedir(dir);
    return n - 2;
}

static int count_descriptors(void) { return count_entries("/proc/self/fd"); }

static rs_status open_writer(rs_segment_writer *writer, rs_backing backing, const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", at(name));
    if (backing == RS_BACKING_ANONYMOUS) return rs_segment_writer_open(writer, backing, NULL, NULL, &err);
    if (backing == RS_BACKING_FILE) return rs_segment_writer_open(writer, backing, NULL, path, &err);
    return rs_segment_writer_open(writer, backing, at("private"), name, &err);
}

static const char *path_of(rs_backing backing, const char *name) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s%s", backing == RS_BACKING_DIRECTORY ? "private/" : "", name);
    return at(path);
}

static void check_life(rs_backing backing) {
    rs_segment_writer writer;
    rs_segment segment;
    rs_os_identity id;
    struct stat st;
    size_t i;
    REQUIRE_OK(open_writer(&writer, backing, "life"), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "HEAD", 4, &err), &err);
    CHECK_OK(rs_segment_writer_align(&writer, 4096, &err), &err);
    CHECK_U64(writer.position, 4096);
    CHECK_OK(rs_segment_writer_align(&writer, 4096, &err), &err);
    CHECK_U64(writer.position, 4096);
    CHECK_OK(rs_segment_writer_append(&writer, "tail", 4, &err), &err);
    CHECK_OK(rs_segment_writer_append(&writer, NULL, 0, &err), &err);
    CHECK_OK(rs_os_identify(writer.fd, &id, &err), &err);
    CHECK_U64(id.size_bytes, 64 << 10); /* small stores stay small */
    CHECK_OK(rs_segment_writer_write_at(&writer, 0, "head", 4, &err), &err);
    CHECK_OK(rs_segment_writer_write_at(&writer, 4100, "", 0, &err), &err);
    CHECK_CODE(rs_segment_writer_write_at(&writer, 4097, "tail", 4, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_segment_writer_write_at(&writer, UINT64_MAX, "tail", 4, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_segment_writer_align(&writer, 3, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_segment_writer_align(&writer, 0, &err), RS_E_ARG_RANGE, &err);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    CHECK_U64(segment.size_bytes, 4100);
    CHECK_U64(segment.identity.size_bytes, 4100);
    CHECK(memcmp(segment.data, "head", 4) == 0 && memcmp(segment.data + 4096, "tail", 4) == 0);
    for (i = 4; i < 4096; i++) {
        if (segment.data[i] != 0) break;
    }
    CHECK_U64(i, 4096);
    CHECK((fcntl(segment.fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    CHECK((fcntl(segment.fd, F_GETFD) & FD_CLOEXEC) != 0);
    if (backing == RS_BACKING_ANONYMOUS) {
        CHECK(rs_os_is_sealed(segment.fd));
    } else {
        CHECK(stat(path_of(backing, "life"), &st) == 0);
        CHECK_U64(st.st_mode & 07777, backing == RS_BACKING_FILE ? 0640 : 0400);
    }
    rs_segment_writer_abort(&writer); /* inactive: the name stays */
    CHECK_CODE(rs_segment_writer_finish(&writer, &segment, &err), RS_E_STATE_FINISHED, &err);
    CHECK(segment.data == NULL);
}

TEST(test_life_anonymous) {
    int before = count_descriptors();
    rs_segment_writer writer;
    rs_segment segment;
    char path[64];
    REQUIRE_OK(open_writer(&writer, RS_BACKING_ANONYMOUS, ""), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "abc", 3, &err), &err);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", segment.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd < 0 || (pwrite(fd, "x", 1, 0) == -1 && errno == EPERM));
    CHECK(fd < 0 || (ftruncate(fd, 0) == -1 && errno == EPERM));
    rs_os_close(&fd);
    CHECK(write(segment.fd, "x", 1) == -1 && errno == EBADF);
    rs_segment_close(&segment);
    rs_segment_close(&segment);
    CHECK(segment.fd == -1 && segment.data == NULL && segment.size_bytes == 0);
    CHECK_U64(count_descriptors(), before);
}

/* Runs `body` in a child process: check_life ends by overwriting `segment`, and so loses its mapping. */
static void in_child(void (*body)(rs_backing), rs_backing backing) {
    int status = -1;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body(backing);
        _exit(rs_test_state.failed == 0 ? 0 : 1);
    }
    REQUIRE(child > 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(test_life_of_every_backing) {
    rs_segment segment;
    in_child(check_life, RS_BACKING_ANONYMOUS);
    in_child(check_life, RS_BACKING_DIRECTORY);
    mode_t before = umask(027); /* a saved file obeys the user's umask */
    in_child(check_life, RS_BACKING_FILE);
    (void)umask(before);
    REQUIRE_OK(rs_segment_open_path(&segment, at("life"), false, &err), &err);
    CHECK_U64(segment.size_bytes, 4100);
    CHECK_U64(segment.identity.mode & 07777, 0640);
    rs_segment_close(&segment);
    REQUIRE_OK(rs_segment_open_path(&segment, at("private/life"), false, &err), &err);
    rs_segment_close(&segment);
    CHECK(unlink(at("life")) == 0 && unlink(at("private/life")) == 0);
}

TEST(test_abort_leaves_nothing) {
    static const rs_backing backings[] = {RS_BACKING_ANONYMOUS, RS_BACKING_DIRECTORY, RS_BACKING_FILE};
    for (size_t i = 0; i < 3; i++) {
        int descriptors = count_descriptors();
        rs_segment_writer writer;
        REQUIRE_OK(open_writer(&writer, backings[i], "aborted"), &err);
        CHECK_OK(rs_segment_writer_append(&writer, "abc", 3, &err), &err);
        if (i > 0) CHECK(access(path_of(backings[i], "aborted"), F_OK) == 0);
        rs_segment_writer_abort(&writer);
        rs_segment_writer_abort(&writer);
        CHECK(access(path_of(backings[i], "aborted"), F_OK) != 0);
        CHECK_U64(count_descriptors(), descriptors);
        CHECK(writer.fd == -1 && writer.path == NULL);
    }
}

TEST(test_abort_spares_files_of_others) {
    rs_segment_writer writer;
    int status = 0;
    REQUIRE_OK(open_writer(&writer, RS_BACKING_FILE, "kept"), &err);
    pid_t child = fork();
    if (child == 0) {
        rs_segment_writer_abort(&writer);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(access(at("kept"), F_OK) == 0); /* a forked child does not unlink */
    CHECK(unlink(at("kept")) == 0);
    int fd = open(at("kept"), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
    rs_segment_writer_abort(&writer);
    CHECK(access(at("kept"), F_OK) == 0); /* another file with the same name stays */
    CHECK(unlink(at("kept")) == 0);
}

TEST(test_open_failures) {
    int descriptors = count_descriptors();
    rs_segment_writer writer;
    REQUIRE_OK(open_writer(&writer, RS_BACKING_FILE, "taken"), &err);
    {
        rs_segment_writer second;
        CHECK_CODE(open_writer(&second, RS_BACKING_FILE, "taken"), RS_E_STATE_EXISTS, &err);
        rs_segment_writer_abort(&second);
        CHECK(access(at("taken"), F_OK) == 0);
        CHECK_CODE(rs_segment_writer_open(&second, RS_BACKING_FILE, NULL, NULL, &err), RS_E_ARG_RANGE, &err);
        CHECK_CODE(rs_segment_writer_open(&second, RS_BACKING_DIRECTORY, NULL, "x", &err), RS_E_ARG_RANGE, &err);
        CHECK_CODE(rs_segment_writer_open(&second, (rs_backing)9, NULL, "x", &err), RS_E_ARG_RANGE, &err);
        CHECK_CODE(rs_segment_writer_open(&second, RS_BACKING_FILE, NULL, at("no/dir"), &err), RS_E_SYS_NOT_FOUND,
                   &err);
    }
    rs_segment_writer_abort(&writer);
    CHECK_U64(count_descriptors(), descriptors);
}

TEST(test_empty_cannot_finish) {
    rs_segment_writer writer;
    rs_segment segment;
    REQUIRE_OK(open_writer(&writer, RS_BACKING_FILE, "empty"), &err);
    CHECK_CODE(rs_segment_writer_finish(&writer, &segment, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK(segment.data == NULL);
    rs_segment_writer_abort(&writer);
    CHECK(access(at("empty"), F_OK) != 0);
}

TEST(test_growth) {
    enum { BLOCK = 3 << 20, BLOCKS = 30, BIG = 70 << 20 };
    uint8_t *block = (uint8_t *)malloc(BIG);
    rs_segment_writer writer;
    rs_segment segment;
    unsigned wrong = 0;
    REQUIRE(block != NULL);
    REQUIRE_OK(open_writer(&writer, RS_BACKING_ANONYMOUS, ""), &err);
    for (size_t i = 0; i < BLOCKS; i++) {
        memset(block, (int)i + 1, BLOCK);
        if (!CHECK_OK(rs_segment_writer_append(&writer, block, BLOCK, &err), &err)) break;
        CHECK(writer.reserved >= writer.position && writer.reserved - writer.position <= 32u << 20);
        CHECK(writer.reserved - writer.position <= (1u << 20) + writer.position / 4);
    }
    memset(block, 0xAB, BIG);
    CHECK_OK(rs_segment_writer_append(&writer, block, BIG, &err), &err);
    free(block);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    CHECK_U64(segment.size_bytes, (uint64_t)BLOCK * BLOCKS + BIG);
    for (size_t i = 0; i < segment.size_bytes; i += 511) {
        uint8_t expected = i < (size_t)BLOCK * BLOCKS ? (uint8_t)(i / BLOCK + 1) : 0xAB;
        wrong += segment.data[i] != expected;
    }
    CHECK_U64(wrong, 0);
    rs_segment_close(&segment);
}

TEST(test_failed_append_can_be_repeated) {
    /* A limit on file sizes simulates a full disk: 1.5 MiB is enough for the first MiB and 1,000 bytes, but not for a
     * second MiB. */
    static uint8_t bytes[1 << 20];
    struct rlimit old;
    rs_segment_writer writer;
    rs_segment segment;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit low = old;
    low.rlim_cur = 3u << 19;
    memset(bytes, 7, sizeof bytes);
    REQUIRE_OK(open_writer(&writer, RS_BACKING_FILE, "limited"), &err);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    CHECK_OK(rs_segment_writer_append(&writer, bytes, sizeof bytes, &err), &err);
    CHECK_CODE(rs_segment_writer_append(&writer, bytes, sizeof bytes, &err), RS_E_SPACE, &err);
    CHECK(err.needed > 0);
    CHECK_U64(writer.position, sizeof bytes);
    CHECK_OK(rs_segment_writer_append(&writer, bytes, 1000, &err), &err);
    CHECK_OK(rs_segment_writer_align(&writer, 4096, &err), &err);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    CHECK_U64(segment.size_bytes, sizeof bytes + 4096);
    CHECK(segment.data[sizeof bytes + 999] == 7 && segment.data[sizeof bytes + 1000] == 0);
    rs_segment_close(&segment);
    CHECK(unlink(at("limited")) == 0);
}

TEST(test_copy) {
    rs_segment_writer writer;
    rs_segment source, copy, copy_of_copy;
    REQUIRE_OK(open_writer(&writer, RS_BACKING_FILE, "source"), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "some bytes", 10, &err), &err);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &source, &err), &err);
    REQUIRE_OK(rs_segment_copy(&copy, &source, source.size_bytes, &err), &err);
    rs_segment_close(&source);
    CHECK(rs_os_is_sealed(copy.fd));
    CHECK(copy.size_bytes == 10 && memcmp(copy.data, "some bytes", 10) == 0);
    REQUIRE_OK(rs_segment_copy(&copy_of_copy, &copy, 4, &err), &err);
    rs_segment_close(&copy);
    CHECK(copy_of_copy.size_bytes == 4 && memcmp(copy_of_copy.data, "some", 4) == 0);
    rs_segment_close(&copy_of_copy);
    CHECK(unlink(at("source")) == 0);
}

TEST(test_copy_of_a_file_that_shrank) {
    static const uint8_t bytes[40000] = {1};
    int descriptors = count_descriptors();
    rs_segment source, copy;
    int fd = -1;
    REQUIRE_OK(rs_os_create_file(at("shrinks"), &fd, &err), &err);
    CHECK_OK(rs_os_write_at(fd, bytes, sizeof bytes, 0, &err), &err);
    REQUIRE_OK(rs_segment_open_path(&source, at("shrinks"), false, &err), &err);
    CHECK_OK(rs_os_truncate(fd, 5000, &err), &err);
    CHECK_CODE(rs_segment_copy(&copy, &source, source.size_bytes, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(rs_segment_copy(&copy, &source, source.size_bytes, NULL), RS_E_FMT_TRUNCATED, NULL);
    CHECK(copy.data == NULL);
    rs_segment_close(&source);
    CHECK_OK(rs_os_truncate(fd, 0, &err), &err);
    CHECK_CODE(rs_segment_open_path(&source, at("shrinks"), false, &err), RS_E_FMT_TRUNCATED, &err);
    rs_segment_close(&source);
    rs_os_close(&fd);
    CHECK_U64(count_descriptors(), descriptors);
    CHECK(unlink(at("shrinks")) == 0);
}

TEST(test_adopt) {
    int fd = -1;
    bool sealable;
    rs_segment segment, zeroed;
    REQUIRE_OK(rs_os_create_anonymous(&fd, &sealable, &err), &err);
    CHECK_CODE(rs_segment_adopt(&segment, fd, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK(fcntl(fd, F_GETFD) >= 0); /* still the caller's */
    CHECK_OK(rs_os_write_at(fd, "abc", 3, 0, &err), &err);
    CHECK_OK(rs_segment_adopt(&segment, fd, &err), &err);
    rs_segment_close(&segment);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    CHECK_CODE(rs_segment_adopt(&segment, -1, &err), RS_E_SYS, &err);
    memset(&zeroed, 0, sizeof zeroed);
    rs_segment_close(&zeroed);
    CHECK(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
}

TEST(test_open_path_refusals) {
    rs_segment segment;
    CHECK(mkfifo(at("fifo"), 0600) == 0);
    (void)alarm(5);
    CHECK_CODE(rs_segment_open_path(&segment, at("fifo"), true, &err), RS_E_SYS_NOT_OURS, &err);
    (void)alarm(0);
    CHECK(symlink(at("fifo"), at("link")) == 0);
    CHECK_CODE(rs_segment_open_path(&segment, at("link"), false, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK_CODE(rs_segment_open_path(&segment, at("missing"), true, &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK(segment.data == NULL);
}

int main(void) {
    if (!folder_begin("test_segment")) return 1;
    rs_test_run();
    folder_end();
    return rs_test_finish();
}
