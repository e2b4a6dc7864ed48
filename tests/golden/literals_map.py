"""The records of the golden segments with maps, and the errors of the damaged segments."""

WORDS = ["red", "green", "blue", "grey"]
# Keys: text, entries of a table, ints. Values: of a fixed size, of varying sizes, and maps again.
ROWS = [
    {
        "seen": {f"id{i * k % 17}": k * 5 for k in range(1, i % 6)},
        "words": {WORDS[(i + k) % 4]: "x" * (k + i % 3) for k in range(i % 5)},
        "deep": {i + k: {WORDS[k]: k % 2 == 0} for k in range(i % 3)},
    }
    for i in range(100)
]

STORES = {"map": ROWS, "map-plain": [{}, {None: 1.5, "a": 2}, {b"b": [3], -7: None}]}

# as in literals.DAMAGED
DAMAGED = {
    "map-cut": ("map", "CorruptError", "TRUNCATED", "read"),
    "map-many": ("map", "CorruptError", "LIMIT", "read"),
    "map-one-child": ("map", "CorruptError", "TREE", "read"),
    "map-trailing": ("map", "CorruptError", "TRAILING", "read"),
}
