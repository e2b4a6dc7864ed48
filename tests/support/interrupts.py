"""Interrupts code at each of its lines."""

import contextlib
import sys


@contextlib.contextmanager
def interrupt_at(number, chosen):
    """Raises KeyboardInterrupt at an event of sys.settrace, such as a line or a return, in the code that `chosen` takes
    in this thread. Yields the list of the events until then."""
    events, before = [], sys.gettrace()

    def trace(frame, event, _):
        if not chosen(frame.f_code):
            return None
        events.append((frame.f_code.co_name, frame.f_lineno, event))
        if len(events) == number:
            sys.settrace(before)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield events
    finally:
        sys.settrace(before)
