"""The records of the golden segments with sections in the header."""

WORDS = [f"word {i * i % 97}" for i in range(300)]

STORES = {"front": WORDS, "front-some": WORDS[:70]}

# as in literals.DAMAGED
DAMAGED = {
    "front-checksum": ("front", "CorruptError", "SECTION", "open"),
    "front-fields": ("front", "CorruptError", "SECTION", "open"),
    "front-twice": ("front", "CorruptError", "SECTION", "open"),
    "front-feature": ("front", "CorruptError", "SECTION", "open"),
    "front-bit": ("front-some", "CorruptError", "CHECKSUM", "open"),
}
