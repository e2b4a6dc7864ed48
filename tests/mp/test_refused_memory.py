"""Systems and sandboxes that refuse memfd_create: anonymous stores become files in a private folder."""

import errno
import os
import platform
import subprocess
import sys

import pytest

NUMBERS = {"x86_64": 319, "aarch64": 279}  # of the system call memfd_create
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in NUMBERS, reason="needs Linux on x86-64 or ARM64"
)

# A seccomp(2) filter: loads the number of the call, returns an errno for memfd_create, and allows all other calls.
REFUSE = """
import ctypes, errno, os, struct, sys
def refuse(code):
    rows = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x00050000 | code), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    head = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, head, 0, 0) == 0  # PR_SET_SECCOMP
refuse(getattr(errno, sys.argv[1]))
try:
    os.memfd_create("x")
except OSError as error:
    assert error.errno == getattr(errno, sys.argv[1])
import multiprocessing, pickle
import recstore
from mp import shard_kinds as kinds
from recstore import RecordDict, RecordList
os.environ["RECSTORE_PICKLE"] = "allow"
"""
WORK = {
    "list": "x = RecordList([{'a': 1}] * 5); print(x[4], x.info().backing, len(os.listdir(os.environ['RECSTORE_DIR'])))",
    "dict": "d = RecordDict({'k': 1}); print(d['k'])",
    "workers": "multiprocessing.set_start_method('fork')\nx = RecordList([kinds.Rows(0, 3000), kinds.Rows(3000, 9000)], workers=2); print(len(x), x == list(kinds.Rows(0, 9000)))",
    "index array": "x = RecordList(range(100)); y = pickle.loads(pickle.dumps(x[[5, 3, 80]])); print(y.to_list())",
    "open a copy": "RecordList([1, 2]).save('x'); x = recstore.open('x', copy=True, verify='full'); print(x.to_list(), x.info().backing)",
    "a copy travels": "RecordList([1, 2]).save('x'); x = recstore.open('x', copy=True); print(multiprocessing.get_context('fork').Pool(1).apply(list, (x,)))",
    "saved index": "x = RecordList([{'id': i} for i in range(9)], index_by='id'); print(x.index_by('id')[3])",
    "named": "x = RecordList([1], name=sys.argv[2]); print(recstore.shared(sys.argv[2])[0])",
    "join": "print((RecordList([1]) + [2, 3]).to_list())",
}
OUTPUT = {
    "list": "{'a': 1} directory 1", "dict": "1", "workers": "9000 True", "index array": "[5, 3, 80]",
    "open a copy": "[1, 2] anonymous", "a copy travels": "[1, 2]", "saved index": "{'id': 3}", "named": "1",
    "join": "[1, 2, 3]"
}  # fmt: skip


@pytest.fixture
def refusing(python, tmp_path):
    """A function that runs a program whose memfd_create fails with an error. Returns the printed lines."""

    def run(code, work, *arguments):
        program = REFUSE.format(number=NUMBERS[platform.machine()]) + work
        return python(
            program, code, *arguments, RECSTORE_DIR=str(tmp_path / "private"), RECSTORE_BACKING="auto"
        ).splitlines()

    yield run
    assert os.listdir(tmp_path / "private") == []


@pytest.mark.parametrize("code, chosen", [("EPERM", list(WORK)), ("ENOSYS", ["list", "open a copy"])])
def test_anonymous_stores_become_files(refusing, name, code, chosen):
    work = "\nx = y = d = None\n".join(WORK[one] for one in chosen)
    assert refusing(code, work, name) == [OUTPUT[one] for one in chosen]


def test_explicit_anonymous_memory_raises(refusing):
    work = "try: RecordList([1], backing='anonymous')\nexcept OSError as error: print(type(error).__name__, error.errno == errno.EPERM)"
    assert refusing("EPERM", "RecordList([1])\n" + work) == ["PermissionError True"]


def test_other_errors_are_not_a_refusal(refusing):
    work = "RecordList([1], backing='dir')\ntry: RecordList([1])\nexcept OSError as error: print(error.errno == errno.EMFILE)"
    assert refusing("EMFILE", work) == ["True"]


STORES = {
    "anonymous": "RecordList([i], backing='anonymous')",
    "dir": "RecordList([i], backing='dir')",
    "open": "recstore.open(path)",
}


@pytest.mark.parametrize("build", [
    "read_jsonl('a.jsonl')", "read_lines('a.jsonl')", "read_csv('a.jsonl')", "RecordList([range(3), range(4)], workers=2)",
    "RecordDict((path, io.open(path).read()) for path in ['a.jsonl'])",
])  # fmt: skip
def test_too_many_open_files_of_a_reader(tmp_path, build):
    """The files that a build reads, and the pipes of its workers, are open files too."""
    (tmp_path / "a.jsonl").write_text("[1, 2]\n")
    program = f"""
import io, os
from recstore import RecordDict, RecordList, read_csv, read_jsonl, read_lines
def attempt():
    try: {build}
    except OSError as error: return error
attempt()  # late imports need files too
kept = []
try:
    while True: kept.append(os.open("/dev/null", 0))
except OSError: os.close(kept.pop())  # leaves one descriptor for the store itself
error = attempt()
print(error.errno, "this process may have 64 files open" in str(error), "ulimit -n" in str(error))
"""
    done = subprocess.run(
        ["bash", "-c", 'ulimit -n 64; exec "$@"', "bash", sys.executable, "-c", program], cwd=tmp_path, timeout=120,
        capture_output=True, text=True, env={**os.environ, "RECSTORE_DIR": str(tmp_path)}
    )  # fmt: skip
    assert done.stdout == f"{errno.EMFILE} True True\n", done.stdout + done.stderr


@pytest.mark.parametrize("store", STORES)
def test_too_many_open_files(tmp_path, store):
    """Each store is an open file. The error says how to raise the limit."""
    if store == "anonymous" and not hasattr(os, "memfd_create"):
        pytest.skip("needs memfd_create")
    program = f"""
import resource, sys, recstore
from recstore import RecordList
path = sys.argv[1]
RecordList([1]).save(path)
kept = [RecordList([1], backing="dir")]
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
try:
    for i in range(99):
        kept.append({STORES[store]})
except OSError as error:
    kept.clear()
    print(type(error) is OSError, error.errno, "48 files" in str(error), "ulimit -n" in str(error))
print(len(recstore.open(path)))
"""
    environ = {**os.environ, "RECSTORE_DIR": str(tmp_path / "private")}
    run = [sys.executable, "-c", program, str(tmp_path / "a.recs")]
    done = subprocess.run(run, env=environ, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"True {errno.EMFILE} True True\n1\n", done.stderr
