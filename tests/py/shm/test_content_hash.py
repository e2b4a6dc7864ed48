"""`fingerprint`: equal for equal content in any backing, different for other content; pickles of files; joblib."""

import datetime
import os
import pickle
import sys
import warnings

import launching
import numpy as np
import pytest
import waiting

import recstore
from recstore import RecordDict, RecordList
from recstore.shm import content_hash, handles, pins

RECORDS = [{"id": i, "image": i // 3, "name": f"n{i:03}", "box": [i, i + 0.5]} for i in range(1000)]


@pytest.fixture(scope="module")
def x():
    with RecordList(RECORDS) as store:
        yield store


@pytest.fixture
def saved(x, tmp_path):
    x.save(tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs") as store:
        yield store


def test_equal_content_has_the_same_fingerprint(x, saved, tmp_path):
    assert len(x.fingerprint) == 64 and int(x.fingerprint, 16)
    others = [
        RecordList(iter(RECORDS)),
        RecordList(RECORDS, backing="dir"),
        RecordList([RECORDS[:7], RECORDS[7:]], workers=2),
    ]
    x[:].save(tmp_path / "again.recs")
    others += [saved, recstore.open(tmp_path / "again.recs", copy=True)]
    assert {other.fingerprint for other in others} == {x.fingerprint}
    for other in others:
        other.close()


@pytest.mark.parametrize("one, other", [
    ([1, 2], [2, 1]), ([1, 2], [1, 2, 2]), ([1], [1.0]), ([1], [True]), (["1"], [1]), (["a", "bc"], ["ab", "c"]),
    ([[1], [2, 3]], [[1, 2], [3]]), ([{"a": 1}], [{"b": 1}]), ([{"a": None}], [{}]), ([()], [[]]),
    ([np.zeros(2000, "u1")], [np.ones(2000, "u1")]), ([np.zeros(2000, "u1")], [np.zeros(2000, "i1")]),
    ([datetime.date(2020, 1, 1)], [datetime.datetime(2020, 1, 1)])
], ids=str)  # fmt: skip
def test_different_content(one, other):
    with RecordList(one * 100) as a, RecordList(other * 100) as b:
        assert a.fingerprint != b.fingerprint


def test_each_record_counts(x):
    """A change of any record, in the first or the last block, changes the fingerprint."""
    records = [{"id": i, "name": f"n{i}"} for i in range(70_000)]
    seen = set()
    for changed in (None, 0, 1, 65_535, 65_536, 69_999):
        with RecordList({**r, "id": -1} if i == changed else r for i, r in enumerate(records)) as store:
            seen.add(store.fingerprint)
    assert len(seen) == 6


def test_views_of_the_same_sequence_have_the_same_fingerprint(x, saved):
    with RecordList(RECORDS) as y:
        for views in [
            [
                x, x[:], x[list(range(1000))], x[:400] + x[400:], y[:400] + x[400:], x[::-1][::-1],
                x.filter(lambda r: True)
            ],
            [
                x[10:20], x[list(range(10, 20))], x[5:][5:15], x[10:13] + y[13:20], saved[10:20],
                saved[np.arange(10, 20)]
            ], [x[::2], x.filter(lambda r: r["id"] % 2 == 0), y[:500:2] + y[500::2]],
            [x.shuffled(3), saved.shuffled(3), x[[r["id"] for r in x.shuffled(3)]]],
            [x[3:4], x[[3]], x[3::2000], y[3:4]], [x[:0], y[5:5], RecordList(), x.filter(lambda r: False)],
            [x.field("name"), saved.field("name"), x[:3].field("name") + x[3:].field("name")],
            [x.fields("id", "box"), saved.fields("id", "box")], [x.lazy()[2:], saved[2:].lazy()], [x * 2, x + y]
        ]:  # fmt: skip
            assert len({view.fingerprint for view in views}) == 1, views
        different = [
            x, x[1:], x[::-1], x.shuffled(3), x.shuffled(4), x[::2], x[1::2], x.field("id"), x.field("name"), x.lazy()
        ]  # fmt: skip
        different += [x.fields("id", "box"), x.fields("box", "id"), x + x, x * 3, x[:0], x.field("no", default=0)]
        different += [x.field("no", default=1), x[[0, 1, 3]], x[[0, 1, 4]]]
        assert len({view.fingerprint for view in different}) == len(different)


def test_mappings(x, saved, tmp_path):
    pairs = [(r["name"], r) for r in RECORDS]
    with RecordDict(pairs) as d, RecordDict(iter(pairs)) as e, RecordDict([("a", 1), ("b", 2), ("a", 3)]) as twice:
        d.save(tmp_path / "d.recs")
        opened = recstore.open(tmp_path / "d.recs")
        assert d.fingerprint == e.fingerprint == opened.fingerprint != x.fingerprint
        assert RecordList(d.values()).fingerprint == x.fingerprint  # a dict stores its values like a list
        assert d.select(["n001"]).fingerprint == opened.select(["n001"]).fingerprint != d.select(["n002"]).fingerprint
        assert d.field("id").fingerprint != d.fingerprint
        others = [RecordDict({"a": 3, "b": 2}), RecordDict({"b": 2, "a": 3})]
        assert len({other.fingerprint for other in (twice, *others)}) == 3
        opened.close()
    assert x.index_by("id").fingerprint == saved.index_by("id").fingerprint != x.index_by("name").fingerprint
    groups, with_default = x.group_by("image"), x.group_by("image", default_factory=list)
    assert groups.fingerprint == saved.group_by("image").fingerprint != with_default.fingerprint
    assert groups.fingerprint != x[1:].group_by("image").fingerprint


def test_the_name_and_the_id_do_not_count(x):
    with recstore.shared("content-hash", lambda: x, fingerprint=x.fingerprint) as shared:
        assert shared.fingerprint == x.fingerprint
    with RecordList(RECORDS, name="content-hash-test") as named:
        assert named.fingerprint == x.fingerprint and named.segment.id != x.segment.id


def test_closed_containers_have_no_fingerprint():
    store = RecordList([1, 2])
    part = store[:1]
    store.close()
    for container in (store, part):
        pytest.raises(recstore.errors.ClosedError, lambda: container.fingerprint)


def test_damage_in_the_tables(x, tmp_path):
    """A malformed block entry is an error, not a hash of bytes outside the heap."""
    x.save(tmp_path / "x.recs")
    data = bytearray((tmp_path / "x.recs").read_bytes())
    with recstore.open(tmp_path / "x.recs") as whole:
        sections = whole.info().sections
    at = -(-(128 + sections["heap"]) // 64) * 64
    for name in ("offsets", "groups"):
        at = -(-(at + sections[name]) // 64) * 64
    data[at + 24 : at + 32] = b"\xff" * 8  # heap_size of block 0
    (tmp_path / "bad.recs").write_bytes(data)
    with recstore.open(tmp_path / "bad.recs") as bad, pytest.raises(recstore.errors.CorruptError) as error:
        bad.fingerprint
    assert error.value.filename == str(tmp_path / "bad.recs")


# ---- Pickles of files ----


def views_of(x):
    return [x, x[3:50:2], x.shuffled(7), x.field("name"), x.lazy(), x.fields("id"), x[:3] + x[7:9]]


def test_a_pickle_of_a_file_names_no_process(saved):
    """The bytes are the same in every process. Pickling pins nothing and does not warn."""
    code = (
        "import pickle, sys, recstore, test_content_hash as t\n"
        f"x = recstore.open({saved.segment.path!r})\n"
        "print(*(pickle.dumps(view).hex() for view in t.views_of(x)))"
    )
    pins.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here = [pickle.dumps(view).hex() for view in views_of(saved)]
    assert not pins._pins
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), launching.PYTHONPATH])}
    done = waiting.python("-W", "error", "-c", code, check=True, env=env)
    assert done.stdout.split() == here
    for view, pickled in zip(views_of(saved), here):
        assert pickle.loads(bytes.fromhex(pickled)) == view


def test_a_pickle_of_a_view_with_an_index_array_needs_its_process(saved, monkeypatch):
    monkeypatch.delenv("RECSTORE_PICKLE", raising=False)
    monkeypatch.setattr(handles, "_warned", False)
    with pytest.warns(RuntimeWarning, match="writes a handle"):
        pickle.dumps(saved[[3, 1, 2]])
    assert pins._pins
    pins.clear()


def test_a_pickle_of_a_file_may_be_an_error(saved, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "error")
    pytest.raises(recstore.Error, lambda: pickle.dumps(saved)).match("writes a handle")


# ---- joblib ----

CACHING_PROGRAM = """
import sys, joblib, recstore
from recstore import RecordDict, RecordList

def total(x, skip=0):
    print("computed", len(x))
    return sum(r["id"] for r in x[skip:])

memory = joblib.Memory(sys.argv[1], verbose=0)
cached = memory.cache(total)
records = [{"id": i} for i in range(100)]
x, f = RecordList(records), recstore.open(sys.argv[2])
for view in (x, f, f[3:], f[[5, 6]], x.filter(lambda r: r["id"] % 2), f.group_by("id")[3]):
    cached(view)
"""


def test_joblib_memory_hits_in_the_next_process(tmp_path):
    pytest.importorskip("joblib")
    RecordList({"id": i} for i in range(100)).save(tmp_path / "x.recs")
    script = tmp_path / "cached.py"
    script.write_text(CACHING_PROGRAM)
    command = [sys.executable, "-W", "error", str(script), str(tmp_path / "cache"), str(tmp_path / "x.recs")]
    first, second = (waiting.run(command) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.count("computed") == 6 and second.stdout == ""


def test_joblib_tells_contents_apart(x, saved):
    joblib = pytest.importorskip("joblib")
    pins.clear()
    with warnings.catch_warnings(), RecordList(RECORDS) as again, RecordDict({"a": 1}) as d, RecordDict({"a": 2}) as e:
        warnings.simplefilter("error")
        assert joblib.hash({"data": [x]}) == joblib.hash({"data": [again]})
        views = [x, x[1:], x[[1, 2]], x.field("id"), saved, saved[1:], saved[[1, 2]], d, e, d.keys(), d.values()]
        assert len({joblib.hash(view) for view in views}) == len(views)
        with recstore.open(saved.segment.path, allow_pickle=True) as other:
            assert joblib.hash(other) != joblib.hash(saved)  # allow_pickle may change the values
    assert not pins._pins


def test_joblib_does_not_read_a_file_to_hash_it(saved, monkeypatch):
    joblib = pytest.importorskip("joblib")
    monkeypatch.setattr(content_hash.native, "hash_store", None)
    assert joblib.hash(saved) == joblib.hash(saved[:]) != joblib.hash(saved[1:])
