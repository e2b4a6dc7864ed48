/* rs_os_thread.c: threads and monitors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* Enough for functions that recurse to the format's depth. Some systems have a much smaller default. */
enum { STACK_BYTES = 4 << 20 };

_Static_assert(sizeof(pthread_t) <= sizeof(uint64_t), "a pthread_t fits rs_os_thread.id");

static void *begin(void *thread) {
    rs_os_thread *self = (rs_os_thread *)thread;
    self->run(self->argument);
    return NULL;
}

/* Fills the mask with all signals except those for faults of the thread itself. */
static void fill_mask(sigset_t *mask) {
    (void)sigfillset(mask);
    (void)sigdelset(mask, SIGSEGV);
    (void)sigdelset(mask, SIGBUS);
    (void)sigdelset(mask, SIGFPE);
    (void)sigdelset(mask, SIGILL);
    (void)sigdelset(mask, SIGABRT);
}

rs_status rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument, rs_error *err) {
    pthread_attr_t attributes;
    pthread_t id;
    sigset_t mask, before;
    self->run = run;
    self->argument = argument;
    int failed = pthread_attr_init(&attributes);
    if (failed != 0) return rs_error_set_errno(err, RS_E_SYS, failed, "cannot start a thread");
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    fill_mask(&mask);
    /* A thread inherits the signal mask of the thread that creates it. */
    failed = pthread_sigmask(SIG_SETMASK, &mask, &before);
    if (failed == 0) {
        failed = pthread_create(&id, &attributes, begin, self);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) return rs_error_set_errno(err, RS_E_SYS, failed, "cannot start a thread");
    memcpy(&self->id, &id, sizeof id);
    return RS_OK;
}

void rs_os_thread_join(rs_os_thread *self) {
    pthread_t id;
    memcpy(&id, &self->id, sizeof id);
    int failed = pthread_join(id, NULL);
    RS_ASSERT(failed == 0);
    (void)failed;
}

/* ---- Monitors ---- */

struct rs_os_monitor {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
};

/* Makes a condition whose waits use a monotonic clock. */
static int open_condition(pthread_cond_t *out) {
#if defined(__APPLE__)
    return pthread_cond_init(out, NULL);
#else
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed != 0) return failed;
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0) failed = pthread_cond_init(out, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return failed;
#endif
}

rs_status rs_os_monitor_open(rs_os_monitor **out, rs_error *err) {
    rs_os_monitor *self = (rs_os_monitor *)malloc(sizeof *self);
    if (self == NULL) return rs_no_memory(err);
    int failed = pthread_mutex_init(&self->mutex, NULL);
    if (failed == 0) {
        failed = open_condition(&self->woken);
        if (failed != 0) (void)pthread_mutex_destroy(&self->mutex);
    }
    if (failed != 0) {
        free(self);
        return rs_error_set_errno(err, RS_E_SYS, failed, "cannot make a lock");
    }
    *out = self;
    return RS_OK;
}

void rs_os_monitor_close(rs_os_monitor *self) {
    if (self == NULL) return;
    (void)pthread_cond_destroy(&self->woken);
    (void)pthread_mutex_destroy(&self->mutex);
    free(self);
}

void rs_os_monitor_enter(rs_os_monitor *self) { (void)pthread_mutex_lock(&self->mutex); }

void rs_os_monitor_leave(rs_os_monitor *self) { (void)pthread_mutex_unlock(&self->mutex); }

bool rs_os_monitor_wait(rs_os_monitor *self, uint32_t milliseconds) {
    struct timespec until;
#if defined(__APPLE__)
    until.tv_sec = (time_t)(milliseconds / 1000);
    until.tv_nsec = (long)(milliseconds % 1000) * 1000000;
    return pthread_cond_timedwait_relative_np(&self->woken, &self->mutex, &until) != ETIMEDOUT;
#else
    if (clock_gettime(CLOCK_MONOTONIC, &until) != 0) return false;
    until.tv_sec += (time_t)(milliseconds / 1000);
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return pthread_cond_timedwait(&self->woken, &self->mutex, &until) != ETIMEDOUT;
#endif
}

void rs_os_monitor_wake(rs_os_monitor *self) { (void)pthread_cond_broadcast(&self->woken); }
