"""recstore.remote.places.choose_storage with folders, an S3 server and fsspec. test_remote_obstore.py tests failures of the
server."""

import errno
import io
import os
import pathlib
import pickle
import random
import re
import stat
import threading

import pytest
import waiting
from full_disk import FullDisk
from waiting import in_child, together

import recstore
from recstore.building import saving
from recstore.remote.places import choose_storage
from recstore.remote.places.choose_storage import storage_of

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["folder", "s3", "memory"])
def place(request, tmp_path):
    """Each kind of place for objects."""
    if request.param == "folder":
        return storage_of(tmp_path / "set")
    if request.param == "memory":
        return storage_of(f"memory://{abs(hash(request.node.nodeid))}/set")
    request.getfixturevalue("server")
    return request.getfixturevalue("bucket")


# ---- Operations in each place ----


@pytest.mark.parametrize("forked", [False, True])
def test_an_object_is_read_up_to_a_limit(place, forked):
    """A huge file in the place of a manifest does not fill the memory."""
    place.write("a", b"x" * 300_000)

    def work():
        assert len(place.read("a", limit=300_000)) == 300_000
        with pytest.raises(recstore.errors.CorruptError, match="more than 299,999 bytes") as caught:
            place.read("a", limit=299_999)
        return caught.value.filename, place.size("a")

    assert (in_child(work) if forked and "memory" not in place.url else work()) == (place.of("a"), 300_000)


def test_an_empty_place(place):
    assert list(place.list()) == [] and list(place.leftovers()) == [] and place.size("a") is None
    place.delete(["a"])
    place.delete([])
    for read in (place.read, lambda name: place.read_into(name, io.BytesIO())):
        caught = pytest.raises(recstore.errors.SegmentNotFoundError, lambda: read("a"))
        assert caught.value.filename == place.of("a")


def test_objects_are_written_and_read(place, tmp_path):
    path = tmp_path / "local"
    path.write_bytes(b"R" + os.urandom(2_999_999))
    place.write("a", b"one")
    place.write("b.recs", path)
    place.write("empty", b"")
    place.write("seen", memoryview(b"seen"))
    assert place.read("a") == b"one" and place.read("empty") == b"" and place.read("seen") == b"seen"
    copy = tmp_path / "copy"
    with open(copy, "wb") as file:
        assert place.read_into("b.recs", file) == 3_000_000
    assert copy.read_bytes() == path.read_bytes()
    assert place.size("b.recs") == 3_000_000 and place.size("empty") == 0
    sizes = {name: size for name, size, *_ in place.list()}
    assert sizes == {"a": 3, "b.recs": 3_000_000, "empty": 0, "seen": 4}
    place.write("a", b"another")
    assert place.read("a") == b"another"
    place.delete(["a", "never", "empty"])
    assert sorted(name for name, *_ in place.list()) == ["b.recs", "seen"]
    assert path.exists()


def test_only_one_of_several_creates_succeeds(place):
    n = 1 if place.url.startswith("memory") else 6
    created, barrier = [], threading.Barrier(n)

    def create(i):
        barrier.wait()
        created.append(place.create("m", b"%d" % i))

    together([threading.Thread(target=create, args=(i,)) for i in range(n)])
    assert sorted(created) == [False] * (n - 1) + [True]
    content = place.read("m")
    assert place.create("m", b"another") is False and place.read("m") == content
    assert list(place.leftovers()) == []


def test_a_listing_by_prefix(place):
    for name in ("0" * 40 + ".recs", "f" * 40 + ".recs", "manifest-1.json", "manifest-22.json", "z"):
        place.write(name, b"x")
    assert sorted(name for name, *_ in place.list("manifest-")) == ["manifest-1.json", "manifest-22.json"]
    assert all(size == 1 and modified > 1e9 for _, size, modified, _ in place.list())


def test_a_place_can_be_pickled(place):
    place.write("a", b"one")
    again = pickle.loads(pickle.dumps(place))
    assert again.url == place.url and again.read("a") == b"one" and again.local == place.local


def test_invalid_object_names(place):
    for name in ("", ".", "..", "../x", "a/b", ".hidden", "a b", "x" * 201, "\u00fc", "a\n"):
        for use in (
            place.read, place.size, place.of, lambda name: place.write(name, b""), lambda name: place.delete([name])
        ):  # fmt: skip
            pytest.raises(ValueError, use, name).match("is not a valid object name")


# ---- URLs ----


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://key:secret@bucket/x", "has credentials"),
        ("s3://key@bucket/x", "has credentials"),
        ("sftp://me:secret@host/x", "has credentials"),
        ("https://host/x?sig=secret", "has parameters"),
        ("s3://bucket/x#secret", "has parameters"),
        ("s3://", "is not the URL of a set"),
        ("s3:///x", "is not the URL of a set"),
        ("s3://bucket/../x", "is not the URL of a set"),
        ("file://host/x", "names another machine"),
    ],
)
def test_refused_urls(url, message):
    with pytest.raises(ValueError, match=message) as caught:
        storage_of(url)
    assert "secret" not in str(caught.value)


def test_urls():
    assert storage_of("s3://bucket/a/b//").url == "s3://bucket/a/b" and not storage_of("s3://bucket").local
    assert storage_of("abfss://container@account.dfs.core.windows.net/x").url.endswith("/x")
    assert storage_of("file:///a%20b/").url == "/a b" and storage_of("file:///a").local
    assert storage_of(b"data/x/").url == storage_of(pathlib.Path("data/x")).url == os.path.abspath("data/x")
    place = storage_of("s3://bucket/x")
    assert storage_of(place) is place
    assert [choose_storage.is_url(text) for text in ("s3://b", "a/b", "C:\\x", "://x")] == [True, False, False, False]
    pytest.raises(TypeError, lambda: storage_of(5)).match("not an int")
    pytest.raises(TypeError, lambda: storage_of("s3://b/x", "region")).match("options must be a dict")
    pytest.raises(ValueError, lambda: storage_of("/x", {"region": "a"})).match("options are for object stores")
    pytest.raises(ValueError, lambda: storage_of("nonesuch://b/x").read("a")).match("fsspec cannot open it")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3:/bucket/x", "write 's3://bucket/x' as text"), ("file:/x", "write 'file:///x' as text"),
        ("s3:bucket/x", "write 's3://bucket/x' as text"), ("s3//bucket/x", "write 's3://bucket/x' as text"),
        ("C:\\x", "path of Windows"), ("c:/x", "path of Windows"), (r"\\host\x", "path of Windows"),
        ("~nobody-here/x", "write the whole path"),
    ],
)  # fmt: skip
def test_a_folder_is_never_named_by_accident(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (
        recstore.open, recstore.remote.ShardWriter, recstore.remote.gc, storage_of,
        lambda text: recstore.open("memory://x/y", cache=text),
        lambda text: recstore.remote.ShardWriter("memory://x/y", dir=text), lambda text: recstore.names.list(dir=text),
        lambda text: recstore.RecordList([1]).save(text),
    ):  # fmt: skip
        pytest.raises(ValueError, lambda: use(text)).match(re.escape(message))
    pytest.raises(ValueError, lambda: recstore.open("memory://x/y", cache="s3://b/x")).match("needs a local path")
    assert os.listdir(tmp_path) == []
    recstore.remote.ShardWriter(f"./{text}").write([1])
    assert os.listdir(tmp_path) != []


def test_a_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    writer = recstore.remote.ShardWriter("~/set", dir="~/temporary")
    writer.commit(writer.write([1, 2]))
    assert writer.url == f"{tmp_path}/set" and recstore.open("~/set").to_list() == recstore.open("~/set@1").to_list()
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="no set of shards"):
        recstore.open("memory://none/set", cache="~/cache")
    assert (tmp_path / "cache" / "recstore").is_dir()


def test_network_libraries_are_imported_at_first_use():
    program = (
        "import sys, recstore.remote; w = recstore.remote.ShardWriter('s3://bucket/x'); recstore.remote.gc\n"
        "print([name for name in ('obstore', 'fsspec', 'boto3', 'ray', 'pyspark') if name in sys.modules])"
    )
    done = waiting.python("-c", program, check=True)
    assert done.stdout == "[]\n"


# ---- Folders ----


def test_modes_follow_the_umask(tmp_path):
    place, before = storage_of(tmp_path / "set"), os.umask(0o027)
    try:
        place.write("a", b"x")
        place.create("b", b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(os.stat(place.path(name)).st_mode) for name in "ab"] == [0o440, 0o440]
    assert stat.S_IMODE(os.stat(place.url).st_mode) == 0o750
    assert place.path("a") == f"{place.url}/a" and place.local


def test_writing_again_renews_the_time_of_an_object(tmp_path):
    place = storage_of(tmp_path)
    place.write("a", b"x")
    os.utime(tmp_path / "a", (1e9, 1e9))
    place.write("a", b"x")
    assert next(place.list())[2] > 1e9 + 1


def test_temporary_files_are_not_objects(tmp_path):
    place = storage_of(tmp_path)
    left = saving.temporary_beside(str(tmp_path / "x"))
    pathlib.Path(left).write_bytes(b"123")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    assert list(place.list()) == [] and [file[:2] for file in place.leftovers()] == [(os.path.basename(left), 3)]
    place.delete([os.path.basename(left)])
    assert not os.path.exists(left)


@pytest.mark.parametrize(("function", "method", "number", "error", "message"), [
    ("fsync", "write", errno.ENOSPC, recstore.errors.OutOfSpaceError, "make room"),
    ("fsync", "create", errno.ENOSPC, recstore.errors.OutOfSpaceError, "make room"),
    ("replace", "write", errno.EACCES, recstore.errors.RemoteError, "cannot write .*denied; ask for permission"),
    ("link", "create", errno.ENOTSUP, recstore.errors.RemoteError, "this file system does not support them"),
])  # fmt: skip
def test_a_failure_of_the_system_leaves_nothing(tmp_path, monkeypatch, function, method, number, error, message):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)
    caught = pytest.raises(error, lambda: getattr(storage_of(tmp_path), method)("a", b"x"))
    caught.match(message)
    where = caught.value.url if error is recstore.errors.RemoteError else caught.value.filename
    assert where == str(tmp_path / "a") and os.listdir(tmp_path) == []


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    place = storage_of(tmp_path / "file" / "set")
    for use in (
        lambda: place.write("a", b""), lambda: place.read("a"), lambda: list(place.list()), lambda: place.size("a")
    ):  # fmt: skip
        with pytest.raises(recstore.errors.RemoteError, match="check the folder") as caught:
            use()
        assert caught.value.url.startswith(place.url) and isinstance(caught.value, OSError)


def test_a_lost_answer_of_an_nfs_server(tmp_path, monkeypatch):
    """link(2) created the name, and the repeated request found that it exists."""
    real = os.link

    def twice(*arguments):
        real(*arguments)
        real(*arguments)

    monkeypatch.setattr(os, "link", twice)
    assert storage_of(tmp_path).create("a", b"x") is True
    assert storage_of(tmp_path).read("a") == b"x" and os.listdir(tmp_path) == ["a"]


def test_the_disk_fills_while_an_object_is_read(place):
    place.write("big", b"x" * 100)
    with pytest.raises(recstore.errors.OutOfSpaceError, match="no room for the copy") as caught:
        place.read_into("big", FullDisk(errno.ENOSPC))
    assert caught.value.filename == "copy"
    with pytest.raises(recstore.errors.RemoteError, match="check the disk"):
        place.read_into("big", FullDisk(errno.EIO))


# ---- fsspec ----


def test_a_file_system_without_exclusive_creation(monkeypatch):
    place = storage_of("memory://exclusive/set")
    system = fsspec.filesystem("memory")

    def refuse(self, path, mode="rb", **_):
        raise ValueError(f"unsupported mode {mode}")

    monkeypatch.setattr(type(system), "open", refuse)
    with pytest.raises(recstore.errors.RemoteError, match="two writers could overwrite each other"):
        place.create("m", b"x")


def test_a_file_system_that_does_not_answer():
    """ftp connects when it is opened."""
    with pytest.raises(recstore.errors.RemoteError, match="ftp://127.0.0.1:1/x.*refused"):
        storage_of("ftp://127.0.0.1:1/x", {"patience": 0.2}).read("a")


def test_a_lost_connection_of_fsspec(monkeypatch):
    """A read goes on after the bytes that the file has."""
    content, system = random.Random(1).randbytes(5 << 20), type(fsspec.filesystem("memory"))
    place = storage_of("memory://lost/set")
    place.write("a", content)
    begins = []

    class Lost(io.BytesIO):
        """Its connection is lost after one read."""

        def read(self, n):
            if begins[-1] != self.tell() and len(begins) < 3:
                raise ConnectionResetError("lost")
            return super().read(n)

        def seek(self, at):
            begins[-1] = at
            return super().seek(at)

    monkeypatch.setattr(system, "open", lambda *_, **__: begins.append(0) or Lost(content))
    assert place.read("a") == content and begins == [0, 1 << 20, 2 << 20]
    begins.clear()
    pytest.raises(recstore.errors.RemoteError, storage_of(place.url, {"patience": 0}).read, "a").match("lost")


def test_a_thread_of_fsspec_fails_while_another_connects_again(monkeypatch):
    place = storage_of("memory://shared/set")

    def failing(*arguments, **named):
        place._system = None  # as another thread does after a lost connection
        raise ValueError("unusable")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "open", failing)
    with pytest.raises(recstore.errors.RemoteError, match="cannot read memory://shared/set/a.*unusable") as caught:
        place.read("a")
    assert caught.value.url == place.of("a")


def test_a_refusal_of_fsspec_has_no_secrets(monkeypatch):
    def refusing(url, **settings):
        raise ValueError(f"unknown settings {settings}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refusing)
    with pytest.raises(ValueError, match="fsspec cannot open it: unknown settings") as caught:
        storage_of("memory://refused/set", {"token": "hidden-word"}).read("a")
    assert "hidden-word" not in str(caught.value)
