"""Writes the golden segments whose offset groups hold distances from a line beside itself, with the reference writer,
and adds them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_ends, make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402


def store(texts, bits):
    root = w.str_(1)
    block = w.Block([w.encode(root, text) for text in texts], index_width=1, index_bits=bits)
    return w.segment([block], [root], features_required=reader.FEATURE_ENDS)


def damaged(name, data):
    out = bytearray(data)
    sections = make.sections(data)
    if name == "ends-base":
        struct.pack_into("<I", out, sections[reader.OFFSETS].offset, 0xFFFFFFFF)
    else:
        out[sections[reader.BLOCKS].offset + 45] = 33 if name == "ends-bits" else 0
    return make.resealed(out)


def main():
    segments = {"ends": store(literals_ends.TEXTS, 8), "ends-few": store(literals_ends.FEW, 6)}
    make.add(segments, {name: damaged(name, segments[source]) for name, (source, *_) in literals_ends.DAMAGED.items()})


if __name__ == "__main__":
    main()
