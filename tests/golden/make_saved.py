"""Writes the golden segments with saved indexes beside itself and adds them to the manifest.

NEVER REGENERATED, like those of make.py: the committed files are what the first release with saved indexes wrote. It
refuses to run when the manifest names one of them.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_saved, make  # noqa: E402
from ref import reader, saved_indexes  # noqa: E402

import recstore  # noqa: E402


def store(name, records, index_by, group_by):
    path = HERE / f"{name}.tmp"
    with recstore.RecordList(records) as x:
        x.save(path, index_by=index_by, group_by=group_by)
    data = path.read_bytes()
    path.unlink()
    return data


def damaged(name, data):
    """The segment with the damage of this name and, but for `saved-bit`, right checksums."""
    out = bytearray(data)
    header = reader.read_header(data)
    entry = saved_indexes.sections_of(data, header)[1]  # index_by("label"), with two record numbers for each key
    at, end = entry.offset, entry.offset + entry.size
    index = saved_indexes.open_all(data)[1].index
    if name == "saved-in-order":
        struct.pack_into("<I", out, at + 4, 1)
    elif name == "saved-size":
        struct.pack_into("<Q", out, at + 24, 1 << 40)
    elif name == "saved-reserved":
        out[at + 63] = 1
    elif name == "saved-slot":
        full = next(i for i in range(index.head.n_slots) if index.slot(i))
        struct.pack_into("<I", out, index.start + 64 + 4 * full, 0)
    elif name == "saved-record":
        struct.pack_into("<I", out, end - 4, 1 << 20)
    elif name == "saved-bit":
        out[at + 70] ^= 1
        return bytes(out)
    return make.resealed(out)


def main():
    segments = {name: store(name, *how) for name, how in literals_saved.STORES.items()}
    broken = {name: damaged(name, segments[source]) for name, (source, *_) in literals_saved.DAMAGED.items()}
    make.add(segments, broken)


if __name__ == "__main__":
    main()
