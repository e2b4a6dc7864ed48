"""Writes the golden segments with unions of one child beside itself, with the reference writer, and adds them to the
manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_alone, make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

FEATURES = reader.FEATURE_OPTIONAL | reader.FEATURE_ALONE | reader.FEATURE_TEXT


def rows():
    kids = {
        "few": w.int_(3),
        "none": w.optional(w.union([w.int_(7)])),
        "seldom": w.optional(w.union([w.int_(10, 1000)]), True),
        "text": w.str_(1, True),
    }
    values = [
        {
            "few": row["few"],
            "none": w.NONE if row["none"] is None else w.Pick(0, row["none"]),
            "seldom": w.Pick(0, row["seldom"]) if "seldom" in row else w.ABSENT,
            "text": row["text"],
        }
        for row in literals_alone.ROWS
    ]
    return w.simple(w.struct_(kids), values, features_required=FEATURES)


def plain():
    values = [[w.Pick(0, item) for item in row] for row in literals_alone.STORES["alone-plain"]]
    return w.simple(w.list_(w.union([w.bool_()])), values, features_required=FEATURES)


def one(root, raw):
    return w.segment([w.Block([raw], 0, 2)], [root], features_required=FEATURES)


def damaged():
    seldom = w.tuple_([w.optional(w.union([w.int_(10)]))])
    return {
        "alone-none": one(w.tuple_([w.Node(11)]), b""),
        "alone-cut": one(seldom, b"\1\1"),
        "alone-trailing": one(seldom, b"\0\1\1"),
    }


def main():
    make.add({"alone": rows(), "alone-plain": plain()}, damaged())


if __name__ == "__main__":
    main()
