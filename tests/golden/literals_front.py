"""The records of the golden segments with sections in a long header, and of one with a short header (version 3)."""

WORDS = [f"word {i * i % 97}" for i in range(300)]

STORES = {"front": WORDS, "front-some": WORDS[:70], "short": WORDS}

# as in literals.DAMAGED
DAMAGED = {
    "front-checksum": ("front", "CorruptError", "SECTION", "open"),
    "front-fields": ("front", "CorruptError", "SECTION", "open"),
    "front-twice": ("front", "CorruptError", "SECTION", "open"),
    "front-feature": ("front", "CorruptError", "SECTION", "open"),
    "short-bit": ("short", "CorruptError", "CHECKSUM", "open"),
    "short-size": ("short", "CorruptError", "VALUE", "open"),
    "front-bit": ("front-some", "CorruptError", "CHECKSUM", "open"),
}
