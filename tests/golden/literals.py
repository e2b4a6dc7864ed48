"""The records of the golden segments of version 1, and the errors of the damaged segments. They never change."""

import math
import struct

import numpy as np

NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000ABCDEF))[0]

VALUES = [
    None, True, False, 0, 111, -16, 112, -17, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64, -(2**200),
    0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324, NAN, "", "a\0b", "é", "€", "😀", "\ud800", "x" * 200, b"", b"\0\xff", [], (), {},
    [1, [2, (3, {"a": None})]], {1: 2, None: 3, (4, "x"): [5], "\ud800": 6, 2.5: 7, b"k": 8},
]  # fmt: skip
STRUCTS = [
    {"id": 1_000_000 + i, "name": f"image {i}", "score": i / 8, "ok": i % 3 == 0, "box": [i, i + 1, 2 * i, -i],
     **({"note": "x" * (i % 5)} if i % 4 == 0 else {}), **({"tags": ["a", str(i)]} if i % 5 else {"tags": None}), "kind": "const",
     "pair": (i % 2 == 0, b"%d" % i)}
    for i in range(150)
]  # fmt: skip
ARRAYS = [
    np.arange(6, dtype="<i2").reshape(2, 3), np.arange(6, dtype=">f8").reshape(3, 2).T, np.array(True), np.zeros((0, 3), "<c16"),
    np.arange(300, dtype="<u4"), np.arange(1200, dtype="u1")[:1024], np.arange(1023, dtype="u1"), np.array([b"a", b"bc"]),
    np.array(["é", "😀b"]), np.array([b"\1\2\3"], "V3"), np.array(["2020-02-29", "NaT"], "<M8[D]"), np.array([5], "<m8[25ns]"),
    np.float32(0.1), np.int64(-7), np.bool_(True), np.str_("a\0"), np.bytes_(b"b\0"), np.datetime64("2020-02-29T12:00:00", "s"),
    np.timedelta64(3), np.array([1.5, NAN], "<f2"),
]  # fmt: skip
ALIKE = [{"i": i, "a": np.arange(i, i + 4, dtype="<f4"), "s": np.float64(i / 2)} for i in range(100)]
STRINGS = [
    ("", "a", "é", "ÿ", "€", "\uffff", "😀", "\U0010ffff", "\ud800", "a\udc80b")[i % 10] * (i % 4) for i in range(200)
]
WIDTHS = [{"latin": "aé"[i % 2] * (i % 3), "ucs2": "€" * (i % 4), "ucs4": "😀" * (i % 2 + 1)} for i in range(100)]
MIXED = [(i, str(i), None, i / 4, [i] * (i % 3))[i % 5] for i in range(200)]
WIDE = [[-(2**63), 2**63 - 1][i % 2] - (-1) ** (i % 2 + 1) * i for i in range(100)]

STORES = {
    "empty": [],
    "values": VALUES,
    "structs": STRUCTS,
    "structs-plain": STRUCTS,
    "arrays": ARRAYS,
    "arrays-alike": ALIKE,
    "strings": STRINGS,
    "string-widths": WIDTHS,
    "mixed": MIXED,
    "wide-ints": WIDE,
    "const": [{"a": [1, 2]}] * 130,
}

# name: the store it was made from, the error, its code, and when it is reported: at "open", "full" verification or "read"
DAMAGED = {
    "truncated": ("structs", "CorruptError", "TRUNCATED", "open"),
    "header-bit": ("structs", "CorruptError", "CHECKSUM", "open"),
    "magic": ("values", "CorruptError", "MAGIC", "open"),
    "later-version": ("values", "VersionError", "VERSION", "open"),
    "unknown-feature": ("values", "VersionError", "VERSION", "open"),
    "directory-count": ("structs", "CorruptError", "SECTION", "open"),
    "heap-bit": ("structs", "CorruptError", "CHECKSUM", "full"),
    "tree-bit": ("structs", "CorruptError", "CHECKSUM", "read"),
    "block-heap-size": ("structs", "CorruptError", "BLOCK", "read"),
}

# The label of a segment, which says where the segment comes from.
LABEL = {"name": "名前", "fingerprint": "v1+0123456789abcdef", "keep": "7200.0", "pid": "12", "host": "host", "command": "train.py"}  # fmt: skip
LABELLED = [{"id": i, "text": "x" * i} for i in range(5)]
