/* rs_os_names.c: files that processes find by name and keep in use by locks. A file is created without a name,
 * published by a link, opened under a shared lock, and removed under an exclusive lock. See "Named files" in
 * rs_os.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often a file may be replaced or removed between opening and locking before it counts as an attack. */
enum { ATTEMPTS = 100 };

static RS_COLD rs_status fail(rs_error *err, const char *message, const char *path) {
    rs_status code = RS_E_SYS;
    if (errno == EEXIST) code = RS_E_STATE_EXISTS;
    if (errno == ENOENT) code = RS_E_SYS_NOT_FOUND;
    if (errno == ENOSPC || errno == EDQUOT) code = RS_E_SPACE;
    /* The errors of opening a link, a socket and a directory. */
    if (errno == ELOOP || errno == ENXIO || errno == EISDIR) code = RS_E_SYS_NOT_OURS;
    return rs_error_set_errno(err, code, errno, "%s %s", message, path);
}

/* Locks without waiting; RS_E_STATE_BUSY if the file is locked through another descriptor. */
static rs_status lock_now(int fd, int how, rs_error *err, const char *path) {
    int rc;
    do {
        rc = flock(fd, how | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) return RS_OK;
    if (errno == EWOULDBLOCK) {
        return rs_error_set(err, RS_E_STATE_BUSY, RS_NOWHERE, "another process has locked %s", path);
    }
    return rs_error_set_errno(err, RS_E_SYS, errno, "cannot lock %s", path);
}

/* Returns whether `path` still leads to the file of `fd`. */
static bool leads_to(const char *path, int fd) {
    struct stat there, here;
    if (lstat(path, &there) != 0 || fstat(fd, &here) != 0) return false;
    return there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

/* The modes of files that one user reads, or reads and writes, and that the users of a group read and write. */
enum { READ = 0400, PRIVATE = 0600, GROUP = 0660 };

/* Checks that the file is a regular file with this mode, and of this user unless that is GROUP, else
 * RS_E_SYS_NOT_OURS. For READ, PRIVATE is right too: the file of a sealed cache is also a segment. */
static rs_status check_ours(int fd, unsigned mode, const char *path, rs_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return rs_error_set_errno(err, RS_E_SYS, errno, "cannot read the state of %s", path);
    if (!S_ISREG(st.st_mode)) return rs_error_set(err, RS_E_SYS_NOT_OURS, RS_NOWHERE, "not a regular file: %s", path);
    const unsigned found = st.st_mode & 07777;
    const bool mode_fits = found == mode || (mode == READ && found == PRIVATE);
    if ((st.st_uid == geteuid() || mode == GROUP) && mode_fits) return RS_OK;
    return rs_error_set(err, RS_E_SYS_NOT_OURS, RS_NOWHERE,
                        "not made by recstore for user %lu: the file belongs to user %lu and has mode %04o: %s",
                        (unsigned long)geteuid(), (unsigned long)st.st_uid, found, path);
}

/* Checks that the file does not have a second name, else RS_E_SYS_NOT_OURS: a hard link may lead to a file of this user
 * that was made for something else. A file that has just been removed has no name. */
static rs_status check_one_name(int fd, const char *path, rs_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return rs_error_set_errno(err, RS_E_SYS, errno, "cannot read the state of %s", path);
    if (st.st_nlink <= 1) return RS_OK;
    return rs_error_set(err, RS_E_SYS_NOT_OURS, RS_NOWHERE, "not made by recstore: the file has %lu names: %s",
                        (unsigned long)st.st_nlink, path);
}

/* ---------------------------------------------------------------- creating and publishing */

/* Returns whether the errno means that nameless files are not supported. */
static bool no_nameless(int code) {
    /* EISDIR and ENOENT come from kernels without O_TMPFILE, which take it for O_DIRECTORY and a plain open. */
    return code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT || code == ENOSYS;
}

static rs_status create_temporary(const char *temporary, int *out_fd, rs_error *err) {
    for (int i = 0; i < ATTEMPTS; i++) {
        int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) return fail(err, "cannot create", temporary);
        rs_status code = rs_os_lease(fd, err);
        if (code == RS_OK && leads_to(temporary, fd)) {
            *out_fd = fd;
            return RS_OK;
        }
        rs_os_close(&fd);
        RS_TRY(code); /* RS_OK: another process removed the file before it was locked */
    }
    return rs_error_set(err, RS_E_SYS, RS_NOWHERE, "another process removes %s again and again", temporary);
}

rs_status rs_os_create_nameless(const char *dir, const char *temporary, bool allow_nameless, int *out_fd,
                                bool *out_nameless, rs_error *err) {
#if defined(O_TMPFILE)
    if (allow_nameless) {
        int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0) {
            rs_status code = rs_os_lease(fd, err);
            if (code != RS_OK) {
                rs_os_close(&fd);
                return code;
            }
            *out_fd = fd;
            *out_nameless = true;
            return RS_OK;
        }
        if (!no_nameless(errno)) return fail(err, "cannot create a file in", dir);
    }
#else
    (void)dir, (void)allow_nameless;
#endif
    RS_TRY(create_temporary(temporary, out_fd, err));
    *out_nameless = false;
    return RS_OK;
}

/* Gives the file of `fd` the free name `to`. */
static rs_status link_file(int fd, const char *temporary, const char *to, rs_error *err) {
    char path[64];
    const char *from = temporary;
    if (from == NULL) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        from = path;
    }
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, temporary == NULL ? AT_SYMLINK_FOLLOW : 0) == 0) return RS_OK;
#if defined(AT_EMPTY_PATH)
    /* This works without /proc, but needs a capability on older kernels. */
    if (errno == ENOENT && temporary == NULL && linkat(fd, "", AT_FDCWD, to, AT_EMPTY_PATH) == 0) return RS_OK;
#endif
    return fail(err, "cannot publish", to);
}

/* Removes a name and ignores failures. */
static void unlink_quietly(const char *path) {
    rs_status ignored = rs_os_unlink(path, NULL, NULL);
    (void)ignored;
}

rs_status rs_os_publish(int fd, const char *temporary, const char *path, const char *between, rs_error *err) {
    if (between == NULL) {
        RS_TRY(link_file(fd, temporary, path, err));
    } else {
        /* rename replaces `path` atomically. (It would do nothing for two names of one file.) */
        if (temporary == NULL) RS_TRY(link_file(fd, NULL, between, err));
        rs_status code = rs_os_rename(temporary == NULL ? between : temporary, path, err);
        if (code != RS_OK) {
            if (temporary == NULL) unlink_quietly(between);
            return code;
        }
        return RS_OK;
    }
    if (temporary != NULL) unlink_quietly(temporary);
    return RS_OK;
}

/* ---------------------------------------------------------------- opening and removing */

/* Opens a file of this user with mode 0600 if `writable`, else with 0400 or, for a cache, 0600. Does not lock it. */
static rs_status open_ours(const char *path, bool writable, int *out_fd, rs_error *err) {
    int fd;
    if (writable) {
        fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) return fail(err, "cannot open", path);
    } else {
        RS_TRY(rs_os_open_readonly(path, false, &fd, err));
    }
    rs_status code = check_ours(fd, writable ? PRIVATE : READ, path, err);
    if (code == RS_OK) {
        *out_fd = fd;
    } else {
        rs_os_close(&fd);
    }
    return code;
}

static rs_status open_leased(const char *path, bool writable, int *out_fd, rs_error *err) {
    for (int i = 0; i < ATTEMPTS; i++) {
        int fd;
        RS_TRY(open_ours(path, writable, &fd, err));
        rs_status code = lock_now(fd, LOCK_SH, err, path);
        if (code == RS_OK && leads_to(path, fd)) {
            *out_fd = fd;
            return RS_OK;
        }
        rs_os_close(&fd);
        RS_TRY(code); /* RS_OK: the file was removed or replaced between open and lock, so try again */
    }
    return rs_error_set(err, RS_E_SYS, RS_NOWHERE, "another process replaces %s again and again", path);
}

rs_status rs_os_open_leased(const char *path, int *out_fd, rs_error *err) {
    return open_leased(path, false, out_fd, err);
}

rs_status rs_os_open_leased_writable(const char *path, int *out_fd, rs_error *err) {
    return open_leased(path, true, out_fd, err);
}

static uint64_t modified_ns(const struct stat *st) {
#if defined(__APPLE__)
    return (uint64_t)st->st_mtimespec.tv_sec * 1000000000u + (uint64_t)st->st_mtimespec.tv_nsec;
#else
    return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
#endif
}

rs_status rs_os_stamp_of(const char *path, rs_os_stamp *out, rs_error *err) {
    struct stat st;
    if (stat(path, &st) != 0) {
        return rs_error_set_errno(err, errno == ENOENT ? RS_E_SYS_NOT_FOUND : RS_E_SYS, errno,
                                  "cannot read the state of %s", path);
    }
    *out = (rs_os_stamp){(uint64_t)st.st_size, modified_ns(&st), (uint64_t)st.st_ino};
    return RS_OK;
}

/* Returns whether the file of `fd` still matches `removable`; true if `removable` is NULL. */
static bool still_matches(int fd, const rs_os_removable *removable) {
    struct stat st;
    if (removable == NULL) return true;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_dev == removable->device && (uint64_t)st.st_ino == removable->inode &&
           modified_ns(&st) == removable->modified_ns;
}

static rs_status unlink_unused(const char *path, bool group, const rs_os_identity *expected,
                               const rs_os_removable *removable, bool *out_removed, rs_error *err) {
    rs_os_identity found;
    struct stat st;
    int fd;
    *out_removed = false;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? RS_OK : rs_error_set_errno(err, RS_E_SYS, errno, "cannot read the state of %s", path);
    }
    if ((st.st_uid != geteuid() && !group) || !S_ISREG(st.st_mode)) return RS_OK;
    rs_status code = rs_os_open_readonly(path, false, &fd, err);
    if (code == RS_E_SYS_NOT_FOUND || code == RS_E_SYS_NOT_OURS) return RS_OK;
    RS_TRY(code);
    code = rs_os_identify(fd, &found, err);
    if (code == RS_OK && (found.uid == (uint32_t)geteuid() || group) &&
        (expected == NULL || rs_os_same_file(&found, expected))) {
        code = lock_now(fd, LOCK_EX, err, path);
        if (code == RS_OK && leads_to(path, fd) && still_matches(fd, removable)) {
            if (unlink(path) == 0) {
                *out_removed = true;
            } else if (errno != ENOENT) {
                code = rs_error_set_errno(err, RS_E_SYS, errno, "cannot remove %s", path);
            }
        }
    }
    rs_os_close(&fd); /* ends the lock */
    return code == RS_E_STATE_BUSY ? RS_OK : code;
}

rs_status rs_os_unlink_unused(const char *path, bool group, const rs_os_identity *expected, bool *out_removed,
                              rs_error *err) {
    return unlink_unused(path, group, expected, NULL, out_removed, err);
}

rs_status rs_os_unlink_removable(const char *path, const rs_os_removable *removable, bool *out_removed, rs_error *err) {
    return unlink_unused(path, false, NULL, removable, out_removed, err);
}

rs_status rs_os_is_leased(const char *path, bool *out, rs_error *err) {
    int fd;
    *out = false;
    RS_TRY(rs_os_open_readonly(path, false, &fd, err));
    rs_status code = lock_now(fd, LOCK_EX, err, path);
    rs_os_close(&fd); /* ends the lock */
    *out = code == RS_E_STATE_BUSY;
    return *out ? RS_OK : code;
}

void rs_os_touch(int fd) {
    int ignored = futimens(fd, NULL);
    (void)ignored;
}

/* ---------------------------------------------------------------- locks of builders */

/* The open lock files of this process. A forked child shares their locks, so the files would stay locked after the
 * parent is killed. The child therefore closes them, even if C code forks and no hook of Python runs. */
static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static rs_os_lock *locks_first;
static pthread_once_t locks_once = PTHREAD_ONCE_INIT;
static int locks_failed; /* the errno of pthread_atfork */

static void before_fork(void) { (void)pthread_mutex_lock(&locks_mutex); }

static void in_parent(void) { (void)pthread_mutex_unlock(&locks_mutex); }

static void in_child(void) {
    rs_os_lock *lock = locks_first;
    while (lock != NULL) {
        rs_os_lock *after = lock->after;
        rs_os_close(&lock->fd);
        lock->before = lock->after = NULL;
        lock = after;
    }
    locks_first = NULL;
    (void)pthread_mutex_unlock(&locks_mutex);
}

static void watch_forks(void) { locks_failed = pthread_atfork(before_fork, in_parent, in_child); }

/* Returns whether a file of this user has fewer rights than `mode`, the mode of a lock file, because of a umask. */
static bool lacks_rights(const struct stat *st, unsigned mode) {
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 07777 & ~mode) == 0 &&
           (st->st_mode & 07777) != mode;
}

/* Opens or makes a lock file. If a process is killed before it has set all rights, the next one sets them. */
static int open_lock_file(const char *path, unsigned mode) {
    static const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    struct stat st;
    int fd = open(path, flags, mode);
    if (fd >= 0) {
        if (fstat(fd, &st) == 0 && lacks_rights(&st, mode)) (void)fchmod(fd, mode); /* check_ours reports a failure */
        return fd;
    }
    if (errno != EACCES) return -1;
    if (lstat(path, &st) != 0 || !lacks_rights(&st, mode) || chmod(path, mode) != 0) {
        errno = EACCES;
        return -1;
    }
    return open(path, flags, mode);
}

rs_status rs_os_open_lock(const char *path, bool group, rs_os_lock *out, rs_error *err) {
    const unsigned mode = group ? GROUP : PRIVATE;
    rs_status code = RS_OK;
    out->fd = -1;
    out->before = out->after = NULL;
    (void)pthread_once(&locks_once, watch_forks);
    if (locks_failed != 0) return rs_error_set_errno(err, RS_E_SYS, locks_failed, "cannot lock %s", path);
    (void)pthread_mutex_lock(&locks_mutex);
    out->fd = open_lock_file(path, mode);
    if (out->fd < 0) code = fail(err, "cannot open", path);
    if (code == RS_OK) code = check_ours(out->fd, mode, path, err);
    if (code == RS_OK) code = check_one_name(out->fd, path, err);
    if (code == RS_OK) {
        out->after = locks_first;
        if (locks_first != NULL) locks_first->before = out;
        locks_first = out;
    } else {
        rs_os_close(&out->fd);
    }
    (void)pthread_mutex_unlock(&locks_mutex);
    return code;
}

void rs_os_close_lock(rs_os_lock *lock) {
    (void)pthread_mutex_lock(&locks_mutex);
    if (lock->fd >= 0) {
        if (lock->before != NULL) lock->before->after = lock->after;
        if (lock->after != NULL) lock->after->before = lock->before;
        if (locks_first == lock) locks_first = lock->after;
        lock->before = lock->after = NULL;
        rs_os_close(&lock->fd);
    }
    (void)pthread_mutex_unlock(&locks_mutex);
}

rs_status rs_os_try_lock(int fd, const char *path, bool *out_named, rs_error *err) {
    RS_TRY(lock_now(fd, LOCK_EX, err, path));
    *out_named = leads_to(path, fd);
    return RS_OK;
}

bool rs_os_leads_to(const char *path, int fd) { return leads_to(path, fd); }
