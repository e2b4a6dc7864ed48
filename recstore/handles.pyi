"""Types of the function that a pickled store names."""

from typing import Any

__all__ = ["attach"]

def attach(handle: bytes, dup_fd: Any = None, allowed: dict[int, Any] | None = None) -> Any: ...
