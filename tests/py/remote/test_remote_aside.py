"""recstore.remote.places.helper.fork_safe: network operations of a forked process."""

import errno
import gc
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from full_disk import FullDisk
from s3 import BIG
from waiting import alarm, in_child, until

import recstore
from recstore.remote.places import obstore_store
from recstore.remote.places.helper import HELPER


@pytest.fixture
def bucket(bucket):
    """A Storage with the object "big", whose clients are in this process."""
    bucket.write("big", BIG)
    return bucket


def test_a_forked_process_uses_its_own_fetching_process(server, bucket, tmp_path):
    def work():
        (tmp_path / "local").write_bytes(b"of a file")
        bucket.write("a", b"of the child")
        bucket.write("b", tmp_path / "local")
        with open(tmp_path / "copy", "wb") as file:
            bucket.read_into("big", file)
        created = bucket.create("m", b"1"), bucket.create("m", b"2")
        sizes = bucket.size("big"), bucket.size("none")
        bucket.delete(["a"])
        try:
            bucket.read("none")
        except recstore.errors.SegmentNotFoundError as error:
            missing = error.filename
        names = sorted(name for name, *_ in bucket.list())
        return created, sizes, missing, names, bucket.read("b"), HELPER.running

    created, sizes, missing, names, read, running = in_child(work)
    assert created == (True, False) and sizes == (len(BIG), None) and missing == bucket.of("none")
    assert names == ["b", "big", "m"] and read == b"of a file" and running
    assert (tmp_path / "copy").read_bytes() == BIG
    assert bucket.read("m") == b"1" and not HELPER.running


def test_a_forked_process_releases_no_client_of_its_parent():
    """Before a fix, releasing a client hung on a lock that a thread of the parent had held."""

    class Client:
        def __del__(self):
            released.append(os.getpid())

    released, storages = [], [obstore_store.ObjectStorage("s3://bucket/set", {})]
    storages[0]._clients["get"] = Client()

    def work():
        storages.clear()
        gc.collect()
        return released

    assert in_child(work) == []
    storages.clear()
    gc.collect()
    assert released == [os.getpid()]


def test_errors_reach_a_forked_process(server, bucket):
    server.deny(10)
    with pytest.raises(recstore.errors.RemoteError, match="do not allow this") as caught:
        in_child(lambda: bucket.read("big"))
    assert caught.value.url == bucket.of("big")
    server.heal()

    def full():
        try:
            bucket.read_into("big", FullDisk(errno.ENOSPC))
        except recstore.errors.OutOfSpaceError:
            return bucket.size("big")  # its answer must not be mixed up with the remaining pieces of "big"

    assert in_child(full) == len(BIG)


def test_the_fetching_process_of_a_forked_process_is_killed(server, bucket):
    def work():
        bucket.size("big")
        pid, send = HELPER._process.pid, HELPER._send

        def send_to_killed(process, message):
            HELPER._send = send
            process.kill()
            process.wait()
            send(process, message)

        HELPER._send = send_to_killed
        try:
            bucket.size("big")
        except recstore.errors.RemoteError as error:
            return str(error), bucket.size("big"), HELPER._process.pid != pid

    message, size, restarted = in_child(work)
    assert "ended" in message and size == len(BIG) and restarted


def test_an_object_is_not_read_twice_into_a_file(server, bucket):
    """Another thread may end the process in the middle, and the file has the first pieces."""
    bucket.write("big", BIG)

    class File:
        content = b""

        def write(self, data):
            self.content += data
            HELPER._drop()

    def work():
        file = File()
        with pytest.raises(recstore.errors.RemoteError, match="ended"):
            bucket.read_into("big", file)
        return BIG.startswith(file.content), bucket.size("big")

    assert in_child(work) == (True, len(BIG))


@pytest.mark.parametrize("use", ["size", "read"])
def test_no_request_gets_the_answer_of_an_interrupted_request(server, bucket, use):
    bucket.write("small", b"x")

    def work():
        assert bucket.size("small") == 1
        with pytest.raises(KeyboardInterrupt), alarm(0.1, KeyboardInterrupt):
            getattr(bucket, use)("big")
        return bucket.size("small"), bucket.read("small")

    server.delay(0.5, method="HEAD" if use == "size" else "GET", match="big")
    assert in_child(work) == (1, b"x")


def has_ended(pid):
    """Whether a process has ended. Its parent may not have collected it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_fetching_process_ends_with_a_killed_parent_whose_children_live(server, bucket):
    """Children of a killed worker keep the pipes open."""
    reading, writing = os.pipe()
    stay, stop = os.pipe()
    worker = os.fork()
    if worker == 0:
        bucket.size("big")
        pid = HELPER._process.pid
        # Another program does not run our at-fork function.
        fds = [
            HELPER._process.stdin.fileno(),
            HELPER._process.stdout.fileno(),
        ]
        subprocess.Popen([sys.executable, "-c", f"import os; os.read({stay}, 1)"], pass_fds=[*fds, stay])
        os.write(writing, str(pid).encode())
        signal.pause()
        os._exit(0)
    os.close(stay)
    pid = int(os.read(reading, 100))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    try:
        until(lambda: has_ended(pid))
    finally:
        for fd in (reading, writing, stop):
            os.close(fd)
