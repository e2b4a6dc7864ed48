"""Writes the golden segments with texts of an alphabet beside itself, with the reference writer, and adds them to the
manifest."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_alphabet as lit  # noqa: E402
from golden import make  # noqa: E402
from ref import reader  # noqa: E402
from ref import writer as w  # noqa: E402

FEATURES = {"features_required": reader.FEATURE_ALPHABET | reader.FEATURE_TEXT}
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def rows():
    name = w.concat(
        [
            w.const("v"),
            w.str_(1),
            w.const("-"),
            w.alphabet("0123456789ABCDEF", 0, 8),
            w.const("-"),
            w.alphabet("abcdefgh", 0, 1),
        ]
    )
    root = w.struct_(
        {
            "uuid": w.alphabet("0123456789abcdef", 3, 32),
            "dna": w.alphabet("ACGT"),
            "digest": w.alphabet(BASE64, 2),
            "name": name,
            "token": w.alphabet(BASE64[:-2] + "-_", 1, rest=True),
        }
    )

    def joined(text):
        first, second, third = text[1:].split("-")
        return w.Joined([None, first, None, second, None, third], text)

    records = [w.encode(root, {**row, "name": joined(row["name"])}) for row in lit.ROWS]
    return w.segment([w.Block(records, 0, 2)], [root], **FEATURES)


def one(root, raw, **header):
    return w.segment([w.Block([raw], 0, 2)], [root], **FEATURES, **header)


def damaged():
    return {
        "alphabet-cut": one(w.alphabet("ACGT"), b"\5\x1b"),
        "alphabet-three": one(w.alphabet("ACG"), b"\0"),
        "alphabet-long": one(w.alphabet("ACGT", 1, rest=True), bytes(300), max_bytes=999),
    }


if __name__ == "__main__":
    make.add({"alphabet": rows()}, damaged())
