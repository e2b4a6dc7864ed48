"""The contents of the golden segments with saved indexes. They never change."""

import math

RECORDS = [
    {"id": f"Q{i * 7}", "image": i // 3, "label": (i * 5) % 7, "meta": {"camera": i % 2, "a.b": i}, "box": [i % 4, i]}
    for i in range(30)
]
ODD = [{"k": key} for key in (1, 1.0, "a", None, math.inf, ("a", 1), b"a", True, 2**70, "a", 0.5)]

# name: (records, index_by, group_by)
STORES = {
    "saved-indexes": (RECORDS, ["id", "label", "meta.camera", ("meta", "a.b")], ["image", "label", ("box", 0)]),
    "saved-odd-keys": (ODD, ["k"], ["k"]),
    "saved-empty": ([], ["k"], ["k"]),
}

# name: (store, error, code)
DAMAGED = {
    "saved-in-order": ("saved-indexes", "CorruptError", "KEYS"),
    "saved-size": ("saved-indexes", "CorruptError", "TRUNCATED"),
    "saved-reserved": ("saved-indexes", "CorruptError", "RESERVED"),
    "saved-slot": ("saved-indexes", "CorruptError", "KEYS"),
    "saved-record": ("saved-indexes", "CorruptError", "KEYS"),
    "saved-bit": ("saved-indexes", "CorruptError", "CHECKSUM"),
}
