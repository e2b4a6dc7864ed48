/* interpreters.h: where the module's objects are found when several interpreters of a process have imported it (PEP
 * 684), each with a lock and objects of its own. own_state.py includes this file in the C code of Cython, in
 * place of Cython's own table of modules: that one makes every use of an object two atomic additions to one counter,
 * which all threads of all interpreters share.
 *
 * A process has seldom a second interpreter. Until there is one, the state of the module is behind one pointer. Then
 * each interpreter has an entry in a table, found by its address: entries of others may come and go meanwhile. An
 * interpreter makes its entry before it runs the module and removes it when its module goes. CPython 3.14 may end an
 * interpreter whose module stays: the next one at its address has another number and takes the entry over. */
#ifndef RS_PY_INTERPRETERS_H
#define RS_PY_INTERPRETERS_H

#include <Python.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { INTERPRETERS = 64 }; /* of one table; there are more tables for more of them */

typedef struct {
    PyInterpreterState *owner; /* NULL in an empty entry */
    int64_t number;            /* of the owner: no later interpreter has it */
    PyObject *module;
    void *state;
} rs_interpreter;

typedef struct rs_interpreters {
    rs_interpreter entries[INTERPRETERS];
    struct rs_interpreters *next; /* tables are never freed: there are as few as interpreters at one time need */
} rs_interpreters;

static rs_interpreters rs_imported;
/* The state of the one interpreter that has imported the module; NULL once there were two. */
static void *rs_only_state;
static bool rs_was_imported;
static pthread_mutex_t rs_imported_lock = PTHREAD_MUTEX_INITIALIZER; /* held while no Python code runs */

/* The entry of an interpreter, or NULL. */
static rs_interpreter *rs_entry_of(PyInterpreterState *owner) {
    /* Multiplicative hashing of the address, as neighbours of one size stand a power of two apart. */
    unsigned first = (unsigned)((uint64_t)(uintptr_t)owner * UINT64_C(0x9E3779B97F4A7C15) >> 58);
    rs_interpreters *table;
    for (table = &rs_imported; table != NULL; table = __atomic_load_n(&table->next, __ATOMIC_ACQUIRE)) {
        unsigned i;
        for (i = 0; i < INTERPRETERS; i++) {
            rs_interpreter *entry = &table->entries[(first + i) % INTERPRETERS];
            if (__atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE) == owner) return entry;
        }
    }
    return NULL;
}

/* An empty entry, the first that a search for `owner` comes to; NULL without memory. Called with the lock. */
static rs_interpreter *rs_empty_entry(PyInterpreterState *owner) {
    unsigned first = (unsigned)((uint64_t)(uintptr_t)owner * UINT64_C(0x9E3779B97F4A7C15) >> 58);
    rs_interpreters *table = &rs_imported;
    for (;;) {
        unsigned i;
        for (i = 0; i < INTERPRETERS; i++) {
            rs_interpreter *entry = &table->entries[(first + i) % INTERPRETERS];
            if (entry->owner == NULL) return entry;
        }
        if (table->next == NULL) {
            rs_interpreters *more = (rs_interpreters *)calloc(1, sizeof *more);
            if (more == NULL) return NULL;
            __atomic_store_n(&table->next, more, __ATOMIC_RELEASE);
        }
        table = table->next;
    }
}

static __attribute__((noinline)) void *rs_state_of_many(void) {
    rs_interpreter *entry = rs_entry_of(PyInterpreterState_Get());
    if (entry == NULL) Py_FatalError("recstore is used after its interpreter has cleared it");
    return entry->state;
}

/* The state of the module in this interpreter, which has imported it. */
static inline void *rs_state(void) {
    void *only = __atomic_load_n(&rs_only_state, __ATOMIC_RELAXED);
    return __builtin_expect(only != NULL, 1) ? only : rs_state_of_many();
}

/* ---- What Cython calls in place of its own functions ---- */

/* The module of this interpreter, borrowed; NULL if it has none yet. */
static PyObject *__Pyx_State_FindModule(void *definition) {
    PyInterpreterState *owner = PyInterpreterState_Get();
    rs_interpreter *entry = rs_entry_of(owner);
    (void)definition;
    return entry == NULL || entry->number != PyInterpreterState_GetID(owner) ? NULL : entry->module;
}

/* Makes the entry of this interpreter. Cython calls it before it uses the state. */
static int __Pyx_State_AddModule(PyObject *module, void *definition) {
    PyInterpreterState *owner = PyInterpreterState_Get();
    rs_interpreter *entry;
    (void)definition;
    pthread_mutex_lock(&rs_imported_lock);
    entry = rs_entry_of(owner);
    if (entry == NULL) entry = rs_empty_entry(owner);
    if (entry != NULL) {
        entry->number = PyInterpreterState_GetID(owner);
        entry->module = module;
        entry->state = PyModule_GetState(module);
        __atomic_store_n(&rs_only_state, rs_was_imported ? NULL : entry->state, __ATOMIC_RELAXED);
        rs_was_imported = true;
        __atomic_store_n(&entry->owner, owner, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&rs_imported_lock);
    if (entry == NULL) PyErr_NoMemory();
    return entry == NULL ? -1 : 0;
}

static int __Pyx_State_RemoveModule(void *definition) {
    rs_interpreter *entry;
    (void)definition;
    pthread_mutex_lock(&rs_imported_lock);
    entry = rs_entry_of(PyInterpreterState_Get());
    if (entry != NULL) {
        if (rs_only_state == entry->state) __atomic_store_n(&rs_only_state, NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->owner, NULL, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&rs_imported_lock);
    return 0;
}

/* ---- The life of the module ---- */

static int __pyx_pymod_exec_native(PyObject *module);
static int __pyx_m_traverse(PyObject *module, visitproc visit, void *arg);
static int __pyx_m_clear(PyObject *module);

/* For the metaclass of Cython's own classes. These hold references to it that `type` neither shows the collector nor
 * releases. */
static int rs_traverse_class(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    return PyType_Type.tp_traverse(self, visit, arg);
}

static void rs_free_class(PyObject *self) {
    PyTypeObject *metaclass = Py_TYPE(self);
    PyType_Type.tp_dealloc(self);
    Py_DECREF(metaclass);
}

/* Runs the module. Its interpreter keeps it until all other modules and what they hold are gone: objects of its classes
 * need its state when they are deallocated, and the collector of a cycle would clear the state before. */
static int rs_run_module(PyObject *module) {
    PyObject *kept = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyTypeObject *metaclass;
    if (kept == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (__pyx_pymod_exec_native(module) < 0) return -1;
    Py_DECREF(module); /* Cython's function keeps a reference that nobody releases */
    metaclass = ((__pyx_mstatetype *)PyModule_GetState(module))->__pyx_CommonTypesMetaclassType;
    metaclass->tp_traverse = rs_traverse_class;
    metaclass->tp_dealloc = rs_free_class;
    return PyDict_SetItemString(kept, "recstore._core.native", module);
}

/* Objects that wait in a freelist hold references to their class. */
static int rs_traverse_module(PyObject *module, visitproc visit, void *arg) {
    __pyx_mstatetype *state = (__pyx_mstatetype *)PyModule_GetState(module);
    int i;
    if (state == NULL) return 0;
#define RS_VISIT(name) \
    for (i = 0; i < state->__pyx_freecount_##name; i++) Py_VISIT(Py_TYPE(state->__pyx_freelist_##name[i]));
    RS_FREELISTS(RS_VISIT)
#undef RS_VISIT
    return __pyx_m_traverse(module, visit, arg);
}

static void rs_free_kept(PyObject *kept) {
    PyTypeObject *class = Py_TYPE(kept);
    class->tp_free(kept);
    Py_DECREF(class);
}

/* Takes the place of m_clear too, which the collector of a cycle calls while objects of the module's classes live. The
 * cycles through the module break at its classes. */
static void rs_free_module(void *module) {
    __pyx_mstatetype *state = (__pyx_mstatetype *)PyModule_GetState((PyObject *)module);
    if (state == NULL) return;
#define RS_FREE(name) \
    while (state->__pyx_freecount_##name > 0) \
        rs_free_kept((PyObject *)state->__pyx_freelist_##name[--state->__pyx_freecount_##name]);
    RS_FREELISTS(RS_FREE)
#undef RS_FREE
    (void)__pyx_m_clear((PyObject *)module);
}

#endif
