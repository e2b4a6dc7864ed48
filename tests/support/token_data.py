"""Files of tokens as other libraries write them."""

import struct

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_megatron(stem, documents, dtype="uint16", **changed):
    """Writes `stem`.bin and `stem`.idx by the layout of Megatron-Core. `changed` replaces parts of the index."""
    size = np.dtype(dtype).itemsize
    lengths = np.array([len(document) for document in documents], np.int32)
    parts = {
        "magic": b"MMIDIDX\0\0",
        "version": struct.pack("<Q", 1),
        "code": bytes([CODES[dtype]]),
        "sequences": struct.pack("<Q", len(documents)),
        "documents": struct.pack("<Q", len(documents) + 1),
        "sizes": lengths.tobytes(),
        "pointers": ((np.cumsum(lengths, dtype=np.int64) - lengths) * size).tobytes(),
        "groups": np.arange(len(documents) + 1, dtype=np.int64).tobytes(),
    }
    with open(f"{stem}.bin", "wb") as file:
        for document in documents:
            file.write(np.asarray(document, dtype).tobytes())
    with open(f"{stem}.idx", "wb") as file:
        file.write(b"".join({**parts, **changed}.values()))
    return f"{stem}.bin"


def documents_of(n, seed=0, longest=40, low=1, high=60000):
    """Random documents, some of them empty, without the token 0."""
    rng = np.random.default_rng(seed)
    return [rng.integers(low, high, rng.integers(0, longest)).astype(np.uint16) for _ in range(n)]
