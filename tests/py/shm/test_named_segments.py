"""Labels of segments, the table of segments and caches, and the removal of unused files."""

import os

import pytest
import waiting

import recstore
from recstore.shm import named_segments, segment_list
from recstore.shm.named_segments import Label, Target


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "shared"))
    return tmp_path / "shared"


@pytest.mark.parametrize("kind", [recstore.RecordList, recstore.RecordDict])
def test_label(place, kind):
    content = {1: "a"} if kind is recstore.RecordDict else ["a"]
    with kind(content, name="of me") as x:
        (segment,) = x.segments
        label = Label.of(segment)
        assert (label.name, label.fingerprint, label.pid, label.keep) == ("of me", "", str(os.getpid()), "")
        segment.verify()
        # open() accepts a file with a label.
        x.save(place / "saved")
        with recstore.open(place / "saved", verify="full") as y:
            assert y == x
        with open(place / "saved", "rb") as f:
            whole = f.read()
    at = whole.index(b"of me")
    (place / "saved").write_bytes(whole[:at] + b"oF me" + whole[at + 5 :])
    with recstore.open(place / "saved") as y:
        assert len(y) == 1 and y.segments[0].label() is None
        pytest.raises(recstore.errors.CorruptError, lambda: y.segments[0].verify()).match("label")


class Labelled:
    def __init__(self, *packed):
        self.packed = packed

    def label(self):
        return self.packed


@pytest.mark.parametrize(
    "packed",
    [(1, b""), (1, b"\5abc"), (2, b"\1a\1b"), (1, b"\1a\1b\1c"), (1, b"\1\xff\1b"), (2**60, b""), (1, b"\xff" * 20)],
    ids=range(7),
)
def test_malformed_labels(packed):
    assert Label.of(Labelled(*packed)) is None


def test_packed():
    label = Label(name="名前", fingerprint="", keep="3.0")
    assert Label.of(Labelled(*label.pack())) == label


def test_segments_print_as_a_table(place):
    with recstore.RecordList(range(5), name="a") as a, recstore.RecordList([1.5] * 100, name="b"):
        table = recstore.names.list()
        lines = str(table).splitlines()
        assert lines[0].split() == "name kind fingerprint records bytes age builder attached state".split()
        assert lines[1].startswith("a ") and " 5 " in lines[1] and lines[1].endswith("in use") and len(lines) == 3
        assert repr(table) == str(table) and isinstance(table, list)
        info = table[0]
        assert (
            info.name, info.fingerprint, info.records, info.nbytes, info.path
        ) == ("a", "", 5, a.nbytes, a.segment.path)  # fmt: skip
        assert "records 5" in repr(info) and recstore.names.list("b")[0].records == 100
        assert recstore.names.list("c") == []
    assert recstore.names.list() == [] and os.listdir(place) == []


def test_caches_are_listed_and_removed(place):
    with recstore.RecordList(range(5), name="a"), recstore.cache("a", limit="1MB") as cache:
        cache.put("k", b"v" * 10_000)
        info, store = sorted(recstore.names.list("a"), key=lambda one: one.kind)
        assert (store.kind, store.records) == ("store", 5)
        assert (info.kind, info.name, info.fingerprint, info.records, info.state) == ("cache", "a", "", 1, "in use")
        assert info.nbytes == os.stat(info.path).st_blocks * 512 >= 10_000 and info.attached == 1
        assert info.keep is None and str(os.getpid()) in info.builder and repr(info).startswith("<cache 'a'")
        assert recstore.names.collect() == 0 and recstore.names.remove("a") == 2
        assert recstore.names.list() == [] and cache.get("k") == b"v" * 10_000
    with (
        recstore.cache("b", limit="1MB", keep=True, fingerprint="1"),
        recstore.cache("b", limit="1MB", fingerprint="2"),
    ):
        assert recstore.names.remove("b", "2") == 1
    (info,) = recstore.names.list()
    assert (info.fingerprint, info.state, info.attached, info.keep) == ("1", "kept", 0, "for ever")
    assert recstore.names.collect() == 0
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="a cache has this name"):
        recstore.shared("b")
    assert recstore.names.remove("b") == 1 and os.listdir(place) == []


@pytest.mark.parametrize(
    ("offset", "state", "removed"), [(0, "damaged", 1), (100, "damaged", 1), (8, "another version's", 0)]
)
def test_caches_that_cannot_be_read(place, offset, state, removed):
    with recstore.cache("a", limit="1MB", keep=True):
        pass
    (path,) = place.iterdir()
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff")
    (info,) = recstore.names.list()
    assert (info.kind, info.name, info.records, info.state) == ("cache", None, None, state)
    assert recstore.names.collect() == removed
    assert recstore.names.remove("a") == 1 if not removed else recstore.names.list() == []


def test_an_unused_cache_is_collected(place):
    code = "import os, recstore; c = recstore.cache('left', limit='1MB'); c.put(1, 2); os.kill(os.getpid(), 9)"
    waiting.python("-c", code, cwd="/")
    (info,) = recstore.names.list()
    assert (info.state, info.records, info.attached) == ("orphan", 1, 0)
    assert recstore.names.collect() == 1 and os.listdir(place) == []


def test_table_without_proc(place, monkeypatch):
    monkeypatch.setattr(segment_list, "_users", lambda: None)
    with recstore.RecordList([1], name="a"):
        (info,) = recstore.names.list()
        assert info.attached is None and "?" in str(recstore.names.list())


def test_foreign_files_stay(place):
    target = Target("x")
    foreign = [
        "notes", "recs1-", "recs1-short", named_segments.PREFIX + "x" * 30, target.file_name + ".lck.old",
        target.file_name + "-"
    ]  # fmt: skip
    for name in foreign:
        (place / name).write_text("mine")
    assert recstore.names.collect() == 0 and recstore.names.list() == []
    (place / (target.file_name + ".abc")).write_text("a temporary file of a killed process")
    (place / (target.file_name + ".lck")).write_text("a lock of a killed process")
    assert recstore.names.collect() == 2 and sorted(os.listdir(place)) == sorted(foreign)


def test_a_temporary_name_is_unused(monkeypatch, place):
    """Random letters may spell the suffix of the lock file or of a file that a killed process left."""
    target = Target("taken", dir=place)
    open(os.path.join(place, target.file_name + ".abc"), "x").close()
    suffixes = iter(["lck-----", "abc-----", "xyz-----"])
    monkeypatch.setattr(named_segments, "_spell", lambda digest: next(suffixes))
    assert target.temporary() == target.file_name + ".xyz"


def test_system_names_differ_by_user(monkeypatch):
    ours = named_segments.system_name("coco", "1")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert named_segments.system_name("coco", "1") != ours


def test_calls_in_a_folder_of_many_segments_search_it_now_and_then(place, monkeypatch):
    """n calls for n names open O(n) segments. Each call removes the unused files of its own name."""
    searched = []
    monkeypatch.setattr(named_segments, "collect", lambda *arguments: searched.append(arguments))
    monkeypatch.setattr(named_segments, "_due", {})
    monkeypatch.setattr(named_segments, "_SHORT", 1e9)
    for _ in range(3):
        named_segments.collect_first("a", "name")
    assert searched == [("a",)] * 3
    monkeypatch.setattr(named_segments, "_SHORT", -1.0)
    monkeypatch.setattr(named_segments, "_PAUSE", 1e9)
    for _ in range(3):
        named_segments.collect_first("b", "name")
        named_segments.collect_first("b")
    assert searched[3:] == [("b",)] + [("b", named_segments.stem("name"))] * 2


def test_a_call_removes_the_unused_file_of_its_name_at_once(place, monkeypatch):
    monkeypatch.setattr(named_segments, "_due", {str(place): float("inf")})
    target = Target("again", dir=place)
    for name in (target.file_name, Target("other", dir=place).file_name):
        (place / f"{name}.abc").write_bytes(b"left by a killed process")
    named_segments.collect_first(str(place), "again")
    assert os.listdir(place) == [Target("other", dir=place).file_name + ".abc"]
