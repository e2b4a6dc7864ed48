"""open_tokens: paths, formats, and files that are damaged or do not fit together."""

import itertools
import os
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from token_data import documents_of, write_megatron
from waiting import until

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import InputError
from recstore.tokens.ends import EndTokens

DOCUMENTS = documents_of(20)


def test_paths_of_a_pair(tmp_path):
    for name in ("a", "b.c"):
        write_megatron(tmp_path / name, DOCUMENTS)
    pair, n = [tmp_path / "a.bin", tmp_path / "a.idx"], len(DOCUMENTS)
    for paths, pairs in (
        (tmp_path / "a.bin", 1),
        (str(tmp_path / "a.idx"), 1),
        (os.fsencode(tmp_path / "a"), 1),
        (tmp_path / "b.c", 1),
        (pair, 1),
        (tmp_path / "*", 2),
        (tmp_path / "*.idx", 2),
        ([tmp_path / "a", tmp_path / "a", tmp_path / "*.bin"], 4),  # a repeated file is read twice
    ):
        with recstore.open_tokens(paths) as t:
            assert len(t) == pairs * n and t[-1].tolist() == DOCUMENTS[-1].tolist()


def test_refused_arguments(tmp_path):
    np.arange(6, dtype=np.uint16).tofile(tmp_path / "raw")
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.int32))
    os.link(tmp_path / "raw", tmp_path / "raw.gz")
    os.mkfifo(tmp_path / "pipe")
    write_megatron(tmp_path / "m", DOCUMENTS)
    write_megatron(tmp_path / "wide", DOCUMENTS, "int32")
    with RecordDict({"a": [1]}) as d, RecordList([[1], ["a"]]) as x, RecordList([[1, 70000]]) as large:
        d.save(tmp_path / "d.rec")
        x.save(tmp_path / "texts.rec")
        large.save(tmp_path / "large.rec")
    for path, options, error in (
        ("missing", {}, FileNotFoundError),
        ("", {}, IsADirectoryError),
        ("raw", {}, ValueError),  # no dtype
        ("raw.gz", {"dtype": "uint16"}, ValueError),
        ("pipe", {"dtype": "uint16"}, TypeError),
        ("raw", {"dtype": "float32"}, ValueError),
        ("raw", {"dtype": ">u2"}, ValueError),
        ("raw", {"dtype": "uint16", "end": 65536}, ValueError),
        ("raw", {"dtype": "uint16", "field": "a"}, ValueError),
        ("raw", {"dtype": "uint64"}, InputError),  # 12 bytes are not whole tokens
        ("x.npy", {"dtype": "int64"}, ValueError),
        ("m", {"dtype": "int32"}, ValueError),
        ("m", {"end": 0}, ValueError),
        ("m", {"field": "a"}, ValueError),
        ("d.rec", {}, InputError),
        ("texts.rec", {}, InputError),
        ("large.rec", {"dtype": "uint16"}, InputError),
    ):
        with pytest.raises(error):
            recstore.open_tokens(tmp_path / path, **{"keep": False, **options})
    for paths in (["m", "raw"], ["m", "wide"], []):
        with pytest.raises(ValueError):
            recstore.open_tokens([tmp_path / path for path in paths])
    with pytest.raises(TypeError):
        recstore.open_tokens(3)
    with recstore.open_tokens(tmp_path / "m") as m, recstore.open_tokens(tmp_path / "wide") as wide:
        with pytest.raises(TypeError):
            m + wide


def test_damaged_arrays(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.int32))
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"a", content[:20], content.replace(b"shape", b"shapf")):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"x\.npy"):
            recstore.open_tokens(path)
    for array, error in (
        (np.zeros((2, 3), np.int32), InputError),
        (np.zeros(3), ValueError),
        (np.array(["a"]), ValueError),
    ):
        np.save(path, array)
        with pytest.raises(error, match=r"x\.npy"):
            recstore.open_tokens(path)


def read_all(path):
    """Reads everything from a pair in several ways; the tokens, document by document."""
    with recstore.open_tokens(path) as t:
        lengths = t.lengths[:]
        gathered = t.gather(np.arange(len(t)))
        assert lengths.sum() == len(gathered)
        windows = t.windows(1)[:]
        return lengths.tolist(), gathered.tolist(), windows.tolist(), [a.tolist() for a in t]


def test_every_field_of_an_index_may_lie(tmp_path):
    """No change of a byte ends the process or gives tokens that are not in the file."""
    path = write_megatron(tmp_path / "m", DOCUMENTS)
    index, honest = tmp_path / "m.idx", read_all(path)
    content = index.read_bytes()
    n = len(DOCUMENTS)
    changes = [(at, struct.pack("<B", content[at] ^ bit)) for at in range(len(content)) for bit in (1, 0x80)]
    for at, form, value in (
        *itertools.product((9, 18, 26), "Q", (0, n - 1, n + 1, 2**31, 2**61, 2**64 - 1)),
        *itertools.product((34, 34 + 4 * n - 4), "i", (-1, 2**31 - 1, -(2**31))),
        *itertools.product((34 + 4 * n, 34 + 12 * n - 8), "q", (-2, 1, 2**62, 2**63 - 2, -(2**63))),
    ):
        changes.append((at, struct.pack("<" + form, value)))
    for at, change in changes:
        index.write_bytes(content[:at] + change + content[at + len(change) :])
        try:
            found = read_all(path)
        except InputError as error:
            assert "m.idx" in str(error)
            continue
        # The index of documents is not read. A type of the same size gives the same bytes another sign.
        assert at >= 34 + 12 * n or at == 17 or found == honest, at
    for cut in (*range(0, len(content), 7), len(content) - 1):
        index.write_bytes(content[:cut])
        with pytest.raises(InputError, match=r"m\.idx"):
            recstore.open_tokens(path)


def test_an_index_of_another_file(tmp_path):
    path = write_megatron(tmp_path / "m", DOCUMENTS)
    for size in (0, os.path.getsize(path) - 1, os.path.getsize(path) + 2):
        os.truncate(path, size)
        with pytest.raises(InputError, match=r"m\.idx does not fit .*m\.bin"):
            recstore.open_tokens(path)


def test_sizes_beyond_32_bits(tmp_path):
    longest, tail = 2**31 - 1, np.arange(1, 9, dtype=np.int32)
    lengths = np.array([longest, longest, 8], np.int32)
    pointers = (np.cumsum(lengths, dtype=np.int64) - lengths) * 4
    parts = {"sizes": lengths.tobytes(), "pointers": pointers.tobytes()}
    path = write_megatron(tmp_path / "m", [[], [], tail], "int32", **parts)
    with open(path, "r+b") as file:  # sparse
        file.seek(int(pointers[2]))
        file.write(tail.tobytes())
        file.seek(0)
        file.write(bytes(32))
    with recstore.open_tokens(path) as t:
        assert t.lengths[:].tolist() == lengths.tolist() and t[2].tolist() == tail.tolist()
        assert t.gather([1, 2], [longest - 2, 1], [2, 3]).tolist() == [0, 0, 2, 3, 4]
        w = t.windows(8, stride=2)
        assert (
            len(w) == longest + 1 and w[-1].tolist() == tail.tolist() and w[[-2]].tolist() == [[0, 0, 1, 2, 3, 4, 5, 6]]
        )
        assert t.nbytes == os.path.getsize(path) == 4 * int(lengths.sum(dtype=np.int64))


def test_documents_between_end_tokens(tmp_path, monkeypatch):
    """Runs of end tokens, ends at the borders of blocks and files, a last document without an end."""
    monkeypatch.setattr("recstore.tokens.ends._BLOCK", 4)
    files = [[1, 2, 3, 0, 0, 0, 4], [0], [], [5, 6, 7, 0, 8, 9, 9, 0], [1, 1, 1, 1]]
    for i, tokens in enumerate(files):
        np.array(tokens, np.int32).tofile(tmp_path / f"{i}.bin")
    with recstore.open_tokens(tmp_path / "*.bin", dtype="int32", end=0, keep=False) as t:
        assert [a.tolist() for a in t] == [
            [1, 2, 3, 0], [0], [0], [4], [0], [5, 6, 7, 0], [8, 9, 9, 0], [1, 1, 1, 1],
        ]  # fmt: skip


def test_ends_are_found_once(tmp_path, monkeypatch):
    folder, path, scans = tmp_path / "kept", tmp_path / "x.bin", []
    folder.mkdir()
    scan = EndTokens.append_to
    monkeypatch.setattr(EndTokens, "append_to", lambda *args: scans.append(1) or scan(*args))
    np.array([1, 0, 2, 0], np.uint16).tofile(path)

    def lengths(**options):
        with recstore.open_tokens(path, dtype="uint16", dir=folder, **{"end": 0, **options}) as t:
            return t.lengths[:].tolist()

    assert lengths() == lengths() == [2, 2] and len(scans) == 1
    assert lengths(end=2) == [3, 1] and len(scans) == 2
    before = path.stat().st_mtime_ns

    def written_later():
        np.array([1, 1, 1, 0], np.uint16).tofile(path)
        return path.stat().st_mtime_ns != before

    until(written_later)  # the clock of the file system ticks rarely
    assert lengths() == [4] and len(scans) == 3
    assert recstore.names.remove("open_tokens", dir=folder) == 3


def test_files_beyond_the_most_mapped_are_mapped_again(tmp_path):
    paths = [write_megatron(tmp_path / f"{i:02}", DOCUMENTS[i : i + 1]) for i in range(20)]
    with recstore.open_tokens(paths) as t:
        for maps in (t._groups[0].files, t._groups[0].indexes):
            maps.most_mapped = 3
        kept = [a for a in t if len(a)]
        assert [a.tolist() for a in kept] == [a.tolist() for a in DOCUMENTS if len(a)]
        assert t[::-1].gather(np.arange(20)).tolist() == np.concatenate(DOCUMENTS[::-1]).tolist()
        del kept
        with ThreadPoolExecutor(4) as pool:  # threads that drop the files of one another
            numbers = [np.random.default_rng(seed).integers(0, 20, 200) for seed in range(8)]
            for found, chosen in zip(pool.map(t.gather, numbers), numbers):
                assert found.tolist() == np.concatenate([DOCUMENTS[i] for i in chosen]).tolist()
        assert t._groups[0].files.n_mapped <= 4
