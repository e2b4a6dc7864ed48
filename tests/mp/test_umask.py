"""A umask that removes the owner's permissions does not affect the files and folders that processes share."""

import os
import stat
import tempfile

import pytest

import recstore
from recstore._core import native
from recstore.shm import file_backing, folders

pytestmark = pytest.mark.usefixtures("own_folders")
# The program does not run as root, who can access files of any mode.
AS_ANOTHER_USER = """
import os, sys
import recstore
from recstore import RecordList, shared
import recstore.remote.cache.cache_folder
os.chdir("/")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.umask(int(sys.argv[2], 8))
"""
WORK = [
    "with shared(sys.argv[1], lambda: [7]) as x, shared(sys.argv[1]) as y: print(x[0], y[0])",
    """
def fail(): raise ValueError
for i in range(3):
    try: shared(sys.argv[1], fail, fingerprint="1")
    except ValueError: pass
with shared(sys.argv[1], lambda: [7], fingerprint="1") as x, shared(sys.argv[1]) as y: print(x[0], y[0])
""",
    "with RecordList([7], name=sys.argv[1]) as x, shared(sys.argv[1]) as y: print(x[0], y[0])",
    "with shared(sys.argv[1], lambda: [7], dir=sys.argv[3]) as x, shared(sys.argv[1], dir=sys.argv[3]) as y: print(x[0], y[0])",
    "os.environ['RECSTORE_DIR'] = sys.argv[3] + '2'\nwith RecordList([7], backing='dir') as x, RecordList([7], backing='dir') as y: print(x[0], y[0])",
]


@pytest.mark.parametrize("umask", ["777", "277"])
def test_stores_under_any_umask(python, name, umask):
    """Root's other store belongs to another user, and the packages below root's home are inaccessible."""
    other = recstore.RecordList([1], name=f"{name} other")
    with other, tempfile.TemporaryDirectory() as place:  # the other user cannot enter pytest's folders
        os.chmod(place, 0o777)
        output = python(AS_ANOTHER_USER + "\n".join(WORK), name, umask, os.path.join(place, "stores"))
        assert output == "7 7\n" * len(WORK)


@pytest.fixture
def no_rights():
    before = os.umask(0o777)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_modes(tmp_path, no_rights):
    path = str(tmp_path / "lock")
    lock = native.Lock(path)
    assert (lock.state, mode(path)) == (native.HELD, 0o600)
    lock.close()
    folders.make(tmp_path / "private")
    assert mode(tmp_path / "private") == 0o700


def test_a_lock_whose_creator_was_killed_before_it_set_the_mode(tmp_path):
    path = str(tmp_path / "lock")
    for initial_mode in (0o000, 0o200, 0o400):
        os.close(os.open(path, os.O_CREAT, 0o600))
        os.chmod(path, initial_mode)
        lock = native.Lock(path)
        assert (lock.state, mode(path)) == (native.HELD, 0o600)
        lock.close()
    os.close(os.open(path, os.O_CREAT, 0o600))
    os.chmod(path, 0o644)  # no umask turns 0600 into this
    pytest.raises(PermissionError, lambda: native.Lock(path))


def test_the_folder_of_files(tmp_path, no_rights, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "files"))
    with recstore.RecordList([1], backing="dir") as x:
        assert x[0] == 1 and mode(file_backing.default()) == 0o700
