"""Writes the golden segments with sections within the header beside itself, with the reference writer, and adds them to
the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_front, make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402


def store(texts, front):
    root = w.str_(1)
    block = w.Block([w.encode(root, text) for text in texts], index_width=2)
    return w.segment([block], [root], front=front, features_required=reader.FEATURE_FRONT)


def damaged(name, data):
    out = bytearray(data)
    count, at = struct.unpack_from("<IQ", out, 68)
    if name == "front-checksum":  # the first section reaches into the checksum of the header
        struct.pack_into("<Q", out, at + 8, 4032)
    elif name == "front-fields":  # it covers the fields of the header
        struct.pack_into("<Q", out, at + 8, 64)
    elif name == "front-twice":  # the second begins before the end of the first
        struct.pack_into("<Q", out, at + 48, 128)
    elif name == "front-feature":
        struct.pack_into("<Q", out, 16, 0)
    else:
        out[130] ^= 1
        return bytes(out)
    struct.pack_into("<I", out, 108, reader.crc32c(out[at : at + 40 * count]))
    return w.reseal(out)


def main():
    every = (reader.TREES, reader.GROUPS, reader.TREE_TABLE, reader.BLOCKS)
    segments = {
        "front": store(literals_front.WORDS, (reader.BLOCKS, reader.TREES)),
        "front-some": store(literals_front.WORDS[:70], every),
    }
    make.add(segments, {name: damaged(name, segments[src]) for name, (src, *_) in literals_front.DAMAGED.items()})


if __name__ == "__main__":
    main()
