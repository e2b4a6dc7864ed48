/* rs_failing.h: an allocator that counts allocations and refuses one on request. The linker replaces the real one with
 * it (CMakeLists.txt). Include from one file only. */
#pragma once

#include "rs_test.h"

#include <stdlib.h>

static bool counting;
static uint64_t steps, fail_at; /* allocations while `counting`; number fail_at fails */
static bool also_later;         /* all after it fail too */
static int64_t live;            /* allocations minus frees while `counting` */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

static inline bool may_allocate(void) {
    if (!counting) return true;
    const uint64_t step = steps++;
    return also_later ? step < fail_at : step != fail_at;
}

static inline void *count_allocation(void *p) {
    live += counting && p != NULL;
    return p;
}

void *__wrap_malloc(size_t size) { return may_allocate() ? count_allocation(__real_malloc(size)) : NULL; }
void *__wrap_calloc(size_t n, size_t size) { return may_allocate() ? count_allocation(__real_calloc(n, size)) : NULL; }
void *__wrap_realloc(void *old, size_t size) {
    if (!may_allocate()) return NULL;
    void *p = __real_realloc(old, size);
    live += counting && p != NULL && old == NULL;
    return p;
}
void __wrap_free(void *p) {
    live -= counting && p != NULL;
    __real_free(p);
}
