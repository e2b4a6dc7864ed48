# cython: language_level=3, freethreading_compatible=True
# cython: auto_pickle=False, binding=False
# No class is pickled by its attributes, and no function needs the attributes of a Python function. These options
# make the module a tenth smaller.
"""The only extension module of recstore. It includes the files below. Declarations and code that runs at import may use
only names from earlier files."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF, Py_XDECREF, Py_XINCREF, PyObject
from libc.errno cimport EINTR, EINVAL, EIO, ENOMEM
from libc.errno cimport errno as c_errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, UINT64_MAX
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memset
from posix.unistd cimport close as close_descriptor, pread
from posix.unistd cimport getpid  # not os.getpid, because destructors call it at interpreter exit

from recstore._core.c cimport *
from recstore._core.c_lines cimport *
from recstore._core.c_samplers cimport *
from recstore._core.python cimport *

import errno
import operator
import os
import sys
from _collections_abc import Hashable, ItemsView, KeysView, ValuesView
from _collections_abc import Mapping as AbstractMapping
from _weakref import ref

from recstore import errors
from recstore._core import hooks, trust
from recstore.text import an, counted


# segments/: the memory of segments, shards, files of tokens, saved indexes, the deep check, lock files, cache files
# read/: decoding, and the base of the containers: positions, selections, views, fields, keys
# write/: encoding, builders, and splitting CSV and JSON text
# columns/: fields of many records as arrays
# arrow/: records from Arrow and to Arrow
include "segments/buffer_leases.pyx"
include "read/strict.pyx"
include "read/codec.pyx"
include "write/encode.pyx"
include "segments/blobs.pyx"
include "read/reading.pyx"
include "write/choices.pyx"
include "segments/store.pyx"
include "write/builder.pyx"
include "write/lines.pyx"
include "segments/segment_files.pyx"
include "read/node_sizes.pyx"
include "read/positions.pyx"
include "segments/shards.pyx"
include "read/selections.pyx"
include "read/views.pyx"
include "read/content_hash.pyx"
include "read/paths.pyx"
include "read/csv_rows.pyx"
include "read/lines.pyx"
include "read/children.pyx"
include "read/fields.pyx"
include "read/key_index.pyx"
include "read/key_groups.pyx"
include "segments/saved_indexes.pyx"
include "segments/deep_check.pyx"
include "columns/columns.pyx"
include "columns/gather.pyx"
include "columns/token_rows.pyx"
include "columns/field_kinds.pyx"
include "arrow/arrow_out.pyx"
include "write/mapping_builder.pyx"
include "write/parcels.pyx"
include "arrow/arrow_in.pyx"
include "write/csv_quotes.pyx"
include "write/json_bounds.pyx"
include "segments/mapped_files.pyx"
include "segments/locks.pyx"
include "segments/cache_files.pyx"
include "callbacks.pyx"
include "build_memory.pyx"
include "samplers.pyx"
include "distinct_memory.pyx"
include "bench_floor.pyx"
