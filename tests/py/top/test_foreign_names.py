"""Errors about names of pandas, polars and other libraries end with a hint, such as recstore's counterpart."""

import inspect
import io
import operator
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import recstore
from recstore import foreign_names, sources
from recstore.building import build_options

KINDS = [name for name in sources.__all__ if name != "Source"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_hint_is_for_a_name_that_the_reader_lacks(kind):
    names = {*inspect.signature(getattr(sources, kind)).parameters, *build_options.NAMES}
    hints = foreign_names._BY_READER.get(kind, {})
    assert not names & {*hints, *foreign_names._FILES}
    for hint in hints.values():
        argument = hint.partition("write ")[2].partition("=")[0]
        assert "." in argument or not argument or argument in names, hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_takes_the_arguments_of_its_source(kind):
    own = inspect.signature(getattr(sources, kind)).parameters
    assert len(own) <= 16 and all(parameter.annotation for parameter in own.values())
    if hasattr(recstore, f"read_{kind}"):
        parameters = dict(inspect.signature(getattr(recstore, f"read_{kind}")).parameters)
        assert parameters.pop("options").annotation == "Unpack[BuildOptions]" and parameters == own


def test_options_unknown_or_of_another_reader():
    """The error suggests the nearest name or the function that takes the argument, if there is one."""
    file = io.BytesIO(b"1\n")
    for call, message in (
        (lambda: sources.csv(file, colums=["a"]), "'colums'; did you mean 'columns'"),
        (lambda: sources.csv(file, max_rows=1), "'max_rows'; did you mean 'n_rows'"),
        (lambda: sources.jsonl(file, delimiter=";"), "'delimiter'; it is an argument of sources.csv"),
        (
            lambda: recstore.read_jsonl(file, delimiter=";"),
            r"read_jsonl\(\).*'delimiter'; it is an argument of sources.csv",
        ),
        (lambda: sources.jsonl(file, workers=2), r"an option of the build: RecordList\(source, workers=...\)"),
        (lambda: recstore.read_jsonl(file, wokers=2), r"read_jsonl\(\).*'wokers'; did you mean 'workers'"),
        (lambda: sources.jsonl(file).save("x", wokers=2), r"save\(\).*'wokers'; did you mean 'workers'"),
        (lambda: recstore.shared("x", list, kep=True), r"shared\(\).*'kep'; did you mean 'keep'"),
        (lambda: recstore.RecordList([]).map(str, wokers=2), "'wokers'; did you mean 'workers'"),
        (lambda: recstore.RecordList([], class_from="first"), "'class_from'; it is an argument of sources.folder"),
        (lambda: recstore.RecordDict({}, arays="view"), r"RecordDict\(\).*'arays'; did you mean 'arrays'"),
        (lambda: sources.lines(file, colour=1), "'colour'$"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_each_hint_for_a_function_is_for_a_function_that_recstore_lacks():
    for name, hint in foreign_names._FUNCTIONS.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; write "):
            getattr(recstore, name)
        called = hint.partition("recstore.")[2].partition("(")[0]
        assert not called or operator.attrgetter(called)(recstore)


def test_a_name_in_another_module_names_the_module():
    for name, place in (("EncodeError", "errors"), ("collect", "names"), ("csv", "sources"), ("ShardWriter", "remote")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; write recstore.{place}.{name}$"):
            getattr(recstore, name)
    code = "import sys, recstore; hasattr(recstore, 'Loader'); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    pytest.importorskip("torch")
    with pytest.raises(AttributeError, match="no attribute 'Loader'; write recstore.torch.Loader$"):
        recstore.Loader


@pytest.mark.parametrize(
    ("reader", "arguments", "message"),
    [
        (recstore.read_csv, {"sep": ";"}, "'sep'; write delimiter="),
        (recstore.read_csv, {"usecols": ["id"]}, "'usecols'; write columns="),
        (recstore.read_csv, {"nrows": 1}, "'nrows'; did you mean 'n_rows'"),
        (recstore.read_csv, {"limit": 1}, "'limit'; write n_rows="),
        (recstore.read_csv, {"names": ["id"]}, "'names'; write header="),
        (recstore.read_csv, {"dtype": str}, "'dtype'; did you mean 'dtypes'"),
        *(
            (recstore.read_csv, {"header": header}, "False if no row has them, or a list of")
            for header in (None, 0, "x")
        ),
        (recstore.read_json, {"records": ["images", "annotations"]}, "several arrays"),
        (recstore.read_json, {"lines": True}, r"'lines'; write recstore.read_jsonl\(path\)"),
        (recstore.read_json, {"orient": "index"}, "'orient'; write entries=True"),
        (recstore.read_jsonl, {"lines": True}, "'lines'; omit it"),
    ],
)
def test_arguments_of_pandas(reader, arguments, message):
    pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match=message):
        reader(io.BytesIO(b"1\n"), **arguments)


def test_another_delimiter_is_advised_where_there_is_one_column():
    pytest.importorskip("pyarrow")
    with pytest.raises(recstore.errors.InputError, match="',' here: give another delimiter="):
        recstore.read_csv(io.BytesIO(b"path;score\na;0,5\n"))
    with pytest.raises(recstore.errors.InputError, match="2 expected; quote the cell"):
        recstore.read_csv(io.BytesIO(b"path,score\na,0,5\n"))


def test_a_parquet_file_in_read_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"id": [1]}), file)
    file.seek(0)
    with pytest.raises(recstore.errors.InputError, match="read_parquet reads it"):
        recstore.read_arrow(file)


def test_arguments_that_are_not_files():
    for argument, message in (
        (iter(["a"]), r"give a list of paths: list\(paths\)"),
        (io.StringIO("a"), r"or give io.BytesIO\(text.encode\(\)\)"),
    ):
        with pytest.raises(TypeError, match=message):
            recstore.read_lines(argument)
    for text in ('{"a": 1}', '[{"a": 1}]'):
        with pytest.raises(FileNotFoundError, match="reads a text"):
            recstore.read_json(text)
    for text in (b'[\n {"id": 1}\n]', b'{\n "id": 1\n}'):
        with pytest.raises(recstore.errors.InputError, match="read_json reads a document of several lines"):
            recstore.read_jsonl(io.BytesIO(text))
    for path in ("a.jsonl", pathlib.Path("a.jsonl")):
        with pytest.raises(TypeError, match="recstore.read_jsonl, read_csv"):
            recstore.RecordList(path)


def test_frames_of_another_library():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match=r"recstore.RecordList\(table\) reads a table"):
        recstore.read_csv(pandas.DataFrame({"id": [1]}))
    with pytest.raises(recstore.errors.EncodeError, match="to_datetime64"):
        recstore.RecordList([pandas.Timestamp(0)])
    with pytest.raises(recstore.errors.EncodeError, match=r"RecordList\(recstore.sources.table\("):
        recstore.RecordList(frame for frame in [polars.DataFrame({"id": [1]})])


def test_open_of_a_file_that_is_not_a_store(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n' * 10_000)
    with pytest.raises(
        recstore.errors.CorruptError, match="MAGIC.*read_jsonl, read_csv and others read other files"
    ) as caught:
        recstore.open(path)
    assert str(caught.value).endswith(repr(str(path))) and caught.value.filename == str(path)


def test_the_import_of_the_source_says_what_to_do(tmp_path):
    source = pathlib.Path(__file__).resolve().parents[3] / "recstore"
    if not source.is_dir():
        pytest.skip("reads the checkout, which is not here")
    package = tmp_path / "recstore"
    (package / "_core").mkdir(parents=True)
    shutil.copy(source / "__init__.py", package)
    for name in ("__init__.py", "forks.py"):
        shutil.copy(source / "_core" / name, package / "_core")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", "import recstore"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "start Python in another folder, or as python -P" in done.stderr
