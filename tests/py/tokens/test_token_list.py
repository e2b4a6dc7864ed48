"""TokenList against lists of arrays: documents, views, lengths, gather, windows, pickling, for every format."""

import pickle

import numpy as np
import pytest
from token_data import documents_of, write_megatron

import recstore
from recstore import RecordList
from recstore.errors import BusyError, ClosedError, InputError

DOCUMENTS = documents_of(60)
ENDED = [np.append(document, np.uint16(0)) for document in DOCUMENTS]


def thirds(documents):
    return [documents[i : i + 20] for i in (0, 20, 40)]


def opened(kind, folder):
    """A TokenList of three files of a format, and the documents that it must have."""
    for i, (plain, ended) in enumerate(zip(thirds(DOCUMENTS), thirds(ENDED))):
        if kind == "megatron":
            write_megatron(folder / f"{i}", plain)
        elif kind == "raw":
            np.concatenate(ended).tofile(folder / f"{i}.bin")
        elif kind in ("npy", "whole"):
            np.save(folder / f"{i}.npy", np.concatenate(ended))
        elif kind == "lists":
            with RecordList([{"ids": document.tolist()} for document in plain]) as x:
                x.save(folder / f"{i}.rec")
        else:
            with RecordList(plain) as x:
                x.save(folder / f"{i}.rec")
    options, documents = {
        "megatron": ({}, DOCUMENTS),
        "raw": ({"dtype": "uint16", "end": 0, "keep": False}, ENDED),
        "npy": ({"end": 0, "keep": False}, ENDED),
        "whole": ({}, [np.concatenate(third) for third in thirds(ENDED)]),
        "lists": ({"field": "ids", "dtype": "uint16", "keep": False}, DOCUMENTS),
        "arrays": ({"keep": False}, DOCUMENTS),
    }[kind]
    return recstore.open_tokens(folder / "*", **options), documents


def same(arrays, expected):
    arrays, expected = list(arrays), list(expected)
    assert [array.dtype for array in arrays] == [np.uint16] * len(expected)
    assert [array.tolist() for array in arrays] == [array.tolist() for array in expected]


def check(t, documents):
    """Compares a TokenList with a list of arrays."""
    rng = np.random.default_rng(1)
    n, lengths = len(documents), [len(document) for document in documents]
    assert len(t) == n and t.dtype == np.uint16
    same(t, documents)
    same([t[0], t[-1], t[np.int64(n // 2)], t[False]], [documents[0], documents[-1], documents[n // 2], documents[0]])
    assert not t[0].flags.writeable
    assert len(t.lengths) == n and list(t.lengths) == lengths and np.asarray(t.lengths).tolist() == lengths
    assert t.lengths[1:-1:2].tolist() == lengths[1:-1:2] and t.lengths[[-1, 0]].tolist() == [lengths[-1], lengths[0]]
    which = rng.integers(-n, n, 60)
    starts = np.array([rng.integers(0, lengths[i] + 1) for i in which])
    counts = np.array([rng.integers(0, lengths[i] - start + 1) for i, start in zip(which, starts)])
    parts = np.concatenate([documents[i][a : a + c] for i, a, c in zip(which, starts, counts)])
    out = np.empty(len(parts), np.uint16)
    assert t.gather(which, starts, counts, out) is out and out.tolist() == parts.tolist()
    assert t.gather(which).tolist() == np.concatenate([documents[i] for i in which]).tolist()
    check_windows(t, np.concatenate(documents), rng)


def check_windows(t, tokens, rng):
    for length, stride in ((7, None), (33, 32), (5, 9), (len(tokens), 1)):
        w, step = t.windows(length, stride=stride), stride or length
        expected = np.lib.stride_tricks.sliding_window_view(tokens, length)[::step]
        assert len(w) == len(expected) and w.dtype == np.uint16
        assert w[:].tolist() == expected.tolist() and w[-1].tolist() == expected[-1].tolist()
        chosen = rng.integers(0, len(w), 20)
        assert w[chosen].shape == (20, length) and w[chosen].tolist() == expected[chosen].tolist()
        assert w[chosen.tolist()].tolist() == w.__getitems__(chosen).tolist() == expected[chosen].tolist()
        whole = t.windows(length, stride=stride, drop_last=False)
        covered = (len(tokens) - length) % step == 0
        assert len(whole) == len(w) + (not covered) and whole[-1].tolist() == tokens[-length:].tolist()
    assert len(t.windows(len(tokens) + 1)) == len(t.windows(len(tokens) + 1, drop_last=False)) == 0


STORES = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("lists", "arrays")]


@pytest.mark.parametrize("kind", ["megatron", "raw", "npy", "whole", *STORES])
def test_every_format_and_view(kind, tmp_path):
    t, documents = opened(kind, tmp_path)
    n = len(documents)
    order = np.random.default_rng(2).permutation(n)
    shuffled = [documents[i] for i in order]
    check(t, documents)
    check(t[1:-1], documents[1:-1])
    check(t[::-2], documents[::-2])
    check(t[order], shuffled)
    check(t[order][1:][::2], shuffled[1:][::2])
    check(t[np.arange(n) % 2 == 0], documents[::2])
    joined, expected = t[1:] + t[order] + t, documents[1:] + shuffled + documents
    check(joined, expected)
    check(joined[n // 2 : -n // 2], expected[n // 2 : -n // 2])
    check(joined[::-1][3:], expected[::-1][3:])
    check(pickle.loads(pickle.dumps(joined)), expected)
    t.close()


def test_formats_are_joined(tmp_path):
    lists, documents = [], []
    for kind in ("megatron", "raw", "arrays"):
        (tmp_path / kind).mkdir()
        t, expected = opened(kind, tmp_path / kind)
        lists.append(t)
        documents += expected
    joined = lists[0] + lists[1] + lists[2]
    check(joined, documents)
    order = np.random.default_rng(3).permutation(len(documents))
    check(joined[order], [documents[i] for i in order])
    assert joined.nbytes == sum(t.nbytes for t in lists) == 2 * sum(map(len, documents))
    joined.close()


def test_empty_documents_files_and_views(tmp_path):
    empty = np.empty(0, np.uint16)
    write_megatron(tmp_path / "a", [empty, empty])
    write_megatron(tmp_path / "b", [])
    write_megatron(tmp_path / "c", [empty, np.array([5, 6], np.uint16), empty])
    with recstore.open_tokens(tmp_path / "*.idx") as t:
        same(t, [empty, empty, empty, [np.uint16(5), 6] * np.ones(2, np.uint16), empty])
        assert t.windows(2)[:].tolist() == [[5, 6]] and t[[0, 3, 4]].windows(2)[0].tolist() == [5, 6]
        assert len(t[:0]) == len(t[:0].windows(1)) == 0 and t[:0].lengths[:].tolist() == []
        assert t.gather([]).shape == (0,) and t.windows(1)[[]].shape == (0, 1) and t[[]].lengths[:].shape == (0,)
    np.empty(0, np.uint16).tofile(tmp_path / "d.raw")
    with recstore.open_tokens(tmp_path / "d.raw", dtype="uint16") as t:
        same(t, [empty])
    with recstore.open_tokens(tmp_path / "d.raw", dtype="uint16", end=0, keep=False) as t:
        same(t, [])


def test_a_document_is_mapped_and_not_copied(tmp_path):
    t, _ = opened("megatron", tmp_path)
    first, same_tokens = t[1], t.windows(1)
    assert np.shares_memory(first, t[1]) and np.shares_memory(t.windows(4)[0], t.windows(4)[0])
    with pytest.raises(BusyError):
        t.close()
    assert t[1].tolist() == first.tolist()
    del first
    t.close()
    t.close()
    for read in (lambda: t[0], lambda: t.lengths[:], lambda: same_tokens[0], lambda: same_tokens[[0]]):
        with pytest.raises(ClosedError):
            read()


def test_wrong_indices(tmp_path):
    t, _ = opened("megatron", tmp_path)
    w = t.windows(4)
    for index in (60, -61, [0, 60], [True]):
        with pytest.raises(IndexError):
            t[index]
        with pytest.raises(IndexError):
            t.lengths[index]
    with pytest.raises(IndexError):
        w[[len(w)]]
    for index in (1.5, "a", [1.5], [[1]]):
        with pytest.raises(TypeError):
            t[index]
    length = int(t.lengths[1])
    for starts, counts in (([-1], [1]), ([0], [length + 1]), ([length + 1], [0]), ([1], [2**62]), ([0], [-1])):
        with pytest.raises(IndexError):
            t.gather([1], starts, counts)
    outs = np.empty(length + 1, np.uint16), np.empty(length, np.int16), np.empty(2 * length, np.uint16)[::2]
    for wrong in ({"starts": [0, 1]}, {"counts": [0, 1]}, *({"out": out} for out in outs)):
        with pytest.raises(ValueError):
            t.gather([1], **wrong)
    for wrong in ({"length": 0}, {"length": 4, "stride": 0}):
        with pytest.raises(ValueError):
            t.windows(**wrong)
    t.close()


@pytest.mark.parametrize("change", ["shorter", "longer", "replaced", "rewritten", "removed"])
def test_a_changed_file_is_an_error(change, tmp_path):
    t, _ = opened("megatron", tmp_path)
    handle, w, path = pickle.dumps(t), t.windows(4), tmp_path / "0.bin"
    assert w[[0]].shape == (1, 4)
    content = path.read_bytes()
    if change == "shorter":
        path.write_bytes(content[:-2])
    elif change == "longer":
        path.write_bytes(content + b"ab")
    elif change == "replaced":
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").rename(path)
    elif change == "rewritten":
        path.write_bytes(content[::-1])
    else:
        path.unlink()
    t._groups[0].files.check_every_ns = 0
    for read in (lambda: w[[0]], lambda: t[1], lambda: t.gather([1]), lambda: pickle.loads(handle)[1]):
        with pytest.raises(FileNotFoundError if change == "removed" else InputError, match="0.bin"):
            read()
    t.close()
