"""Writes the golden segments with placed nodes beside itself, with the reference writer, and adds them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_placed as lit  # noqa: E402
from golden import make  # noqa: E402
from ref import places_writer as p  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

FEATURES = reader.FEATURE_PACKED | reader.FEATURE_TABLES | reader.FEATURE_TEXT | reader.FEATURE_OPTIONAL
FEATURES |= reader.FEATURE_PLACED


def root():
    return w.struct_(
        {
            "id": p.rising(w.int_(0, 7), -3),
            "time": p.rising(w.decimal(0, 5, 2), 51, 1),
            "gaps": p.rising(w.int_(0), 1 << 20, 19, form=1),
            "file": p.runs(w.dict_coded([0], 3, 6)),
            "word": p.rising(w.dict_coded([0], 3, 6)),
            "odd": p.exceptions(w.int_(3), w.any_()),
            "text": p.exceptions(w.str_(1, True), w.int_(16), form=1),
            "seldom": w.optional(p.rising(w.int_(0, -5), 10), True),
        }
    )


def rows():
    pick = [w.Pick(i, word) for i, word in enumerate(lit.WORDS)]
    tree = root()
    values = [
        {
            **row,
            "file": pick[lit.WORDS.index(row["file"])],
            "word": pick[lit.WORDS.index(row["word"])],
            "odd": w.Own(row["odd"]) if isinstance(row["odd"], str) else row["odd"],
            "text": w.Own(row["text"]) if isinstance(row["text"], int) else row["text"],
            "seldom": row.get("seldom", w.ABSENT),
        }
        for row in lit.ROWS
    ]
    records = [w.encode(tree, value) for value in values]
    words = w.Table([w.encode(w.str_(1), word) for word in lit.WORDS], 1, 2)
    block = w.Block(records, 0, 4, places=p.places(tree, values))
    return w.segment([block], [tree, w.str_(1)], tables=[words], features_required=FEATURES)


def digits():
    """Records of no bytes at all."""
    tree = p.rising(w.digits(0, 0, 3), 7)
    block = w.Block([b""] * len(lit.DIGITS), 0, 0, places=p.places(tree, lit.DIGITS))
    return w.segment([block], [tree], features_required=FEATURES)


def one(tree, values, tables=None, trees=(), at=None, shown=None, **fields):
    """A segment of one block. at: bytes of the places to change, by position; shown: the tree of the segment in place of
    the one that its records and places are made with; fields: those of the block's entry to override."""
    made = bytearray(p.places(tree, values))
    for position, data in (at or {}).items():
        made[position : position + len(data)] = data
    block = w.Block([w.encode(tree, value) for value in values], 0, 2, places=bytes(made), fields=fields)
    return w.segment([block], [shown or tree, *trees], tables=tables, features_required=FEATURES)


def damaged():
    """Positions are from the start of the places: one u32, then the section."""
    few, short = [*[3] * 300, 4], [*[3] * 5, *[4] * 5]
    runs, odd, line = p.runs(w.int_(8)), p.exceptions(w.int_(8), w.int_(16)), p.rising(w.int_(0), form=1)
    some, gaps = [w.Own(1000), w.Own(1001), *[5] * 298], [i * i * 7 for i in range(130)]
    corners = (4 * p.places(line, gaps)[4 + 18] + 7) // 8
    return {
        "placed-none": one(w.int_(8), [1], shown=runs),
        "placed-size": one(runs, few, places_size=1 << 40),
        "placed-beyond": one(runs, few, at={0: b"\xff\xff"}),
        "placed-cut": one(runs, few, at={4: b"\xff\0"}),
        "placed-too-many": one(runs, few, at={4: b"\0\0\1"}),
        "placed-reserved": one(runs, few, at={9: b"\1"}),
        "placed-in-list": one(runs, short, shown=w.list_(runs)),
        "placed-in-runs": one(runs, short, shown=p.runs(w.tuple_([runs]))),
        "placed-in-table": one(w.dict_coded([0], 0, 1), [w.Pick(0, 1)], [w.Table([b""], 1, 0)], [runs]),
        "placed-counts": one(runs, few, at={14: b"\2\0"}),
        "placed-starts": one(line, gaps, at={4 + 24 + corners + 2: b"\xff\xff"}),
        "placed-ends": one(odd, some, at={18: b"\xff"}),
        "placed-trailing": one(odd, some, at={18: b"\3"}),
        "placed-number": one(
            p.rising(w.dict_coded([0], 0, 1)), [w.Pick(0, 1)], [w.Table([b"\1a"], 1, 2)], [w.str_(1)], {4: b"\1"}
        ),
        "placed-order": one(runs, [*short, *[5] * 5], at={14: b"\x0a\x05"}),
        "placed-first": one(runs, short, at={14: b"\0"}),
        "placed-sum": one(p.runs(w.int_(8), form=1), [*[3] * 70, *[4] * 70], at={32: b"\0"}),
    }


def main():
    make.add({"placed": rows(), "placed-digits": digits()}, damaged())


if __name__ == "__main__":
    main()
