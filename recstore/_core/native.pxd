# The declarations of the extension module. An included file may use only the declarations of the files before it.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from recstore._core.c cimport *
from recstore._core.python cimport *

include "buffer_leases.pxd"
include "strict.pxd"
include "codec.pxd"
include "encode.pxd"
include "blobs.pxd"
include "reading.pxd"
include "store.pxd"
include "positions.pxd"
include "shards.pxd"
include "selections.pxd"
include "views.pxd"
include "paths.pxd"
include "fields.pxd"
include "saved_indexes.pxd"
include "keys.pxd"
