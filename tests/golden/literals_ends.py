"""The records of the golden segments whose offset groups hold distances from a line."""

TEXTS = [("ab" * (i * i % 23))[: i * 7 % 31] for i in range(200)]
FEW = ["", "a", "bb", "a long one among short ones"]

STORES = {"ends": TEXTS, "ends-few": FEW}

# as in literals.DAMAGED
DAMAGED = {
    "ends-bits": ("ends", "CorruptError", "BLOCK", "read"),
    "ends-no-bits": ("ends", "CorruptError", "BLOCK", "read"),
    "ends-base": ("ends", "CorruptError", "OFFSET", "read"),
}
