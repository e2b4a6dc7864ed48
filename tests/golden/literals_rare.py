"""The records of the golden segment with rare optionals, and the errors of the damaged segments."""

NAMES = [f"k{i:02}" for i in range(20)]

# "id", then 20 optional fields: every third may be a missing key, the others None; "text" comes after some of them.
ROWS = [
    {
        key: value
        for key, value in (
            ("id", i),
            *((name, i + k if i % 7 == k % 7 and i % 3 == 0 else None) for k, name in enumerate(NAMES[:12])),
            ("text", "x" * (i % 4)),
            *((name, str(i) if i % 11 == k and i % 2 else None) for k, name in enumerate(NAMES[12:])),
        )
        if value is not None or NAMES.index(key) % 3
    }
    for i in range(60)
]

STORES = {"rare": ROWS}

# as in literals.DAMAGED
DAMAGED = {
    "rare-cut": ("rare", "CorruptError", "TRUNCATED", "read"),
    "rare-trailing": ("rare", "CorruptError", "TRAILING", "read"),
    "rare-in-tuple": ("rare", "CorruptError", "TREE", "read"),
    "rare-with-bits": ("rare", "CorruptError", "TREE", "read"),
    "rare-too-many": ("rare", "CorruptError", "TREE", "read"),
}
