"""Blocks of whole lines of binary files, and the ranges in which worker processes read large files."""

from __future__ import annotations

from recstore.sources import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from recstore.sources.inputs import Input

BLOCK = 1 << 18  # bytes per read
RANGE = 16 << 20  # bytes of a part for a worker


def blocks(file: io.BufferedIOBase, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yields blocks of whole lines of a binary file object; the last line may lack its end. With `start` and `end`,
    only lines that begin at `start` or later and before `end`."""
    if start:
        file.seek(start - 1)
        if not _skip_line(file):
            return
        start = file.tell()
    if end is not None and start >= end:
        return
    parts: list[bytes] = []  # the beginning of a line whose end has not been read yet
    while block := file.read(BLOCK):
        # The last line contains the byte before `end`.
        cut = block.find(b"\n", max(0, end - 1 - start)) + 1 if end is not None and start + len(block) >= end else 0
        is_last = cut > 0
        cut = cut or block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*parts, block[:cut]])
            parts = []
        if is_last:
            return
        parts.append(block[cut:])
        start += len(block)
    if any(parts):
        yield b"".join(parts)


def _skip_line(file: io.BufferedIOBase) -> bool:
    """Moves past the next line end. Returns False if the file has no more line ends."""
    while block := file.read(BLOCK):
        at = block.find(b"\n")
        if at >= 0:
            file.seek(at + 1 - len(block), 1)
            return True
    return False


def shares(files: Iterable[Input]) -> Iterator[tuple[list[Input], tuple[int, int] | None]]:
    """Yields the parts for workers, in order: `(files, range)`. The range is None, or `(start, end)` in a single
    file."""
    for group in reading.grouped(files, RANGE):
        size = group[0].size
        if len(group) == 1 and size and reading.divisible(group[0]):
            yield from ((group, (at, at + RANGE)) for at in range(0, size, RANGE))
        else:
            yield group, None
