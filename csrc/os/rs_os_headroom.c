/* rs_os_headroom.c: computes how much memory may still be used. A write to memory beyond a cgroup's limit ends in
 * SIGKILL, not ENOSPC, so the limits are read and compared before space is reserved. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/rs_os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static const char *const MACHINE_LIMIT = "MemAvailable of the machine";
static const char *const ADDRESS_SPACE = "the address space of the process (ulimit -v)";

/* The smallest headroom so far, and the name of its limit in a buffer of the caller (NULL if name_size is 0). */
typedef struct headroom {
    uint64_t bytes;
    char *name;
    size_t name_size;
} headroom;

/* The file names of one version of memory cgroups. */
typedef struct cgroup_files {
    const char *limit;
    const char *usage;
    const char *inactive; /* the key in memory.stat for cached file pages, which the kernel drops before killing */
    bool is_v2;
} cgroup_files;

static const cgroup_files VERSION_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", false};
static const cgroup_files VERSION_2 = {"memory.max", "memory.current", "inactive_file", true};

/* A mount of a cgroup hierarchy. Owns both strings. */
typedef struct cgroup_mount {
    char *root;       /* the cgroup at the top of the mount */
    char *point;      /* the directory where it is mounted */
    bool contains_us; /* whether the cgroup of this process is in the mount */
} cgroup_mount;

/* ---------------------------------------------------------------- reading */

/* Returns prefix/path, which the caller frees; NULL without memory. */
static char *joined(const char *prefix, const char *path) {
    size_t n = strlen(prefix) + strlen(path) + 2;
    char *out = (char *)malloc(n);
    bool slash = path[0] != '/' && path[0] != '\0';
    if (out != NULL) (void)snprintf(out, n, "%s%s%s", prefix, slash ? "/" : "", path);
    return out;
}

static FILE *open_in(const char *dir, const char *name) {
    char *path = joined(dir, name);
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    free(path);
    return file;
}

static bool parse_u64(const char *text, uint64_t *out) {
    char *end;
    while (*text == ' ' || *text == '\t') text++;
    if (*text < '0' || *text > '9') return false; /* "max" is not a number, and strtoull would accept a sign */
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text) return false;
    *out = (uint64_t)value;
    return true;
}

static bool read_u64(const char *dir, const char *name, uint64_t *out) {
    char text[64];
    FILE *file = open_in(dir, name);
    if (file == NULL) return false;
    bool ok = fgets(text, (int)sizeof text, file) != NULL && parse_u64(text, out);
    (void)fclose(file);
    return ok;
}

/* Reads the number after `key` and a space or colon at the start of a line. */
static bool parse_field(const char *line, const char *key, uint64_t *out) {
    size_t n = strlen(key);
    return strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':') && parse_u64(line + n + 1, out);
}

static bool read_field(const char *dir, const char *name, const char *key, uint64_t *out) {
    char line[256];
    FILE *file = open_in(dir, name);
    bool ok = false;
    if (file == NULL) return false;
    while (!ok && fgets(line, (int)sizeof line, file) != NULL) ok = parse_field(line, key, out);
    (void)fclose(file);
    return ok;
}

/* ---------------------------------------------------------------- limits */

static void consider(headroom *self, uint64_t bytes, const char *kind, const char *name) {
    size_t kind_size = strlen(kind), n = strlen(name);
    if (bytes >= self->bytes) return;
    self->bytes = bytes;
    if (self->name_size == 0) return;
    if (kind_size + n < self->name_size) {
        (void)snprintf(self->name, self->name_size, "%s%s", kind, name);
    } else if (kind_size + 4 < self->name_size) {
        /* The end of a cgroup's path is more useful than its front. */
        (void)snprintf(self->name, self->name_size, "%s...%s", kind, name + n - (self->name_size - kind_size - 4));
    } else {
        self->name[0] = '\0';
    }
}

static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* The kernel takes long to make meminfo, so it is read once for both numbers. */
static void consider_machine(headroom *self, const char *proc) {
    uint64_t available = UINT64_MAX, total = UINT64_MAX; /* in KiB */
    char line[256];
    FILE *file = open_in(proc, "meminfo");
    if (file == NULL) return;
    while ((available == UINT64_MAX || total == UINT64_MAX) && fgets(line, (int)sizeof line, file) != NULL) {
        if (!parse_field(line, "MemAvailable", &available)) (void)parse_field(line, "MemTotal", &total);
    }
    (void)fclose(file);
    if (available > UINT64_MAX / 1024) return;
    consider(self, minus(available * 1024, total > UINT64_MAX / 1024 ? 0 : total * 1024 / RS_OS_KEPT_FREE_DIVISOR), "",
             MACHINE_LIMIT);
}

static void consider_cgroup(headroom *self, const cgroup_files *files, const char *dir, const char *name) {
    uint64_t limit, usage, inactive = 0;
    if (!read_u64(dir, files->limit, &limit)) return;
    if (limit >= UINT64_C(1) << 60) return; /* version 1 writes "no limit" as a huge number */
    if (!read_u64(dir, files->usage, &usage)) return;
    if (!read_field(dir, "memory.stat", files->inactive, &inactive) || inactive > usage) inactive = 0;
    consider(self, minus(limit - limit / RS_OS_KEPT_FREE_DIVISOR, usage - inactive), "memory cgroup ",
             name[0] == '\0' ? "/" : name);
}

/* RLIMIT_AS limits mappings, even of shared pages. Both numbers are read from files below `proc`. */
static void consider_address_space(headroom *self, const char *proc) {
    uint64_t limit, pages, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!read_field(proc, "self/limits", "Max address space", &limit)) return; /* "unlimited" is not a number */
    if (!read_u64(proc, "self/statm", &pages) || pages > UINT64_MAX / page) return;
    consider(self, minus(limit - limit / RS_OS_KEPT_FREE_DIVISOR, pages * page), "", ADDRESS_SPACE);
}

/* ---------------------------------------------------------------- finding the cgroup */

static void chomp(char *line) { line[strcspn(line, "\n")] = '\0'; }

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (length == n && strncmp(list, word, n) == 0) return true;
        list += length;
        if (*list == ',') list++;
    }
    return false;
}

/* Returns the cgroup path of this process in the hierarchy, which the caller frees, or NULL. Lines of version 1 are
 * "number:controllers:path", the line of version 2 is "0::path". */
static char *own_cgroup(const char *proc, const cgroup_files *files) {
    FILE *file = open_in(proc, "self/cgroup");
    char *line = NULL, *out = NULL;
    size_t capacity = 0;
    if (file == NULL) return NULL;
    while (out == NULL && getline(&line, &capacity, file) >= 0) {
        char *controllers = strchr(line, ':');
        char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL) continue;
        *controllers++ = '\0';
        *path++ = '\0';
        chomp(path);
        if (files->is_v2 ? controllers[0] == '\0' && strcmp(line, "0") == 0 : has_word(controllers, "memory")) {
            out = strdup(path);
        }
    }
    free(line);
    (void)fclose(file);
    return out;
}

/* Undoes the escapes of mountinfo, which has space, tab, newline and backslash as backslash and three octal digits. */
static void unescape(char *text) {
    char *to = text;
    const char *from = text;
    while (*from != '\0') {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* Returns the rest of `path` after `root`, "" or "/..."; NULL if `path` is neither `root` nor below it. A cgroup
 * namespace shows cgroups outside of it with "/..", which are not in any mount. */
static const char *beneath(const char *path, const char *root) {
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0')) return NULL;
    if (strstr(path, "/..") != NULL) return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

/* Splits a line of mountinfo: "id parent device root point options [tags] - type source super". Returns true if it
 * mounts the hierarchy of `files`; *root and *point then point into the line. */
static bool parse_mount(char *line, const cgroup_files *files, char **root, char **point) {
    char *rest = NULL, *super_options = NULL;
    char *tail = strstr(line, " - ");
    if (tail == NULL) return false;
    *tail = '\0';
    char *type = strtok_r(tail + 3, " \n", &rest);
    if (type == NULL || strcmp(type, files->is_v2 ? "cgroup2" : "cgroup") != 0) return false;
    if (!files->is_v2) {
        (void)strtok_r(NULL, " \n", &rest);
        super_options = strtok_r(NULL, " \n", &rest);
        if (super_options == NULL || !has_word(super_options, "memory")) return false;
    }
    (void)strtok_r(line, " ", &rest);
    for (int i = 0; i < 2; i++) (void)strtok_r(NULL, " ", &rest);
    *root = strtok_r(NULL, " ", &rest);
    *point = strtok_r(NULL, " ", &rest);
    if (*root == NULL || *point == NULL) return false;
    unescape(*root);
    unescape(*point);
    return true;
}

static void mount_clear(cgroup_mount *self) {
    free(self->root);
    free(self->point);
    memset(self, 0, sizeof *self);
}

/* Finds the mount that contains the cgroup `own`, else any mount of the hierarchy. Inside a container `own` may be the
 * path on the host, and the top of the mount is then the container's cgroup. Returns false without a mount. */
static bool find_mount(const rs_os_memory_roots *roots, const cgroup_files *files, const char *own, cgroup_mount *out) {
    FILE *file = open_in(roots->proc, "self/mountinfo");
    char *line = NULL, *root, *point;
    size_t capacity = 0;
    memset(out, 0, sizeof *out);
    if (file == NULL) return false;
    while (!out->contains_us && getline(&line, &capacity, file) >= 0) {
        if (!parse_mount(line, files, &root, &point)) continue;
        bool contains = beneath(own, root) != NULL;
        if (out->point != NULL && !contains) continue;
        mount_clear(out);
        out->contains_us = contains;
        out->root = strdup(root);
        out->point = joined(roots->file_system, point);
        if (out->root == NULL || out->point == NULL) break;
    }
    free(line);
    (void)fclose(file);
    if (out->root != NULL && out->point != NULL) return true;
    mount_clear(out);
    return false;
}

/* Considers every cgroup from that of this process up to the top of the mount. */
static void consider_hierarchy(headroom *self, const rs_os_memory_roots *roots, const cgroup_files *files) {
    cgroup_mount mount;
    char *own = own_cgroup(roots->proc, files);
    char *dir = NULL, *name = NULL;
    if (own == NULL) return;
    if (!find_mount(roots, files, own, &mount)) {
        free(own);
        return;
    }
    dir = joined(mount.point, mount.contains_us ? beneath(own, mount.root) : "");
    name = strdup(mount.contains_us ? own : mount.root);
    if (dir != NULL && name != NULL) {
        size_t top = strlen(mount.point);
        for (;;) {
            char *dir_slash;
            consider_cgroup(self, files, dir, strcmp(name, "/") == 0 ? "" : name);
            if (strlen(dir) <= top || (dir_slash = strrchr(dir, '/')) == NULL) break;
            *dir_slash = '\0';
            char *name_slash = strrchr(name, '/');
            if (name_slash != NULL) *name_slash = '\0';
        }
    }
    free(dir);
    free(name);
    mount_clear(&mount);
    free(own);
}

/* ---------------------------------------------------------------- the headroom */

void rs_os_memory_headroom_at(const rs_os_memory_roots *roots, uint64_t *out_bytes, char *limit_name,
                              size_t limit_name_size) {
    headroom self = {UINT64_MAX, limit_name, limit_name_size};
    if (limit_name_size > 0) limit_name[0] = '\0';
#if defined(__linux__)
    consider_machine(&self, roots->proc);
    consider_address_space(&self, roots->proc);
    consider_hierarchy(&self, roots, &VERSION_2);
    consider_hierarchy(&self, roots, &VERSION_1);
#else
    (void)roots; /* macOS swaps and compresses instead of killing, so it has no limit to compare with */
#endif
    *out_bytes = self.bytes;
}

static const rs_os_memory_roots SYSTEM = {"/proc", ""};

void rs_os_memory_headroom(uint64_t *out_bytes, char *limit_name, size_t limit_name_size) {
    rs_os_memory_headroom_at(&SYSTEM, out_bytes, limit_name, limit_name_size);
}

static RS_COLD rs_status refuse(uint64_t needed, const char *name, uint64_t available, rs_error *err) {
    (void)rs_error_set(err, RS_E_SPACE, RS_NOWHERE, "%llu more bytes are needed and %s leaves %llu, with 5%% kept free",
                       (unsigned long long)needed, name, (unsigned long long)available);
    if (err != NULL) {
        err->sys_errno = ENOMEM;
        err->needed = needed;
        err->available = available;
    }
    return RS_E_SPACE;
}

rs_status rs_os_require_memory(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err) {
    char name[RS_OS_LIMIT_NAME_SIZE];
    uint64_t available;
    rs_os_memory_headroom_at(roots == NULL ? &SYSTEM : roots, &available, name, sizeof name);
    return RS_LIKELY(needed <= available) ? RS_OK : refuse(needed, name, available, err);
}

rs_status rs_os_require_address_space(const rs_os_memory_roots *roots, uint64_t needed, rs_error *err) {
    headroom self = {UINT64_MAX, NULL, 0};
#if defined(__linux__)
    consider_address_space(&self, (roots == NULL ? &SYSTEM : roots)->proc);
#else
    (void)roots;
#endif
    return RS_LIKELY(needed <= self.bytes) ? RS_OK : refuse(needed, ADDRESS_SPACE, self.bytes, err);
}
