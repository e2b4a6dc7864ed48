"""The weights of a MixSampler: constant, changed at some positions of an epoch, or a function of the position."""

from __future__ import annotations

import bisect
import hashlib
import json
import math
import os

from recstore.building.saving import publish
from recstore.torch.weighted import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from recstore._types import Path

    Change: TypeAlias = tuple[int, int, list[float]]  # the epoch, the position in it, the weights from there on

_MOST_KEPT = 16  # the most changes that a state holds
_EVALUATED = 1024  # a function of weights is called for the positions that are multiples of this
NEVER = 1 << 62  # a position that no epoch has


class WeightChanges:
    """The weights of `n` sources at each position of each epoch.

    Args:
        start: the weights of the first position, or a function from a position to weights.
        positive: whether each weight must be above 0.
        dir: the folder for the files of changes, which states then name. None: states hold the changes.
    """

    def __init__(self, start: Any, n: int, positive: bool, dir: Path | None) -> None:
        self._n, self._positive = n, positive
        self._dir = None if dir is None else os.fspath(dir)
        self._function: Callable[[int], Sequence[float]] | None = start if callable(start) else None
        self._start = self.checked(start(0) if callable(start) else start)
        self._changes: list[Change] = []  # in the order of their positions

    @property
    def is_function(self) -> bool:
        return self._function is not None

    def checked(self, weights: Any) -> list[float]:
        """The weights as floats. Raises ValueError for a wrong number of weights and for weights out of range."""
        column: list[float] = checked(weights, lambda number: f"source {number}").tolist()
        if len(column) != self._n:
            raise ValueError(f"give one weight for each of the {self._n} sources, not {column!r:.60}")
        if not 0 < sum(column) < math.inf:
            raise ValueError("all weights are 0, or their sum is infinite, so nothing can be drawn")
        if self._positive and not all(column):
            raise ValueError(f'source {column.index(0)} has a weight of 0, so it never ends: until="all" needs others')
        return column

    def at(self, epoch: int, position: int) -> list[float]:
        """The weights that hold at a position of an epoch."""
        if self._function is not None:
            return self.checked(self._function(position - position % _EVALUATED))
        number = _number(self._changes, epoch, position)
        return self._changes[number - 1][2] if number else self._start

    def following(self, epoch: int, position: int) -> int:
        """The next position of an epoch at which the weights may change."""
        if self._function is not None:
            return position - position % _EVALUATED + _EVALUATED
        changes = self._changes[_number(self._changes, epoch, position) :]
        return changes[0][1] if changes and changes[0][0] == epoch else NEVER

    def add(self, epoch: int, position: int, weights: Sequence[float]) -> None:
        """Changes the weights from a position on, up to the next change."""
        changes = [change for change in self._changes if change[:2] != (epoch, position)]
        bisect.insort(changes, (epoch, position, self.checked(weights)), key=_position)
        self._keep(changes)

    def _keep(self, changes: list[Change]) -> None:
        if self._dir is not None and changes:
            text = _text(changes)
            publish(os.path.join(self._dir, _file_name(text)), lambda temporary: _write(temporary, text))
        elif len(changes) > _MOST_KEPT:
            raise ValueError(f"a state holds at most {_MOST_KEPT} changes of weights: give dir=, a folder for more")
        self._changes = changes

    # ---- The state ----

    def state(self, epoch: int, position: int) -> dict[str, Any]:
        """The part of a state at a position: the weights, and the changes that hold there or later."""
        if self._function is not None:
            return {"weights": _name(self._function), "weights_there": self.at(epoch, position)}
        own, changes = {"weights": list(self._start)}, self._since(epoch, position)
        if not changes:
            return own
        return {
            **own,
            "changes": _file_name(_text(self._changes)) if self._dir is not None else json.loads(_text(changes)),
        }

    def _since(self, epoch: int, position: int) -> list[Change]:
        return self._changes[max(_number(self._changes, epoch, position) - 1, 0) :]

    def load(self, state: dict[str, Any], epoch: int, position: int) -> None:
        """Takes the changes of a state. Raises ValueError for other weights; nothing has changed then."""
        own = self.state(epoch, position)
        for name in ("weights", "weights_there"):
            if state.get(name) != own.get(name):
                place = f" at position {position} of epoch {epoch}" if name == "weights_there" else ""
                saved, now = state.get(name), own.get(name)
                raise ValueError(
                    f"the state has the weights {saved!r:.200}{place}, not {now!r:.200}: give the weights of the run, "
                    "and change them by set_weights"
                )
        changes = self._checked_changes(state.get("changes", []))
        if self._changes and self._since(epoch, position) != changes[max(_number(changes, epoch, position) - 1, 0) :]:
            raise ValueError(
                "set_weights was called with other changes than in the state: call it after load_state_dict"
            )
        self._keep(changes)

    def _checked_changes(self, saved: Any) -> list[Change]:
        """The changes of a state, or of the file that it names. Raises ValueError."""
        changes = saved
        if isinstance(saved, str):
            if self._dir is None:
                raise ValueError(f"the changes of weights are in the file {saved!r:.60}: give dir=, its folder")
            with open(os.path.join(self._dir, os.path.basename(saved)), "rb") as file:
                text = file.read()
            if _file_name(text) != saved:
                raise ValueError(f"the file {saved!r:.60} of changes of weights was changed: its name has another hash")
            changes = json.loads(text)
        try:
            out = [(int(epoch), int(position), self.checked(weights)) for epoch, position, weights in changes]
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state has invalid changes of weights, {saved!r:.60}: {error}") from None
        if out != sorted(out, key=_position) or self._function is not None and out:
            raise ValueError(f"the state has changes of weights out of order: {saved!r:.60}")
        return out


def _position(change: Change) -> tuple[int, int]:
    return change[:2]


def _number(changes: list[Change], epoch: int, position: int) -> int:
    """The number of changes up to a position."""
    return bisect.bisect_right(changes, (epoch, position), key=_position)


def _text(changes: list[Change]) -> bytes:
    return json.dumps(changes).encode()


def _file_name(text: bytes) -> str:
    """The name of the file of some changes. It has the hash of the content, so the files of earlier states remain."""
    return f"weights-{hashlib.sha256(text).hexdigest()[:24]}.json"


def _write(path: str, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
