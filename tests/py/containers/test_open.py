"""save and open: a file is replaced as a whole or not at all, and damaged files are errors."""

import datetime
import io
import os
import pathlib
import struct

import descriptors
import launching
import numpy as np
import pytest
import waiting
from ref import reader
from ref import writer as w

import recstore
from recstore import RecordList
from recstore.errors import CorruptError, VersionError

RECORDS = [{"id": i, "name": "n" * (i % 9), "box": [0.5 * i, 1.0]} for i in range(300)] + [None, "x", np.arange(2000.0)]


def equal(a, b):
    return len(a) == len(b) and all(np.array_equal(p, q) if isinstance(q, np.ndarray) else p == q for p, q in zip(a, b))


@pytest.fixture
def path(tmp_path):
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "x.rec")
    return tmp_path / "x.rec"


@pytest.mark.parametrize("verify", ["header", "full"])
@pytest.mark.parametrize("copy", [False, True])
def test_round_trip(path, verify, copy):
    with recstore.open(path, verify=verify, copy=copy) as x:
        assert equal(x, RECORDS)
        assert x.info().backing == ("anonymous" if copy else "file")


def test_paths(path, monkeypatch):
    link = path.with_name("link")
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    for i, kind in enumerate((str, os.fsencode, lambda p: p, lambda p: p.name, lambda p: link)):
        with recstore.open(kind(path)) as x:
            assert equal(x, RECORDS)
            assert x.info().name == os.fsdecode(kind(path)) or i > 2
            x.save(kind(path.with_name(f"{i}.rec")) if i < 4 else os.fsencode(path.parent) + b"/\xff.rec")
    with recstore.open(os.fsencode(path.parent) + b"/\xff.rec") as x:  # a name that is not text
        assert equal(x, RECORDS)
    saved = [f"{i}.rec".encode() for i in range(4)] + [b"\xff.rec"]
    assert all((path.parent / os.fsdecode(name)).read_bytes() == path.read_bytes() for name in saved)
    assert sorted(os.listdir(os.fsencode(path.parent))) == sorted([*saved, b"link", b"x.rec"])
    with RecordList([1]) as x:
        pytest.raises(ValueError, lambda: x.save(f"{path.parent}/a\0b")).match("NUL|null")
    pytest.raises(ValueError, lambda: recstore.open(f"{path.parent}/a\0b")).match("NUL|null")


def test_a_file_has_the_bytes_of_its_store(tmp_path):
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "a")
        x[:].save(tmp_path / "b")
        data = (tmp_path / "a").read_bytes()
        assert len(data) == x.nbytes and data == (tmp_path / "b").read_bytes()
    assert equal(reader.check(data), RECORDS)


def test_a_view_is_saved_compact(path):
    with recstore.open(path) as x:
        x[290:10:-7].save(path.with_name("view"))
        x[:0].save(path.with_name("empty"))
    with recstore.open(path.with_name("view"), verify="full") as x:
        assert equal(x, RECORDS[290:10:-7])
        assert x.nbytes < path.stat().st_size / 2
    with recstore.open(path.with_name("empty"), verify="full") as x:
        assert x.to_list() == []


# ---- saving fails ----------------------------------------------------------------------------------------------------


def test_an_existing_file_is_replaced_for_new_readers_only(path):
    old = recstore.open(path)
    RecordList(["new"]).save(path)
    assert equal(old, RECORDS)
    with recstore.open(path) as x:
        assert x.to_list() == ["new"]
    assert [p.name for p in path.parent.iterdir()] == ["x.rec"]


def test_a_folder_that_cannot_be_written(path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    before = path.read_bytes()
    path.parent.chmod(0o500)
    try:
        with RecordList([1]) as x, pytest.raises(PermissionError):
            x.save(path)
    finally:
        path.parent.chmod(0o700)
    assert path.read_bytes() == before


@pytest.mark.parametrize("named", ["by folder", "alone"])
def test_a_save_removes_the_files_of_killed_saves(tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    names = [f".recstore-{n:016x}.tmp" for n in range(4)]
    old, young, link, folder = (tmp_path / name for name in names)
    others = [
        tmp_path / name
        for name in (".recstore-short.tmp", "recstore-0000000000000000.tmp", ".recstore-0000000000000000.rec")
    ]
    for file in (old, young, *others):
        file.write_bytes(b"left over")
    link.symlink_to(tmp_path / "nowhere")
    folder.mkdir()
    for entry in (old, link, folder, *others):
        os.utime(entry, (1, 1), follow_symlinks=False)
    RecordList([1]).save("x.rec" if named == "alone" else tmp_path / "x.rec")
    assert not old.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["x.rec", *names[1:], *(p.name for p in others)])


# ---- errors of open --------------------------------------------------------------------------------------------------


def test_arguments(path):
    pytest.raises(ValueError, lambda: recstore.open(path, verify="deep")).match('verify is "header" or "full"')
    pytest.raises(TypeError, lambda: recstore.open(5))


def test_not_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for other in (tmp_path / "fifo", "/dev/null"):
        pytest.raises(PermissionError, lambda: recstore.open(other)).match("not a regular file")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: recstore.open(tmp_path)).match("no set of shards")


def test_truncated(path):
    """tests/c/test_header.c has every bit and every field of the header, and tests/prop cuts a file anywhere."""
    data = path.read_bytes()
    for size in (0, 1, 127, 128, 4096, len(data) - 1):
        path.write_bytes(data[:size])
        pytest.raises(CorruptError, lambda: recstore.open(path)).match("TRUNCATED")


@pytest.mark.parametrize("data", [b"a", b'{"id": 1}\n', b"RECS", b"\x1f\x8b" + bytes(8000)])
def test_another_file_of_any_size(path, data):
    """The message has the advice for a file of another format, even if the file is shorter than a header."""
    path.write_bytes(data)
    pytest.raises(CorruptError, lambda: recstore.open(path)).match("MAGIC.*recstore.read_jsonl, read_csv and others")


def test_bytes_beyond_the_end_are_ignored(path):
    data = path.read_bytes()
    path.write_bytes(data + b"more")
    with recstore.open(path, verify="full") as x:
        assert equal(x, RECORDS)
        x.save(path.with_name("again"))
    assert path.with_name("again").read_bytes() == data


def test_later_versions(path):
    """A reader accepts a higher version with its reader_version, and unknown optional features."""
    data = bytearray(path.read_bytes())
    data[8:10], data[24:32], data[120:124] = b"\7\0", b"\xff" * 8, b"what"
    path.write_bytes(w.reseal(data))
    with recstore.open(path, verify="full") as x:
        assert equal(x, RECORDS)
    data[10] = 2
    path.write_bytes(w.reseal(data))
    pytest.raises(VersionError, lambda: recstore.open(path)).match("RS_E_FMT_VERSION")


@pytest.mark.parametrize("compression, section", [("none", "heap"), ("auto", "table")])
def test_a_flipped_bit_of_the_first_section(path, compression, section):
    with RecordList(RECORDS, compression=compression) as x:
        x.save(path)
    data = bytearray(path.read_bytes())
    data[128 + 40] ^= 0x10
    path.write_bytes(data)
    pytest.raises(CorruptError, lambda: recstore.open(path, verify="full")).match(f"checksum of the {section}")
    with recstore.open(path) as x:  # reading checks the structure, not checksums
        for i in range(len(x)):
            try:
                x[i]
            except (CorruptError, VersionError) as e:
                assert str(e).startswith(f"record {i}: ")


def test_limits(path):
    pytest.raises(CorruptError, lambda: recstore.open(path, limits=(2, 1 << 30))).match("LIMIT")
    pytest.raises(CorruptError, lambda: recstore.open(path, limits=(1 << 20, 20), copy=True)).match("LIMIT")
    with recstore.open(path, limits=(1 << 20, 1 << 20), verify="full") as x:
        assert len(x) == 303
    data = bytearray(path.read_bytes())
    data[88:104] = struct.pack("<QQ", 1 << 40, 1 << 40)
    path.write_bytes(w.reseal(data))
    with recstore.open(path, limits=(1 << 41, 1 << 41)) as x:
        assert equal(x, RECORDS)


@pytest.mark.parametrize("tail", [2 << 30, 1 << 40])
def test_a_copy_has_only_the_segment_and_not_the_bytes_behind_it(path, tail):
    size = path.stat().st_size
    os.truncate(path, size + tail)
    with recstore.open(path, copy=True, verify="full") as x:
        assert os.fstat(x.segment.fileno()).st_size == x.nbytes == size
        assert equal(x, RECORDS)


def test_a_refused_file_leaves_nothing_open(path):
    data = path.read_bytes()
    path.write_bytes(data[:5000])
    before = descriptors.count() if os.path.isdir("/proc/self/fd") else 0
    for options in ({}, {"copy": True}, {"verify": "full"}, {"limits": (1, 1)}) * 5:
        pytest.raises(CorruptError, lambda: recstore.open(path, **options))
    path.write_bytes(data[:4200] + b"\xff" + data[4201:])
    for options in ({"verify": "full"}, {"verify": "full", "copy": True}) * 5:
        pytest.raises(CorruptError, lambda: recstore.open(path, **options))
    for limits in ((), (1,), (1, 2, 3), (-1, 5), (2**64, 0), ("a", "b")):
        pytest.raises(ValueError, lambda: recstore.open(path, limits=limits)).match("limits")
    if before:
        assert descriptors.count() == before


def test_a_copy_survives_its_file(path):
    with recstore.open(path, copy=True) as x:
        path.write_bytes(b"")
        assert equal(x, RECORDS)


def test_a_check_and_reads_do_not_share_objects(tmp_path):
    """The check makes placeholders instead of objects of classes. Reads must never see the placeholders."""
    path = tmp_path / "x.rec"
    values = [
        {"z": complex(i, 1), "at": [datetime.date(2000, 1, 1 + i % 20)], "where": pathlib.PurePosixPath("a")}
        for i in range(100)
    ]
    RecordList(values, on_unsupported="pickle").save(path)
    with recstore.open(path) as x:
        assert x[0] == values[0]
        x.segment.verify()
        assert x[1] == values[1]
    with recstore.open(path, verify="full") as x:
        assert list(x) == values
        x.segment.verify()
        assert list(x) == values


def test_a_full_check_finds_equal_keys(tmp_path):
    path = tmp_path / "x.rec"
    twice = w.Coded(b"\x0f\x02\x91\x91\x91\x91", None)
    path.write_bytes(w.simple(w.any_(), [twice]))
    pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(path, verify="full")).match("repeated")


def test_a_save_to_a_long_name_honours_the_umask_and_leaves_no_other_file(tmp_path):
    path = tmp_path / ("n" * 250)
    old = os.umask(0o027)
    try:
        with RecordList([{"id": i} for i in range(1000)]) as x:
            x[::2].save(path)
            x.save(tmp_path / "x")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert [r["id"] for r in recstore.open(path)] == list(range(0, 1000, 2))
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, "x"])


SAVE = """
import os, signal, sys
from recstore import RecordDict, RecordList
from recstore._core import native
signal.signal(signal.SIGINT, signal.default_int_handler)
x = [RecordList(range(10)), RecordList(range(10))[2:], RecordDict({1: 2}), RecordDict({1: 2, 3: 4}).select([3])][int(sys.argv[2])]
def interrupted(*args):
    signal.raise_signal(signal.SIGINT)  # as if it came during the write, in C
native.publish_file = interrupted
try:
    x.save(os.path.join(sys.argv[1], "x"))
except KeyboardInterrupt:
    print(os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", range(4))
def test_a_save_interrupted_before_its_rename_leaves_nothing(tmp_path, kind):
    done = waiting.python("-c", SAVE, str(tmp_path), str(kind), check=True)
    assert done.stdout.strip() == "[]"


def test_a_child_opens_a_store_although_another_thread_did_so_at_the_fork(tmp_path):
    """The process has never pickled a store, so its children do not renew the lock of pins."""
    with RecordList([1, 2]) as x:
        x.save(tmp_path / "x")
    code = f"""
import os, threading, recstore
from recstore.shm import pins
opened, over = threading.Event(), threading.Event()
class Slow(dict):
    def items(self):
        opened.set()
        over.wait(60)
        return super().items()
pins._pins = Slow()  # nothing is pinned
def opens():
    recstore.open({str(tmp_path / "x")!r})
    opened.set()
threading.Thread(target=opens).start()
opened.wait()
pid = os.fork()
if pid == 0:
    recstore.open({str(tmp_path / "x")!r})
    os._exit(0)
kill_timer = threading.Timer(30, os.kill, (pid, 9))
kill_timer.start()
status = os.waitpid(pid, 0)[1]
kill_timer.cancel()
over.set()
raise SystemExit(status != 0)
"""
    assert waiting.python(launching.SAFE_PATH, "-W", "ignore", "-c", code).returncode == 0


@pytest.mark.parametrize("path", ["", ".", "./", "new/", "../here/"])
def test_saving_to_a_folder_is_an_error(tmp_path, monkeypatch, path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    error = IsADirectoryError if path not in ("", "new/") else FileNotFoundError
    for store in (recstore.RecordList([1]), recstore.RecordDict({1: 2}), recstore.RecordList([1, 2])[:1]):
        raised = pytest.raises(error, lambda: store.save(path))
        assert "rename" not in str(raised.value)
    with pytest.raises(error):
        recstore.sources.lines(io.BytesIO(b"a\n")).save(path)
    assert not any((tmp_path / "here").iterdir())
