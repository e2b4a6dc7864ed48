"""The operands of the leak check: small records of many kinds of values, and two classes."""

import dataclasses

from recstore import RecordDict, RecordList

RECORDS = [{"id": i, "text": "é€"[i % 2] * (i % 5), "box": [i / 3] * (i % 4), "big": None if i % 3 else 2**70, "label": "ab"[i % 2],
            "pair": (True, -i)} for i in range(150)]  # fmt: skip


@dataclasses.dataclass
class Plain:
    a: int = 0
    samples: object = None
    array: object = None


@dataclasses.dataclass
class Registered:
    a: int = 0


def made():
    return RecordList(RECORDS)


def mapping():
    return RecordDict({f"k{i}": RECORDS[i] for i in range(40)})
