"""Forks, and what must not be under way at one.

Around the start of a child process of its own, recstore holds signals back (`undisturbed`). A handler of Python runs
wherever the main thread is. If it raises in a function of os.register_at_fork, CPython prints the exception and goes
on, so that Ctrl-C is lost; if that function was about to take a lock or had one, as that of `logging`, the lock stays.

Before any fork of this process, `finish_imports` waits for other threads that are importing modules for recstore, as
the first call of a function may do. A child that is forked meanwhile has half a module, whose lock belongs to a thread
that the child lacks: its own import of that module would never return. recstore/__init__.py registers the wait before
it imports anything. A fork while Python still looks for that file is out of reach.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    _Handler = Callable[[int, FrameType | None], Any]

_PATIENCE_S = 10.0  # a thread that imports may itself wait for something that the forking thread holds
_MACHINERY = "<frozen importlib"
_holding: list[undisturbed] = []  # the calls of `undisturbed` that have not ended


class undisturbed:
    """Within `with`, no signal handler of Python runs in this thread. Those of signals that have come are called at the
    end, in their order. A child that is forked within has the handlers of its parent."""

    came: list[tuple[int, FrameType | None]]
    handlers: dict[int, _Handler]

    def __enter__(self) -> undisturbed:
        import signal

        self.came, self.handlers, self.set = [], {}, signal.signal
        _holding.append(self)
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    self.handlers[number] = handler
                    signal.signal(number, self.note)
        except ValueError:
            self.handlers.clear()  # not the main thread, which alone runs handlers
        except BaseException:
            self.release()
            raise
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        if self in _holding:
            self.came.append((number, frame))
        else:
            self.handlers[number](number, frame)

    def release(self) -> None:
        _holding.remove(self)
        for number, handler in self.handlers.items():
            self.set(number, handler)

    def call(self) -> None:
        if self.came:
            number, frame = self.came.pop(0)
            try:
                self.handlers[number](number, frame)
            finally:
                self.call()

    def __exit__(self, *error: object) -> None:
        try:
            self.release()
        finally:
            self.call()


def _after_in_child() -> None:
    for held in reversed(_holding[:]):
        held.release()


def finish_imports() -> None:
    end = monotonic() + _PATIENCE_S
    while _importing() and monotonic() < end:
        sleep(0.001)


def _importing() -> bool:
    """Whether another thread is importing a module of recstore, or another one that recstore needs just now."""
    me = get_ident()
    return any(thread != me and _imports_for_us(frame) for thread, frame in sys._current_frames().items())


def _imports_for_us(frame: FrameType | None) -> bool:
    name = None  # of the module that is imported in the frames that were last looked at
    while frame is not None:
        if frame.f_code.co_filename.startswith(_MACHINERY):
            if frame.f_code.co_name == "_find_and_load":
                name = frame.f_locals.get("name")
        elif name is not None:
            if _is_ours(name) or _is_ours(frame.f_globals.get("__name__")):
                return True
            name = None
        frame = frame.f_back
    return name is not None and _is_ours(name)


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "recstore"


os.register_at_fork(after_in_child=_after_in_child)
