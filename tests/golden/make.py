"""Writes the golden segments of format version 1 beside itself, with a manifest of their hashes.

NEVER REGENERATED: the committed files are what the first release wrote, and every later version must read them. This
script is kept to show how they were made. It refuses to write a file that the manifest names. A later format version
gets files and a script of its own.
"""

import hashlib
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals  # noqa: E402
from ref import reader, writer  # noqa: E402

import recstore  # noqa: E402


def stores():
    """`{name: bytes}` of the segments that the package writes."""
    out = {}
    for name, (records, compression) in literals.STORES.items():
        path = HERE / f"{name}.tmp"
        with recstore.RecordList(records, compression=compression) as x:
            x.save(path)
        out[name] = path.read_bytes()
        path.unlink()
    return out


def sections(data):
    return reader.Segment(data).sections


def damaged(name, data):
    """The segment with the damage of this name."""
    out = bytearray(data)
    if name == "truncated":
        return bytes(out[:4200])
    if name == "header-bit":
        out[80] ^= 4
        return bytes(out)
    if name == "heap-bit":
        out[4096 + 9] ^= 0x20
        return bytes(out)
    if name == "tree-bit":
        at = sections(data)[reader.TREES].offset
        out[at + 8 + 24 * out[at] + 2] ^= 1  # in a key: the tree stays well-formed
        return bytes(out)
    if name == "block-heap-size":
        entry = sections(data)[reader.BLOCKS]
        struct.pack_into("<Q", out, entry.offset + 24, 1 << 40)
        return resealed(out)
    fields = {"magic": (0, "<Q", 0), "later-version": (10, "<H", 2), "unknown-feature": (16, "<Q", 1 << 40),
              "directory-count": (68, "<I", 65)}  # fmt: skip
    offset, kind, value = fields[name]
    struct.pack_into(kind, out, offset, value)
    return writer.reseal(out)


def resealed(out):
    """With right checksums of the sections, the directory and the header."""
    count, at = struct.unpack_from("<IQ", out, 68)
    for entry in range(at, at + 40 * count, 40):
        kind, _, _, offset, size, _, _, _ = reader.ENTRY.unpack_from(out, entry)
        if kind != reader.HEAP:
            struct.pack_into("<I", out, entry + 32, reader.crc32c(out[offset : offset + size]))
    struct.pack_into("<I", out, 108, reader.crc32c(out[at : at + 40 * count]))
    return writer.reseal(out)


def add(segments, broken):
    """Writes these segments and damaged segments, and their lines of the manifest. Writes nothing when the manifest
    names one."""
    manifest = HERE / "manifest.txt"
    lines = manifest.read_text().splitlines(keepends=True) if manifest.exists() else []
    files = {f"v1-{name}.rec": data for name, data in segments.items()}
    files.update({f"v1-damaged-{name}.rec": data for name, data in broken.items()})
    if any(line.split()[1] in files for line in lines):
        raise SystemExit("golden segments are never regenerated")
    for name, data in files.items():
        assert len(data) < 40_000, (name, len(data))
        (HERE / name).write_bytes(data)
        lines.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    manifest.write_text("".join(sorted(lines, key=lambda line: line.split()[1])))


def main():
    segments = stores()
    add(segments, {name: damaged(name, segments[source]) for name, (source, *_) in literals.DAMAGED.items()})


if __name__ == "__main__":
    main()
