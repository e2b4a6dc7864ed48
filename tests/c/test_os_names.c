/* test_os_names.c: named files from creation to removal, with both backings; races, planted files, full disks. */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "format/rs_segment.h"
#include "rs_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/mount.h>
#endif

static rs_error err;

/* Makes a finished segment with `text` in the test's folder. *temporary is its name before it is published, NULL if it
 * has none; the caller frees it. */
static rs_status make(rs_backing backing, const char *text, rs_segment *out, char **temporary) {
    rs_segment_writer writer;
    rs_status code = rs_segment_writer_open(&writer, backing, base, "temporary", &err);
    if (code != RS_OK) return code;
    *temporary = writer.path == NULL ? NULL : strdup(writer.path);
    code = rs_segment_writer_append(&writer, text, strlen(text), &err);
    if (code == RS_OK) code = rs_segment_writer_finish(&writer, out, &err);
    if (code != RS_OK) rs_segment_writer_abort(&writer);
    return code;
}

static bool try_remove(const char *path) {
    bool out = false;
    CHECK_OK(rs_os_unlink_unused(path, false, NULL, &out, &err), &err);
    return out;
}

static void check_life(rs_backing backing) {
    rs_segment made, read;
    struct stat st;
    char *temporary;
    bool out;
    int fd = -1;
    REQUIRE_OK(make(backing, "bytes", &made, &temporary), &err);
    CHECK((temporary == NULL) == (access(at("temporary"), F_OK) != 0));
    CHECK(access(at("name"), F_OK) != 0);
    REQUIRE_OK(rs_os_publish(made.fd, temporary, at("name"), NULL, &err), &err);
    CHECK(access(at("temporary"), F_OK) != 0);
    CHECK(stat(at("name"), &st) == 0 && (st.st_mode & 07777) == 0400 && st.st_nlink == 1);
    CHECK_CODE(rs_os_publish(made.fd, at("name"), at("name"), NULL, &err), RS_E_STATE_EXISTS, &err);
    CHECK(!try_remove(at("name"))); /* the maker's lease */
    REQUIRE_OK(rs_segment_open_leased(&read, at("name"), &err), &err);
    CHECK(read.size_bytes == 5 && memcmp(read.data, "bytes", 5) == 0);
    CHECK(rs_os_same_file(&read.identity, &made.identity));
    rs_segment_close(&made);
    CHECK(!try_remove(at("name"))); /* the reader's */
    REQUIRE_OK(rs_segment_open_leased(&made, at("name"), &err), &err);
    rs_os_close(&made.fd); /* ends its lease; the mapping stays */
    CHECK(!try_remove(at("name")) && memcmp(made.data, "bytes", 5) == 0);
    rs_segment_close(&made);
    read.identity.inode++;
    CHECK_OK(rs_os_unlink_unused(at("name"), false, &read.identity, &out, &err), &err);
    CHECK(!out);
    rs_os_close(&read.fd);
    fd = open(at("name"), O_RDONLY);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK_CODE(rs_segment_open_leased(&made, at("name"), &err), RS_E_STATE_BUSY, &err);
    CHECK(memcmp(read.data, "bytes", 5) == 0);
    rs_segment_close(&read);
    CHECK(!try_remove(at("name")));
    rs_os_close(&fd);
    CHECK(try_remove(at("name")));
    CHECK(!try_remove(at("name")));
    CHECK_CODE(rs_segment_open_leased(&read, at("name"), &err), RS_E_SYS_NOT_FOUND, &err);
    free(temporary);
}

TEST(test_unlink_removable) {
    rs_segment made;
    rs_os_removable removable;
    struct stat st;
    struct timespec old[2] = {{1000, 5}, {1000, 5}};
    char *temporary;
    bool out;
    int fd = -1;
    REQUIRE_OK(make(RS_BACKING_NAMED, "bytes", &made, &temporary), &err);
    REQUIRE_OK(rs_os_publish(made.fd, temporary, at("name"), NULL, &err), &err);
    CHECK(futimens(made.fd, old) == 0 && stat(at("name"), &st) == 0);
    removable.device = (uint64_t)st.st_dev, removable.inode = (uint64_t)st.st_ino,
    removable.modified_ns = UINT64_C(1000000000005);
    CHECK_OK(rs_os_is_leased(at("name"), &out, &err), &err);
    CHECK(out);
    CHECK_OK(rs_os_unlink_removable(at("name"), &removable, &out, &err), &err);
    CHECK(!out); /* the lease */
    fd = dup(made.fd);
    rs_os_touch(made.fd);
    rs_segment_close(&made);
    CHECK_OK(rs_os_is_leased(at("name"), &out, &err), &err);
    CHECK(out); /* a duplicate is the same lease */
    rs_os_close(&fd);
    CHECK_OK(rs_os_is_leased(at("name"), &out, &err), &err);
    CHECK(!out);
    CHECK_OK(rs_os_unlink_removable(at("name"), &removable, &out, &err), &err);
    CHECK(!out); /* touched */
    CHECK(utimensat(AT_FDCWD, at("name"), old, 0) == 0);
    removable.inode++;
    CHECK_OK(rs_os_unlink_removable(at("name"), &removable, &out, &err), &err);
    CHECK(!out); /* another file */
    removable.inode--;
    CHECK_OK(rs_os_unlink_removable(at("name"), &removable, &out, &err), &err);
    CHECK(out && access(at("name"), F_OK) != 0);
    CHECK_CODE(rs_os_is_leased(at("name"), &out, &err), RS_E_SYS_NOT_FOUND, &err);
    free(temporary);
}

TEST(test_life) {
    check_life(RS_BACKING_NAMED);
    check_life(RS_BACKING_TEMPORARY);
}

static void abort_leaves_nothing(rs_backing backing) {
    rs_segment_writer writer;
    REQUIRE_OK(rs_segment_writer_open(&writer, backing, base, "temporary", &err), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "x", 1, &err), &err);
    CHECK(writer.path == NULL || !try_remove(writer.path)); /* leased while it is written */
    rs_segment_writer_abort(&writer);
    CHECK(access(at("temporary"), F_OK) != 0);
    CHECK_CODE(rs_segment_writer_open(&writer, backing, at("missing"), "temporary", &err), RS_E_SYS_NOT_FOUND, &err);
    CHECK_CODE(rs_segment_writer_open(&writer, backing, base, NULL, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_segment_writer_open(&writer, backing, NULL, "temporary", &err), RS_E_ARG_RANGE, &err);
}

TEST(test_abort) {
    abort_leaves_nothing(RS_BACKING_NAMED);
    abort_leaves_nothing(RS_BACKING_TEMPORARY);
}

static void check_generations(rs_backing backing) {
    rs_segment one, two, read;
    char *first, *second;
    REQUIRE_OK(make(backing, "old", &one, &first), &err);
    REQUIRE_OK(rs_os_publish(one.fd, first, at("name"), NULL, &err), &err);
    REQUIRE_OK(make(backing, "new", &two, &second), &err);
    CHECK_CODE(rs_os_publish(two.fd, second, at("name"), NULL, &err), RS_E_STATE_EXISTS, &err);
    CHECK_OK(rs_os_publish(two.fd, second, at("name"), at("between"), &err), &err);
    CHECK(access(at("between"), F_OK) != 0 && access(at("temporary"), F_OK) != 0);
    CHECK(memcmp(one.data, "old", 3) == 0); /* its file no longer has a name */
    REQUIRE_OK(rs_segment_open_leased(&read, at("name"), &err), &err);
    CHECK(memcmp(read.data, "new", 3) == 0);
    rs_segment_close(&read);
    rs_segment_close(&one);
    rs_segment_close(&two);
    CHECK(try_remove(at("name")));
    free(first), free(second);
}

TEST(test_generations) {
    check_generations(RS_BACKING_NAMED);
    check_generations(RS_BACKING_TEMPORARY);
}

/* Children publish under one name at the same moment: one succeeds; the others are refused and leave no files. */
TEST(test_publishing_at_once) {
    enum { CHILDREN = 8, ROUNDS = 20 };
    int gate[2], status, winners;
    for (int round = 0; round < ROUNDS; round++) {
        REQUIRE(pipe(gate) == 0);
        (void)fflush(NULL);
        for (int i = 0; i < CHILDREN; i++) {
            if (fork() == 0) {
                rs_segment made;
                char *temporary, byte;
                rs_status code = make(RS_BACKING_NAMED, "bytes", &made, &temporary);
                (void)close(gate[1]);
                if (code == RS_OK && temporary != NULL) code = RS_E_SYS; /* else all children share one name */
                if (read(gate[0], &byte, 1) < 0) _exit(3);
                if (code == RS_OK) code = rs_os_publish(made.fd, NULL, at("name"), NULL, &err);
                _exit(code == RS_OK ? 0 : code == RS_E_STATE_EXISTS ? 1 : 2);
            }
        }
        (void)close(gate[0]), (void)close(gate[1]);
        winners = 0;
        for (int i = 0; i < CHILDREN; i++) {
            REQUIRE(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) <= 1);
            winners += WEXITSTATUS(status) == 0;
        }
        CHECK_U64(winners, 1);
        CHECK(try_remove(at("name")));
    }
}

/* A foreign file under our name is neither read nor removed. */
TEST(test_planted) {
    rs_segment segment;
    rs_os_lock lock;
    (void)alarm(10);
    CHECK(mkfifo(at("name"), 0400) == 0);
    CHECK_CODE(rs_segment_open_leased(&segment, at("name"), &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(!try_remove(at("name")) && unlink(at("name")) == 0);
    CHECK(mkdir(at("name"), 0700) == 0);
    CHECK_CODE(rs_segment_open_leased(&segment, at("name"), &err), RS_E_SYS_NOT_OURS, &err);
    CHECK_CODE(rs_os_open_lock(at("name"), false, &lock, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(!try_remove(at("name")) && rmdir(at("name")) == 0);
    int fd = open(at("target"), O_RDWR | O_CREAT, 0400);
    CHECK(write(fd, "theirs", 6) == 6);
    CHECK(symlink(at("target"), at("name")) == 0);
    CHECK_CODE(rs_segment_open_leased(&segment, at("name"), &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(!try_remove(at("name")) && unlink(at("name")) == 0);
    CHECK(symlink(at("target"), at("lock")) == 0);
    CHECK_CODE(rs_os_open_lock(at("lock"), false, &lock, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(unlink(at("lock")) == 0);
    /* The lock's name is a hard link to another file of this user, with the mode of a lock. A lock would empty it. */
    CHECK(chmod(at("target"), 0600) == 0 && link(at("target"), at("lock")) == 0);
    CHECK_CODE(rs_os_open_lock(at("lock"), false, &lock, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(strstr(err.message, "2 names") != NULL);
    CHECK(unlink(at("lock")) == 0);
    CHECK(chmod(at("target"), 0644) == 0);
    CHECK_CODE(rs_segment_open_leased(&segment, at("target"), &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(strstr(err.message, "0644") != NULL);
    CHECK_CODE(rs_os_open_lock(at("target"), false, &lock, &err), RS_E_SYS_NOT_OURS, &err);
    CHECK(chmod(at("target"), 0400) == 0);
    if (chown(at("target"), 12345, (gid_t)-1) == 0) {
        CHECK_CODE(rs_segment_open_leased(&segment, at("target"), &err), RS_E_SYS_NOT_OURS, &err);
        CHECK(strstr(err.message, "user 12345") != NULL);
        CHECK(!try_remove(at("target")));
        CHECK_CODE(rs_os_open_lock(at("target"), false, &lock, &err), RS_E_SYS_NOT_OURS, &err);
    } else {
        (void)printf("test_os_names: not root, so files of another user are not tried\n");
    }
    CHECK(unlink(at("target")) == 0);
    (void)alarm(0);
    rs_os_close(&fd);
}

TEST(test_empty_file) {
    rs_segment segment;
    int fd = open(at("name"), O_RDWR | O_CREAT | O_EXCL, 0400);
    CHECK_CODE(rs_segment_open_leased(&segment, at("name"), &err), RS_E_FMT_TRUNCATED, &err);
    rs_os_close(&fd);
    CHECK(try_remove(at("name")));
}

TEST(test_locks) {
    rs_os_lock one, two;
    bool named;
    REQUIRE_OK(rs_os_open_lock(at("lock"), false, &one, &err), &err);
    REQUIRE_OK(rs_os_open_lock(at("lock"), false, &two, &err), &err);
    CHECK_OK(rs_os_try_lock(one.fd, at("lock"), &named, &err), &err);
    CHECK(named);
    CHECK_CODE(rs_os_try_lock(two.fd, at("lock"), &named, &err), RS_E_STATE_BUSY, &err);
    CHECK(!try_remove(at("lock")));
    CHECK(unlink(at("lock")) == 0);
    CHECK(!rs_os_leads_to(at("lock"), two.fd));
    rs_os_close_lock(&one);
    CHECK_OK(rs_os_try_lock(two.fd, at("lock"), &named, &err), &err);
    CHECK(!named);
    rs_os_close_lock(&two);
    CHECK(two.fd < 0);
}

/* After a builder is killed, no process waits for its lock, even if a child that it forked is still alive. */
TEST(test_lock_of_a_killed_parent) {
    rs_os_lock mine, other;
    bool named;
    int gate[2], status;
    REQUIRE(pipe(gate) == 0);
    pid_t builder = fork();
    if (builder == 0) {
        rs_os_lock locks[3];
        int ready[2];
        char byte = 0;
        if (pipe(ready) != 0) _exit(5);
        for (size_t i = 0; i < 3; i++) {
            if (rs_os_open_lock(at("lock"), false, &locks[i], &err) != RS_OK) _exit(1);
        }
        rs_os_close_lock(&locks[1]);
        if (rs_os_try_lock(locks[2].fd, at("lock"), &named, &err) != RS_OK) _exit(2);
        if (fork() == 0) {
            (void)close(gate[1]);
            if (locks[0].fd >= 0 || locks[2].fd >= 0) _exit(3);
            rs_os_close_lock(&locks[2]);
            if (write(ready[1], &byte, 1) != 1) _exit(6);
            _exit(read(gate[0], &byte, 1) == 0 ? 0 : 4); /* returns when the test closes the pipe */
        }
        (void)close(ready[1]);
        if (read(ready[0], &byte, 1) != 1) _exit(7); /* the child is past its fork */
        (void)raise(SIGKILL);
    }
    CHECK(waitpid(builder, &status, 0) == builder && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    REQUIRE_OK(rs_os_open_lock(at("lock"), false, &mine, &err), &err);
    CHECK_OK(rs_os_try_lock(mine.fd, at("lock"), &named, &err), &err);
    REQUIRE_OK(rs_os_open_lock(at("lock"), false, &other, &err), &err);
    rs_os_close_lock(&mine);
    CHECK_OK(rs_os_try_lock(other.fd, at("lock"), &named, &err), &err);
    rs_os_close_lock(&other);
    CHECK(unlink(at("lock")) == 0);
    (void)close(gate[0]);
    (void)close(gate[1]);
}

/* A killed user leaves a file that can be removed. A killed builder leaves no file, or a temporary file that can be
 * removed. */
TEST(test_after_a_kill) {
    static const rs_backing backings[] = {RS_BACKING_NAMED, RS_BACKING_TEMPORARY};
    int status;
    for (size_t i = 0; i < 2; i++) {
        (void)fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            rs_segment made;
            rs_segment_writer writer;
            char *temporary;
            if (make(backings[i], "bytes", &made, &temporary) != RS_OK) _exit(1);
            if (rs_os_publish(made.fd, temporary, at("name"), NULL, &err) != RS_OK) _exit(2);
            if (rs_segment_writer_open(&writer, backings[i], base, "temporary", &err) != RS_OK) _exit(3);
            (void)raise(SIGKILL);
        }
        REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        CHECK(try_remove(at("name")));
        CHECK(try_remove(at("temporary")) == (backings[i] == RS_BACKING_TEMPORARY));
    }
}

#if defined(__linux__)
/* Fills a file system of 1 MiB: the error has numbers, and the abort makes room again. Returns 0 on success. */
static int fill(rs_backing backing) {
    static uint8_t bytes[400000];
    rs_segment_writer writer;
    rs_status code = RS_OK;
    int i;
    if (rs_segment_writer_open(&writer, backing, at("small"), "temporary", &err) != RS_OK) return 1;
    for (i = 0; code == RS_OK && i < 5; i++) code = rs_segment_writer_append(&writer, bytes, sizeof bytes, &err);
    if (code != RS_E_SPACE || i != 3 || err.needed == 0 || err.available >= 1 << 20) return 2;
    rs_segment_writer_abort(&writer);
    if (rs_segment_writer_open(&writer, backing, at("small"), "temporary", &err) != RS_OK) return 3;
    code = rs_segment_writer_append(&writer, bytes, sizeof bytes, &err);
    rs_segment_writer_abort(&writer);
    return code == RS_OK ? 0 : 4;
}

TEST(test_full_file_system) {
    int status;
    CHECK(mkdir(at("small"), 0700) == 0);
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", at("small"), "tmpfs", 0, "size=1m") != 0) {
            _exit(77);
        }
        status = fill(RS_BACKING_NAMED);
        _exit(status != 0 ? status : fill(RS_BACKING_TEMPORARY) * 16);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        (void)printf("test_os_names: no private mount namespace here, so the full file system is not tried\n");
    } else {
        CHECK_U64(WEXITSTATUS(status), 0);
    }
    CHECK(rmdir(at("small")) == 0);
}
#endif

int main(void) {
    if (!folder_begin("test_os_names")) return 1;
    rs_test_run();
    folder_end();
    return rs_test_finish();
}
