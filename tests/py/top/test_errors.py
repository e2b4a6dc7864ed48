"""The error classes: their built-in bases, the file names that they carry, and a class for each status of the core."""

import copy
import errno
import os
import pathlib
import pickle
import re
import signal

import pytest

import recstore
from recstore import errors

BUILT_IN = {
    "EncodeError": TypeError, "CorruptError": ValueError, "VersionError": ValueError, "UntrustedError": ValueError,
    "ClosedError": ValueError, "BusyError": BufferError, "SegmentNotFoundError": FileNotFoundError,
    "SegmentExistsError": FileExistsError, "OutOfSpaceError": OSError, "BuildError": RuntimeError,
    "WaitTimeoutError": TimeoutError, "InputError": ValueError, "RemoteError": OSError,
    "ConflictError": recstore.errors.RemoteError
}  # fmt: skip
STATUS_H = pathlib.Path(__file__).parents[3] / "csrc" / "base" / "rs_status.h"


@pytest.mark.parametrize(("name", "base"), BUILT_IN.items())
def test_class(name, base):
    cls = getattr(errors, name)
    assert issubclass(cls, base) and issubclass(cls, recstore.Error)
    assert (cls.__module__, cls.__name__) == ("recstore.errors", name)
    assert cls.__doc__
    assert type(pickle.loads(pickle.dumps(cls("text")))) is cls
    assert str(copy.copy(cls("text"))) == "text"


def test_all_are_exported():
    assert set(errors.__all__) == {*BUILT_IN, "Error"} and not {*BUILT_IN} & set(recstore.__all__)
    assert recstore.Error is errors.Error
    assert sorted(recstore.__all__) == sorted(set(recstore.__all__))
    assert all(hasattr(recstore, name) for name in recstore.__all__)


def test_every_status_has_a_class():
    statuses = dict(re.findall(r"X\((RS_\w+), (\d+),", STATUS_H.read_text()))
    assert len(statuses) > 20
    numbers = {int(number) for name, number in statuses.items() if name != "RS_OK"}
    assert numbers == set(errors.STATUS_CLASSES)


# ---- Errors about a file contain its name ----

DAMAGED = sorted(pathlib.Path(__file__).parents[2].glob("golden/v1-damaged-*.rec"))


def errors_of(path):
    """Yields the errors that reads of a damaged store raise."""
    reads = [
        lambda: recstore.open(path, verify="full"), lambda: recstore.open(path, copy=True).to_list(),
        lambda: recstore.open(path).to_list(), lambda: [dict(record) for record in recstore.open(path).lazy()],
        lambda: recstore.open(path).fields("name", "id").to_list(),
        lambda: recstore.open(path).field("id", default=None).to_list(),
        lambda: recstore.open(path).field("id", default=None).to_numpy(), lambda: recstore.open(path).get_many([0, 1]),
        lambda: recstore.open(path).info(), lambda: recstore.open(path).to_dict(),
        lambda: [recstore.open(path).get(key) for key in ("a", 3, 2.5, (1, 2))]
    ]  # fmt: skip
    for read in reads:
        try:
            read()
        except (recstore.errors.CorruptError, recstore.errors.VersionError, recstore.errors.UntrustedError) as error:
            yield error
        except Exception as error:
            assert not isinstance(error, recstore.Error), "an error of another kind about a damaged file"


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_errors_about_a_damaged_file_contain_its_name(path):
    raised = list(errors_of(path))
    assert raised
    for error in raised:
        assert error.filename == str(path) and str(error).endswith(f": {str(path)!r}"), error
        assert str(error).count(str(path)) == 1


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_the_file_travels_with_the_error(how, tmp_path):
    (tmp_path / "x.rec").write_bytes(b"hello" * 2000)
    caught = pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(tmp_path / "x.rec"))
    copied = how(caught.value)
    assert type(copied) is recstore.errors.CorruptError and copied.filename == str(tmp_path / "x.rec")
    assert str(copied) == str(caught.value) and copied.args == caught.value.args
    caught = pytest.raises(FileNotFoundError, lambda: recstore.open(tmp_path / "y.rec"))
    assert (how(caught.value).filename, str(how(caught.value))) == (str(tmp_path / "y.rec"), str(caught.value))


def test_a_pickled_value_that_may_not_be_loaded(tmp_path):
    recstore.RecordList([1, object()], on_unsupported="pickle").save(tmp_path / "x.rec")
    with pytest.raises(recstore.errors.UntrustedError, match=r"^record 1: ") as caught:
        recstore.open(tmp_path / "x.rec").to_list()
    assert caught.value.filename == str(tmp_path / "x.rec")
    with recstore.RecordList([object()], on_unsupported="pickle") as x:
        x.segments[0].reader = recstore._core.trust.Reader(trusted=False)
        caught = pytest.raises(recstore.errors.UntrustedError, lambda: x[0])
    assert caught.value.filename is None and str(caught.value) == caught.value.args[0], "memory has no name"


@pytest.mark.parametrize("save", [
    lambda path: recstore.RecordList([1, 2]).save(path),
    lambda path: recstore.RecordList([1, 2])[1:].save(path),
    lambda path: recstore.RecordDict({"a": 1}).save(path),
    lambda path: recstore.RecordDict({"a": 1, "b": 2}).select(["b"]).save(path),
])  # fmt: skip
def test_saving_where_no_file_can_be(save, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="does not exist") as caught:
        save(tmp_path / "missing" / "x.rec")
    assert type(caught.value) is FileNotFoundError and caught.value.filename == str(tmp_path / "missing")
    assert caught.value.errno == errno.ENOENT
    (tmp_path / "file").write_text("")
    caught = pytest.raises(NotADirectoryError, lambda: save(tmp_path / "file" / "x.rec"))
    assert caught.value.filename == str(tmp_path / "file")
    with pytest.raises(NotADirectoryError, match="a parent of the target folder") as caught:
        save(tmp_path / "file" / "a" / "b" / "x.rec")
    assert caught.value.filename == str(tmp_path / "file") and "makedirs" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    caught = pytest.raises(OSError, lambda: save(tmp_path / "folder"))
    assert caught.value.filename == str(tmp_path / "folder") and os.listdir(tmp_path / "folder") == []
    monkeypatch.chdir(tmp_path)
    save("x.rec")
    assert sorted(os.listdir()) == ["file", "folder", "x.rec"]


class _Unreadable:
    """An object whose unpickling raises an OSError while `_is_off` is true."""

    def __reduce__(self):
        return _unreadable, ()


_is_off = False


def _unreadable(*fields):
    if _is_off:
        raise TimeoutError(errno.ETIMEDOUT, "the camera does not answer")
    return _Unreadable()


def test_an_error_of_the_program_while_saving_names_no_file(tmp_path, monkeypatch):
    """Saving a view decodes and encodes its records. An OSError from the program's own class is not about the file."""
    with recstore.RecordList([1, _Unreadable(), _Unreadable()], on_unsupported="pickle") as x:
        monkeypatch.setitem(globals(), "_is_off", True)
        caught = pytest.raises(TimeoutError, lambda: x[1:].save(tmp_path / "x.rec"))
    assert caught.value.filename is None and caught.value.strerror == "the camera does not answer"
    monkeypatch.setitem(globals(), "_is_off", False)
    with recstore.RecordDict({1: 1, 2: _Unreadable()}, on_unsupported="pickle") as x:
        monkeypatch.setitem(globals(), "_is_off", True)
        caught = pytest.raises(TimeoutError, lambda: x.select([2]).save(tmp_path / "x.rec"))
    assert caught.value.filename is None and os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", [
    lambda data: recstore.RecordList(data),
    lambda data: recstore.RecordList(data)[1:],
    lambda data: recstore.RecordDict(enumerate(data)),
    lambda data: recstore.RecordDict(enumerate(data)).select(range(1, len(data))),
])  # fmt: skip
def test_an_error_of_writing_names_the_path_and_leaves_the_old_file(make, tmp_path):
    """A limit on the file size makes a write fail in the middle, as a full disk does."""
    resource = pytest.importorskip("resource")
    x = make([os.urandom(1000) for _ in range(2000)])
    (tmp_path / "x.rec").write_bytes(b"before")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        caught = pytest.raises(OSError, lambda: x.save(tmp_path / "x.rec"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno in (errno.EFBIG, errno.ENOSPC) and caught.value.filename == str(tmp_path / "x.rec")
    assert ".tmp" not in str(caught.value)
    assert os.listdir(tmp_path) == ["x.rec"] and (tmp_path / "x.rec").read_bytes() == b"before"


def test_system_errors_have_a_number_and_name_the_file_once(tmp_path):
    caught = pytest.raises(FileNotFoundError, lambda: recstore.open(tmp_path / "nothing"))
    assert type(caught.value) is recstore.errors.SegmentNotFoundError
    assert caught.value.filename == str(tmp_path / "nothing")
    message = f"[Errno {errno.ENOENT}] cannot open: {os.strerror(errno.ENOENT)}: {str(tmp_path / 'nothing')!r}"
    assert str(caught.value) == message
    with pytest.raises(PermissionError, match="not a regular file") as caught:
        recstore.open("/dev/null")
    assert caught.value.filename == "/dev/null"


def test_errors_about_a_named_segment_have_its_path():
    with recstore.RecordList([1, 2, 3], name="test-errors-named") as x:
        path = x.segments[0].path
        with pytest.raises(recstore.errors.SegmentExistsError, match="'test-errors-named' is taken") as caught:
            recstore.RecordList([1], name="test-errors-named")
        assert caught.value.filename == path
        os.chmod(path, 0o600)
        os.truncate(path, 100)
        os.chmod(path, 0o400)
        caught = pytest.raises(recstore.errors.CorruptError, lambda: recstore.shared("test-errors-named"))
        assert caught.value.filename == path and path in str(caught.value)
