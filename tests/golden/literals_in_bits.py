"""The records of the golden segment with rows in the bits of others, and the errors of the damaged segments."""

ROWS = [
    {
        "id": 50 * i,
        "at": {"x": i % 32, "y": i % 5, "name": "n" * (i % 3)},
        "box": None if i % 4 == 1 else [i % 16, i, i % 2 == 0],
        **({} if i % 5 == 2 else {"more": {"deep": {"k": i % 4, **({"odd": i} if i % 2 else {})}, "half": i / 2}}),
        "rows": [{"a": k, "b": (i + k) % 8} for k in range(i % 6)],
        "either": f"word {i}" if i % 3 == 0 else (i % 2 == 0, i),
        "text": "x" * (i % 4),
    }
    for i in range(60)
]

STORES = {"in-bits": ROWS}

# as in literals.DAMAGED
DAMAGED = {
    "in-bits-cut": ("in-bits", "CorruptError", "TRUNCATED", "read"),
    "in-bits-number": ("in-bits", "CorruptError", "VALUE", "read"),
    "in-bits-root": ("in-bits", "CorruptError", "TREE", "read"),
    "in-bits-list": ("in-bits", "CorruptError", "TREE", "read"),
    "in-bits-too-many": ("in-bits", "CorruptError", "TREE", "read"),
    "in-bits-rare": ("in-bits", "CorruptError", "TREE", "read"),
}
