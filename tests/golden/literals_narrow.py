"""The records of the golden segments with narrow arrays, and the errors of the damaged segments."""

import numpy as np


def tokens(n, dtype, i):
    return (np.arange(n, dtype=np.int64) * 7919 * (i + 1) % 50_000).astype(dtype)


ROWS = [
    {
        "ids": tokens(3 + 11 * i, np.int32, i),
        "labels": np.where(np.arange(5 + i) % 3 == 0, -100, tokens(5 + i, np.int64, i)),
        "mask": np.ones(6 + i, np.int64),
        "large": tokens(700 + i, np.uint32, i),
        "pair": np.asfortranarray(tokens(6, np.int16, i).reshape(2, 3) % 100),
        "fixed": tokens(4, np.uint64, i) + np.uint64(2**63),
    }
    for i in range(12)
]
ANY = [tokens(9, np.int16, 0) % 50 - 25, [tokens(600, np.int64, 1)], {"none": np.zeros((0, 3), np.int32)}]

STORES = {"narrow": ROWS, "narrow-any": ANY}

# as in literals.DAMAGED
DAMAGED = {
    "narrow-cut": ("narrow", "CorruptError", "TRUNCATED", "read"),
    "narrow-outside": ("narrow", "CorruptError", "VALUE", "read"),
    "narrow-float": ("narrow", "CorruptError", "VALUE", "read"),
    "narrow-width": ("narrow", "CorruptError", "VALUE", "read"),
}
