"""Records, and a file of them with saved indexes by six fields."""

import pytest

from recstore import RecordList

RECORDS = [
    {"id": f"Q{i}", "image": i // 3, "label": i * 7919 % 13, "meta": {"camera": i % 5, "a.b": i}, "box": [i, i]}
    for i in range(300)
]
FIELDS = ["id", "image", "label", "meta.camera", ("meta", "a.b"), ("box", 0)]


@pytest.fixture
def path(tmp_path):
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "x.recs", index_by=FIELDS, group_by=FIELDS)
    return tmp_path / "x.recs"
