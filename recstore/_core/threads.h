/* threads.h: access to fields that several threads use at the same time in a free-threaded CPython (PEP 703). With an
 * interpreter lock the functions are plain reads and writes.
 *
 * In a free-threaded interpreter a segment stays mapped until its last reference goes, so `close` never takes the bytes
 * from a reader. A segment's caches are filled before the first read (rs_store_freeze). The critical section of an
 * object guards its other state. */
#pragma once

#include <Python.h>

#ifdef Py_GIL_DISABLED
enum { FREE_THREADED = 1 };
#define SHARED_LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define SHARED_STORE(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)
#define SHARED_ADD(p, n) __atomic_add_fetch((p), (n), __ATOMIC_ACQ_REL)
#else
enum { FREE_THREADED = 0 };
#define SHARED_LOAD(p) (*(p))
#define SHARED_STORE(p, value) ((void)(*(p) = (value)))
#define SHARED_ADD(p, n) (*(p) += (n))
#endif

/* A flag that one thread sets and others read. */
static inline int flag_of(const int *p) { return SHARED_LOAD(p); }
static inline void set_flag(int *p) { SHARED_STORE(p, 1); }

/* Adds n to a count that any thread may change. Returns the new count. */
static inline Py_ssize_t count_up(Py_ssize_t *p, Py_ssize_t n) { return SHARED_ADD(p, n); }

static inline Py_ssize_t count_of(const Py_ssize_t *p) { return SHARED_LOAD(p); }
static inline void set_count(Py_ssize_t *p, Py_ssize_t n) { SHARED_STORE(p, n); }

/* A pointer to an object. A thread that sees the pointer sees the complete object. */
static inline void *pointer_at(void *const *p) { return SHARED_LOAD(p); }
static inline void put_pointer(void **p, void *value) { SHARED_STORE(p, value); }
