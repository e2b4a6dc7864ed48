"""share_dataset and placeholders, which a program fills later: lists, dicts, sets and arrays that stay, and the errors of
stores that the program assigns to."""

import collections
import pickle
import random

import numpy as np
import pytest
from holders import Plain, records, row_of, share

import recstore
from recstore import RecordDict, RecordView, audit, share_dataset

N = 2000
TO_FILL = {
    "None": lambda: [None] * N, "zeros": lambda: [0] * N, "falses": lambda: [False] * N, "floats": lambda: [0.0] * N,
    "texts": lambda: [""] * N, "pairs": lambda: [(0, 0.5)] * N, "lists": lambda: [[] for _ in range(N)],
    "dicts": lambda: [{} for _ in range(N)], "dict of None": lambda: dict.fromkeys(range(N)),
    "counters": lambda: dict.fromkeys(map(str, range(N)), 0), "groups": lambda: {i: [] for i in range(N)},
    "ordered": lambda: collections.OrderedDict.fromkeys(range(N), -1),
    "defaultdict": lambda: collections.defaultdict(int, dict.fromkeys(range(N), 0))
}  # fmt: skip


class YOLODataset:
    """The attributes that ultralytics' BaseDataset has for its cache of images, and how it uses them."""

    def __init__(self, n):
        self.labels = [{"im_file": f"images/{i}.jpg", "cls": i % 80} for i in range(n)]
        self.ims, self.im_hw0, self.im_hw = [None] * n, [None] * n, [None] * n
        self.max_buffer_length = 100
        self.buffer = []

    def __getitem__(self, i):
        if self.ims[i] is None:
            self.ims[i], self.im_hw0[i], self.im_hw[i] = self.labels[i]["im_file"], (480, 640), (640, 640)
            self.buffer.append(i)
        return self.ims[i], self.im_hw0[i], self.im_hw[i]


class TestListsToFill:
    def test_a_dataset_that_caches_what_it_reads(self):
        dataset = YOLODataset(140_000)  # lists of this length take more than the default threshold
        report = share_dataset(dataset)
        assert [row.path for row in report.replaced] == ["labels"]
        assert dataset[7] == dataset[7] == ("images/7.jpg", (480, 640), (640, 640))
        for name in ("ims", "im_hw0", "im_hw"):
            reason = row_of(report, name).reason
            assert "all its entries are None" in reason and f"only=[{name!r}]" in reason

    @pytest.mark.parametrize("name", TO_FILL)
    def test_stay(self, name):
        value = TO_FILL[name]()
        x = Plain(samples=records(), value=value)
        report = share(x, strict=True)  # a placeholder is not a failure
        assert x.value is value and type(x.samples) is RecordView
        assert "placeholder" in row_of(report, "value").reason

    @pytest.mark.parametrize("value", [
        [None] * N + [1],
        [i % 2 for i in range(N)],
        ["x" * i for i in range(100)],
        [0, False] * N,
        [[] if i else [1] for i in range(N)],
        {str(i): i for i in range(N)},
    ], ids=lambda value: f"{type(value).__name__} {len(value)}")  # fmt: skip
    def test_data_is_shared(self, value):
        x = Plain(value=value)
        share(x)
        assert type(x.value) in (RecordView, RecordDict) and x.value == value

    def test_named_by_only(self):
        x = Plain(a=[None] * N, b=[None] * N, inner=Plain(c=[None] * N))
        share(x, only=["a", "*"])
        assert type(x.a) is RecordView and type(x.b) is list
        share(x, only="inner")
        assert type(x.inner.c) is list
        share(x, only="inner.c")
        assert type(x.inner.c) is RecordView

    def test_audit_reports_placeholders(self):
        report = audit(Plain(ims=[None] * N), threshold=2000)
        assert "placeholder" in report.attributes[0].reason and report.advice == ()


class TestArraysToFill:
    @pytest.mark.parametrize("array", [
        np.zeros(200_000),
        np.full((300, 400, 3), np.nan),
        np.full(200_000, b"", "S8"),
        np.zeros((1000, 200), order="F"),
        np.zeros(400_000)[::2],
        np.zeros(50_000, [("a", "f8"), ("b", "i4"), ("c", "S12")]),
    ], ids=lambda array: f"{array.dtype} {array.shape}")  # fmt: skip
    def test_stay(self, array):
        x = Plain(cache=array, part=array[:100])
        report = share_dataset(x, strict=True)
        assert x.cache is array and report.replaced == []
        reason = row_of(report, "cache").reason
        assert "all its entries are one value" in reason and "only=['cache']" in reason

    def test_named_by_only(self):
        x = Plain(cache=np.zeros(200_000))
        assert [row.path for row in share_dataset(x, only="cache").replaced] == ["cache"]

    def test_read_only_arrays_are_shared(self):
        x = Plain(weights=np.ones(200_000))
        x.weights.flags.writeable = False
        assert [row.path for row in share_dataset(x).replaced] == ["weights"]

    def test_an_array_with_a_part_of_one_value_is_shared(self):
        array = np.arange(400_000.0)
        array[:200_000] = 0
        x = Plain(all=array, first=array[:200_000])
        share_dataset(x)
        assert not x.all.flags.writeable and np.shares_memory(x.all, x.first)

    def test_the_last_element_differs(self):
        x = Plain(a=np.zeros(200_000), b=np.zeros((400, 500)).T)
        x.a[-1] = x.b[-1, -1] = 1
        assert len(share_dataset(x).replaced) == 2

    def test_tensors_are_shared_because_they_stay_writable(self):
        torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
        x = Plain(cache=torch.zeros(400_000))
        assert len(share_dataset(x).replaced) == 1
        x.cache[3] = 1
        assert x.cache[3] == 1


class MapDataset:
    """Like detectron2's: `_fallback_candidates` has the numbers of samples that can replace a broken sample."""

    def __init__(self, n):
        self.samples = records(n)
        self._fallback_candidates = set(range(n))

    def __getitem__(self, i):
        self._fallback_candidates.discard(i)
        j = random.sample(sorted(self._fallback_candidates), k=1)[0]
        self._fallback_candidates.add(i)
        return self.samples[i], self.samples[j]


class TestSets:
    def test_skip_as_the_report_advises(self):
        dataset = MapDataset(20_000)
        report = share(dataset)
        reason = row_of(report, "_fallback_candidates").reason
        assert type(dataset._fallback_candidates) is set and "skip=['_fallback_candidates']" in reason
        with pytest.raises(recstore.errors.EncodeError, match=r"skip=\['_fallback_candidates'\]"):
            share(MapDataset(20_000), strict=True)
        dataset = MapDataset(20_000)
        assert [row.path for row in share(dataset, strict=True, skip=["_fallback_candidates"]).rows] == ["samples"]
        sample, other = dataset[3]
        assert sample == dataset.samples[3] and other != sample

    @pytest.mark.parametrize("kind", [set, frozenset])
    def test_keys_as_the_report_advises(self, kind):
        x = kind(f"image {i}" for i in range(20_000))
        dataset = Plain(ids=x)
        (row,) = share(dataset).skipped
        scope = {"recstore": recstore, "x": x}
        exec(row.reason[row.reason.index("x = ") :], scope)
        dataset.ids = scope["x"]
        assert share(dataset).rows == []  # shared already
        assert "image 7" in dataset.ids and "image" not in dataset.ids and dataset.ids == x
        assert dataset.ids & {"image 1", "other"} == {"image 1"} and len(dataset.ids) == 20_000
        assert random.Random(0).sample(dataset.ids, k=1)[0] in x


class TestErrors:
    """The error of an attempt to change a replaced value names the attribute and the code to write."""

    def test_names_the_attribute(self):
        x = Plain(labels=records(), inner=Plain(by_id={i: [i] for i in range(500)}))
        share(x)
        labels, by_id, item = x.labels, x.inner.by_id, "object does not support item assignment"
        for store, replaced, use, error, problem in [
            (labels, "list 'labels'", lambda: labels.__setitem__(3, None), TypeError, item),
            (labels, "list 'labels'", lambda: labels.__delitem__(3), TypeError, "object doesn't support item deletion"),
            *((labels, "list 'labels'", lambda name=name: getattr(labels, name), AttributeError,
               f"object has no attribute {name!r}") for name in ("append", "sort", "extend", "pop", "clear")),
            (by_id, "dict 'inner.by_id'", lambda: by_id.__setitem__(3, None), TypeError, item),
            (by_id, "dict 'inner.by_id'", lambda: by_id.__delitem__(3), TypeError, "object doesn't support item deletion"),
            (by_id, "dict 'inner.by_id'", lambda: by_id.update, AttributeError, "object has no attribute 'update'")
        ]:  # fmt: skip
            message = str(pytest.raises(error, use).value)
            kind, _, path = replaced.partition(" ")
            assert message.startswith(f"'{type(store).__name__}' {problem}: ") and replaced in message
            assert message.endswith(f"share_dataset(dataset, skip=[{path}]) leaves it a {kind}")

    @pytest.mark.parametrize("path", ["labels", "inner.parts['train']", "inner.pair[0]", "inner.by_id"])
    def test_the_advice_helps(self, path):
        parts = {"train": records(), "val": records()}
        x = Plain(labels=records(), inner=Plain(parts=parts, pair=(records(), 1), by_id={i: i for i in range(500)}))
        report = share(x)
        assert path in [row.path for row in report.replaced]
        report.undo()
        assert path not in [row.path for row in share(x, skip=[path]).replaced]

    def test_views_and_other_stores_have_the_usual_message(self):
        x = Plain(labels=records())
        share(x)
        for store in (x.labels[:5], x.labels.shuffled(1), recstore.RecordList([1, 2]), recstore.RecordList([1, 2])[:1]):
            with pytest.raises(TypeError, match="it is read-only; build a changed list"):
                store[0] = None

    def test_a_plain_pickle_does_not_have_the_name(self, monkeypatch):
        monkeypatch.setenv("RECSTORE_PICKLE", "allow")
        x = Plain(labels=records())
        report = share(x)
        view = report.store[:200]
        assert len(pickle.dumps(x.labels)) == len(pickle.dumps(view)) <= 300
        with pytest.raises(TypeError, match="it is read-only; build a changed list"):
            pickle.loads(pickle.dumps(x.labels))[0] = None

    def test_a_forged_name(self):
        x = Plain(labels=records())
        share(x)
        with pytest.raises(recstore.errors.CorruptError, match="name of an attribute"):
            x.labels.__setstate__({"_kind": 3})
