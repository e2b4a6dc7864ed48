"""Marks for tests that only some interpreters can pass."""

import os
import sys

import pytest

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()

unmaps_at_close = pytest.mark.skipif(
    FREE_THREADED, reason="without the GIL, the last reference unmaps a store, not close()"
)
drops_classes = pytest.mark.skipif(
    FREE_THREADED and sys.version_info < (3, 14),
    reason="CPython 3.13 without the GIL keeps classes once a thread has started",
)
keeps_values = pytest.mark.skipif(FREE_THREADED, reason="without the GIL, records do not share cached values")
counts_references = pytest.mark.skipif(
    FREE_THREADED, reason="without the GIL, counts of references and blocks are estimates"
)
measures_memory = pytest.mark.skipif(
    "RECSTORE_SANITIZED" in os.environ, reason="the sanitizer's memory counts as the process's memory"
)
