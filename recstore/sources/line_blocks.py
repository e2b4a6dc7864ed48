"""Runs of whole lines of binary files, and the ranges of lines in which worker processes read large files."""

from __future__ import annotations

from recstore.sources import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from recstore.sources.inputs import Input

BLOCK = 1 << 18  # bytes that are read at once
RANGE = 16 << 20  # bytes of a shard


def blocks(file: io.BufferedIOBase, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yields runs of whole lines of a binary file object; the last line may lack its end. With `start` and `end` these
    are the lines that begin from the one place to before the other."""
    if start:
        file.seek(start - 1)
        if not _skip_line(file):
            return
        start = file.tell()
    if end is not None and start >= end:
        return
    held: list[bytes] = []  # the parts of a line that has not ended
    while block := file.read(BLOCK):
        # The last line is the one with the byte before `end`.
        cut = block.find(b"\n", max(0, end - 1 - start)) + 1 if end is not None and start + len(block) >= end else 0
        is_last = cut > 0
        cut = cut or block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, block[:cut]])
            held = []
        if is_last:
            return
        held.append(block[cut:])
        start += len(block)
    if any(held):
        yield b"".join(held)


def _skip_line(file: io.BufferedIOBase) -> bool:
    """Moves behind the next line end. False if there is none."""
    while block := file.read(BLOCK):
        found = block.find(b"\n")
        if found >= 0:
            file.seek(found + 1 - len(block), 1)
            return True
    return False


def shares(files: Iterable[Input]) -> Iterator[tuple[list[Input], tuple[int, int] | None]]:
    """Yields the share of each shard in some files, in order: `(files, range)`. The range is None, or `(start, end)` of
    the only file."""
    for group in reading.grouped(files, RANGE):
        size = group[0].size
        if len(group) == 1 and size and reading.divisible(group[0]):
            yield from ((group, (at, at + RANGE)) for at in range(0, size, RANGE))
        else:
            yield group, None
