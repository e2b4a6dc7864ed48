# The declarations of the extension module. An included file may use only the declarations of the files before it.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from recstore._core.c cimport *
from recstore._core.c_lines cimport *
from recstore._core.c_samplers cimport *
from recstore._core.python cimport *

include "segments/buffer_leases.pxd"
include "read/strict.pxd"
include "read/codec.pxd"
include "write/encode.pxd"
include "segments/blobs.pxd"
include "read/reading.pxd"
include "segments/store.pxd"
include "read/positions.pxd"
include "segments/shards.pxd"
include "read/selections.pxd"
include "read/views.pxd"
include "read/paths.pxd"
include "read/fields.pxd"
include "segments/saved_indexes.pxd"
include "read/key_index.pxd"
