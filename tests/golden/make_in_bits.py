"""Writes the golden segments with rows in the bits of others beside itself, and adds them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_in_bits, make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

FEATURES = reader.FEATURE_IN_BITS | reader.FEATURE_RARE | reader.FEATURE_OPTIONAL | reader.FEATURE_TEXT
DEEP = w.in_bits(w.struct_({"k": w.int_(2), "odd": w.optional(w.int_(6), key=True)}))
KIDS = {
    "id": w.int_(13),
    "at": w.in_bits(w.struct_({"x": w.int_(5), "y": w.int_(3), "name": w.str_(1)})),
    "box": w.optional(w.in_bits(w.tuple_([w.int_(4), w.int_(8), w.bool_()], 0))),
    "more": w.optional(w.in_bits(w.struct_({"deep": DEEP, "half": w.float_()})), key=True),
    "rows": w.list_(w.in_bits(w.struct_({"a": w.int_(3), "b": w.int_(3)}))),
    "either": w.union([w.in_bits(w.tuple_([w.bool_(), w.int_(6)])), w.str_(1)]),
    "text": w.str_(1, True),
}


def written(row):
    out = {key: row.get(key, w.ABSENT) for key in KIDS}
    if row["box"] is None:
        out["box"] = w.NONE
    if "more" in row:
        out["more"] = {
            "deep": {key: row["more"]["deep"].get(key, w.ABSENT) for key in ("k", "odd")},
            "half": row["more"]["half"],
        }
    out["either"] = w.Pick(int(isinstance(row["either"], str)), row["either"])
    return out


def one(root, raw):
    return w.segment([w.Block([raw], 0, 2)], [root], features_required=FEATURES)


def damaged():
    pair = w.tuple_([w.int_(5), w.int_(6)])
    held = w.tuple_([w.in_bits(w.tuple_([w.int_(5), w.float_()]))])
    third = w.tuple_([w.in_bits(w.tuple_([w.union([w.bool_(), w.float_(), w.str_(1)])]))])
    wide = w.in_bits(w.tuple_([w.int_(33), w.int_(32 - 1), w.bool_()]))
    rare = w.in_bits(w.struct_({"a": w.optional(w.float_(), rare=True)}))
    listed = w.list_(w.int_(3))
    listed.flags = w.IN_BITS
    return {
        "in-bits-cut": one(held, w.encode(held, [(3, 0.5)])[:-1]),
        "in-bits-number": one(third, b"\3" + bytes(9)),
        "in-bits-root": one(w.in_bits(pair), bytes(2)),
        "in-bits-list": one(w.tuple_([listed]), bytes(2)),
        "in-bits-too-many": one(w.tuple_([wide]), bytes(9)),
        "in-bits-rare": one(w.tuple_([rare]), bytes(2)),
    }


def main():
    root = w.struct_(KIDS)
    data = w.simple(root, [written(row) for row in literals_in_bits.ROWS], 2, features_required=FEATURES)
    assert reader.check(data) == literals_in_bits.ROWS
    make.add({"in-bits": data}, damaged())


if __name__ == "__main__":
    main()
