"""Notes that say where an exception was raised."""

from __future__ import annotations


def add_note(error: BaseException, text: str) -> None:
    """Adds a note to an exception. Its traceback shows the note, even after a DataLoader's worker sends it to the main
    process. In Python 3.10, which has no notes, adds the text to the message if it is a str."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.args and type(error.args[0]) is str:
        error.args = (f"{error.args[0]} ({text})", *error.args[1:])
