"""The function that a pickled store names. The name of this module stands in every such pickle, so it never changes;
the code is that of recstore.shm.handles."""

from __future__ import annotations

from recstore.shm.handles import attach

__all__ = ["attach"]
