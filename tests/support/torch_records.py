"""Records for tests of batches."""

import numpy as np
import pytest

from recstore import RecordList

N = 90
ORDER = [3, 88, 0, 41, 41, 7, -1, 60]


def record(i):
    """A record with fields of many kinds. `some`, `texts` and `lists` are missing if 3 divides `i`, else None if 5
    divides `i`."""
    out = {
        "id": i,
        "big": 2**40 + i,
        "score": i / 7,
        "flag": i % 3 == 0,
        "box": [i, i + 0.5, 2, 2.25],
        "grid": [[i, 1, 2], [3, 4, i]],
        "tokens": list(range(i % 11)),
        "polygons": [[float(k)] * (2 * k + 2) for k in range(i % 4)],
        "boxes": [[i, k, k + 1, 9] for k in range(i % 5)],
        "name": f"{i} é世.jpg"[: 3 + i % 6],
        "raw": bytes(range(i % 7)),
        "label": ("cat", "dog", "bird")[i * i % 3],
        "camera": {"id": i % 4, "pose": [0.5 * i, 1.0]},
        "array": np.arange(6, dtype=np.int16).reshape(2, 3) + i,
        "curve": np.linspace(0, 1, i % 6, dtype=np.float32),
        "big_endian": np.array([i, 2], ">i4"),
    }
    if i % 3:
        out["some"] = None if i % 5 == 0 else i
        out["texts"] = None if i % 5 == 0 else f"t{i}"
        out["lists"] = None if i % 5 == 0 else [i] * (i % 4)
    return out


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    """A store with schemas, then a store of self-describing values."""
    with RecordList(map(record, range(N)), compression=request.param) as x:
        yield x


def everything(x, **more):
    """A Fields with every form."""
    from recstore.torch import Field, Fields

    return Fields(
        x,
        "id",
        "box",
        "name",
        "raw",
        tokens="padded",
        polygons="jagged",
        boxes="ragged",
        nested=Field("padded", "polygons", pad=-1),
        packed=Field("packed", "tokens", length=16),
        whole=Field("packed", "tokens", length=16, split=False),
        label="category",
        some=Field(missing="mask"),
        texts=Field("text", default="?"),
        thing=Field("object", "camera"),
        **more,
    )
