"""Windows of one length over the tokens of a TokenList: a sequence of samples for training."""

from __future__ import annotations

import operator
from _collections_abc import Sequence

import numpy as np

from recstore.containers.batch_method import batch_method, refuse_batches
from recstore.tokens.indices import positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.tokens.token_files import Array, Int64s
    from recstore.tokens.token_list import TokenList


class Windows(Sequence):  # type: ignore[type-arg]
    """The result of ``TokenList.windows``, which describes it. It is a dataset for a DataLoader and a Loader, pickles
    as its TokenList does, and is safe to read from several threads at once."""

    __slots__ = "_tokens", "length", "_stride", "_starts", "_ends", "_n"

    def __init__(self, tokens: TokenList, length: int, stride: int, drop_last: bool) -> None:
        self._tokens, self.length, self._stride = tokens, length, stride
        self._starts, counts = tokens._runs()
        self._ends = np.cumsum(counts)
        beyond = self._total - length
        self._n = 0 if beyond < 0 else beyond // stride + 1 + (not drop_last and beyond % stride > 0)

    @property
    def _total(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a token."""
        return self._tokens.dtype

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Array:  # type: ignore[override]  # a slice is an array too
        if isinstance(index, slice):
            return self.__getitems__(np.arange(*index.indices(self._n), dtype=np.int64))
        if getattr(index, "ndim", 0) or not hasattr(index, "__index__"):
            return self.__getitems__(index)
        starts, counts = self._runs_of(positions([operator.index(index)], self._n))
        if len(starts) == 1:
            return self._tokens._array(int(starts[0]), self.length)
        out = self._tokens._copied(starts, counts)
        out.flags.writeable = False
        return out

    @batch_method
    def __getitems__(self, indices: Any) -> Array:
        """The windows at `indices`, an array of shape (n, length)."""
        refuse_batches(indices)
        chosen = positions(indices, self._n)
        return self._tokens._copied(*self._runs_of(chosen)).reshape(len(chosen), self.length)

    def _runs_of(self, indices: Int64s) -> tuple[Int64s, Int64s]:
        """The runs of tokens of the windows, one after another."""
        first = np.minimum(indices * self._stride, self._total - self.length)
        if len(self._starts) == 1:
            return first + self._starts[0], np.full(len(first), self.length, np.int64)
        low = self._ends.searchsorted(first, "right")
        n = self._ends.searchsorted(first + self.length, "left") - low + 1  # the runs of each window
        window = np.repeat(np.arange(len(first)), n)
        run = np.arange(len(window)) - np.repeat(np.cumsum(n) - n - low, n)
        before = np.where(run > 0, self._ends[run - 1], 0)
        begin = np.maximum(first[window], before)
        end = np.minimum(first[window] + self.length, self._ends[run])
        return self._starts[run] + begin - before, end - begin

    def __repr__(self) -> str:
        return f"<{self._n:,} windows of {self.length:,} tokens over {self._tokens!r}>"
