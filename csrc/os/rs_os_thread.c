/* rs_os_thread.c: one thread, started and waited for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "os/rs_os.h"

#include <pthread.h>
#include <signal.h>

/* Enough for what recurses to the format's depth; some systems give a thread much less. */
enum { STACK_BYTES = 4 << 20 };

_Static_assert(sizeof(pthread_t) <= sizeof(uint64_t), "a thread's name fits the struct");

static void *begin(void *thread) {
    rs_os_thread *self = (rs_os_thread *)thread;
    self->run(self->argument);
    return NULL;
}

/* All but those that say that this very thread has gone wrong. */
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
    if (failed != 0) return rs_error_set_errno(err, RS_E_SYS, failed, "no thread");
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    fill_mask(&mask);
    /* A thread begins with the mask of the one that starts it. */
    failed = pthread_sigmask(SIG_SETMASK, &mask, &before);
    if (failed == 0) {
        failed = pthread_create(&id, &attributes, begin, self);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) return rs_error_set_errno(err, RS_E_SYS, failed, "no thread");
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
