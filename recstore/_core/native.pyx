# cython: language_level=3, freethreading_compatible=True, subinterpreters_compatible=own_gil
# cython: auto_pickle=False, binding=False
# No class is pickled by its attributes, and no function needs those of a Python function: a tenth of the module.
"""The only extension module of recstore. It includes the files below; each may use the files before it.

A `cdef` variable of the module is a C global, which all interpreters of a process share. So no Python object is in one:
constants stand in the module's dict, and what is read often is a class or a number of C (own_state.py checks it).
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF, Py_XDECREF, Py_XINCREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.unistd cimport getpid  # not os.getpid: destructors ask it, also when the interpreter has dropped its modules

from recstore._core.c cimport *
from recstore._core.python cimport *

import errno
import operator
import os
import sys
from _collections_abc import ItemsView, KeysView, ValuesView
from _collections_abc import Mapping as AbstractMapping
from _weakref import ref

from recstore import errors
from recstore._core import hooks, trust
from recstore.text import an, counted


# Cython keeps builtin functions in C globals, and each interpreter has functions of its own.
cdef inline object id(object value):
    return PyLong_FromVoidPtr(<PyObject *>value)


cdef bint all_of(list values) except -1:
    for value in values:
        if not value:
            return False
    return True


cdef bint any_of(list values) except -1:
    for value in values:
        if value:
            return True
    return False


cdef object sum_of(list values):
    total = 0
    for value in values:
        total += value
    return total


include "buffer_leases.pyx"
include "strict.pyx"
include "codec.pyx"
include "encode.pyx"
include "blobs.pyx"
include "reading.pyx"
include "choices.pyx"
include "store.pyx"
include "segment_files.pyx"
include "node_sizes.pyx"
include "positions.pyx"
include "shards.pyx"
include "selections.pyx"
include "views.pyx"
include "content_hash.pyx"
include "paths.pyx"
include "children.pyx"
include "fields.pyx"
include "keys.pyx"
include "key_groups.pyx"
include "saved_indexes.pyx"
include "deep_check.pyx"
include "columns.pyx"
include "gather.pyx"
include "field_kinds.pyx"
include "arrow_out.pyx"
include "mapping_builder.pyx"
include "parcels.pyx"
include "arrow_in.pyx"
include "csv_quotes.pyx"
include "json_bounds.pyx"
include "locks.pyx"
include "callbacks.pyx"
include "limits.pyx"
include "samplers.pyx"
include "distinct_memory.pyx"
include "floor.pyx"
