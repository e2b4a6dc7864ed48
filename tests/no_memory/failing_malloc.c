/* Allocators for LD_PRELOAD whose n-th counted call fails. Either the calls of malloc, calloc and realloc by a module's
 * code count, or those by the interpreter in a function that this code called, for example to make an object.
 * Allocations of the interpreter's bytecode loop never count. Calls that do not fail go to glibc. `run.py` sets the
 * addresses and n, and reads the number of calls. Several threads race for the n-th call. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind.h>

/* The most frames from an allocation to the module's code. Only nested containers are deeper. */
#define MOST_FRAMES 24

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *bytes, size_t size);

typedef struct {
    uintptr_t begin, end;
} span;

typedef struct {
    int frames, counts;
} walk;

static span module, interpreter, loop; /* written while `counting` is 0 */
static _Atomic int counting;
static _Atomic long calls, failing;
static _Thread_local int within; /* the unwinder may allocate */

static int has(const span *self, uintptr_t at) { return at >= self->begin && at < self->end; }

/* The span of the bytecode loop, the function at `eval`: as long as its symbol, or empty without a symbol. */
static span function_at(void *eval) {
    span out = {(uintptr_t)eval, (uintptr_t)eval};
    ElfW(Sym) *symbol = NULL;
    Dl_info info;
    if (dladdr1(eval, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL) out.end += symbol->st_size;
    return out;
}

/* Starts to count, from 0, the calls of the module or, with `eval`, those of the interpreter for it. Call `nth` fails,
 * or none if nth is negative. Returns 0 if the code of `eval` was not found. */
int fail_call(uintptr_t begin, uintptr_t end, uintptr_t python_begin, uintptr_t python_end, void *eval, long nth) {
    atomic_store(&counting, 0);
    module.begin = begin, module.end = end;
    interpreter.begin = python_begin, interpreter.end = python_end;
    loop = function_at(eval);
    atomic_store(&calls, 0);
    atomic_store(&failing, nth);
    atomic_store(&counting, 1);
    return eval == NULL || loop.end > loop.begin;
}

/* Ends the counting, and returns the number of calls. */
long stop_counting(void) {
    atomic_store(&counting, 0);
    return atomic_load(&calls);
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *arg) {
    walk *self = arg;
    const uintptr_t at = (uintptr_t)_Unwind_GetIP(context);
    if (has(&module, at)) {
        self->counts = 1;
        return _URC_END_OF_STACK;
    }
    /* The first frames are those of this file. */
    if (self->frames > 3 && (!has(&interpreter, at) || has(&loop, at))) return _URC_END_OF_STACK;
    return ++self->frames < MOST_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int fails(const void *caller) {
    const uintptr_t at = (uintptr_t)caller;
    walk found = {0, 0};
    if (!atomic_load(&counting) || within) return 0;
    if (has(&module, at)) {
        found.counts = loop.begin == 0; /* else only the interpreter's calls count */
    } else if (loop.begin != 0 && has(&interpreter, at)) {
        within = 1;
        _Unwind_Backtrace(frame, &found);
        within = 0;
    }
    if (!found.counts || atomic_fetch_add(&calls, 1) != atomic_load(&failing)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }

void *calloc(size_t n, size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size); }

void *realloc(void *bytes, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(bytes, size);
}
