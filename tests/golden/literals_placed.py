"""The records of the golden segments with placed nodes, and the errors of the damaged segments."""

WORDS = ["a.jpg", "b.jpg", "c.png", "d.png", "é.png", "f.png"]
N = 330


def gaps():
    """Numbers that rise with gaps, and once fall far."""
    number, out = 1 << 40, []
    for i in range(N):
        number += 1 + (i * 7919 % 13) ** 2 - (1 << 45 if i == 200 else 0)
        out.append(number)
    return out


ROWS = [
    {
        "id": 900 - 3 * i,
        "time": 1000 + 0.25 * i,
        "gaps": gap,
        "file": WORDS[i // 100],
        "word": WORDS[i // 60],
        "odd": "an odd one" if i in (0, 17, 255, 256, 329) else i % 8,
        "text": i if i % 100 == 63 else "x" * (i % 4),
        **({"seldom": 10 * i} if i % 3 else {}),
    }
    for i, gap in enumerate(gaps())
]
DIGITS = [f"{7 * i + 95:03}" for i in range(70)]

STORES = {"placed": ROWS, "placed-digits": DIGITS}

# as in literals.DAMAGED
DAMAGED = {
    "placed-none": ("placed", "CorruptError", "BLOCK", "read"),
    "placed-size": ("placed", "CorruptError", "BLOCK", "read"),
    "placed-beyond": ("placed", "CorruptError", "BLOCK", "read"),
    "placed-cut": ("placed", "CorruptError", "BLOCK", "read"),
    "placed-too-many": ("placed", "CorruptError", "BLOCK", "read"),
    "placed-reserved": ("placed", "CorruptError", "RESERVED", "read"),
    "placed-in-list": ("placed", "CorruptError", "TREE", "read"),
    "placed-in-runs": ("placed", "CorruptError", "TREE", "read"),
    "placed-in-table": ("placed", "CorruptError", "TREE", "read"),
    "placed-counts": ("placed", "CorruptError", "VALUE", "read"),
    "placed-starts": ("placed", "CorruptError", "VALUE", "read"),
    "placed-ends": ("placed", "CorruptError", "VALUE", "read"),
    "placed-trailing": ("placed", "CorruptError", "TRAILING", "read"),
    "placed-number": ("placed", "CorruptError", "VALUE", "read"),
    "placed-order": ("placed", "CorruptError", "BLOCK", "full"),
    "placed-first": ("placed", "CorruptError", "BLOCK", "full"),
    "placed-sum": ("placed", "CorruptError", "BLOCK", "full"),
}
