"""Writes the golden segments with narrow arrays beside itself, with the reference writer, and adds them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_narrow, make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

WIDTHS = {"ids": 16, "labels": 17, "mask": 1, "large": 16, "pair": 9, "fixed": 63}


def narrow(key, value):
    base = {"labels": -100, "mask": 1, "fixed": 1 << 63, "pair": -5}.get(key, 0)
    return w.Narrow(value, WIDTHS[key], base)


def rows():
    values = [{key: narrow(key, value) for key, value in row.items()} for row in literals_narrow.ROWS]
    kids = {key: w.ndarray(value, key in ("pair", "fixed")) for key, value in values[0].items()}
    arrays = bytearray()
    records = [w.encode(w.struct_(kids), value, arrays) for value in values]
    block = w.Block(records, 0, 4, arrays=bytes(arrays))
    return w.segment([block], [w.struct_(kids)], features_required=reader.FEATURE_NARROW)


def any_values():
    first, (second,), third = literals_narrow.ANY
    values = [w.Narrow(first, 6, -25), [w.Narrow(second, 20)], {"none": w.Narrow(third["none"], 31)}]
    arrays = bytearray()
    records = [w.any_value(value, arrays) for value in values]
    block = w.Block(records, 0, 4, arrays=bytes(arrays))
    return w.segment([block], [w.any_()], features_required=reader.FEATURE_NARROW)


def one(root, raw):
    return w.segment([w.Block([raw], 0, 2)], [root], features_required=reader.FEATURE_NARROW)


def damaged():
    ids = w.Narrow(np.zeros(3, np.int32), 16)
    return {
        "narrow-cut": one(w.ndarray(ids), w.encode(w.ndarray(ids), ids)[:-1]),
        "narrow-outside": one(w.ndarray(ids), b"\1" + w.varint(600) + b"\0"),
        "narrow-float": one(w.any_(), bytes.fromhex("10 10 0B 01 01 00 00 00 00 00")),
        "narrow-width": one(w.any_(), bytes.fromhex("10 40 03 01 01 00 00 00 00")),
    }


def main():
    make.add({"narrow": rows(), "narrow-any": any_values()}, damaged())


if __name__ == "__main__":
    main()
