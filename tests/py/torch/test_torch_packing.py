"""PackSampler, and its rows in Fields, loaders and states."""

import itertools
import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from sampler_ranks import in_turn, no_ranks  # noqa: E402, F401

from recstore.torch import BatchSampler, Field, Fields, Loader, PackSampler, Row, packing  # noqa: E402

RNG = np.random.default_rng(5)
LENGTHS = np.minimum(RNG.lognormal(3, 1, 300), 500).astype(np.int64) * (RNG.random(300) < 0.9)
DOCUMENTS = [RNG.integers(0, 60000, n) for n in LENGTHS]


def pack(lengths=LENGTHS, length=64, method="best-fit", rank=0, world_size=1, **options):
    return PackSampler(lengths, length, method, rank=rank, world_size=world_size, **options)


def times_seen(rows, lengths):
    """How often each token of each document is in the rows."""
    seen = [np.zeros(n, int) for n in lengths]
    for row in rows:
        for document, start, count in zip(row.documents, row.starts, row.counts):
            seen[document][start : start + count] += 1
    return np.concatenate([np.zeros(0, int), *seen])


SIZES = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 60), st.integers(0, 600)), min_size=1, max_size=60)
# Bounds that make a few documents into many groups, stretches and blocks.
SMALL = {"_MOST_GROUPS": (7, 1 << 22), "_LEAST_STRETCH": (1, 5, 1 << 12), "_BLOCK_DOCUMENTS": (8, 1 << 14),
         "_BLOCK_ROWS": ((1, 4), (32, 1024)), "_CHUNK": (16, 1 << 16), "_AT_ONCE": (3, 1 << 12)}  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(SIZES, st.integers(1, 40), st.sampled_from(["best-fit", "concat"]), st.booleans(), st.data())
def test_every_token_once(lengths, length, method, shuffle, data):
    with pytest.MonkeyPatch.context() as patch:
        for name, values in SMALL.items():
            patch.setattr(packing, name, data.draw(st.sampled_from(values), name))
        n_ranks = data.draw(st.integers(1, 4), "ranks")
        options = dict(method=method, seed=data.draw(st.integers(0, 9)), shuffle=shuffle, drop_last=False)
        whole = pack(lengths, length, **options)
        for epoch in (0, 3):
            whole.set_epoch(epoch)
            rows = list(whole)
            assert len(rows) == len(whole) and (times_seen(rows, lengths) == 1).all()
            assert all(0 < row.counts.sum() <= length and (row.counts > 0).all() for row in rows)
            if method == "concat":
                assert all(row.counts.sum() == length for row in rows[:-1])
            shares = []
            for rank in range(n_ranks):
                sampler = pack(np.array(lengths), length, rank=rank, world_size=n_ranks, **options)
                sampler.set_epoch(epoch)
                shares.append(list(sampler))
            assert in_turn(shares)[: len(rows)] == rows


def test_best_fit_cuts_and_pads_little():
    lengths = np.random.default_rng(1).lognormal(5.8, 1.1, 30_000).astype(np.int64)
    rows = list(pack(lengths, 2048))
    parts = np.bincount(np.concatenate([row.documents for row in rows]), minlength=len(lengths))
    assert lengths.sum() > 0.99 * 2048 * len(rows)
    assert (parts > -(-lengths // 2048)).mean() < 0.002  # cut, although it fits into fewer rows
    documents = np.concatenate([row.documents for row in rows[:100]])
    assert len(set(documents // 3000)) == 10  # from the whole dataset


def test_order_of_documents():
    whole = np.concatenate([row.documents for row in pack(np.ones(50, int), 4, "concat", shuffle=False)])
    assert whole.tolist() == list(range(50))
    shuffled = np.concatenate([row.documents for row in pack(np.ones(50, int), 4, "concat", seed=3)])
    assert shuffled.tolist() == recstore.RecordList(range(50)).shuffled(3).to_list()


def test_a_row_without_the_rows_before_it(monkeypatch):
    blocks = []
    make = packing.native.pack_best_fit
    monkeypatch.setattr(packing.native, "pack_best_fit", lambda counts, *rest: blocks.append(0) or make(counts, *rest))
    sampler = pack(np.full(500_000, 100), 1000)
    state = {**sampler.state_dict(), "consumed": 40_000}
    sampler.load_state_dict(state)
    next(iter(sampler))
    assert len(blocks) == 1
    sampler = pack([3, 10**9, 5], 100)
    assert [row.documents.tolist() for row in sampler._items(0, 5_000_000, 2)] == [[1], [1]] and len(sampler) > 10**7


@pytest.mark.parametrize("most_groups, change", [(1 << 22, -5), (100, -5), (100, 5)])
def test_lengths_that_change(most_groups, change, monkeypatch):
    monkeypatch.setattr(packing, "_MOST_GROUPS", most_groups)
    lengths = LENGTHS + 10
    sampler = pack(lengths)
    lengths += change
    with pytest.raises(recstore.errors.InputError, match="changed"):
        list(sampler)


SOURCES = {
    "array": lambda: LENGTHS,
    "uint16": lambda: LENGTHS.astype(np.uint16),
    "list": lambda: LENGTHS.tolist(),
    "tensor": lambda: torch.as_tensor(LENGTHS),
    "field": lambda: recstore.RecordList({"n": int(n)} for n in LENGTHS).field("n"),
    "store": lambda: recstore.RecordList(int(n) for n in LENGTHS),
}


@pytest.mark.parametrize("most_groups", [1 << 22, 100])
@pytest.mark.parametrize("source", SOURCES)
def test_sources_of_lengths(source, most_groups, monkeypatch):
    monkeypatch.setattr(packing, "_MOST_GROUPS", most_groups)
    sampler = pack(SOURCES[source]())
    assert sampler.state_dict() == pack().state_dict() and list(sampler) == list(pack())


def test_processes_share_the_tokens_of_groups(monkeypatch, tmp_path):
    monkeypatch.setattr(packing, "_MOST_GROUPS", 40)
    monkeypatch.setattr(packing, "_KEEP", False)
    path = tmp_path / "lengths.npy"
    np.save(path, LENGTHS)
    first, plain = pack(np.load(path, mmap_mode="r")), pack().state_dict()
    assert first.state_dict() == plain != pack(np.load(path, mmap_mode="r")[1:]).state_dict()
    monkeypatch.setattr(packing._Lengths, "_sums_of_groups", lambda self: 1 / 0)  # another process has read the lengths
    again = pack(np.load(path, mmap_mode="r"))
    assert again.state_dict() == plain and list(again) == list(first)
    monkeypatch.undo()
    monkeypatch.setattr(packing, "_MOST_GROUPS", 40)
    monkeypatch.setattr(packing, "_KEEP", False)
    np.save(path, LENGTHS + 1)
    assert pack(np.load(path, mmap_mode="r")).state_dict() == pack(LENGTHS + 1).state_dict()


@pytest.mark.parametrize(
    "lengths, length, options, error, words",
    [
        ([1, -1], 4, {}, ValueError, "document 1 has a length of -1"),
        ([1, 1 << 41], 4, {}, ValueError, "document 1 has a length"),
        ([1, 2.5], 4, {}, TypeError, "integers"),
        (["a"], 4, {}, TypeError, "number"),
        ("abc", 4, {}, TypeError, "x.field"),
        (5, 4, {}, TypeError, "sequence"),
        ([[1], [2]], 4, {}, TypeError, "shape"),
        ([1], 0, {}, ValueError, "length must be at least 1"),
        ([1], 1 << 31, {}, ValueError, "length must be below"),
        ([1], 4.0, {}, TypeError, "length must be an integer"),
        ([1], 4, {"method": "best"}, ValueError, "method must be 'best-fit' or 'concat'"),
    ],
)
def test_bad_arguments(lengths, length, options, error, words):
    with pytest.raises(error, match=words):
        pack(lengths, length, **options)


@pytest.mark.parametrize(
    "other, word",
    [
        (dict(lengths=LENGTHS + 1), "lengths_crc32"),
        (dict(lengths=LENGTHS[:-1]), "documents"),
        (dict(seed=1), "seed"),
        (dict(method="concat"), "method"),
        (dict(length=65), "row_length"),
        (dict(shuffle=False), "shuffle"),
    ],
)
def test_a_state_of_another_sampler(other, word):
    state = pack().state_dict()
    with pytest.raises(ValueError, match=f"the state has {word} "):
        pack(**other).load_state_dict(state)
    assert len(pickle.dumps(state)) < 1000


# ---- Rows ----


def test_row():
    row = Row([4, 7], [0, 5], [3, 2])
    assert pickle.loads(pickle.dumps(row)) == row != row.shifted(1) and len({row, row.shifted(0)}) == 1
    assert row.shifted(10) == Row([14, 17], row.starts, row.counts) and row != [4, 7]
    with pytest.raises(ValueError, match="read-only"):
        row.documents[0] = 1
    with pytest.raises(AttributeError):
        row.counts = [1, 1]


KINDS = {
    "lists": lambda tokens: tokens.tolist(),
    "short lists": lambda tokens: (tokens % 100).tolist(),
    "uint16": lambda tokens: tokens.astype(np.uint16),
    "big-endian": lambda tokens: tokens.astype(">i4"),
    "floats": lambda tokens: (tokens / 2).tolist(),
    "mixed": lambda tokens: tokens.tolist() if len(tokens) % 2 else tokens.astype(np.int32),
}


def store_of(kind):
    return recstore.RecordList({"id": i, "tokens": KINDS[kind](tokens)} for i, tokens in enumerate(DOCUMENTS))


@pytest.mark.parametrize("output, method", [("dict", "best-fit"), ("numpy", "concat")])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_fields(kind, method, output):
    x = store_of(kind)
    f = Fields(x, "id", tokens=Field("packed", length=64, pad=77), output=output)
    tokens = [np.asarray(record["tokens"]) for record in x]
    for rows in itertools.islice(BatchSampler(pack(method=method), 7), 20):
        batch = {name: np.asarray(value) for name, value in f[rows].items()}
        assert batch["id"].tolist() == [document for row in rows for document in row.documents]
        expected, positions, numbers = np.full((len(rows), 64), 77.0), np.zeros((7, 64)), np.full((7, 64), -1)
        part = 0
        for r, row in enumerate(rows):
            at = 0
            for document, start, count in zip(row.documents, row.starts, row.counts):
                expected[r, at : at + count] = tokens[document][start : start + count]
                positions[r, at : at + count] = np.arange(start, start + count)
                numbers[r, at : at + count] = part
                part, at = part + 1, at + count
        assert np.array_equal(batch["tokens"], expected)
        assert np.array_equal(batch["tokens_positions"], positions[: len(rows)])
        assert np.array_equal(batch["tokens_documents"], numbers[: len(rows)])
        row_numbers = np.repeat(np.arange(len(rows)), 64)
        changes = np.flatnonzero(np.diff(batch["tokens_documents"].ravel()) | np.diff(row_numbers)) + 1
        assert batch["tokens_cu_seqlens"].tolist() == [0, *changes, 64 * len(rows)]
        assert batch["tokens_cu_seqlens"].dtype == np.int32
        assert batch["tokens_max_seqlen"] == np.diff(batch["tokens_cu_seqlens"]).max()
    one = f[rows[0]]
    assert one["tokens"].tolist() == f[rows[:1]]["tokens"][0].tolist() and len(one["tokens_positions"]) == 64


def token_list(folder, kind=np.uint16):
    """The documents of DOCUMENTS that are not empty, as a TokenList."""
    np.concatenate([[*(tokens + 1), 0] for tokens in DOCUMENTS]).astype(kind).tofile(folder / "a.bin")
    return recstore.open_tokens(folder / "a.bin", dtype=kind, end=0, keep=False)


@pytest.mark.parametrize("most_groups", [1 << 22, 40])
@pytest.mark.parametrize("output", ["dict", "numpy"])
def test_rows_of_a_token_list(output, most_groups, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_MOST_GROUPS", most_groups)
    monkeypatch.setattr(packing, "_KEEP", False)
    t = token_list(tmp_path)
    x = recstore.RecordList({"tokens": np.array(tokens)} for tokens in t)
    sampler = pack(t.lengths, method="concat")
    assert list(sampler) == list(pack([len(tokens) for tokens in t], method="concat"))
    options = dict(tokens=Field("packed", length=64, pad=7), output=output)
    f, same = Fields(t, **options), Fields(x, **options)
    assert len(f) == len(x) and "documents" in repr(f)
    for indices in (next(iter(BatchSampler(sampler, 9))), [3, 299, -1, 3], slice(7), sampler._items(0, 0, 1)):
        for name, value in f[indices].items():
            assert np.array_equal(np.asarray(value), np.asarray(same[indices][name])), name
    assert f[3]["tokens"].tolist() == t[3].tolist()
    with recstore.open_tokens(tmp_path / "a.bin", dtype=np.uint16, end=0, keep=False) as t:
        f = Fields(t, tokens=Field("packed", length=64, split=False))
        with pytest.raises(ValueError, match="a document of .* tokens is longer than a row of 64"):
            f[:]
    with pytest.raises(TypeError, match="Field.'packed', length=8192."):
        Fields(t, "tokens")
    with pytest.raises(ValueError, match="int8"):
        Fields(token_list(tmp_path), tokens=Field("packed", dtype="int8", length=64))[sampler._items(0, 0, 1)]


def test_rows_that_do_not_fit():
    x = store_of("lists")
    f = Fields(x, tokens=Field("packed", length=64))
    with pytest.raises(ValueError, match=f"'tokens' of record 3 has {LENGTHS[3]} tokens, fewer than its row takes"):
        f[[Row([3], [LENGTHS[3]], [1])]]
    with pytest.raises(ValueError, match="row 1 has more tokens than the length of 64"):
        f[[Row([], [], []), Row([int(LENGTHS.argmax())], [0], [65])]]
    with pytest.raises(ValueError, match="negative"):
        f[[Row([3], [-1], [1])]]
    with pytest.raises(IndexError):
        f[[Row([300], [0], [1])]]
    with pytest.raises(TypeError, match="not both"):
        f[[Row([3], [0], [1]), 3]]
    with pytest.raises(TypeError, match="form 'packed'"):
        Fields(x, "id")[[Row([3], [0], [1])]]


LOADERS = {
    "batches": lambda f, rows: torch.utils.data.DataLoader(f, sampler=rows, batch_size=None, num_workers=2),
    "batch_sampler": lambda f, rows: torch.utils.data.DataLoader(
        f, batch_sampler=rows, collate_fn=f.collate, num_workers=1
    ),
    "samples": lambda f, rows: torch.utils.data.DataLoader(f, 5, sampler=rows.sampler, collate_fn=f.collate),
    "Loader": lambda f, rows: Loader(f, batch_sampler=rows),
    "Loader, sampler": lambda f, rows: Loader(f, 5, sampler=rows.sampler),
}


@pytest.mark.parametrize(
    "name, source", [*((name, "store") for name in LOADERS), ("Loader", "tokens"), ("samples", "tokens")]
)
def test_loaders(name, source, tmp_path):
    x = store_of("uint16") if source == "store" else token_list(tmp_path)
    f = Fields(x, tokens=Field("packed", length=64))
    lengths = LENGTHS if source == "store" else x.lengths
    loader = LOADERS[name](f, BatchSampler(pack(lengths), 5))
    read = np.concatenate([batch["tokens"][batch["tokens_documents"] >= 0].numpy() for batch in loader])
    assert sorted(read) == sorted(np.concatenate(DOCUMENTS if source == "store" else list(x)))
