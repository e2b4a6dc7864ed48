"""Runs of whole lines of binary files, and the ranges of lines in which worker processes read large files."""

from recstore.sources import reading

BLOCK = 1 << 18  # bytes that are read at once
RANGE = 16 << 20  # bytes of a shard


def blocks(file, start=0, end=None):
    """Yields runs of whole lines of a binary file object; the last line may lack its end. With `start` and `end` these
    are the lines that begin from the one place to before the other."""
    if start:
        file.seek(start - 1)
        if not _skip_line(file):
            return
        start = file.tell()
    if end is not None and start >= end:
        return
    held = []  # the parts of a line that has not ended
    while block := file.read(BLOCK):
        last = end is not None and start + len(block) >= end
        # The last line is the one with the byte before `end`.
        cut = block.find(b"\n", max(0, end - 1 - start)) + 1 if last else 0
        last = cut > 0
        cut = cut or block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, block[:cut]])
            held = []
        if last:
            return
        held.append(block[cut:])
        start += len(block)
    if any(held):
        yield b"".join(held)


def _skip_line(file):
    """Moves behind the next line end. False if there is none."""
    while block := file.read(BLOCK):
        found = block.find(b"\n")
        if found >= 0:
            file.seek(found + 1 - len(block), 1)
            return True
    return False


def shares(files):
    """Yields the share of each shard in some files, in order: `(files, range)`. The range is None, or `(start, end)` of
    the only file."""
    for group in reading.grouped(files, RANGE):
        ranges = [None]
        if len(group) == 1 and reading.divisible(group[0]):
            ranges = [(at, at + RANGE) for at in range(0, group[0].size, RANGE)] or ranges
        for one in ranges:
            yield group, one
