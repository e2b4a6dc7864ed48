"""Text for people: sizes, tables, and text that is safe for a terminal. Imports nothing when loaded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UNITS = ("kB", "MB", "GB", "TB")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size_text(size: float | None) -> str:
    """A number of bytes in decimal units with three digits; None is n/a. A difference of sizes may be negative.

    >>> size_text(700), size_text(1536), size_text(999_960), size_text(3 * 2**30), size_text(None)
    ('700 B', '1.54 kB', '1 MB', '3.22 GB', 'n/a')
    >>> size_text(-1536)
    '-1.54 kB'
    """
    if size is None:
        return "n/a"
    if size < 0:
        return f"-{size_text(-size)}"
    if round(size) < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        # 999.6 rounds to four digits, so it goes to the next unit.
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size:,.0f} {unit}"


def counted(number: float, one: str, many: str | None = None) -> str:
    """A number with its noun; `many` is an irregular plural.

    >>> counted(1, "process", "processes"), counted(2000, "record")
    ('1 process', '2,000 records')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def an(name: str) -> str:
    """A name, usually of a type, with its article.

    >>> an("int"), an("str"), an("numpy.ndarray"), an("UUID"), an("uint8"), an("_Odd")
    ('an int', 'a str', 'a numpy.ndarray', 'a UUID', 'a uint8', 'an _Odd')
    """
    sound = name.lstrip("_").lower()
    is_vowel = sound[:1] in "aeiou" and not sound.startswith(("uni", "uui", "uint", "user", "usa", "utf", "one", "eu"))
    return f"{'an' if is_vowel or sound.startswith(('html', 'xml', 'mp')) else 'a'} {name}"


def duration_text(seconds: float) -> str:
    """A time in the unit that fits it.

    >>> duration_text(7), duration_text(130), duration_text(9000)
    ('7 s', '2.2 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def seconds_in(duration: object) -> float | None:
    """The seconds of a number, or of text such as "30" or "2h" (s, m, h, d, w). None for anything else, such as
    a bool, and for numbers below 0 or above 10^10.

    >>> seconds_in(7), seconds_in("2h"), seconds_in("0.5"), seconds_in("soon")
    (7.0, 7200.0, 0.5, None)
    """
    unit = 1
    if isinstance(duration, str) and duration[-1:] in _SECONDS:
        duration, unit = duration[:-1], _SECONDS[duration[-1]]
    if isinstance(duration, bool) or not isinstance(duration, (int, float, str)):
        return None
    try:
        number = float(duration) * unit
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < 1e10 else None


def table(rows: Sequence[Sequence[str]], sides: str) -> str:
    """Rows of str, the headings first, as lines of aligned columns; `sides` has a "<" or ">" for each column.

    >>> print(table([("name", "size"), ("a", "700 B"), ("train", "12 MB")], "<>"))
    name    size
    a      700 B
    train  12 MB
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(table_line(row, sides, widths) for row in rows)


def table_line(row: Sequence[str], sides: str, widths: Iterable[int]) -> str:
    """One line of a table that is printed row by row.

    >>> table_line(("a", "700 B"), "<>", (5, 7))
    'a        700 B'
    """
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)).rstrip()


def safe_text(text: str) -> str:
    """The text with a ? for each unprintable character except newlines, for text that other programs wrote.

    >>> safe_text("two\\nlines \\x1b[31m")
    'two\\nlines ?[31m'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def meant(name: object, names: Iterable[object]) -> str:
    """The end of an error's message, which suggests the nearest of `names`; empty if none is near."""
    import difflib

    near = difflib.get_close_matches(str(name), [known for known in names if isinstance(known, str)], 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def files_remedy(error: OSError) -> str:
    """The remedy to append to the message of an OSError about too many open files. Empty for any other error, and if
    the message already has the remedy."""
    import errno
    import os

    if error.errno != errno.EMFILE or "ulimit" in str(error):
        return ""
    limit = os.sysconf("SC_OPEN_MAX")
    return f"; this process may have {limit:,} files open: raise the limit (ulimit -n), or close files"
