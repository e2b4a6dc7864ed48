"""The files that readers read (recstore/sources/inputs.py), and the steps that all readers share."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import threading
import zipfile

import descriptors
import pytest

import recstore
from recstore.sources import inputs

TEXT = b"a.jpg\nb.jpg\r\n\nc \xff.jpg"
LINES = ["a.jpg", "b.jpg", "", "c \udcff.jpg"]


def packed(folder, suffix):
    path = folder / f"list.txt{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("list.txt", TEXT)
    elif suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.ZstdCompressor().compress(TEXT))
    else:
        pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
        path.write_bytes(pack(TEXT))
    return path


@pytest.mark.parametrize("suffix", ["", *inputs.PACKED])
def test_files_are_decompressed_by_suffix(tmp_path, suffix):
    path = packed(tmp_path, suffix)
    with recstore.read_lines(path) as x:
        assert x.to_list() == LINES
    if suffix in (".gz", ".xz", ".zst"):  # such files may be concatenated
        path.write_bytes(path.read_bytes() * 2)
        twice = [*LINES[:3], LINES[3] + LINES[0], *LINES[1:]]
        with recstore.read_lines(path) as x, recstore.read_lines([path, path], workers=2) as y:
            assert x.to_list() == twice and y.to_list() == twice * 2


@pytest.mark.parametrize("suffix", inputs.PACKED)
def test_a_truncated_compressed_file_is_an_error_that_names_it(tmp_path, suffix):
    path = packed(tmp_path, suffix)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(recstore.errors.InputError, match=f"list.txt{suffix}.*cannot be decompressed"):
        recstore.read_lines(path)


def damaged(path):
    """Yields the bytes of damaged versions of a compressed file."""
    whole = path.read_bytes()
    yield b"not compressed, despite the name\n" * 9
    yield whole[:-8] + bytes(8)
    for at in range(0, len(whole), 9):
        yield whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]


@pytest.mark.parametrize("read", ["lines", "jsonl", "json", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("suffix", inputs.PACKED)
def test_a_damaged_compressed_file_is_an_error_that_names_it(tmp_path, suffix, read):
    if read in ("csv", "parquet", "arrow"):
        pytest.importorskip("pyarrow")
    path = packed(tmp_path, suffix)
    refused = 0
    for content in damaged(path):
        path.write_bytes(content)
        try:
            getattr(recstore, "read_" + read)(path).close()
        except recstore.errors.InputError as error:
            refused += f"list.txt{suffix}" in str(error)
        else:
            assert read in ("lines", "csv"), "the changed byte may be part of a name or time, not of the text"
    assert refused > 1


def test_lists_keep_their_order_and_patterns_sort_by_name(tmp_path):
    for name in ("b.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.txt").mkdir()
    pattern = str(tmp_path / "*.txt")
    for files, expected in (
        (pattern, ["a.txt", "b.txt", "c[1].txt"]),
        ([tmp_path / "b.txt", pattern], ["b.txt", "a.txt", "b.txt", "c[1].txt"]),
        (str(tmp_path / "c[1].txt"), ["c[1].txt"]),
        (os.fsencode(tmp_path / "a.txt"), ["a.txt"]),
    ):
        with recstore.read_lines(files) as x:
            assert x.to_list() == expected


def test_arguments_that_are_not_files(tmp_path):
    for argument, error, text in (
        (tmp_path / "none", FileNotFoundError, "no such file"),
        (str(tmp_path / "*.none"), FileNotFoundError, "no file matches"),
        (tmp_path, IsADirectoryError, "pattern"),
        ([], ValueError, "empty"),
        (5, TypeError, "not int"),
        (io.StringIO("text"), TypeError, "binary"),
    ):
        with pytest.raises(error, match=text):
            recstore.read_lines(argument)


def test_a_file_object_stays_open_and_is_read_from_its_position():
    file = io.BytesIO(TEXT)
    file.readline()
    with recstore.read_lines(file) as x:
        assert x.to_list() == LINES[1:]
    assert not file.closed


def test_n_rows_and_where(tmp_path):
    path = packed(tmp_path, "")
    with recstore.read_lines(path, n_rows=2) as x, recstore.read_lines(path, where=lambda line: "b" in line) as y:
        assert (x.to_list(), y.to_list()) == (LINES[:2], ["b.jpg"])
    with recstore.read_lines(path, n_rows=0) as x:
        assert x.to_list() == []


def test_thousands_of_files(tmp_path):
    """The process may open fewer descriptors than there are files."""
    for i in range(5_000):
        (tmp_path / f"{i:05}.jsonl").write_text(f'{{"id": {i}}}\n')
    with descriptors.room_for(250):
        for workers in (0, 2):
            with recstore.read_jsonl(tmp_path / "*.jsonl", workers=workers) as x:
                assert x.field("id").to_list() == list(range(5_000))
        with recstore.RecordList(recstore.sources.folder(tmp_path, paths="relative")) as x:
            assert x.field("path").to_list() == [f"{i:05}.jsonl" for i in range(5_000)]


def test_a_file_object_is_read_by_its_own_process(tmp_path):
    path = packed(tmp_path, "")
    with open(path, "rb") as file, recstore.read_lines([file, path], workers=2) as x:
        assert x.to_list() == LINES * 2


def test_names_that_are_not_utf_8(tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff.json"
    try:
        with open(odd, "wb") as file:
            file.write(b"[1, 2]")
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    for workers in (0, 2):
        with recstore.read_json(tmp_path / "*.json", workers=workers) as x:
            assert x.to_list() == [1, 2]
    with open(odd, "wb") as file:
        file.write(b"[1")
    with pytest.raises(recstore.errors.InputError, match="too early"):
        recstore.read_json(odd)


def test_a_url_is_read_by_fsspec():
    fsspec = pytest.importorskip("fsspec")
    for name in ("a", "b"):
        with fsspec.open(f"memory://recstore-test/{name}.txt.gz", "wb") as file:
            file.write(gzip.compress(name.encode()))
    with recstore.read_lines("memory://recstore-test/*.txt.gz") as x:
        assert x.to_list() == ["a", "b"]
    with pytest.raises(FileNotFoundError):
        recstore.read_lines("memory://recstore-test/none")


def test_shared_reads_once_and_follows_the_files_and_options(tmp_path):
    path = packed(tmp_path, "")
    with recstore.shared("test-inputs", recstore.sources.lines(path)) as x:
        with recstore.shared("test-inputs", recstore.sources.lines(path), keep=False) as y:
            assert len(recstore.names.list("test-inputs")) == 1
            assert x.to_list() == y.to_list() == LINES
        with recstore.shared("test-inputs", recstore.sources.lines(path, n_rows=1)) as y:
            assert y.to_list() == LINES[:1]
        path.write_bytes(b"other")
        with recstore.shared("test-inputs", recstore.sources.lines(path)) as y:
            assert y.to_list() == ["other"]
    assert recstore.names.list("test-inputs") == []


def test_save_builds_in_the_file(tmp_path):
    """Other processes never see a partial file, and an error keeps the old file."""
    path, out = packed(tmp_path, ""), tmp_path / "out.recs"
    seen = []

    def where(line):
        seen.append(sorted(entry.name for entry in tmp_path.iterdir()))
        return True

    recstore.sources.lines(path, where=where).save(out, compression="none")
    with recstore.open(out) as x:
        assert (x.to_list(), x.info().backing) == (LINES, "file")
        assert pickle.loads(pickle.dumps(x)).to_list() == LINES
    names = seen[0]
    assert len(names) == 2 and names[0].endswith(".tmp") and names[1] == path.name
    (tmp_path / "link").symlink_to(path.name)
    for same in (path, tmp_path / "link", [path, out]):
        with pytest.raises(ValueError, match="would overwrite its own source"):
            recstore.sources.lines(same).save(out if isinstance(same, list) else path)
    (tmp_path / "link").unlink()
    assert path.read_bytes() == TEXT
    before = out.read_bytes()
    with pytest.raises(ZeroDivisionError):
        recstore.sources.lines(path, where=lambda line: 1 / 0).save(out)
    assert out.read_bytes() == before and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(FileNotFoundError, match="does not exist"):
        recstore.sources.lines(path).save(tmp_path / "none" / "x")
    recstore.sources.lines(path, n_rows=1).save(out, workers=2)
    with recstore.open(out) as x:
        assert x.to_list() == LINES[:1]


def test_save_of_pairs_with_many_repeated_keys(tmp_path):
    """A mapping with many repeated keys is built in two passes."""
    path = tmp_path / "x.json"
    path.write_text("{" + ", ".join(f'"{i % 3}": "{i:0200}"' for i in range(3000)) + "}")
    recstore.sources.json(path, entries=True).save(tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs") as d:
        assert d.to_dict() == {f"{i}": f"{2997 + i:0200}" for i in range(3)}
        assert d.nbytes < 50_000
    assert len(list(tmp_path.iterdir())) == 2


def test_options_that_do_not_apply_are_refused(tmp_path):
    path = packed(tmp_path, "")
    for options, text in (
        ({"shared": "a"}, r"'shared'; write recstore.shared\(name, source\)"),
        ({"save": "a"}, r"'save'; write source.save\("),
        ({"colour": 1}, r"read_lines\(\) got an unexpected keyword argument 'colour'"),
    ):
        with pytest.raises(TypeError, match=text):
            recstore.read_lines(path, **options)
    source = recstore.sources.lines(path)
    with pytest.raises(TypeError, match=r"save\(\) takes no name=: the path says where the store is"):
        source.save(tmp_path / "x.recs", name="a")
    with pytest.raises(TypeError, match=r"shared\(\) takes no backing="):
        recstore.shared("test-inputs", source, backing="dir")
    with pytest.raises(TypeError, match="give fingerprint="):
        recstore.shared("test-inputs", recstore.sources.lines(io.BytesIO(TEXT)))
    with recstore.shared("test-inputs", recstore.sources.lines(io.BytesIO(TEXT)), fingerprint="1") as x:
        assert x.to_list() == LINES


def test_progress_counts_stored_bytes(tmp_path, capfd):
    pytest.importorskip("rich")
    with recstore.read_lines([packed(tmp_path, ""), packed(tmp_path, ".gz")], progress=True) as x:
        assert x.to_list() == LINES * 2
    assert "100%" in capfd.readouterr().err


class Slow:
    """A file object that has only `read`, which returns at most three bytes, like a socket."""

    def __init__(self, data, error=None):
        self.file, self.error = io.BytesIO(data), error

    def read(self, size=-1):
        if self.error is not None and self.file.tell() > len(self.file.getvalue()) // 2:
            raise self.error
        return self.file.read(3 if size < 0 else min(size, 3))


def of_each_reader(folder):
    """Yields `(reader, bytes of a file for it)` for each reader except read_lines."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pyarrow.table({"id": [1, 2]})
    parquet.write_table(table, folder / "x.parquet")
    feather.write_feather(table, folder / "x.arrow")
    yield recstore.read_jsonl, b'{"id": 1}\n{"id": 2}\n'
    yield recstore.read_json, b'[{"id": 1}, {"id": 2}]'
    yield recstore.read_csv, b"id\n1\n2\n"
    yield recstore.read_parquet, (folder / "x.parquet").read_bytes()
    yield recstore.read_arrow, (folder / "x.arrow").read_bytes()


@pytest.mark.parametrize("change", [lambda path: os.utime(path, ns=(1, 1)), lambda path: os.truncate(path, 150_000)])
def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, change):
    path = tmp_path / "x"
    for reader, text in (
        (recstore.read_lines, "\n".join(["x" * 200] * 5000)),
        (recstore.read_jsonl, f'"{"x" * 200}"\n' * 5000),
        (recstore.read_json, json.dumps(["x" * 200] * 5000)),
        (recstore.read_csv, "a\n" + "1\n" * 200_000),  # between the passes
    ):
        path.write_text(text)
        with pytest.raises(recstore.errors.InputError, match="changed while it was read"):
            reader(path, where=lambda record: change(path) or True)


def test_fingerprints_have_the_arguments_and_the_files(tmp_path):
    field = pytest.importorskip("pyarrow.compute").field
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in (a, b):
        path.write_text("a,b\n1,2\n")
    in_place = {"in_place": True}
    for make, alike, others in (
        (recstore.sources.lines, [{}], [in_place, {"n_rows": 1}, {"empty": "skip"}, {"encoding": "ascii"}]),
        (recstore.sources.jsonl, [{}], [in_place, {"errors": "skip"}, {"columns": ["a"]}]),
        (recstore.sources.json, [{}], [{"records": "a"}, {"records": "a", "entries": True}, {"columns": ["a"]}]),
        (
            recstore.sources.parquet,
            [{"where": field("a") < 2}, {"where": field("a") < 2}],
            [{}, {"where": field("a") < 3}, {"dtypes": {"a": str}}, {"missing": "absent"}],
        ),
        (
            recstore.sources.csv,
            [{"dtypes": {"a": str}}, {"dtypes": {"a": "string"}}],
            [{}, {"dtypes": str}, {"null_values": "1"}, {"columns": ["a"]}, {"header": ["x", "y"]}, in_place],
        ),
        (
            recstore.sources.csv,
            [in_place],
            [{**in_place, **more} for more in ({"dtypes": str}, {"null_values": "1"}, {"header": ["x", "y"]})],
        ),
    ):
        same = {make(a, **options)._identity() for options in alike}
        different = [make(b, **alike[0])._identity(), *(make(a, **options)._identity() for options in others)]
        assert len(same) == 1 and len(same | {*different}) == 1 + len(different), make
    for options in ({}, in_place):
        assert recstore.sources.lines(a, **options)._identity() != recstore.sources.jsonl(a, **options)._identity()


def test_file_objects_may_return_fewer_bytes_than_asked_for(tmp_path):
    for reader, data in of_each_reader(tmp_path):
        with reader(Slow(data)) as x:
            assert x.to_list() == [{"id": 1}, {"id": 2}], reader
        for error in (OSError(5, "disk on fire"), KeyboardInterrupt()):
            with pytest.raises(type(error)) as caught:
                reader(Slow(data, error))
            assert caught.value is error


def test_a_non_blocking_file_object_is_an_error():
    class Waiting(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            return None if len(buffer) else 0

    for reader in (recstore.read_lines, recstore.read_jsonl, recstore.read_csv):
        with pytest.raises(BlockingIOError, match="blocking"):
            reader(Waiting())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_named_pipe_is_read_once(tmp_path, workers):
    """Writing to a pipe changes its time, but must not count as a change of the file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for reader, data in of_each_reader(tmp_path):
        writer = threading.Thread(target=path.write_bytes, args=(data,))
        writer.start()
        try:
            with reader(path, workers=workers) as x:
                assert x.to_list() == [{"id": 1}, {"id": 2}], reader
        finally:
            writer.join()
    with pytest.raises(TypeError, match="give fingerprint="):
        recstore.shared("test-inputs", recstore.sources.lines(path))


def test_a_text_file_object_that_was_read_before_is_an_error(tmp_path):
    """A text file object reads ahead, so the position of its buffer is after the text that was read."""
    path = packed(tmp_path, "")
    for encoding in ("utf-8", "latin-1"):
        with open(path, encoding=encoding, errors="replace", newline="") as text:
            next(text)
            with pytest.raises(ValueError, match="were read before; open it in binary mode"):
                recstore.read_lines(text)
            text.seek(0)
            with recstore.read_lines(text) as x:
                assert x.to_list() == LINES


def test_wrong_arguments_are_refused_by_each_reader(tmp_path):
    for reader, data in of_each_reader(tmp_path):
        for options, kind, match in (
            ({"n_rows": -1}, ValueError, "not -1"),
            ({"n_rows": 1.5}, TypeError, "n_rows is a float"),
            ({"where": "id > 3"}, TypeError, "where is a str"),
            ({"columns": "id"}, TypeError, "write columns="),
            ({"columns": {"id"}}, TypeError, "columns is a set"),
            ({"columns": ["id", "id"]}, ValueError, "'id' twice"),
        ):
            with pytest.raises(kind, match=match):
                reader(io.BytesIO(data), **options)
        with reader(io.BytesIO(data), n_rows=10**30) as x:
            assert len(x) == 2


def test_a_function_that_cannot_be_pickled_for_workers(tmp_path):
    with pytest.raises(TypeError, match="define functions with def at the top of a module, or leave workers= out"):
        recstore.read_lines(packed(tmp_path, ""), where=lambda line: True, workers=2)


def test_a_name_that_is_not_utf8(tmp_path):
    """pyarrow's file system does not take such names."""
    for number, (reader, data) in enumerate(of_each_reader(tmp_path)):
        path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xff%d" % number))
        with open(path, "wb") as file:
            file.write(data)
        for workers in (0, 2):
            with reader(path, workers=workers) as x:
                assert x.to_list() == [{"id": 1}, {"id": 2}], reader


@pytest.mark.parametrize("window", [27, 28, 31])
def test_a_long_window_of_zstd(tmp_path, window):
    zstandard = pytest.importorskip("zstandard")
    parameters = zstandard.ZstdCompressionParameters(window_log=window, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # its frames do not have a size
    packed = packer.compress(TEXT) + packer.flush()
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    for content in (packed, skipped + packed, packed + skipped):
        (tmp_path / "list.txt.zst").write_bytes(content)
        with recstore.read_lines(tmp_path / "list.txt.zst") as x:
            assert x.to_list() == LINES


@pytest.mark.parametrize(
    "others",
    [
        ["__MACOSX/._list.txt"],
        ["folder/", "__MACOSX/", "__MACOSX/folder/", "__MACOSX/folder/._list.txt", "folder/.DS_Store"],
        ["._list.txt", ".DS_Store"],
        ["folder/Thumbs.db", "desktop.ini"],
    ],
)
def test_a_file_manager_adds_files_to_a_zip(tmp_path, others):
    path = tmp_path / "list.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in others:
            archive.writestr(name, b"" if name.endswith("/") else b"\x00\x05\x16\x07")
        archive.writestr("folder/list.txt", TEXT)
    with recstore.read_lines(path) as x:
        assert x.to_list() == LINES
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a.txt", TEXT)
    with pytest.raises(recstore.errors.InputError, match="the archive has 2 files"):
        recstore.read_lines(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("._list.txt", TEXT)
    with recstore.read_lines(path) as x:
        assert x.to_list() == LINES
