"""The function that pickled stores call by the name `recstore.handles.attach`, so this module keeps its name. The code
is in recstore.shm.handles."""

from __future__ import annotations

from recstore.shm.handles import attach

__all__ = ["attach"]
