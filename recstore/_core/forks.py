"""Keeps signal handlers and imports of other threads away from forks.

When recstore starts a child process, it holds signals back (`undisturbed`). A Python signal handler runs wherever the
main thread is. If it raises inside a function that os.register_at_fork registered, CPython prints the exception and
goes on, so a Ctrl-C is lost, and a lock that the function has taken, such as that of `logging`, stays locked.

Before every fork of this process, `finish_imports` waits until no other thread imports a module for recstore. A child
that is forked during such an import has half a module and an import lock that nobody releases, so its own import never
returns. recstore/__init__.py registers the wait before it imports any module of recstore. A fork during the search for
recstore/__init__.py itself is not covered.
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

# The longest single wait for a child process. A signal that arrives just before a wait begins does not end the wait, so
# Ctrl-C is noticed after this time at the latest.
WAKE_S = 0.2
_PATIENCE_S = 10.0  # the importing thread may itself wait for a lock of the forking thread
_MACHINERY = "<frozen importlib"
_active: list[undisturbed] = []


class undisturbed:
    """A context that keeps Python signal handlers from running in this thread. At its end, the handlers of the signals
    that arrived run in order. A child that is forked inside gets the original handlers."""

    arrived: list[tuple[int, FrameType | None]]
    handlers: dict[int, _Handler]

    def __enter__(self) -> undisturbed:
        import signal

        self.arrived, self.handlers, self.set = [], {}, signal.signal
        _active.append(self)
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    self.handlers[number] = handler
                    signal.signal(number, self.handle)
        except ValueError:
            self.handlers.clear()  # not the main thread, which alone runs handlers
        except BaseException:
            self.release()
            raise
        return self

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self in _active:
            self.arrived.append((number, frame))
        else:
            self.handlers[number](number, frame)

    def release(self) -> None:
        _active.remove(self)
        for number, handler in self.handlers.items():
            self.set(number, handler)

    def run_handlers(self) -> None:
        if self.arrived:
            number, frame = self.arrived.pop(0)
            try:
                self.handlers[number](number, frame)
            finally:
                self.run_handlers()

    def __exit__(self, *error: object) -> None:
        try:
            self.release()
        finally:
            self.run_handlers()


def _after_in_child() -> None:
    for context in reversed(_active[:]):
        context.release()


def finish_imports() -> None:
    """Waits until no other thread imports a module for recstore, at most _PATIENCE_S seconds."""
    end = monotonic() + _PATIENCE_S
    while _importing() and monotonic() < end:
        sleep(0.001)


def _importing() -> bool:
    """Whether another thread imports a module of recstore, or a module that recstore imports."""
    me = get_ident()
    return any(thread != me and _imports_for_us(frame) for thread, frame in sys._current_frames().items())


def _imports_for_us(frame: FrameType | None) -> bool:
    name = None  # the module that the last frames of importlib are importing
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
