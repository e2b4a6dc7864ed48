"""What tests expect of some interpreters alone."""

import os
import sys

import pytest

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()

unmaps_at_close = pytest.mark.skipif(
    FREE_THREADED, reason="without the interpreter's lock a store is unmapped with its last reference, not by close()"
)
drops_classes = pytest.mark.skipif(
    FREE_THREADED and sys.version_info < (3, 14),
    reason="CPython 3.13 without its lock keeps classes after a first thread",
)
keeps_values = pytest.mark.skipif(
    FREE_THREADED, reason="without the interpreter's lock no decoded values are kept to be shared by later records"
)
counts_references = pytest.mark.skipif(
    FREE_THREADED, reason="without the interpreter's lock counts of references and blocks are estimates"
)
measures_memory = pytest.mark.skipif(
    "RECSTORE_SANITIZED" in os.environ, reason="a sanitizer's own memory is part of what the process holds"
)
