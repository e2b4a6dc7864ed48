"""A user's own sources (recstore/building/source.py), and sources of files that are read again, change, fail or are
sent to other processes."""

import io
import os
import pathlib
import pickle
import threading

import pytest
import waiting

import recstore
from recstore import RecordDict, RecordList, sources
from recstore.errors import EncodeError, InputError
from recstore.remote import ShardWriter


class Squares(sources.Source):
    def __init__(self, start, stop, size=100):
        self.start, self.stop, self.size = start, stop, size

    def append_to(self, builder):
        builder.extend({"n": n, "square": n * n} for n in range(self.start, self.stop))

    def split(self):
        return [Squares(n, min(n + self.size, self.stop)) for n in range(self.start, self.stop, self.size)]


class Words(sources.Source):
    """Pairs, in parts that are not sources."""

    pairs = True
    attributes = {"language": "en"}  # ignored for a mapping

    def append_to(self, builder):
        for part in self.split():
            builder.extend(part)

    def split(self):
        return [[(f"w{n}", n) for n in range(100)], zip(["x", "w0"], [1, 2])]


class Lines(sources.Source):
    def __init__(self, path, then=None):
        self.files, self.then = [path], then

    def append_to(self, builder):
        builder.extend(pathlib.Path(self.files[0]).read_text().splitlines())
        if self.then is not None:
            self.then(self.files[0])


class Failing(sources.Source):
    def __init__(self, error):
        self.error = error

    def append_to(self, builder):
        builder.extend(range(1000))
        builder.extend(self.end())

    def end(self):
        yield 1
        raise self.error

    def split(self):
        return [self, self]


SQUARES = [{"n": n, "square": n * n} for n in range(1000)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_custom_source(workers):
    source = Squares(0, 1000)
    for again in (source, source, pickle.loads(pickle.dumps(source))):
        with RecordList(again, workers=workers, index_by="n") as x:
            assert x.to_list() == SQUARES and x.index_by("n")[7]["square"] == 49


@pytest.mark.parametrize("parts", [5, "ab", {"a": 1}, iter([])], ids=lambda parts: type(parts).__name__)
def test_split_returns_a_sequence(parts, monkeypatch, tmp_path):
    monkeypatch.setattr(Squares, "split", lambda self: parts)
    kind = type(parts).__name__
    (tmp_path / "x").touch()
    for files in ((), [tmp_path / "x"]):
        monkeypatch.setattr(Squares, "files", files)
        with pytest.raises(TypeError, match=rf"split\(\) of a Squares returned an? {kind}; it returns a list"):
            RecordList(Squares(0, 10), workers=2)


def test_attributes_that_cannot_be_stored(monkeypatch):
    for value, error, message in (
        ({"classes": {"cat"}}, TypeError, "Object of type set .*; JSON has dict, list"),
        ({"classes": float("nan")}, ValueError, "not JSON compliant"),
        ({"classes": "x" * (1 << 20)}, ValueError, "keep a long list in its own store"),
        (["cat"], TypeError, "give a dict"),
    ):
        monkeypatch.setattr(Squares, "attributes", value)
        with pytest.raises(error, match=f"the attributes of a Squares.*{message}"):
            RecordList(Squares(0, 10))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_source_of_pairs(workers):
    with RecordDict(Words(), workers=workers) as d:
        assert len(d) == 101 and d["x"] == 1 and d["w0"] == 2
    with pytest.raises(TypeError, match=r"a Words of \(key, value\) pairs: write RecordDict\(source\)"):
        RecordList(Words())
    with pytest.raises(TypeError, match=r"a Squares of records, not of pairs: write RecordList\(source\)"):
        RecordDict(Squares(0, 1))


def test_save_and_shards(tmp_path):
    Squares(0, 1000).save(tmp_path / "x.recs", compression="none", workers=2)
    Words().save(tmp_path / "d.recs")
    with recstore.open(tmp_path / "x.recs") as x, recstore.open(tmp_path / "d.recs") as d:
        assert x.to_list() == SQUARES and d["x"] == 1
    w = ShardWriter(tmp_path / "set", shard_records=300)
    w.commit(w.write(Squares(0, 1000)))
    with recstore.open(tmp_path / "set") as x:
        assert x.to_list() == SQUARES


def test_threads_read_one_source(tmp_path):
    (tmp_path / "x.jsonl").write_text("1\n2\n")
    source = sources.jsonl(tmp_path / "x.jsonl")
    results = []
    waiting.together([threading.Thread(target=lambda: results.append(RecordList(source).to_list())) for _ in range(8)])
    assert results == [[1, 2]] * 8


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError("here"), InputError("there")], ids=repr)
def test_a_source_that_raises_in_the_middle(error, workers, tmp_path):
    for build in (RecordList, lambda source, **how: source.save(tmp_path / "x.recs", **how)):
        with pytest.raises(type(error), match=str(error)):
            build(Failing(error), workers=workers)
    with pytest.raises(type(error), match=str(error)):
        recstore.shared("test-source", Failing(error), fingerprint="1", workers=workers)
    assert recstore.names.list("test-source") == [] and list(tmp_path.iterdir()) == []


def test_a_file_that_changes_while_it_is_read(tmp_path):
    path = str(tmp_path / "x.txt")
    pathlib.Path(path).write_text("a\nb\n")
    with RecordList(Lines(path)) as x:
        assert x.to_list() == ["a", "b"]
    with pytest.raises(InputError, match="x.txt: the file changed while it was read"):
        RecordList(Lines(path, lambda path: os.utime(path, ns=(1, 1))))
    # The file may change between two builds.
    for source in (Lines(path), sources.lines(path)):
        for text in ("c\n", "longer\n"):
            pathlib.Path(path).write_text(text)
            with RecordList(source) as x:
                assert x.to_list() == text.split()


def test_the_fingerprint_covers_code_attributes_and_files(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("a\n")
    with recstore.shared("test-source", Squares(0, 10)) as x, recstore.shared("test-source", Squares(0, 10)) as y:
        assert x.info().name == y.info().name and len(recstore.names.list("test-source")) == 1
        with recstore.shared("test-source", Squares(0, 11)) as z, recstore.shared("test-source", Lines(path)) as lines:
            assert len(z) == 11 and lines.to_list() == ["a"] and len(recstore.names.list("test-source")) == 3
            path.write_text("longer\n")
            with recstore.shared("test-source", Lines(path)) as lines:
                assert lines.to_list() == ["longer"]
    source = Squares(0, 3)
    source.fingerprint = "mine"
    with recstore.shared("test-source", source, keep="1m"), recstore.shared("test-source", fingerprint="mine") as x:
        assert len(x) == 3
    recstore.names.remove("test-source")


def test_two_processes_agree_about_a_source(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,label\n1,a\n2,b\n")
    code = f"import recstore; print(recstore.sources.csv({str(path)!r}, columns=['id']).fingerprint)"
    pytest.importorskip("pyarrow")
    printed = {waiting.python("-c", code).stdout for _ in range(2)}
    assert printed == {sources.csv(path, columns=["id"]).fingerprint + "\n"}
    assert sources.csv(path).fingerprint + "\n" not in printed


def test_options_of_shared(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    source = sources.jsonl(tmp_path / "x.jsonl")
    with recstore.shared("test-source", source, index_by="id", workers=2, compression="none", isolate=True) as x:
        assert x.index_by("id")[2] == {"id": 2}
    with recstore.shared("test-source", lambda: source, fingerprint="1", index_by="id") as x:
        assert x.index_by("id")[1] == {"id": 1}


def test_file_objects_are_read_from_their_position_and_pipes_once():
    file = io.BytesIO(b"skipped\n1\n2\n")
    file.readline()
    source = sources.jsonl(file)
    for _ in range(2):
        with RecordList(source, workers=2) as x:
            assert x.to_list() == [1, 2]
    for make in (sources.jsonl, sources.lines):
        read, write = os.pipe()
        with open(write, "wb") as end:
            end.write(b"1\n2\n")
        with open(read, "rb") as end:
            source = make(end)
            with RecordList(source) as x:
                assert len(x) == 2
            with pytest.raises(InputError, match="was read before, and its file object"):
                RecordList(source)


class Returning(sources.Source):
    def append_to(self, builder):
        yield 1


def test_mistakes_in_a_source_are_named():
    with pytest.raises(TypeError, match=r"append_to\(\) of a Returning returned a generator; it appends the records"):
        RecordList(Returning())
    assert sources.Source.__module__ == "recstore.sources" and repr(sources.Source[int])
    assert pickle.loads(pickle.dumps(sources.Source)) is sources.Source
    with pytest.raises(NotImplementedError, match=r"Source does not define append_to\(builder\)"):
        RecordList(sources.Source())
    with pytest.raises(EncodeError, match="record 1: .*cannot store object"):
        RecordList(Bad())


class Bad(sources.Source):
    def append_to(self, builder):
        builder.extend([1, object()])


# ---- Sources as parts of a source ----


class Reading(sources.Source):
    """Reads a file through a source of the package: append_to() calls it, split() returns it."""

    def __init__(self, path, **how):
        self.path, self.how = path, how

    def append_to(self, builder):
        sources.jsonl(self.path, **self.how).append_to(builder)

    def split(self):
        return [sources.jsonl(self.path, **self.how)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_source_within_another_raises_its_errors(tmp_path, workers):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    with RecordList(Reading(path), workers=workers) as x:
        assert x[:] == [{"id": 1}, {"id": 2}]
    pytest.raises(InputError, lambda: RecordList(Reading(path, columns=["x"]), workers=workers)).match("no column 'x'")
    path.write_text('{"id": 1}\nbad\n')
    pytest.raises(InputError, lambda: RecordList(Reading(path), workers=workers)).match("line 2")
    with RecordList(Reading(path, errors="skip"), workers=workers) as x:
        assert len(x) == 1


def test_tables_within_a_source_with_a_progress_bar(capfd):
    pa, _ = pytest.importorskip("pyarrow"), pytest.importorskip("rich")

    class Tables(sources.Source):
        def append_to(self, builder):
            sources.table(pa.table({"a": [1, 2]})).append_to(builder)
            builder.extend([{"a": 3}])

    with RecordList(Tables(), progress=True) as x:
        assert x[:] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert " 3/? " in capfd.readouterr().err
    with RecordList(pa.table({"a": range(1000)}), progress=True) as x:
        assert len(x) == 1000
    assert " 1000/1000 " in capfd.readouterr().err, "the rows of a table have a total"


def test_a_name_with_a_nul_is_refused_each_time():
    table = sources.table(pytest.importorskip("pyarrow").table({"a\0b": [1]}))
    for _ in range(2):
        pytest.raises(InputError, lambda: RecordList(table)).match("NUL")


def test_files_may_be_one_path(tmp_path):
    class One(sources.Source):
        files = str(tmp_path / "a")

        def append_to(self, builder):
            builder.extend([1])

    (tmp_path / "a").write_text("")
    with RecordList(One()) as x:
        assert x[:] == [1]
    pytest.raises(ValueError, lambda: One().save(tmp_path / "a")).match("overwrite its own source")


def test_the_closure_of_a_where_of_an_installed_package_counts(tmp_path, monkeypatch):
    """The package that defines the function counts as part of the program."""
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "filtering.py").write_text("def below(limit):\n    return lambda record: record['id'] < limit\n")
    monkeypatch.syspath_prepend(package)
    import filtering

    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    one, two, again = (sources.jsonl(tmp_path / "a.jsonl", where=filtering.below(limit)) for limit in (2, 3, 2))
    assert one.fingerprint == again.fingerprint != two.fingerprint


def test_equal_numbers_of_rows_are_one_source(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    for make in (sources.jsonl, sources.lines):
        assert make(tmp_path / "a.jsonl", n_rows=True).fingerprint == make(tmp_path / "a.jsonl", n_rows=1).fingerprint
    assert sources.folder(tmp_path, n_rows=True).fingerprint == sources.folder(tmp_path, n_rows=1).fingerprint
