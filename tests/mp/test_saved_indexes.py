"""Saved indexes in workers: the results of index_by and group_by have small handles, and a worker builds nothing."""

import os
import pickle

import pytest
from mp.workers import look_up

import recstore
from recstore import RecordList

RECORDS = [{"id": f"Q{i}", "image": i // 3, "label": i * 7919 % 13} for i in range(300)]


@pytest.fixture(params=["file", "named", "anonymous"])
def x(request, tmp_path):
    fields = {"index_by": ["id", "label"], "group_by": ["image", "label"]}
    if request.param == "file":
        with RecordList(RECORDS) as whole:
            whole.save(tmp_path / "x.recs", **fields)
        with recstore.open(tmp_path / "x.recs") as store:
            yield store
    else:
        with RecordList(
            RECORDS, name=f"mp-saved-index-{os.getpid()}" if request.param == "named" else None, **fields
        ) as store:
            yield store


def test_workers_build_nothing(x, context, monkeypatch, tmp_path):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    cases = [
        (x.index_by("id"), "Q42", RECORDS[42]),
        (x.index_by("label"), 3, [r for r in RECORDS if r["label"] == 3][-1]),
        (x.group_by("image"), 4, RECORDS[12:15]),
        (x.group_by("label").field("id"), 3, [r["id"] for r in RECORDS if r["label"] == 3]),
        (x.lazy().group_by("label", default_factory=list), "none", []),
        (x, None, None),
    ]
    # The handle of a file includes its path.
    path_length = max(len(str(tmp_path)), len(os.environ.get("RECSTORE_DIR", "")))
    assert all(len(pickle.dumps(index)) <= 300 + path_length for index, _, _ in cases)
    worker = context.Process(target=look_up, args=(cases,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
