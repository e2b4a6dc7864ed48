/* rs_segment.c: maps segments, and writes them: reserves space, writes, and makes the file read-only. */
#include "format/rs_segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rs_bytes.h"
#include "format/rs_format.h"

enum { STEP_FIRST = 64 << 10, STEP_USUAL = 1 << 20, STEP_MOST = 32 << 20, PAGE = 4096 };

/* Zeros for padding. They are written, not skipped, because bytes of a failed append may be there, and reading a hole
 * may fault. */
static const uint8_t ZEROS[PAGE];

static const rs_segment CLOSED = {-1, NULL, 0, 0, {0, 0, 0, 0, 0}};
static const rs_segment_writer INACTIVE = {.fd = -1};

/* ---------------------------------------------------------------- segments */

/* Returns where the segment begins in a file: at 0, except in the file of a cache. */
static uint64_t start_of(rs_slice file) {
    const size_t size = rs_slice_left(&file);
    if (size < RS_FMT_CACHE_SEGMENT + 8 || memcmp(file.ptr, RS_FMT_CACHE_MAGIC, 8) != 0) return 0;
    return rs_load_u64(file.ptr + RS_FMT_CACHE_SEGMENT);
}

rs_status rs_segment_adopt(rs_segment *self, int fd, rs_error *err) {
    rs_os_identity identity;
    const uint8_t *data;
    *self = CLOSED;
    RS_TRY(rs_os_identify(fd, &identity, err));
    if (identity.size_bytes == 0) return rs_error_set(err, RS_E_FMT_TRUNCATED, 0, "the segment is empty");
    RS_TRY(rs_os_map(fd, identity.size_bytes, &data, err));
    const uint64_t start = start_of(rs_slice_of(data, identity.size_bytes));
    if (start % RS_FMT_CACHE_UNIT != 0 || start >= identity.size_bytes) {
        rs_os_unmap(data, identity.size_bytes);
        return rs_error_set(err, start % RS_FMT_CACHE_UNIT != 0 ? RS_E_FMT_VALUE : RS_E_FMT_TRUNCATED,
                            RS_FMT_CACHE_SEGMENT, "the file of the cache has no segment at %llu",
                            (unsigned long long)start);
    }
    self->fd = fd;
    self->data = data + start;
    self->size_bytes = identity.size_bytes - start;
    self->start_bytes = start;
    self->identity = identity;
    return RS_OK;
}

rs_status rs_segment_open_path(rs_segment *self, const char *path, bool follow_links, rs_error *err) {
    int fd;
    *self = CLOSED;
    RS_TRY(rs_os_open_readonly(path, follow_links, &fd, err));
    rs_status code = rs_segment_adopt(self, fd, err);
    if (code != RS_OK) rs_os_close(&fd);
    return code;
}

/* As rs_segment_adopt, for a leased file. A mapping keeps its open file, and thus its lock, alive after the descriptor
 * is closed. So the file is mapped through a second descriptor without a lock, and closing `fd` ends the lease. If the
 * system does not provide a second descriptor, the lease ends with the mapping. */
static rs_status adopt_leased(rs_segment *self, int fd, rs_error *err) {
    int other;
    if (rs_os_reopen_readonly(fd, &other, NULL) != RS_OK) return rs_segment_adopt(self, fd, err);
    rs_status code = rs_segment_adopt(self, other, err);
    rs_os_close(&other);
    if (code == RS_OK) self->fd = fd;
    return code;
}

rs_status rs_segment_open_leased(rs_segment *self, const char *path, rs_error *err) {
    int fd;
    *self = CLOSED;
    RS_TRY(rs_os_open_leased(path, &fd, err));
    rs_status code = adopt_leased(self, fd, err);
    if (code != RS_OK) rs_os_close(&fd);
    return code;
}

rs_status rs_segment_copy(rs_segment *out, const rs_segment *src, uint64_t size_bytes, rs_error *err) {
    rs_segment_writer writer;
    rs_error local;
    *out = CLOSED;
    RS_ASSERT(size_bytes <= src->size_bytes);
    if (err == NULL) err = &local;
    RS_TRY(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, err));
    /* The kernel reads the source's pages in the write call. If a file has shrunk, the call returns EFAULT; there is no
     * SIGBUS. */
    rs_status code = rs_segment_writer_append(&writer, src->data, (size_t)size_bytes, err);
    if (code == RS_E_SYS && err->sys_errno == EFAULT) {
        code = rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "the file shrank while it was copied");
    }
    if (code == RS_OK) code = rs_segment_writer_finish(&writer, out, err);
    if (code != RS_OK) rs_segment_writer_abort(&writer);
    return code;
}

void rs_segment_close(rs_segment *self) {
    /* Test `data`, because the `fd` of a zeroed segment is 0, a valid descriptor. */
    if (self->data == NULL) return;
    rs_os_unmap(self->data - self->start_bytes, self->start_bytes + self->size_bytes);
    rs_os_close(&self->fd);
    *self = CLOSED;
}

/* ---------------------------------------------------------------- writer */

static rs_status join_path(const char *dir, const char *name, char **out, rs_error *err) {
    size_t n = (dir == NULL ? 0 : strlen(dir) + 1) + strlen(name) + 1;
    char *path = (char *)malloc(n);
    if (path == NULL) return rs_no_memory(err);
    (void)snprintf(path, n, "%s%s%s", dir == NULL ? "" : dir, dir == NULL ? "" : "/", name);
    *out = path;
    return RS_OK;
}

static rs_status create_named(rs_segment_writer *self, bool allow_nameless, const char *dir, rs_error *err) {
    bool nameless;
    RS_TRY(rs_os_create_nameless(dir, self->path, allow_nameless, &self->fd, &nameless, err));
    if (nameless) {
        free(self->path);
        self->path = NULL;
    }
    return RS_OK;
}

static bool is_named(rs_backing backing) { return backing == RS_BACKING_NAMED || backing == RS_BACKING_TEMPORARY; }

static rs_status create(rs_segment_writer *self, rs_backing backing, const char *dir, const char *name, rs_error *err) {
    if (backing == RS_BACKING_ANONYMOUS) return rs_os_create_anonymous(&self->fd, &self->sealable, err);
    if ((backing != RS_BACKING_DIRECTORY && backing != RS_BACKING_FILE && !is_named(backing)) || name == NULL ||
        (backing == RS_BACKING_FILE) != (dir == NULL)) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "backing %d does not go with this directory and name",
                            (int)backing);
    }
    RS_TRY(join_path(dir, name, &self->path, err));
    if (is_named(backing)) return create_named(self, backing == RS_BACKING_NAMED, dir, err);
    return backing == RS_BACKING_DIRECTORY ? rs_os_create_in_directory(dir, name, &self->fd, err)
                                           : rs_os_create_file(name, &self->fd, err);
}

rs_status rs_segment_writer_open(rs_segment_writer *self, rs_backing backing, const char *dir, const char *name,
                                 rs_error *err) {
    *self = INACTIVE;
    rs_status code = create(self, backing, dir, name, err);
    if (code != RS_OK) {
        free(self->path);
        *self = INACTIVE;
        return code;
    }
    self->backing = backing;
    self->memory_backed = backing == RS_BACKING_ANONYMOUS || rs_os_is_memory_backed(self->fd);
    self->step = STEP_FIRST;
    self->process_id = rs_os_process_id();
    code = rs_os_identify(self->fd, &self->identity, err);
    /* Take the lease before writing, because the cleanup of orphans removes unlocked files. */
    if (code == RS_OK && backing == RS_BACKING_DIRECTORY) code = rs_os_lease(self->fd, err);
    if (code != RS_OK) rs_segment_writer_abort(self);
    return code;
}

/* Fails in a forked child, which shares the file with its parent and would write into the parent's segment. */
static rs_status check_process(const rs_segment_writer *self, rs_error *err) {
    if (self->process_id == rs_os_process_id()) return RS_OK;
    return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "a forked child cannot continue a build of its parent");
}

/* Reserves the next step of space. Writing `needed` bytes may take several. */
static rs_status reserve_step(rs_segment_writer *self, uint64_t needed, rs_error *err) {
    uint64_t step = self->step;
    while (step < needed && step < STEP_MOST) step *= 2;
    /* A large step ends at a multiple of a huge page, because only whole huge pages can be reserved. */
    if (step >= RS_OS_HUGE_PAGE) step = rs_align_up(self->reserved + step, RS_OS_HUGE_PAGE) - self->reserved;
    rs_status code = rs_os_reserve(self->fd, self->reserved, self->reserved + step, self->memory_backed, err);
    if (code == RS_E_SPACE && rs_align_up(needed, PAGE) < step) {
        /* A whole step was refused. The store may be nearly complete, so try only the needed pages. */
        step = rs_align_up(needed, PAGE);
        code = rs_os_reserve(self->fd, self->reserved, self->reserved + step, self->memory_backed, err);
    }
    if (code != RS_OK) return code;
    self->reserved += step;
    /* Start small: reserving and releasing a megabyte takes longer than building a store of a few records. */
    if (self->step < STEP_USUAL) self->step *= 4;
    /* Only a step below an eighth of the size grows: unused space counts in the peak memory of a small store. */
    while (self->step < STEP_MOST && self->step * 8 < self->reserved) self->step *= 2;
    return RS_OK;
}

rs_status rs_segment_writer_append(rs_segment_writer *self, const void *bytes, size_t n, rs_error *err) {
    const uint8_t *p = (const uint8_t *)bytes;
    uint64_t at = self->position, end;
    RS_ASSERT(self->backing != 0);
    RS_TRY(check_process(self, err));
    if (rs_add_overflows(at, n, &end) || end > INT64_MAX - 2 * (int64_t)STEP_MOST) {
        return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a segment of %llu bytes cannot grow by %zu bytes",
                            (unsigned long long)at, n);
    }
    while (at < end) {
        if (at == self->reserved) RS_TRY(reserve_step(self, end - at, err));
        uint64_t chunk = end < self->reserved ? end - at : self->reserved - at;
        RS_TRY(rs_os_write_at(self->fd, p, (size_t)chunk, at, err));
        p += chunk;
        at += chunk;
    }
    self->position = end;
    return RS_OK;
}

rs_status rs_segment_writer_align(rs_segment_writer *self, uint64_t alignment, rs_error *err) {
    uint64_t start = self->position;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > STEP_MOST) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "%llu is not an alignment", (unsigned long long)alignment);
    }
    return rs_segment_writer_append_zeros(self, rs_align_up(start, alignment) - start, err);
}

rs_status rs_segment_writer_append_zeros(rs_segment_writer *self, uint64_t left, rs_error *err) {
    const uint64_t start = self->position;
    while (left > 0) {
        size_t n = left < PAGE ? (size_t)left : PAGE;
        rs_status code = rs_segment_writer_append(self, ZEROS, n, err);
        if (code != RS_OK) {
            self->position = start;
            return code;
        }
        left -= n;
    }
    return RS_OK;
}

rs_status rs_segment_writer_rewind(rs_segment_writer *self, uint64_t position, rs_error *err) {
    RS_ASSERT(self->backing != 0);
    if (position > self->position) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "%llu bytes are written; a writer cannot go to %llu",
                            (unsigned long long)self->position, (unsigned long long)position);
    }
    self->position = position;
    return RS_OK;
}

rs_status rs_segment_writer_write_at(rs_segment_writer *self, uint64_t offset, const void *bytes, size_t n,
                                     rs_error *err) {
    RS_ASSERT(self->backing != 0);
    RS_TRY(check_process(self, err));
    if (offset > self->position || n > self->position - offset) {
        return rs_error_set(err, RS_E_ARG_RANGE, offset, "%zu bytes at %llu end after the %llu written", n,
                            (unsigned long long)offset, (unsigned long long)self->position);
    }
    return rs_os_write_at(self->fd, bytes, n, offset, err);
}

static rs_status make_immutable(rs_segment_writer *self, rs_error *err) {
    RS_TRY(rs_os_truncate(self->fd, self->position, err));
    self->reserved = self->position;
    /* A saved file keeps the mode that the user's umask gave it. */
    if (self->backing == RS_BACKING_FILE) return rs_os_sync(self->fd, err);
    /* Sync before the file gets its name, so that after a power cut no name leads to a file without its bytes. */
    if (is_named(self->backing) && !self->memory_backed) RS_TRY(rs_os_sync(self->fd, err));
    return self->sealable ? rs_os_seal(self->fd, err) : rs_os_protect(self->fd, err);
}

rs_status rs_segment_writer_finish(rs_segment_writer *self, rs_segment *out, rs_error *err) {
    int fd;
    *out = CLOSED;
    if (self->backing == 0) return rs_error_set(err, RS_E_STATE_FINISHED, RS_NOWHERE, "the writer is not active");
    RS_TRY(check_process(self, err));
    RS_TRY(make_immutable(self, err));
    RS_TRY(rs_os_reopen_readonly(self->fd, &fd, err));
    /* Take the new lease before closing the writer's descriptor, so that the file is always leased. */
    rs_status code = self->backing == RS_BACKING_DIRECTORY || is_named(self->backing) ? rs_os_lease(fd, err) : RS_OK;
    if (code == RS_OK) code = is_named(self->backing) ? adopt_leased(out, fd, err) : rs_segment_adopt(out, fd, err);
    if (code != RS_OK) {
        rs_os_close(&fd);
        return code;
    }
    rs_os_close(&self->fd);
    free(self->path);
    *self = INACTIVE;
    return RS_OK;
}

void rs_segment_writer_abort(rs_segment_writer *self) {
    if (self->backing == 0) return;
    rs_os_close(&self->fd);
    if (self->path != NULL && self->process_id == rs_os_process_id()) {
        rs_status ignored = rs_os_unlink(self->path, &self->identity, NULL);
        (void)ignored;
    }
    free(self->path);
    *self = INACTIVE;
}
