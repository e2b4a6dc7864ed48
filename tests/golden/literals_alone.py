"""The records of the golden segments with unions of one child, and the errors of the damaged segments."""

ROWS = [
    {
        "few": i % 5,
        "none": i if i % 9 == 0 else None,
        **({"seldom": 1000 + i} if i % 7 == 0 else {}),
        "text": "x" * (i % 4),
    }
    for i in range(100)
]

STORES = {"alone": ROWS, "alone-plain": [[True, False], [], [True]]}

# as in literals.DAMAGED
DAMAGED = {
    "alone-none": ("alone", "CorruptError", "TREE", "read"),
    "alone-cut": ("alone", "CorruptError", "TRUNCATED", "read"),
    "alone-trailing": ("alone", "CorruptError", "TRAILING", "read"),
}
