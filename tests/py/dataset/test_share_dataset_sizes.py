"""Sizes of share_dataset and audit: memory counts once, however many references and views it has, and no value is
replaced with a larger one."""

import collections
import dataclasses
import gc
import tracemalloc

import numpy as np
import pytest
from holders import Plain, records, row_of

from recstore import RecordView, audit, share_dataset
from recstore.dataset import object_sizes
from recstore.text import size_text

ONE_MIB = 1 << 20
base = np.arange(40_000.0)


class Two:
    def __init__(self, i):
        self.number, self.half = i + 1000, i / 2


class Six(Two):
    def __init__(self, i):
        super().__init__(i)
        self.a = self.b = self.c = self.d = None


@dataclasses.dataclass
class Changing:
    number: int

    def __post_init__(self):
        self.number += 1000
        if self.number % 2:
            self.odd = True


class Slots:
    __slots__ = ("half", "number")

    def __init__(self, i):
        self.number, self.half = i + 1000, i / 2


def share_and_check(make, **options):
    """Shares a dataset, and checks that audit forecasts the sizes in the report. Returns the dataset and the report."""
    dataset = make()
    forecast = audit(dataset, workers=0, **options)
    report = share_dataset(dataset, **options)
    rest = forecast.size - report.before
    assert abs(forecast.predicted_shared - rest - report.after) <= 0.1 * report.after + 8192
    return dataset, report


def parts(record):
    return record.values() if type(record) is dict else record if type(record) is tuple else (record,)


class TestMemory:
    @pytest.mark.parametrize("value, size", [
        (np.broadcast_to(base, (50, 40_000)), 320_000),
        (np.broadcast_to(np.float64(1.5), (300_000, 3)), 8),
        ([base, base[5:], base[::-1], base.reshape(200, 200).T], 320_000),
        ([base[i : i + 1024] for i in range(2000)], (2000 + 1023) * 8 + 2000 * 120),
        (np.lib.stride_tricks.sliding_window_view(base, 500), 320_000),
        ([{"scan": base} for _ in range(1000)], 320_000 + 1000 * 192),
        ({i: base[i : i + 1000] for i in range(500)}, 12_000 + 500 * 150),
        (collections.deque([base, base[7:]]), 320_000),
    ], ids=["rows", "scalar", "views", "windows", "sliding", "records", "dict", "deque"])  # fmt: skip
    def test_distinct(self, value, size):
        assert size <= object_sizes.deep(value) <= 1.3 * size + 2000

    def test_bytes_and_arrays_over_them(self):
        for content in (bytes(1_000_000), bytearray(1_000_000)):
            assert object_sizes.deep([content, np.frombuffer(content, np.uint8)]) < 1_001_000

    @pytest.mark.parametrize("kind, reads", [(Two, None), (Six, None), (Two, vars), (Changing, None), (Slots, None)])
    def test_objects(self, kind, reads):
        kept = kind(0)  # the first instance makes the keys that all instances share
        gc.collect()
        tracemalloc.start()
        try:
            value = [kind(i) for i in range(5000)]
            if reads is not None:
                for instance in value:
                    reads(instance)
            traced = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept and abs(object_sizes.deep(value) - traced) <= 0.1 * traced

    def test_limit(self):
        value = [str(i) * 10 for i in range(100_000)]
        assert 1_000_000 <= object_sizes.deep(value, 1_000_000) < 1_100_000 < object_sizes.deep(value)

    def test_two_lists_of_the_same_records(self):
        samples = records(20_000)
        dataset, report = share_and_check(
            lambda: Plain(samples=samples, by_id={sample["id"]: sample for sample in samples})
        )
        alone = object_sizes.deep(samples)
        assert row_of(report, "samples").before == alone and row_of(report, "by_id").before < alone / 2
        assert sum(row.before for row in report.rows) <= object_sizes.deep(Plain(a=samples)) + report.rows[1].before
        assert report.after == sum(row.after for row in report.rows)


class TestSpans:
    """Arrays that span less or more memory than their elements take."""

    @pytest.mark.parametrize("make", [
        lambda small: np.broadcast_to(small, (300_000, 3)),
        lambda small: np.lib.stride_tricks.as_strided(small, (1000, 1000), (0, 0)),
        lambda small: small[np.newaxis].repeat(2, 0)[:, :0],
    ])  # fmt: skip
    @pytest.mark.parametrize("threshold", [0, 1000, ONE_MIB])
    def test_arrays(self, make, threshold):
        mean = np.arange(3.0)
        dataset = Plain(mean=mean, large=make(mean), other=np.arange(200_000.0))
        share_dataset(dataset, threshold)
        assert np.array_equal(dataset.large, make(mean)) and not dataset.other.flags.writeable

    def test_few_elements_far_apart(self):
        base = np.arange(400_000.0)
        dataset = Plain(sparse=base[::8000])
        share_dataset(dataset)
        assert np.array_equal(dataset.sparse, base[::8000])

    def test_tensors(self):
        torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
        eye, row = torch.eye(3), torch.rand(300_000)
        dataset = Plain(eye=eye, eyes=eye.expand(200_000, 3, 3), rows=row.expand(20, 300_000))
        report = share_dataset(dataset)
        assert [line.path for line in report.replaced] == ["rows"] and report.after < 1_300_000
        assert torch.equal(dataset.rows, row.expand(20, 300_000)) and dataset.rows.stride() == (0, 1)
        assert torch.equal(dataset.eyes, eye.expand(200_000, 3, 3))


class TestLarger:
    """Values that would be larger in shared memory stay, and the report has both sizes. Other values are shared."""

    @pytest.mark.parametrize("make", [
        lambda base: [base[i : i + 512] for i in range(200)] * 40,
        lambda base: [base[i : i + 256] for i in range(2500)],
        lambda base: {i: base[i : i + 256] for i in range(2500)},
        lambda base: [(i, base[: i + 1]) for i in range(2200)],
        lambda base: [{"x": base[i:], "i": i} for i in range(2000)],
    ], ids=["repeated", "windows", "dict", "tuples", "tails"])  # fmt: skip
    def test_stay(self, make):
        value = make(np.random.default_rng(1).random(3000))
        dataset, report = share_and_check(lambda: Plain(value=value, samples=records(4000)), threshold=50_000)
        row = row_of(report, "value")
        assert dataset.value is value and row.action == "skipped" and "and take" in row.reason
        assert isinstance(dataset.samples, RecordView)
        assert share_dataset(Plain(value=value), 50_000, strict=True).replaced == []

    @pytest.mark.parametrize("make", [
        lambda scan: [{"i": i, "scan": scan} for i in range(5000)],
        lambda scan: [{"i": i, "scan": scan if i % 3 else scan + i} for i in range(300)],
        lambda scan: dict.fromkeys(range(5000), scan),
        lambda scan: [(scan, scan) for _ in range(3000)],
    ], ids=["records", "a part of them", "dict", "tuples"])  # fmt: skip
    @pytest.mark.parametrize("library", ["numpy", "torch"])
    def test_audit_forecasts_both_sizes(self, make, library):
        scan = np.random.default_rng(1).random(1000)
        if library == "torch":
            torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
            scan = torch.from_numpy(scan)
        value = make(scan)
        dataset = Plain(value=value)
        forecasts = [audit(dataset, threshold=1000).attributes[0], *share_dataset(dataset, 1000, dry_run=True).rows]
        (row,) = share_dataset(dataset, 1000).rows
        assert row.action == "skipped" and dataset.value is value
        assert [forecast.reason for forecast in forecasts] == [row.reason] * 2
        assert object_sizes.deep(value) == row.before == forecasts[1].before == forecasts[0].size
        items = value.values() if type(value) is dict else value
        arrays = sum(type(part) is type(scan) for record in items for part in parts(record))
        assert row.reason.partition(" take ")[2][:2] == size_text(arrays * 8000)[:2]

    def test_a_list_that_repeats_records_or_their_parts(self):
        numbers = [0.1 * i for i in range(10)]
        share_and_check(lambda: Plain(value=[[[numbers] * 100] * 2 for _ in range(3000)]), threshold=1000)
        share_and_check(lambda: Plain(value=[{"a": 1.5, "b": None}] * 100_000), threshold=1000)

    def test_a_list_of_views_that_stays_keeps_the_array(self):
        base = np.random.default_rng(1).random(200_000)
        dataset, report = share_and_check(lambda: Plain(base=base, rows=list(base.reshape(-1, 2000)) * 20))
        assert report.replaced == [] and dataset.base is base

    @pytest.mark.parametrize("hold", [
        lambda value: collections.deque([value]),
        lambda value: ({1, 2}, frozenset([7]), collections.deque([[value], 1])),
        lambda value: collections.deque([(1, (value,))]),
        lambda value: [[value]] * 3 + [object() for _ in range(13_000)],
    ], ids=["deque", "deep", "tuples", "long list"])  # fmt: skip
    def test_values_that_a_container_keeps(self, hold):
        array, samples = np.arange(60_000.0), records(4000)
        dataset, report = share_and_check(
            lambda: Plain(array=array, samples=samples, holder=hold(array), other=records(4000)), threshold=100_000
        )
        assert dataset.array is array and row_of(report, "array").action == "skipped"
        assert isinstance(dataset.samples, RecordView) and isinstance(dataset.other, RecordView)

    def test_a_tuple_that_a_container_keeps(self):
        pair = (1, (np.arange(300_000.0),))
        dataset, report = share_and_check(
            lambda: Plain(pair=pair, deque=collections.deque([pair]), samples=records(20_000))
        )
        assert dataset.pair is pair and [row.path for row in report.replaced] == ["samples"]
        dataset, report = share_and_check(lambda: Plain(pair=pair, also=[pair, 2]))
        assert dataset.pair is dataset.also[0] is not pair and len(report.replaced) == 1

    def test_by_name(self):
        base = np.random.default_rng(1).random(3000)
        made = share_dataset(
            Plain(value=[base[i : i + 256] for i in range(2500)], samples=records(4000)),
            50_000,
            shared=f"sizes-{np.random.default_rng().integers(1 << 60)}",
        )
        assert type(made.value) is list and isinstance(made.samples, RecordView)


class TestSamplesOfArrays:
    def samples(self, big, small, n=40):
        random = np.random.default_rng(1)
        return [{"big": random.random(big), "small": random.random(small), "id": i} for i in range(n)]

    @pytest.mark.parametrize("big, small, n", [(140_000, 120_000, 20), (9_000, 140_000, 20), (20_000, 3, 40)])
    def test_a_sample_is_an_equal_dict(self, big, small, n):
        samples = self.samples(big, small, n)
        dataset, report = share_and_check(
            lambda: Plain(samples=samples, by_id={sample["id"]: sample for sample in samples})
        )
        assert isinstance(dataset.samples, RecordView) and report.skipped == []
        sample = dataset.samples[3]
        assert type(sample) is dict and sample["big"].flags.writeable
        assert np.array_equal(sample["big"], samples[3]["big"]) and list(sample) == ["big", "small", "id"]

    def test_few_stay_dicts_of_arrays(self):
        dataset, report = share_and_check(lambda: Plain(samples=self.samples(140_000, 120_000, n=3)))
        assert type(dataset.samples[0]) is dict and len(report.replaced) == 6

    def test_collated(self):
        data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")
        samples = self.samples(140_000, 10, n=20)
        dataset = Plain(samples=samples)
        share_dataset(dataset)
        before = data.default_collate([samples[i] for i in range(4)])
        after = data.default_collate([dataset.samples[i] for i in range(4)])
        assert type(before) is type(after) is dict
        assert all(before[key].equal(after[key]) for key in before)

    @pytest.mark.parametrize("make", [
        lambda self: self.samples(20_000, 15_000),
        lambda self: {"train": records(10_000), "val": records(2_000), "names": ["a", "b"]},
        lambda self: [np.arange(140_000.0), np.arange(15_000.0), records(2500)],
        lambda self: [{"points": list(range(1000 * i, 1700 * i)), "i": i} for i in range(1, 30)],
    ], ids=["samples", "splits", "mixed", "points"])  # fmt: skip
    def test_a_lower_threshold_never_shares_less(self, make):
        value = make(self)
        sizes = []
        for threshold in (16 * ONE_MIB, 4 * ONE_MIB, ONE_MIB, 300_000, 150_000, 70_000, 2000):
            sizes.append(share_dataset(Plain(value=value), threshold, dry_run=True).before)
        assert sizes == sorted(sizes) and sizes[-1] > 0.9 * object_sizes.deep(value)


@pytest.mark.parametrize("make", [list, dict.fromkeys, set])
@pytest.mark.parametrize("n", [900, 1001, 1999, 2000, 5000])
def test_samples_are_spread_over_the_container(make, n):
    entries, length = object_sizes.sampled(make(range(n)), 1000)
    assert length == n and 450 <= len(entries) <= 1000
    last = entries[-1][0] if isinstance(entries[-1], tuple) else entries[-1]
    assert last >= 0.99 * (n - 1)
