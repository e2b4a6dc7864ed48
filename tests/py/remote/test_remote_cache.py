"""The cache on a machine: recstore.remote.cache.cache and cache_folder."""

import errno
import os
import pathlib
import stat
import sys
import tempfile
import time

import pytest
import shard_sets
import waiting
from s3_sets import ALL, PARTS, fetched, has_sent, names, nothing_half_made
from waiting import in_child

import recstore
from recstore._core import native
from recstore.remote import open_set
from recstore.remote.cache import cache, cache_folder, cache_room, fetch_client, fetch_process
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import key_filters
from recstore.remote.set import names as names_of_files

# ---- Damage and failures ----


def test_temporary_faults_are_not_errors(made, tmp_path):
    for fault in ("cut", "flip", "refuse", "reset"):  # at once, one would hide another
        getattr(made, fault)(fetch_process.TRIES - 1, match=r"\.recs")  # one object may get all of them
        with recstore.open(made.at, cache=tmp_path / fault, options=made.options) as x:
            assert x.to_list() == ALL
        assert made.left() == 0 and nothing_half_made(tmp_path / fault)


def test_a_damaged_object(made, tmp_path):
    name = f"{made.made.hashes[2]}.recs"
    (content,) = made.objects(f"{made.prefix}/{name}").values()
    wrong_size, flipped = "instead of", content[:500] + bytes([content[500] ^ 1]) + content[501:]
    for wrong, fault in (
        (content[:-9], wrong_size), (content + b"more", wrong_size), (b"", wrong_size),
        (flipped, "the hash of its content"),
    ):  # fmt: skip
        made.put(f"{made.prefix}/{name}", wrong)
        with pytest.raises(recstore.errors.CorruptError, match=f"{fault}.*in 3 tries.*{name}"):
            recstore.open(made.at, cache=tmp_path, options=made.options)
        assert nothing_half_made(tmp_path) and name not in names(tmp_path, ".recs")
    made.put(f"{made.prefix}/{name}", content)
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL


def test_a_removed_object(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    made.delete(f"{made.prefix}/{made.made.hashes[2]}.recs")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: x[130]).match(f"newest manifest.*{made.made.hashes[2]}")
    assert x[5] == ALL[5]
    hashes = shard_sets.write(tmp_path / "set", PARTS).hashes
    y = recstore.open(tmp_path / "set")
    (tmp_path / "set" / f"{hashes[2]}.recs").unlink()
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: y[130]).match(f"newest manifest.*{hashes[2]}")


def test_access_is_refused(made, tmp_path):
    for fault, match in (("deny", made.at), ("expire", made.made.hashes[4])):
        getattr(made, fault)(1000, match=match.removeprefix("s3://bucket"))
        with pytest.raises(recstore.errors.RemoteError, match="expired") as caught:
            recstore.open(made.at, cache=tmp_path, options=made.options)
        assert match in caught.value.url
        waiting.until(lambda: nothing_half_made(tmp_path))  # other downloads may still end
        made.heal()


def test_a_damaged_manifest(made, tmp_path):
    for content, error in (
        (b"{", recstore.errors.CorruptError),
        (b'{"recstore": "manifest", "format": 2}', recstore.errors.VersionError),
    ):
        made.put(f"{made.prefix}/manifest-2.json", content)
        with pytest.raises(error, match=r"manifest-2\.json"):
            recstore.open(made.at, cache=tmp_path, options=made.options)
    assert recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)[3] == ALL[3]


def test_damaged_copies_are_fetched_again(made, tmp_path):
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    (path,) = (tmp_path / "recstore" / "sets").glob("*.json")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-5])
    paths = [tmp_path / "recstore" / f"{hash_}.recs" for hash_ in made.made.hashes]
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        path.chmod(0o600)
    paths[0].write_bytes(contents[0][:-1])
    paths[1].write_bytes(b"")
    paths[2].write_bytes(bytes(100) + contents[2][100:])  # the header
    paths[3].write_bytes(contents[3][:10] + b"\xff" + contents[3][11:])  # the version
    paths[4].rename(tmp_path / "elsewhere")
    paths[4].symlink_to(tmp_path / "elsewhere")
    os.link(paths[5], tmp_path / "second name")
    made.reset_counts()
    with recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options) as x:
        assert x.to_list() == ALL
    has_sent(made, 6)
    assert [path.read_bytes() for path in paths] == contents
    assert not any(path.is_symlink() or path.stat().st_nlink > 1 for path in paths)


def test_a_copy_with_the_wrong_content_is_fetched_again(tmp_path, monkeypatch):
    """The copies have the content of another shard file of the same size, or one wrong byte."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    parts = [[letter * 100] * 64 for letter in "abcd"] + [["e" * 100, "f" * 100] * 32]
    found, at = shard_sets.write(tmp_path / "set", parts), tmp_path / "set"
    recstore.open(at, cache=tmp_path).close()
    a, b, c, d, _ = (tmp_path / "recstore" / f"{hash_}.recs" for hash_ in found.hashes)
    assert len(set(found.sizes[:4])) == 1
    for path in (a, b):
        path.chmod(0o600)
    a.write_bytes(d.read_bytes())
    b.write_bytes(b.read_bytes().replace(b"b" * 100, b"b" * 99 + b"z"))
    (tmp_path / "other").write_bytes(d.read_bytes())
    os.replace(tmp_path / "other", c)
    for _ in range(2):
        with recstore.open(at, cache=tmp_path) as x:
            assert x.to_list() == [record for part in parts for record in part]


def test_a_checked_copy_is_hashed_once_in_a_boot(made, tmp_path, monkeypatch):
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    path = tmp_path / "recstore" / f"{made.made.hashes[1]}.recs"
    os.utime(path)  # an earlier version recorded a use this way
    hashed, hash_of = [], names_of_files.hash_of
    monkeypatch.setattr(
        names_of_files, "hash_of", lambda file: hashed.append(os.fstat(file.fileno()).st_ino) or hash_of(file)
    )

    def read_twice():
        for _ in range(2):
            with recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options) as x:
                assert x.to_list() == ALL
        out = sorted(hashed)
        hashed.clear()
        return out

    inodes = sorted(path.stat().st_ino for path in path.parent.glob("*.recs"))
    assert read_twice() == [path.stat().st_ino]
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(16)))
    assert read_twice() == inodes
    monkeypatch.setattr(os, "utime", refuse_as_read_only)
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(1, 17)))
    assert read_twice() == sorted(2 * inodes)


def refuse_as_read_only(*_, **__):
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_file_has_its_name_once_it_is_on_the_disk(tmp_path, monkeypatch):
    found = shard_sets.write(tmp_path / "set", PARTS[:1])
    into, name = cache.Cache(tmp_path / "cache"), found.hashes[0] + ".recs"
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.pread(fd, 1 << 20, 0), into.has(name))) or fsync(fd))
    fetch_process.Fetching(storage_of(tmp_path / "set"), into).fetch(name, found.sizes[0])
    assert synced == [((tmp_path / "set" / name).read_bytes(), False)]


def test_a_file_is_replaced_while_it_is_checked(tmp_path):
    """Two processes open a damaged file, and one of them fetches it again before the other has hashed it."""
    found = shard_sets.write(tmp_path / "set", [["a" * 100] * 64])
    into, name = cache.Cache(tmp_path / "cache"), found.hashes[0] + ".recs"
    fetch = fetch_process.Fetching(storage_of(tmp_path / "set"), into).fetch
    fetch(name, found.sizes[0])
    content = (tmp_path / "set" / name).read_bytes()
    damaged = tmp_path / "cache" / "recstore" / name
    damaged.chmod(0o600)
    damaged.write_bytes(content.replace(b"a" * 100, b"a" * 99 + b"z"))
    is_checked = into._is_checked

    def replaced_before(name, fd):
        into._is_checked = is_checked
        damaged.unlink()
        fetch(name, found.sizes[0])
        return is_checked(name, fd)

    into._is_checked = replaced_before
    assert into.open(name, found.sizes[0], None) is None
    segment = into.open_segment(name, found.sizes[0], fetch)
    assert os.pread(segment.fileno(), len(content), 0) == content
    segment.close()


def test_a_crash_of_the_machine_loses_pages(tmp_path, monkeypatch):
    """A disk may have lost one page or all pages that it confirmed, and kept the name, the size and the times of a
    file."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    parts = [[f"{i} {k}" * 400 for k in range(100)] for i in range(4)]
    shard_sets.write(tmp_path / "set", parts)
    recstore.open(tmp_path / "set", cache=tmp_path).close()
    for number, path in enumerate(sorted((tmp_path / "recstore").rglob("*.*"))):
        before, size = path.stat(), path.stat().st_size
        loses_all = number % 2 or size <= 8192
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(0 if loses_all else 4096 * min(number + 2, size // 4096 - 1))
            file.write(bytes(size if loses_all else 4096))
        path.chmod(0o400)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(16)))  # the machine starts again
    with recstore.open(f"{tmp_path}/set@1", cache=tmp_path) as x:
        assert x.to_list() == [record for part in parts for record in part]


# ---- Disks ----


def test_an_endless_object(tmp_path):
    """A download stops at the maximum size, so the disk does not fill."""
    found = shard_sets.write(tmp_path / "set", [{f"k{i}": i for i in range(100)}])
    into, written = cache.Cache(tmp_path / "cache"), []

    class Endless:
        patience = 0.0

        def of(self, name):
            return f"s3://b/{name}"

        def read_into(self, name, file):
            for _ in range(100):
                file.write(bytes(1 << 20))
                written.append(name)
            return 100 << 20

    limit = key_filters.most_bytes(100)
    assert (tmp_path / "set" / f"{found.hashes[0]}.keys").stat().st_size <= limit < 1000
    keys, recs = (found.hashes[0] + ending for ending in (".keys", ".recs"))
    for arguments in ((keys, None, limit), (recs, found.sizes[0])):
        with pytest.raises(recstore.errors.CorruptError, match=f"instead of .*in 3 tries.*{arguments[0]}"):
            fetch_process.Fetching(Endless(), into).fetch(*arguments)
    assert written == [] and nothing_half_made(tmp_path / "cache")
    (tmp_path / "cache" / "recstore" / keys).write_bytes(bytes(limit + 1))
    assert into.read(keys, limit) is None and keys not in names(tmp_path / "cache", ".keys")


ON_A_FULL_DISK = """
import resource, sys, recstore
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    recstore.open(sys.argv[1], cache=sys.argv[2], options=eval(sys.argv[3], {"datetime": __import__("datetime")}))
except recstore.errors.OutOfSpaceError as error:
    print("full:", error)
"""


def test_a_full_disk(made, tmp_path):
    """A limit on file sizes simulates a full disk: the kernel refuses the reservation in the same way."""
    command = [sys.executable, "-B", "-c", ON_A_FULL_DISK, made.at, str(tmp_path), repr(made.options)]
    done = waiting.run(command)
    assert done.stdout.startswith("full:") and str(tmp_path) in done.stdout and "limit=" in done.stdout, done.stderr
    assert nothing_half_made(tmp_path) and names(tmp_path, ".recs") == [] and fetched(made) == (0, 0)


def test_the_disk_fills_during_a_download(tmp_path, monkeypatch):
    found = shard_sets.write(tmp_path / "set", PARTS[:1])
    into = cache.Cache(tmp_path / "cache")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(recstore.errors.OutOfSpaceError, match="choose another disk"):
        fetch_process.Fetching(storage_of(tmp_path / "set"), into).fetch(found.hashes[0] + ".recs", found.sizes[0])
    assert nothing_half_made(tmp_path / "cache")


# ---- The folder ----


def test_refused_folders(made, tmp_path, monkeypatch):
    def check_refused(path, error, match):
        pytest.raises(error, lambda: recstore.open(made.at, cache=path, options=made.options)).match(match)

    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    check_refused(tmp_path / "open", PermissionError, "every user can write")
    (tmp_path / "a" / "recstore").mkdir(parents=True, mode=0o755)
    check_refused(tmp_path / "a", PermissionError, "mode 0700")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "recstore").symlink_to(tmp_path / "a")
    check_refused(tmp_path / "b", NotADirectoryError, "a link")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "recstore").write_text("")
    check_refused(tmp_path / "c", NotADirectoryError, "not a folder")
    (tmp_path / "d").write_text("")
    check_refused(tmp_path / "d", FileExistsError, "d")
    if os.geteuid() == 0:
        (tmp_path / "e" / "recstore").mkdir(parents=True, mode=0o700)
        os.chown(tmp_path / "e" / "recstore", 12345, -1)
        check_refused(tmp_path / "e", PermissionError, "must belong to you")
    for kind in ("nfs4", "lustre", "cifs", "fuse.sshfs", "ceph"):
        monkeypatch.setattr(cache_folder, "file_system", lambda folder, kind=kind: kind)
        check_refused(tmp_path / "f", ValueError, f"is on {kind}")
    assert made.log == []


def test_a_read_only_cache(made, tmp_path, monkeypatch):
    """Reading a cached version writes nothing, and another version names the folder and the remedy."""
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    for module, name in ((native, "Lock"), (cache_room, "open_locked"), (os, "utime")):
        monkeypatch.setattr(module, name, refuse_as_read_only)
    for at in (made.at, f"{made.at}@1"):
        assert recstore.open(at, cache=tmp_path, options=made.options).to_list() == ALL
    shard_sets.write(made.at, PARTS[:2], made.options)
    with pytest.raises(OSError, match=f"'{tmp_path}' is read-only and lacks a file of {made.at}: .*@") as caught:
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert caught.value.errno == errno.EROFS


def test_a_folder_with_the_sticky_bit_may_be_shared(made, tmp_path):
    (tmp_path / "nvme").mkdir()
    (tmp_path / "nvme").chmod(0o1777)
    assert recstore.open(made.at, cache=tmp_path / "nvme", options=made.options)[0] == ALL[0]
    assert stat.S_IMODE(os.stat(tmp_path / "nvme" / "recstore").st_mode) == 0o700


@pytest.fixture
def group_folder():
    """A folder with mode 2770 for the group 12345. Its parents, unlike those of tmp_path, are open to all users."""
    if os.geteuid() != 0:
        pytest.skip("only root can become several users")
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        folder = pathlib.Path(outer, "nvme")
        folder.mkdir()
        os.chown(folder, 0, 12345)
        folder.chmod(0o2770)
        yield folder


def as_user(uid, work):
    """Returns the result of `work` in a process of this user, who belongs to the group 12345."""

    def become():
        os.umask(0o077)
        os.setgroups([12345])
        os.setgid(uid)
        os.setuid(uid)
        return work()

    return in_child(become)


def test_two_processes_make_the_folder_of_a_group_at_once(group_folder, monkeypatch):
    chown = os.chown

    def chown_after_another(path, *ids):
        monkeypatch.setattr(os, "chown", chown)
        assert cache_folder.create(group_folder)[1]
        chown(path, *ids)

    monkeypatch.setattr(os, "chown", chown_after_another)
    assert cache_folder.create(group_folder)[1] and os.listdir(group_folder) == ["recstore"]


def test_the_cache_of_a_group(group_folder):
    url = group_folder.parent / "set"
    made = shard_sets.write(url, PARTS)
    for path in (url, *url.iterdir()):
        path.chmod(0o755)
    storage = storage_of(url)
    inner = group_folder / "recstore"

    def read(numbers, limit=None):
        into = cache.Cache(group_folder, limit)
        into.sweep()
        fetch = fetch_process.Fetching(storage, into).fetch
        for i in numbers:
            into.open_segment(f"{made.hashes[i]}.recs", made.sizes[i], fetch).close()
        return True

    assert as_user(1001, lambda: read([0, 1]))
    as_user(1001, lambda: cache.Part(cache.Cache(group_folder), f"{made.hashes[5]}.recs", 1000).name)
    assert names(group_folder, ".part") != []  # of a killed process
    assert as_user(1002, lambda: read([0, 2])) and names(group_folder, ".part", ".lock") == []
    owners = {path.stem: path.stat().st_uid for path in inner.glob("*.recs")}
    assert owners == {made.hashes[0]: 1001, made.hashes[1]: 1001, made.hashes[2]: 1002}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (*inner.glob("*.recs"), inner, inner / "sets")}
    assert modes == {0o440, 0o2770}
    assert as_user(1002, lambda: read([3], made.sizes[3] + 100)) and len(names(group_folder, ".recs")) == 1
    assert as_user(1001, lambda: read([4], made.sizes[4] + 100)) and len(names(group_folder, ".recs")) == 1
    inner.chmod(0o700)
    with pytest.raises(PermissionError, match="2770"):
        as_user(1001, lambda: read([0]))


def test_another_user_creates_a_lock_file(tmp_path, monkeypatch):
    """Its first mode depends on the umask of that user."""
    into, lock, tries = cache.Cache(tmp_path), native.Lock, []

    def refuse_twice(path, group):
        tries.append(path)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return lock(path, group)

    into.group = True
    monkeypatch.setattr(native, "Lock", refuse_twice)
    assert into.lock("x").state == native.HELD and len(tries) == 3


def test_no_pickle_of_another_user_is_loaded(tmp_path):
    into = cache.Cache(tmp_path)
    lock = into.lock("x")
    waiting_lock = into.lock("x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            time, "sleep", lambda _: lock.write(fetch_client._failure(ValueError("it failed"), {})) and lock.close()
        )
        assert fetch_client._wait_for(waiting_lock, {}, cache.Wait("x"), group=True) is False
    waiting_lock.close()


def test_the_kind_of_a_file_system(tmp_path):
    assert (
        cache_folder.kind_of_mount(b"mnt_id:\t5\n", b"5 1 0:1 / /a rw - fuse.x x rw\n6 1 0:1 / /b rw - ext4 x rw\n")
        == "fuse.x"
    )
    assert cache_folder.kind_of_mount(b"mnt_id:\t7\n", b"5 1 0:1 / /a rw - ext4 x rw\n") == ""
    assert cache_folder.kind_of_mount(b"pos:\t0\n", b"5 1 0:1 / /a rw - ext4 x rw\n") == ""
    assert cache_folder.file_system(str(tmp_path / "none")) == ""
    if os.path.exists("/proc/self/mountinfo"):
        assert cache_folder.file_system("/proc") == "proc"
