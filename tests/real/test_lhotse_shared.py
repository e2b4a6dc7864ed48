"""The manifests of recstore.integrations.lhotse against lhotse's own: the same items, and one copy for all ranks."""

import json
import random

import pytest
from real import ranks, speech

if speech.lhotse is None:
    pytest.skip("needs the packages of `nox -s real`", allow_module_level=True)

import lhotse
import torch.utils.data
from lhotse.dataset import DynamicBucketingSampler, DynamicCutSampler, IterableDatasetWrapper, SimpleCutSampler

import recstore
from recstore.integrations import lhotse as ours

COUNT = 120


@pytest.fixture(params=[".jsonl", ".jsonl.gz"])
def path(request, tmp_path):
    return speech.write(tmp_path / f"cuts{request.param}", speech.cuts(COUNT))


@pytest.fixture
def cuts(tmp_path):
    return speech.write(tmp_path / "cuts.jsonl", speech.cuts(COUNT))


def ids(manifest):
    return [item.id for item in manifest]


def batches(sampler):
    return [ids(batch) for batch in sampler]


def test_items(path):
    plain, mine = lhotse.CutSet.from_jsonl(path), ours.CutSet.from_file(path)
    assert [*mine] == [*plain] and len(mine) == COUNT and isinstance(mine, lhotse.CutSet) and mine.is_lazy
    assert {type(cut).__name__ for cut in mine} == {"MonoCut", "MixedCut"}
    assert mine[5] == plain[5] and mine[-1] == plain[COUNT - 1] and [*mine.ids] == [*plain.ids]
    name = plain[7].id
    assert mine[name] == plain[name] and name in mine and plain[7] in mine and "none" not in mine
    with pytest.raises(KeyError):
        mine["none"]
    with pytest.raises(IndexError):
        mine[COUNT]
    assert mine[3] is not mine[3]
    assert mine.data.by_id.blobs == [], "the index is in the store"
    assert mine.to_eager() == plain.to_eager() and mine == ours.CutSet.from_jsonl(path)


def test_methods(cuts):
    plain, mine = lhotse.CutSet.from_jsonl(cuts), ours.CutSet.from_jsonl_lazy(cuts)
    assert ids(mine.shuffle(random.Random(3))) == ids(plain.shuffle(random.Random(3))) != ids(plain)
    again = mine.shuffle(random.Random(3)).shuffle(random.Random(4))
    assert ids(again) == ids(plain.shuffle(random.Random(3)).shuffle(random.Random(4)))
    assert again[plain[9].id] == plain[9] and type(again.data) is ours.Items
    for arguments in ({"first": 7}, {"last": 7}, {"last": 1000}, {"cut_ids": [plain[4].id, plain[2].id]}):
        assert ids(mine.subset(**arguments)) == ids(plain.subset(**arguments)), arguments
    for arguments in ({"first": 0}, {"first": 1, "last": 1}, {}):
        with pytest.raises(AssertionError):
            mine.subset(**arguments)
    for drop_last in (False, True):
        assert [*map(ids, mine.split(7, drop_last=drop_last))] == [*map(ids, plain.split(7, drop_last=drop_last))]
    parts = mine.split(3, shuffle=True)
    assert sorted(sum(map(ids, parts), [])) == sorted(ids(plain)) and type(parts[0].data) is ours.Items
    long = mine.filter(lambda cut: cut.duration > 10)
    assert ids(long) == ids(plain.filter(lambda cut: cut.duration > 10)) and len(ids(long.shuffle())) > 9
    assert ids(mine.map(speech.renamed)) == ["x" + name for name in ids(plain)]
    assert ids(mine + mine) == ids(plain) * 2 and ids(mine + plain) == ids(plain) * 2
    assert [*map(len, long.split(2))] and "none" not in long and len([*long.ids]) == len(ids(long.subset(first=1000)))
    assert ids(mine.sort_by_duration()) == ids(plain.sort_by_duration())
    assert ids(mine.repeat(times=2, preserve_id=True)) == ids(plain) * 2


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", [1, 2])
def test_samplers(cuts, shuffle, world):
    plain, lazy, mine = lhotse.CutSet.from_jsonl(cuts), lhotse.CutSet.from_jsonl_lazy(cuts), ours.CutSet.from_file(cuts)
    common = {"max_duration": 60.0, "shuffle": shuffle, "world_size": world, "rank": world - 1, "seed": 5}
    for epoch in (0, 1):
        got = []
        for manifest in (plain, mine):
            sampler = SimpleCutSampler(manifest, **common)
            sampler.set_epoch(epoch)
            got.append(batches(sampler))
        assert got[0] == got[1] and len(got[0]) > 5, "a full shuffle, as with a list"
    for sampler, more in ((DynamicCutSampler, {}), (DynamicBucketingSampler, {"num_buckets": 4})):
        assert batches(sampler(lazy, **common, **more)) == batches(sampler(mine, **common, **more)) != []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(cuts, method):
    mine = ours.CutSet.from_file(cuts, shared=ranks.fresh_name())
    expected = [speech.Ids()[batch] for batch in SimpleCutSampler(lhotse.CutSet.from_jsonl(cuts), max_cuts=8)]
    options = {"batch_size": None, "multiprocessing_context": method}
    sampler = SimpleCutSampler(mine, max_cuts=8)
    assert [*torch.utils.data.DataLoader(speech.Ids(), sampler=sampler, num_workers=2, **options)] == expected
    streamed = IterableDatasetWrapper(speech.Ids(), SimpleCutSampler(mine, max_cuts=8))
    assert [*torch.utils.data.DataLoader(streamed, num_workers=1, **options)] == expected


def test_other_manifests(tmp_path, cuts):
    plain = lhotse.CutSet.from_jsonl(cuts)
    simple = [cut for cut in plain if isinstance(cut, lhotse.MonoCut)]
    items_by_kind = {
        "RecordingSet": [cut.recording for cut in simple],
        "SupervisionSet": [cut.supervisions[0] for cut in simple],
        "CutSet": simple,
    }
    for kind, items in items_by_kind.items():
        path = speech.write(tmp_path / f"{kind}.jsonl.gz", items, kind)
        expected = getattr(lhotse, kind).from_jsonl(path)
        for mine in (getattr(ours, kind).from_file(path), ours.load_manifest(path)):
            assert type(mine) is getattr(ours, kind) and isinstance(mine, getattr(lhotse, kind))
            assert [*mine] == [*expected] == items and mine[items[3].id] == items[3]
            assert [*mine.subset(2)] == items[:2] if kind != "CutSet" else ids(mine.subset(first=2)) == ids(items[:2])
            assert ids(mine.shuffle(random.Random(1))) == ids(expected.shuffle(random.Random(1)))
    expected, mine = (
        package.SupervisionSet.from_jsonl(tmp_path / "SupervisionSet.jsonl.gz") for package in (lhotse, ours)
    )
    recording = items_by_kind["SupervisionSet"][5].recording_id
    assert [*mine.find(recording)] == [*expected.find(recording)] != []


def test_one_reading(cuts):
    name = ranks.fresh_name()
    first, second = ours.CutSet.from_file(cuts, shared=name), ours.load_manifest(cuts, shared=name)
    assert first == second and len(recstore.names.list(name)) == 1


def test_bad_manifests(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "type": "MonoCut"}\n{"id": \n')
    with pytest.raises(recstore.errors.InputError, match=r"bad.jsonl, line 2: not JSON"):
        ours.CutSet.from_file(tmp_path / "bad.jsonl")
    with pytest.raises(FileNotFoundError):
        ours.CutSet.from_file(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    assert len(ours.CutSet.from_file(tmp_path / "empty.jsonl")) == 0
    with pytest.raises(ValueError, match="a manifest without items has no kind"):
        ours.load_manifest(tmp_path / "empty.jsonl")
    with open(tmp_path / "empty.jsonl", "rb") as file, pytest.raises(TypeError, match="give a path"):
        ours.load_manifest(file)
    features = {"type": "fbank", "num_frames": 1, "num_features": 2, "frame_shift": 0.1, "sampling_rate": 1, "start": 0}
    features |= {"duration": 1, "storage_type": "x", "storage_path": "x", "storage_key": "x"}
    (tmp_path / "features.jsonl").write_text(json.dumps(features))
    with pytest.raises(ValueError, match="a FeatureSet cannot use a store"):
        ours.load_manifest(tmp_path / "features.jsonl")


def test_memory_of_four_ranks(tmp_path):
    path = speech.write(tmp_path / "large.jsonl", speech.cuts(2_500))
    ranks.assert_shared(speech.load_plain, speech.load_shared, path, ["real.speech"])
