"""Types of the named stores of this user."""

from recstore._types import Path
from recstore.shm.segment_list import SegmentTable

__all__ = ["collect", "list", "remove"]

def list(name: str | None = None, *, dir: Path | None = None) -> SegmentTable: ...
def remove(name: str, fingerprint: str | None = None, *, dir: Path | None = None) -> int: ...
def collect(*, dir: Path | None = None) -> int: ...
