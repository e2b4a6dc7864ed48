"""The records of the golden segments with packed nodes, tables and texts, and the errors of the damaged segments."""

NUMBERS = [
    {"price": 0.3, "odd": 0.1 + 0.2, "ids": [100, 101, 100], "ys": (0.5, 1.2), "all": [-(2**63), 2**63 - 1]},
    {"price": -12.34, "odd": 0.4, "ids": [], "ys": (), "all": [0, 1]},
    {"price": 99.99, "odd": -0.5, "ids": list(range(0, 4000, 13)), "ys": tuple(i / 10 for i in range(20)), "all": [7, -7]},
]  # fmt: skip
TEXTS = ["a-xx03.png", "a-€€00.png", "a-01.png", "a-\U0001f600\U0001f60099.png"]
HASHES = [("007", "00ff7f", "ABC"), ("18446744073709551615", "123456", "000"), ("42", "abcdef", "FFF")]
OPTIONALS = [
    {"a": 5, "b": True, "c": "rest"},
    {"b": None, "c": ""},
    {"a": -2, "b": False, "c": "é"},
    {"b": True, "c": "x" * 40},
]
WORDS = ["usr", "bin", "", "größe"]
PATHS = ["usr/bin", "bin/usr", "größe/"]
TABLES = [
    {"path": PATHS[i % 3], "word": (WORDS + PATHS)[i % 7], "text": t}
    for i, t in enumerate(["the cat", "cat", "", "a!the "] * 20)
]
MAPPING = {word: {"path": PATHS[i % 3]} for i, word in enumerate(WORDS)}
# The table has the halves of the first pair as symbols of their own; the last text is longer than a short one.
PAIRS = [
    {"narrow": "chat €", "text": t}
    for t in ("", "chat 😀", "😂!", "€ chat", "é🎉😀😂!\U0010ffff", "\ud7ff\ue000😀", "chat 😀🎉" * 99)
]

# name: records
STORES = {
    "packed-numbers": NUMBERS,
    "packed-texts": TEXTS,
    "packed-digits": HASHES,
    "packed-optionals": OPTIONALS,
    "tables": TABLES,
    "packed-pairs": PAIRS,
}

# as in literals.DAMAGED, with the most similar store
DAMAGED = {
    "decimal-scale": ("packed-numbers", "CorruptError", "TREE", "read"),
    "numbers-width": ("packed-numbers", "CorruptError", "VALUE", "read"),
    "numbers-cut": ("packed-numbers", "CorruptError", "TRUNCATED", "read"),
    "rest-odd": ("packed-texts", "CorruptError", "VALUE", "read"),
    "same-later": ("packed-texts", "CorruptError", "TREE", "read"),
    "optional-key": ("packed-optionals", "CorruptError", "TREE", "read"),
    "later-node": ("packed-optionals", "VersionError", "VERSION", "read"),
    "table-kind": ("tables", "VersionError", "VERSION", "read"),
    "table-arrays": ("tables", "CorruptError", "BLOCK", "read"),
    "table-own": ("tables", "CorruptError", "TREE", "read"),
    "dict-count": ("tables", "CorruptError", "TREE", "read"),
    "dict-number": ("tables", "CorruptError", "VALUE", "read"),
    "entry-trailing": ("tables", "CorruptError", "TRAILING", "read"),
    "entry-offset": ("tables", "CorruptError", "OFFSET", "read"),
    "entry-unread": ("tables", "CorruptError", "TRUNCATED", "full"),
    "piece-bytes": ("tables", "CorruptError", "VALUE", "read"),
    "pieces": ("tables", "CorruptError", "LIMIT", "read"),
    "symbols-pool": ("tables", "CorruptError", "VALUE", "read"),
    "symbols-code": ("tables", "CorruptError", "VALUE", "read"),
    "pairs-half": ("packed-pairs", "CorruptError", "VALUE", "read"),
    "table-heap-bit": ("tables", "CorruptError", "CHECKSUM", "full"),
}
