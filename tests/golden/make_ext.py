"""Writes the golden segments with ext values and struct dtypes beside itself and adds them to the manifest.

NEVER REGENERATED, like those of make.py: the committed files are what the first release with these features wrote. It
refuses to run when the manifest names one of them.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_ext, make  # noqa: E402
from ref import reader  # noqa: E402

import recstore  # noqa: E402


def store(name, records, compression):
    path = HERE / f"{name}.tmp"
    with recstore.RecordList(records, compression=compression) as x:
        x.save(path)
    data = path.read_bytes()
    path.unlink()
    return data


def damaged(name, data):
    """The segment with the damage of this name and right checksums."""
    out = bytearray(data)
    segment = reader.Segment(data)
    block, trees = segment.block(0), segment.sections[reader.TREES].offset
    n_nodes, aux_size = struct.unpack_from("<II", data, trees)
    nodes = {out[trees + 8 + 24 * i]: trees + 8 + 24 * i for i in reversed(range(n_nodes))}  # the first of each kind
    aux = trees + 8 + 24 * n_nodes
    if name == "ext-code":
        assert out[block.heap_offset : block.heap_offset + 3] == b"\x11\x0d\0"
        out[block.heap_offset + 1] = 31
    elif name == "ext-extra":
        out[block.heap_offset + 2] = 0x0C
    elif name == "ext-in-ext":
        out[block.heap_offset + 3] = 0x11
    elif name == "ext-node-code":
        out[nodes[13] + 1] = 31
    elif name == "ext-node-extra":
        out[aux + struct.unpack_from("<I", out, nodes[13] + 12)[0]] = 0x0F
    elif name == "struct-offset":
        at = out.index(b"\x14\x15\0\x03\x02id\0", aux, aux + aux_size)  # PAIR: 21 bytes, not aligned, 3 fields
        out[at + 7] = 20
    struct.pack_into("<I", out, segment.sections[reader.BLOCKS].offset + 64,
                     reader.crc32c(out[block.heap_offset : block.heap_offset + block.heap_size]))  # fmt: skip
    table = segment.sections[reader.TREE_TABLE].offset
    offset, size = struct.unpack_from("<QI", out, table)
    struct.pack_into("<I", out, table + 12, reader.crc32c(out[trees + offset : trees + offset + size]))
    return make.resealed(out)


def main():
    segments = {name: store(name, *how) for name, how in literals_ext.STORES.items()}
    make.add(segments, {name: damaged(name, segments[source]) for name, (source, *_) in literals_ext.DAMAGED.items()})


if __name__ == "__main__":
    main()
