"""Notes that say where an exception was raised."""

from __future__ import annotations


def add_note(error: BaseException, text: str) -> None:
    """Adds a note to an exception. A traceback shows it, even in the process that a DataLoader's worker sends it to.
    Python 3.10 has no notes, so there the text is added to the message."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.args and type(error.args[0]) is str:
        error.args = (f"{error.args[0]} ({text})", *error.args[1:])
