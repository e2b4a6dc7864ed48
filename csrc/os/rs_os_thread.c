/* rs_os_thread.c: starts a thread and joins it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <pthread.h>
#include <signal.h>

/* Enough for functions that recurse to the format's depth. The default of some systems is much less. */
enum { STACK_BYTES = 4 << 20 };

_Static_assert(sizeof(pthread_t) <= sizeof(uint64_t), "a pthread_t fits rs_os_thread.id");

static void *begin(void *thread) {
    rs_os_thread *self = (rs_os_thread *)thread;
    self->run(self->argument);
    return NULL;
}

/* Fills the mask with all signals but those that report a fault of the thread itself. */
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
    int failed;
    self->run = run;
    self->argument = argument;
    failed = pthread_attr_init(&attributes);
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
    int failed;
    memcpy(&id, &self->id, sizeof id);
    failed = pthread_join(id, NULL);
    RS_ASSERT(failed == 0);
    (void)failed;
}
