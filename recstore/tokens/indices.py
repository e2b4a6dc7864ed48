"""The indices that a sequence of arrays takes."""

from __future__ import annotations

import numpy as np

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.tokens.token_files import Int64s


def positions(indices: Any, n: int) -> Int64s:
    """Indices of a sequence of n items as int64 positions from 0 on; a mask of n bools gives the positions of True.
    Raises IndexError, TypeError."""
    out: Int64s = np.asarray(memoryview(native.positions(indices, n, method="TokenList")))
    return out


def integers(values: Any, what: str) -> Int64s:
    """A one-dimensional int64 array. Raises TypeError for other values; `what` names them."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{what}: a one-dimensional array of ints, not {array.ndim} dimensions of {array.dtype}")
    out: Int64s = np.ascontiguousarray(array, np.int64)
    return out
