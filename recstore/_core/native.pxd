# Declarations of the extension module; each file declares what files before it in native.pyx already use.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from recstore._core.c cimport *
from recstore._core.python cimport *

include "buffer_leases.pxd"
include "codec.pxd"
include "encode.pxd"
include "index_arrays.pxd"
include "reading.pxd"
include "store.pxd"
include "selections.pxd"
include "views.pxd"
include "paths.pxd"
include "fields.pxd"
include "keys.pxd"
