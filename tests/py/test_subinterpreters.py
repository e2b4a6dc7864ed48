"""recstore in several interpreters of one process, each with a lock of its own; where that cannot be, the error."""

import os
import subprocess
import sys
import sysconfig
import textwrap

import pytest

OWN_LOCKS = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
own_locks = pytest.mark.skipif(not OWN_LOCKS, reason="the module works in one interpreter of this Python")

PRELUDE = """
import gc, os, pickle, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

RECORDS = [{"a": i, "b": str(i) * (i % 5), "c": [i, i / 2], "d": {"e": None if i % 3 else 2**80 + i}} for i in range(3000)]
SAME = '''
RECORDS = [{"a": i, "b": str(i) * (i % 5), "c": [i, i / 2], "d": {"e": None if i % 3 else 2**80 + i}} for i in range(3000)]
'''

def run(interpreter, code):
    if sys.version_info < (3, 13):
        interpreters.run_string(interpreter, SAME + code)
    else:
        failed = interpreters.exec(interpreter, SAME + code)
        if failed:
            raise RuntimeError(failed.errdisplay)

def run_new(code, *config, **old_config):
    interpreter = interpreters.create(*config, **old_config)
    try:
        run(interpreter, code)
    finally:
        interpreters.destroy(interpreter)

def together(*functions):
    problems = []
    def call(function):
        try:
            function()
        except BaseException as e:
            problems.append(e)
    threads = [threading.Thread(target=call, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
"""


def output(code, folder, environ=()):
    """What a program prints that ends as it should."""
    environ = {**os.environ, "RECSTORE_PICKLE": "allow", "PYTHONFAULTHANDLER": "1", **dict(environ)}
    environ.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=300)
    if "No module named '_xxsubinterpreters'" in done.stderr:
        pytest.skip("this Python has no module for subinterpreters")
    assert done.stderr == "" and done.returncode == 0
    return done.stdout.split()


@pytest.mark.skipif(OWN_LOCKS, reason="the import works")
def test_the_import_says_why_and_what_to_do(tmp_path):
    code = """
    import recstore
    run_new("try: import recstore\\nexcept ImportError as e: print(e)\\nelse: print('imported')")
    print(recstore.RecordList([1])[0])
    """
    *message, first = output(code, tmp_path)
    message = " ".join(message)
    assert "works in one interpreter of a process" in message and "CPython 3.12 and later with its lock" in message
    assert first == "1"  # the main interpreter goes on


@own_locks
@pytest.mark.parametrize("main_too", [True, False], ids=["main too", "main not"])
def test_two_read_one_file_at_once(tmp_path, main_too):
    code = f"""
    run_new("import recstore; recstore.RecordList(RECORDS).save('x.rec')")
    read = '''
    import recstore
    x = recstore.open("x.rec", verify="full")
    for _ in range(10):
        assert [x[i] for i in range(len(x))] == list(x) == x.get_many(range(len(x))) == RECORDS
        assert [r["d"]["e"] for r in x.lazy()] == list(x.field(("d", "e"))) == [r["d"]["e"] for r in RECORDS]
        assert list(x[::-3].shuffled(1)[:50]) == list(x[::-3].shuffled(1))[:50]
    x.close()
    print("read ", end="")
    '''
    def here():
        exec(SAME + read, {{}})
    together(*[lambda: run_new(read)] * 2, *[here] * {main_too})
    """
    assert output(code, tmp_path) == ["read"] * (2 + main_too)


@own_locks
def test_two_read_one_shared_store_at_once(tmp_path):
    code = """
    import recstore
    x = recstore.RecordList(RECORDS)
    d = recstore.RecordDict({f"k{i}": r for i, r in enumerate(RECORDS)})
    read = '''
    import pickle
    x, d, v = pickle.loads(HANDLE)
    for _ in range(10):
        assert list(x) == RECORDS and list(v) == RECORDS[::-7]
        assert [d[f"k{i}"] for i in range(3000)] == RECORDS and list(d)[5] == "k5" and d.get(5) is None
    '''.replace("HANDLE", repr(pickle.dumps((x, d, x[::-7]))))
    ids = [interpreters.create(), interpreters.create()]
    together(*[lambda id=id: run(id, read) for id in ids])

    # To close in one leaves the others as they are.
    run(ids[0], "x.close(); d.close()\\ntry: x[0]\\nexcept ValueError: print('closed')")
    run(ids[1], "assert x[7] == RECORDS[7] and d['k7'] == RECORDS[7]; print('open')")
    interpreters.destroy(ids[1])
    assert list(x) == RECORDS and d["k9"] == RECORDS[9]
    x.close()
    run(ids[0], "v.close() if hasattr(v, 'close') else None")
    interpreters.destroy(ids[0])
    print(d["k3"] == RECORDS[3])
    """
    assert output(code, tmp_path) == ["closed", "open", "True"]


@own_locks
def test_a_handle_made_in_another_interpreter(tmp_path):
    code = """
    import recstore
    run_new('''if 1:
        import pickle, recstore
        x = recstore.RecordList(RECORDS)
        open("handle", "wb").write(pickle.dumps(x))
        import recstore.shm.registry
    ''')
    id = interpreters.create()
    run(id, '''if 1:
        import pickle, recstore
        x = recstore.RecordList(RECORDS)
        open("handle", "wb").write(pickle.dumps(x))
    ''')
    y = pickle.loads(open("handle", "rb").read())
    interpreters.destroy(id)
    print(list(y) == RECORDS)
    """
    assert output(code, tmp_path) == ["True"]


@own_locks
@pytest.mark.skipif(
    sys.version_info < (3, 13), reason="CPython 3.12.1 crashes once a subinterpreter has imported hashlib"
)
def test_one_name_shared_and_attached(tmp_path):
    code = """
    import recstore
    share = '''if 1:
        import recstore
        x = recstore.shared("one-name", lambda: RECORDS)
        assert list(x) == RECORDS
        print(recstore.attach("one-name")[4]["a"], "", end="")
    '''
    ids = [interpreters.create(), interpreters.create()]
    together(*[lambda id=id: run(id, share) for id in ids])
    x = recstore.attach("one-name")
    interpreters.destroy(ids[0])
    run(ids[1], "x.close(); print(list(recstore.attach('one-name')) == RECORDS)")
    interpreters.destroy(ids[1])
    print(list(x) == RECORDS, len(recstore.segments()))
    """
    assert output(code, tmp_path, {"RECSTORE_DIR": str(tmp_path)}) == ["4", "4", "True", "True", "1"]


@own_locks
def test_both_build_at_once(tmp_path):
    code = """
    build = '''
    import recstore
    for name in "ab":
        x = recstore.RecordList(iter(RECORDS), threads=2)
        assert list(x) == RECORDS
        with recstore.RecordDict({r["a"]: r for r in RECORDS}) as d:
            assert d[17] == RECORDS[17] and d.get("17") is None and len(d) == 3000
        g = x.group_by("b")
        assert list(g["888"])[0] in RECORDS
        x.save(f"{NUMBER}{name}.rec")
        x.close()
        assert list(recstore.open(f"{NUMBER}{name}.rec")) == RECORDS
    try:
        recstore.RecordList([object()])
    except recstore.EncodeError:
        print("refused ", end="")
    '''
    together(*[lambda n=n: run_new(build.replace("{NUMBER}", str(n))) for n in range(3)])
    """
    assert output(code, tmp_path) == ["refused"] * 3


@own_locks
def test_with_the_lock_of_the_main_interpreter(tmp_path):
    code = """
    import recstore
    x = recstore.RecordList(RECORDS)
    x.save("x.rec")
    legacy = [], {"isolated": False}
    if sys.version_info >= (3, 13):
        legacy = ["legacy"], {}
    read = "import recstore; assert list(recstore.open('x.rec')) == RECORDS; print('read ', end='')"
    together(*[lambda: run_new(read, *legacy[0], **legacy[1])] * 2, lambda: list(x))
    """
    assert output(code, tmp_path) == ["read"] * 2


ALIVE = """
import atexit, threading, weakref
import recstore
x = recstore.open("x.rec")
d = recstore.RecordDict({"k": {"v": 1}})
v = x[::2].shuffled(3)
iterator, view_iterator, generator = iter(x), iter(v), (r for r in x)
next(iterator), next(view_iterator), next(generator)
lazy, lazy_all = x.lazy()[7], [x.lazy()[i] for i in range(100)]
field, fields, groups, joined = x.field("a"), x.fields("a", "b"), x.group_by("b"), x + v
keys, items = d.keys(), iter(d.items())
shown = [repr(o) for o in (x, d, v, lazy, field, keys)]
buffer = memoryview(recstore.RecordList([b"x" * 100])[0])
class Held:
    def __init__(self, *held):
        self.held, self.me = held, self
    def __del__(self):
        assert self.held[0][3] == RECORDS[3] and self.held[1]["k"] == {"v": 1}
        print("deleted")
cycle = Held(x, d, v, iterator, view_iterator, generator, lazy, lazy_all, field, fields, groups, joined, keys, items)
reference = weakref.ref(x, lambda gone: print("gone"))
atexit.register(lambda: print("last", x[3] == RECORDS[3]))
unfinished = recstore.RecordList.__new__(recstore.RecordList)
sys = __import__("sys")
sys.modules["kept by a module"] = x
"""


@own_locks
@pytest.mark.parametrize("where", ["another", "main"])
def test_an_interpreter_ends_while_stores_are_open(tmp_path, where):
    """The compiled module is needed for as long as objects of its classes live."""
    code = f"""
    ALIVE = {ALIVE!r}
    run_new("import recstore; recstore.RecordList(RECORDS).save('x.rec')")
    if {where!r} == "main":
        exec(SAME + ALIVE, globals())
    else:
        for _ in range(3):
            run_new(ALIVE)
    """
    printed = output(code, tmp_path)
    times = 1 if where == "main" else 3
    assert printed.count("last") == printed.count("True") == printed.count("deleted") == times


@own_locks
def test_interpreters_one_after_another_leave_nothing(tmp_path):
    """What an interpreter of CPython keeps for ever, such as interned names, it keeps as often; stores add nothing."""
    code = """
    run_new("import recstore; recstore.RecordList(RECORDS).save('x.rec')")
    def left(code, times):
        run_new(code)
        state = []
        for _ in range(times):
            run_new(code)
            gc.collect()
            state.append((sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")), open("/proc/self/maps").read().count("x.rec")))
        assert all(s[1:] == state[0][1:] for s in state), state
        return (state[-1][0] - state[0][0]) / (times - 1)
    plain = left("import collections, errno, functools, gc, itertools, keyword, operator, reprlib, types", 10)
    imported = left("import recstore", 100)
    used = left('''if 1:
        import recstore
        x = recstore.open("x.rec")
        assert list(x[::2].shuffled(3)) != x and x.lazy()[3]["a"] == 3 and len(x.group_by("b")) > 9
        me = [x]; me.append(me)
    ''', 30)
    print(round(imported - plain), round(used - imported))
    """
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("reads /proc")
    imported, used = map(int, output(code, tmp_path))
    # About a thousand names stand in the code of recstore; its classes and functions alone would be more blocks.
    assert imported < 2500 and used < 300


@own_locks
def test_more_interpreters_at_a_time_than_one_table_has(tmp_path):
    code = """
    import recstore
    recstore.RecordList(RECORDS[:9]).save("x.rec")
    ids = [interpreters.create() for _ in range(70)]
    for id in ids:
        run(id, "import recstore; x = recstore.open('x.rec')")
    for id in ids[::2]:
        interpreters.destroy(id)
    for id in ids[1::2]:
        run(id, "assert list(x) == RECORDS[:9]")
    run_new("import recstore; assert list(recstore.open('x.rec')) == RECORDS[:9]")
    for id in ids[1::2]:
        interpreters.destroy(id)
    print(recstore.open("x.rec")[3]["a"])
    """
    assert output(code, tmp_path) == ["3"]


@own_locks
def test_imports_at_once(tmp_path):
    code = """
    together(*[lambda: run_new("import recstore; print(str(recstore.RecordList(RECORDS)[5]['a']) + ' ', end='')")] * 8)
    """
    assert output(code, tmp_path) == ["5"] * 8


@own_locks
def test_an_import_that_fails_and_the_next(tmp_path):
    code = """
    id = interpreters.create()
    run(id, "import sys; sys.modules['recstore._core.trust'] = None\\ntry: import recstore\\nexcept ImportError: print('failed')")
    run(id, "del sys.modules['recstore._core.trust']\\nimport gc; gc.collect()\\nimport recstore; print(recstore.RecordList([4])[0])")
    interpreters.destroy(id)
    import recstore
    print(recstore.RecordList([5])[0])
    """
    assert output(code, tmp_path) == ["failed", "4", "5"]


@own_locks
def test_arrow_streams_are_of_the_main_interpreter(tmp_path):
    """Their consumers call them from threads of their own, where only the main interpreter is found."""
    code = """
    run_new('''if 1:
        import recstore
        try:
            recstore.RecordList([{"a": 1}]).__arrow_c_stream__()
        except RuntimeError as e:
            print(e)
    ''')
    import recstore
    print(type(recstore.RecordList([{"a": 1}]).__arrow_c_stream__()).__name__)
    """
    *message, kind = output(code, tmp_path)
    assert "of the main interpreter" in " ".join(message) and kind == "PyCapsule"
