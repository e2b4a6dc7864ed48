"""Writes the golden segments with packed nodes, tables and texts beside itself, with the reference writer, and adds
them to the manifest.

NEVER REGENERATED, like those of make.py. It refuses to run when the manifest names one of them.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals_packed as lit  # noqa: E402
from golden import make  # noqa: E402
from ref import mapping_writer as mw  # noqa: E402
from ref import writer as w  # noqa: E402
from ref.reader import crc32c  # noqa: E402

FEATURES = 8 | 16 | 32 | 64  # PACKED, TABLES, TEXT, OPTIONAL
SYMBOLS = ["the ", None, "cat", "a"]


def numbers():
    """Decimals with and without corrections, every kind of list."""
    floats = w.union([w.decimal(5, 3, 1, 2), w.decimal(4, -5, 1)])
    root = w.struct_(
        {
            "price": w.decimal(16, -1234, 2),
            "odd": floats,
            "ids": w.numbers(100, stride=1, head_width=64, max_width=20),
            "ys": w.numbers(floats=True, scale=1, max_width=20, param=1),
            "all": w.numbers(-(1 << 63), max_width=64, count=2),
        }
    )
    odd = [w.Pick(0, w.Stored(3, 0.1 + 0.2)), w.Pick(0, w.Stored(6, 0.4)), w.Pick(1, -0.5)]
    return w.simple(
        root, [{**row, "odd": o, "price": row["price"]} for row, o in zip(lit.NUMBERS, odd)], features_required=8
    )


def texts():
    """Parts of every width."""
    root = w.concat([w.const("a-"), w.str_(0), w.same(1), w.digits(7, 0, 2), w.const(".png")])
    parts = [("x", "03"), ("€", "00"), ("", "01"), ("\U0001f600", "99")]
    values = [w.Joined([None, s, None, n, None], text) for (s, n), text in zip(parts, lit.TEXTS)]
    return w.simple(root, values, features_required=32)


def digits():
    root = w.tuple_([w.union([w.digits(3, 0, 3), w.digits(64), w.digits(8, 40)]), w.hex_(6), w.hex_(3, True)])
    return w.simple(
        root, [(w.Pick(i, a), b, c) for i, (a, b, c) in enumerate(lit.HASHES)], index_width=2, features_required=32
    )


def optionals():
    root = w.struct_({"a": w.optional(w.int_(4, -2), True), "b": w.optional(w.bool_()), "c": w.str_(1, True)})
    rows = [
        {"a": row.get("a", w.ABSENT), "b": w.NONE if row["b"] is None else row["b"], "c": row["c"]}
        for row in lit.OPTIONALS
    ]
    return w.simple(root, rows, features_required=96)


def tables(**change):
    """Table 0 has words; table 1 paths of two words of table 0; table 2 symbols; `word` is dict-coded with tables 0
    and 1. change: fields to break."""
    path = w.concat([w.dict_coded([0], 2, 4), w.const("/"), w.dict_coded([change.get("names", 0)], 2, 4)])
    words = [w.encode(w.str_(1), word) for word in lit.WORDS]
    pairs = [w.encode(path, w.Joined([w.Pick(lit.WORDS.index(a), a), None, w.Pick(lit.WORDS.index(b), b)], ""))
             for a, b in (text.split("/") for text in lit.PATHS)]  # fmt: skip
    root = w.struct_(
        {"path": w.dict_coded([1], 2, 3), "word": w.dict_coded([0, 1], 3, change.get("count", 7)), "text": w.symbols(2)}
    )
    rows = [{"path": w.Pick(lit.PATHS.index(row["path"]), None), "word": w.Pick((lit.WORDS + lit.PATHS).index(row["word"]), None),
             "text": w.Coded(w.coded(row["text"], SYMBOLS), None)} for row in lit.TABLES]  # fmt: skip
    records = [w.encode(root, row) for row in rows]
    if "record" in change:
        records[0] = change["record"]
    if "entry" in change:
        words[0] = change["entry"]
    if "unread" in change:
        words.append(change["unread"])
        root = w.dict_coded([0], 3, 5)
        records = [b"\1"]
    made = [
        w.Table(words, 0, 2, fields=change.get("words", {})),
        w.Table(pairs, 1, 0, fields=change.get("pairs", {})),
        w.SymbolTable(change.get("symbols") or w.symbol_table(SYMBOLS)),
    ]
    return w.segment([w.Block(records, 2, 2)], [w.str_(1), path, root], tables=made, features_required=48)


def mapping():
    values = [{"path": w.Pick(i % 3, None)} for i in range(4)]
    return mw.mapping([w.Pick(i, word) for i, word in enumerate(lit.WORDS)], values,
                      roots=(w.struct_({"path": w.dict_coded([0], 2, 3)}), w.dict_coded([0], 2, 4)), trees=([w.str_(1)], [w.str_(1)]),
                      tables=([w.Table([w.encode(w.str_(1), p) for p in lit.PATHS], 1, 2)],
                              [w.Table([w.encode(w.str_(1), p) for p in lit.WORDS], 1, 2)]), features_required=18)  # fmt: skip


def one(root, raw, trees=(), made=None):
    return w.segment([w.Block([raw], 0, 2)], [root, *trees], tables=made, features_required=FEATURES)


def damaged():
    pool = bytearray(w.symbol_table(SYMBOLS))
    pool[9] = 0xFF
    heap_bit = bytearray(tables())
    heap_bit[heap_bit.index(b"\3usr") + 2] ^= 1
    joined = [w.concat([w.dict_coded([k], 0, 1)] * 64) for k in range(3)]
    return {
        "decimal-scale": one(w.decimal(8, 0, 23), b"\0"), "numbers-width": one(w.numbers(max_width=3), b"\3\4\0\0"),
        "numbers-cut": one(w.numbers(max_width=3), b"\3\3\xD0"), "rest-odd": one(w.concat([w.str_(1), w.str_(2, True)]), b"\1a\xAC"),
        "same-later": one(w.concat([w.same(1), w.str_(1)]), b"\1a"), "optional-key": one(w.tuple_([w.optional(w.bool_(), True)]), b"\0"),
        "later-node": one(w.tuple_([w.Node(23)]), b""), "table-kind": tables(words={"first_record": 3}),
        "table-arrays": tables(words={"arrays_size": 64}), "table-own": tables(names=1), "dict-count": tables(count=8),
        "dict-number": tables(record=b"\x1F\0"), "entry-trailing": tables(entry=b"\3usrx", record=b"\0\0"),
        "entry-offset": tables(words={"heap_size": 2, "heap_crc": crc32c(b"\3u")}), "entry-unread": tables(unread=b"\5x"),
        "piece-bytes": one(w.concat([w.dict_coded([0], 0, 1)]), b"", [w.bytes_()], [w.Table([b"\1a"], 1, 0)]),
        "pieces": one(joined[2], b"", [*joined[:2], w.str_(1)],
                      [w.Table([b"\0"], 3, 0), w.Table([b""], 1, 0), w.Table([b""], 2, 0)]),
        "symbols-pool": tables(symbols=bytes(pool)), "symbols-code": tables(record=b"\0\1\4"), "table-heap-bit": bytes(heap_bit),
    }  # fmt: skip


def main():
    make.add({"packed-numbers": numbers(), "packed-texts": texts(), "packed-digits": digits(), "packed-optionals": optionals(),
              "tables": tables(), "tables-mapping": mapping()}, damaged())  # fmt: skip


if __name__ == "__main__":
    main()
