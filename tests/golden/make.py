"""Adds golden segments beside itself, with their hashes in the manifest.

Committed segments never change: an earlier version wrote them, and every later version must read them.
A new feature of the format gets new segments, from a script that calls `add`. The scripts of the committed segments are
in the history of this folder: `git log --diff-filter=D --name-only -- 'tests/golden/make_*.py'`.
"""

import hashlib
import pathlib
import struct

from ref import reader, writer

HERE = pathlib.Path(__file__).resolve().parent


def resealed(out):
    """Returns a changed segment with valid checksums of its directory, header and sections except HEAP."""
    count, at = struct.unpack_from("<IQ", out, 68)
    for entry in range(at, at + 40 * count, 40):
        kind, _, _, offset, size, _, _, _ = reader.ENTRY.unpack_from(out, entry)
        if kind != reader.HEAP:
            struct.pack_into("<I", out, entry + 32, reader.crc32c(out[offset : offset + size]))
    struct.pack_into("<I", out, 108, reader.crc32c(out[at : at + 40 * count]))
    return writer.reseal(out)


def add(segments, damaged):
    """Writes segments and damaged segments, each `{name: bytes}`, and their lines of the manifest. Ends the process
    without writing if the manifest has one of them."""
    manifest = HERE / "manifest.txt"
    lines = manifest.read_text().splitlines(keepends=True) if manifest.exists() else []
    # v1 is the series of samples, not the version of the format
    files = {f"v1-{name}.rec": data for name, data in segments.items()}
    files.update({f"v1-damaged-{name}.rec": data for name, data in damaged.items()})
    if any(line.split()[1] in files for line in lines):
        raise SystemExit("golden segments are never regenerated")
    for name, data in files.items():
        assert len(data) < 40_000, (name, len(data))
        (HERE / name).write_bytes(data)
        lines.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    manifest.write_text("".join(sorted(lines, key=lambda line: line.split()[1])))
