"""Writes the golden segments with maps beside itself, with the reference writer, and adds them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_map as lit  # noqa: E402
from golden import make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

FEATURES = reader.FEATURE_MAP | reader.FEATURE_TABLES


def rows():
    word = w.dict_coded([0], 2, 4)
    root = w.struct_(
        {
            "seen": w.map_(w.str_(1), w.int_(5)),
            "words": w.map_(word, w.str_(1)),
            "deep": w.map_(w.int_(16), w.map_(word, w.bool_())),
        }
    )

    def picked(entries):
        return w.Pairs([(w.Pick(lit.WORDS.index(key), key), value) for key, value in entries.items()], entries)

    values = [
        {
            "seen": row["seen"],
            "words": picked(row["words"]),
            "deep": {key: picked(inner) for key, inner in row["deep"].items()},
        }
        for row in lit.ROWS
    ]
    records = [w.encode(root, value) for value in values]
    words = w.Table([w.encode(w.str_(1), word) for word in lit.WORDS], 1, 2)
    return w.segment([w.Block(records, 0, 2)], [root, w.str_(1)], tables=[words], features_required=FEATURES)


def plain():
    return w.simple(w.map_(w.any_(), w.any_()), lit.STORES["map-plain"], features_required=reader.FEATURE_MAP)


def one(root, raw, **header):
    return w.segment([w.Block([raw], 0, 2)], [root], features_required=reader.FEATURE_MAP, **header)


def damaged():
    ids = w.map_(w.int_(4), w.bool_())
    return {
        "map-cut": one(w.map_(w.str_(1), w.str_(1)), b"\2\1a\1b\1c"),
        "map-many": one(w.map_(w.const(None), w.const(None)), b"\xe8\7", max_values=999),
        "map-one-child": one(w.Node(30, (w.bool_(),)), b"\0"),
        "map-trailing": one(ids, b"\1\3\1\0"),
    }


def main():
    make.add({"map": rows(), "map-plain": plain()}, damaged())


if __name__ == "__main__":
    main()
