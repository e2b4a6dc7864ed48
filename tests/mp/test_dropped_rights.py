"""A program that cannot import anything after `import recstore`, because it dropped its privileges, changed its root,
removed its folder or cleared its path, can still build, read and share plain records."""

import os
import shutil

import pytest
import waiting

import recstore
from recstore import _version
from recstore._core import native

pytestmark = pytest.mark.usefixtures("own_folders")
BLOCKED = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if getattr(one, "__name__", "") in ("BuiltinImporter", "FrozenImporter")]
sys.path.clear()
"""
WORK = {
    "list": "x = RecordList([{'a': i, 'b': [1.5, None, True], 'c': 'text', 'd': b'x', (1, 2): ()} for i in range(70_000)]); assert x[-1]['a'] == 69_999 and x[1:3].to_list()[0]['b'] == [1.5, None, True]",
    "one thread": "assert RecordList(range(9), threads=0)[8] == 8",
    "views": "x = RecordList(range(100)); assert x[::2][[3, 1]].to_list() == [6, 2] and len(x.shuffled(5)) == 100",
    "dict": "d = RecordDict([('a', 1), ('b', 2), ('a', 3)]); assert d['a'] == 3 and list(d.items()) == [('a', 3), ('b', 2)]",
    "save and open": "RecordList([1]).save('x'); assert recstore.open('x', verify='full')[0] == 1; RecordDict({1: 2}).save('d'); assert recstore.open('d')[1] == 2",
    "copy": "RecordList([1]).save('x'); assert recstore.open('x', copy=True)[0] == 1",
    "named": "x = RecordList([1], name=name); assert shared(name)[0] == 1",
    "shared": "def build():\n    return [part]\nx = shared(name, build); assert shared(name)[0] == part and shared(name, build)[0] == part",
    "shared dict": "x = shared(name, lambda: {'k': part}, keep='1h', files=[]); assert x['k'] == part; recstore.names.remove(name)",
    "a build that fails": "def build():\n    raise KeyError(part)\ntry: shared(name, build)\nexcept KeyError: x = shared(name, lambda: [part], fingerprint='2'); assert x[0] == part",
    "a builder that died": "pid = os.fork()\nif pid == 0: shared(name, lambda: os._exit(1), fingerprint='1')\nos.waitpid(pid, 0); assert shared(name, lambda: [part], fingerprint='1')[0] == part",
    "a forked child": "x = RecordList([part])\nif os.fork() == 0: os._exit(RecordList([x[0]])[0])\nassert os.wait()[1] >> 8 == part",
    "cache": "c = cache(name, limit='1MB', code=len); assert c.get_or_make(1, str, 1) == '1' == c.get(1); c.info(); c.warm([2], str); assert len(c) == 2 and c.seal()[1] == '1'",
    "cached text": "with cache(name, limit='1MB', slots=9) as c: assert [c.get_or_make(3, list, 'ab') for _ in range(2)] == [['a', 'b']] * 2\nassert recstore.names.list(name) == []",
    "names": "assert isinstance(recstore.names.list(), list)",
}


RUN = """
for title, work in works.items():
    try:
        exec(work, {"name": sys.argv[1], "part": 5, **tools})
        gc.collect()
    except BaseException as error:
        print(title, repr(error))
"""


def test_without_imports(python, name):
    """The folder has another segment for the collection of each build to examine."""
    with recstore.RecordList([1], name=f"{name} other"):
        code = f"import gc, os, sys, recstore\nfrom recstore import RecordDict, RecordList, cache, shared\ntools, works = dict(globals()), {WORK}\n"
        assert python(code + BLOCKED + RUN, name) == ""


def test_other_values_after_a_store_with_such_values(python, name):
    code = """
import datetime, sys
import numpy as np
from recstore import RecordList, shared
value = {"day": datetime.date(2020, 1, 2), "set": {1}, "array": np.arange(3), "complex": 1j}
RecordList([value])[0]
name, part = sys.argv[1], 5
"""
    work = "with RecordList([value] * 5) as x, shared(name, lambda: [value], fingerprint='1') as y: print(x[4], y[0])"
    record = "{'day': datetime.date(2020, 1, 2), 'set': {1}, 'array': array([0, 1, 2]), 'complex': 1j}"
    assert python(code + BLOCKED + work, name) == f"{record} {record}\n"


def test_after_the_package_was_removed(tmp_path, name):
    """The package is removed as in an upgrade while a program runs. The program's folder is removed too."""
    home = tmp_path / "home"
    source = os.path.dirname(recstore.__file__)
    shutil.copytree(source, home / "recstore", dirs_exist_ok=True)
    # An editable installation has the built files elsewhere.
    shutil.copy(native.__file__, home / "recstore/_core")
    shutil.copy(_version.__file__, home / "recstore")
    code = f"""
import os, sys
sys.path.insert(0, {str(home)!r})
sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]  # no editable finder
import recstore
from recstore import RecordList, RecordDict, shared
import shutil
os.chdir({str(home)!r})
shutil.rmtree({str(home)!r})
with RecordList([{{"a": 1}}]) as x, RecordDict({{"a": 1}}) as d, shared({name!r}, lambda: [7]) as y:
    print(x[0], d["a"], y[0], recstore.__file__.startswith({str(home)!r}))
"""
    done = waiting.python("-c", code, cwd="/")
    assert (done.stdout, done.stderr) == ("{'a': 1} 1 7 True\n", "")
