"""The records of the golden segment of texts of an alphabet, and the errors of the damaged segments."""

ROWS = [
    {
        "uuid": f"0f{i:06x}-{i * 7:04x}-4abc-8def-0123456789ab",
        "dna": "GATTACA"[i % 7 :] * (i % 4),
        "digest": ("TWFu" * (i % 5)) + ("", "TQ==", "TWE=")[i % 3],
        "name": f"v{i}-{i * 2654435761 % 2**32:08X}-{'abcdefgh'[i % 8]}",
        "token": "-_8A" * (i % 9) + ("", "-w", "_-8")[i % 3],
    }
    for i in range(40)
]

STORES = {"alphabet": ROWS}

# as in literals.DAMAGED
DAMAGED = {
    "alphabet-cut": ("alphabet", "CorruptError", "TRUNCATED", "read"),
    "alphabet-three": ("alphabet", "CorruptError", "TREE", "read"),
    "alphabet-long": ("alphabet", "CorruptError", "LIMIT", "read"),
}
