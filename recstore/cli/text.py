"""Records and values as commands print them: on one line, cut short, or as JSON."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import islice

from recstore.text import files_remedy, safe_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Advice in the library's messages, and the equivalent for a user of the command.
_COMMANDS = (
    (r"recstore\.names\.list\(\) lists", "recstore ls lists"),
    (r"recstore\.read_jsonl, read_csv and others read other files", "recstore build makes one of other files"),
    (r"recstore\.cache\(name\) opens a cache", "recstore ls lists caches"),
    (r"recstore\.shared\(('[^']*')\) reads it", r"recstore cat \1 reads it"),
    (r"recstore\.names\.remove\(('[^']*')\) removes it, and recstore\.shared\(name, build\) builds or attaches",
     r"recstore rm \1 removes it"),
    (r"recstore\.read_\w+\(path\)", "recstore build FILE"),
    (r"\bread_jsonl reads", "--format jsonl reads"),
    (r"say which by fingerprint=", "say which by --fingerprint"),
    (r"\bos\.makedirs makes it", "mkdir -p makes it"),
    (r"\bdir= chooses", "--dir chooses"),
    (r"give its folder, such as cache='([^']*)', or set RECSTORE_CACHE", r"export RECSTORE_CACHE=\1 names its folder"),
    (r"open with allow_pickle=True if you trust who wrote the file", "the command loads none"),
    (r"\bkeep must be True, False, a number of seconds or a duration", "--keep must be a duration"),
)  # fmt: skip
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
_MOST_ITEMS, _MOST_CHARACTERS, _MOST_DEPTH = 12, 120, 6


def to_json(value: object) -> str:
    """JSON text that any reader accepts: lone surrogates are escaped."""
    import json

    return json.dumps(value, indent=2, allow_nan=False)


def shows_bars() -> bool:
    """Whether a command draws progress bars: on a terminal, if rich is installed."""
    return sys.stderr.isatty() and find_spec("rich") is not None


def show(as_json: bool, result: object, text: str) -> int:
    """Prints the result of a command, as JSON or as text without control characters. Returns the exit status 0."""
    print(to_json(result) if as_json else safe_text(text))
    return 0


def brief(value: Any, depth: int = _MOST_DEPTH) -> str:
    """A value as one line that is safe for a terminal: cut short at every level, without control characters."""
    from recstore import Record

    if isinstance(value, str):
        return _cut(repr(value[:_MOST_CHARACTERS]), len(value), "characters")
    if isinstance(value, (bytes, bytearray)):
        return _cut(repr(bytes(value[:_MOST_CHARACTERS])), len(value), "bytes")
    if isinstance(value, int) and value.bit_length() > 400:
        return f"<int of {value.bit_length():,} bits>"
    if isinstance(value, Record):
        return f"{_safe(value.class_name or 'Record')}({_items(value, depth, '{}={}')})"
    if type(value).__name__ == "ndarray":
        return f"<ndarray {value.dtype} {value.shape}>"[:200]
    if isinstance(value, Mapping):
        return "{" + _items(value, depth, "{}: {}") + "}"
    if isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        kind = type(value)
        if kind is tuple and len(value) == 1:  # pyright: ignore[reportArgumentType]
            return f"({_elements(value, depth)},)"
        if not value and kind in (set, frozenset):
            return f"{kind.__name__}()"
        opener, closer = _BRACKETS.get(kind) or (f"{_safe(kind.__name__)}([", "])")
        return opener + _elements(value, depth) + closer
    try:
        text = repr(value)
    except ValueError:  # an int inside is too long for decimal digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= 2 * _MOST_CHARACTERS else text[: 2 * _MOST_CHARACTERS] + "..."


def _cut(text: str, length: int, unit: str) -> str:
    return text if length <= _MOST_CHARACTERS else f"{text}... ({length:,} {unit})"


def _safe(text: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(text)[:_MOST_CHARACTERS])


def _more(value: Any) -> list[str]:
    rest = len(value) - _MOST_ITEMS
    return [f"... ({rest:,} more)"] if rest > 0 else []


def _elements(value: Any, depth: int) -> str:
    if not depth:
        return "..." if value else ""
    return ", ".join([brief(item, depth - 1) for item in islice(value, _MOST_ITEMS)] + _more(value))


def _items(value: Any, depth: int, template: str) -> str:
    if not depth:
        return "..." if len(value) else ""
    name = brief if template.startswith("{}:") else _safe
    return ", ".join(
        [template.format(name(key), brief(value[key], depth - 1)) for key in islice(value, _MOST_ITEMS)] + _more(value)
    )


def plain(value: Any, depth: int = _MOST_DEPTH) -> Any:
    """A value for JSON, cut like `brief`. Values that JSON cannot hold become their brief text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= 400 and type(value) is int:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str and len(value) <= _MOST_CHARACTERS:
        return value
    if depth and isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in islice(value, _MOST_ITEMS)] + _more(value)
    if depth and isinstance(value, Mapping):
        out = {}
        for key in islice(value, _MOST_ITEMS):
            name = key if type(key) is str and len(key) <= _MOST_CHARACTERS else brief(key)
            out[name] = plain(value[key], depth - 1)
        if _more(value):
            out["..."] = _more(value)[0]
        return out
    return brief(value, depth)


def reason(error: BaseException) -> str:
    """The message of an exception; for an OSError the file and the reason, without the number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    files = [file for file in (error.filename, error.filename2) if file is not None]
    names = " -> ".join(str(file) if isinstance(file, int) else os.fsdecode(file) for file in files)
    return f"{names}: {error.strerror}" if names else str(error.strerror)


def error_line(error: BaseException) -> str:
    """The message of an exception in one line, with advice for a user of the command."""
    text = reason(error) + (files_remedy(error) if isinstance(error, OSError) else "")
    for python, command in _COMMANDS:
        text = re.sub(python, command, text)
    return safe_text(text).replace("\n", " ")
