/* rs_folder.h: makes a folder below /tmp. Include from one file only, which defines _GNU_SOURCE first. */
#pragma once

#include "rs_test.h"

#include <ftw.h>
#include <stdlib.h>

static char base[64];

/* Makes the folder and sets `base` to its path. Returns false if the system refuses. */
static inline bool folder_begin(const char *test) {
    (void)snprintf(base, sizeof base, "/tmp/recstore_%s_XXXXXX", test);
    return mkdtemp(base) != NULL;
}

/* Returns a path in the folder, in static memory that is reused after four calls. */
static inline const char *at(const char *name) {
    static char paths[4][1024];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, 1024, "%s/%s", base, name);
    return path;
}

static inline int folder_remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* Removes the folder and all files in it. */
static inline void folder_end(void) { CHECK(nftw(base, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0); }
