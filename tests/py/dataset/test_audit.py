"""audit: the sizes it measures, its findings, predictions and advice. It changes nothing."""

import multiprocessing
import pickle
import sys
import threading

import numpy as np
import pytest
import waiting
from holders import Plain, records

import recstore
from recstore import audit
from recstore.dataset import object_sizes


def attribute_at(report, path):
    (attribute,) = [a for a in report.attributes if a.path == path]
    return attribute


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def true_size(value, seen):
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(true_size(k, seen) + true_size(v, seen) for k, v in value.items())
    if isinstance(value, (list, tuple, set)):
        return size + sum(true_size(v, seen) for v in value)
    return size


class TestSizes:
    @pytest.mark.parametrize("make", [
        lambda: records(10_000),
        lambda: {str(i): [i, str(i)] for i in range(10_000)},
        lambda: list(range(1000, 20_000)),
        lambda: ["x" * (i % 100) for i in range(10_000)],
        lambda: tuple((i, float(i)) for i in range(1000, 10_000)),
        lambda: set(range(1000, 20_000)),
        lambda: [[records(20) for _ in range(30)] for _ in range(40)],
        lambda: [None] * 20_000,
    ])  # fmt: skip
    def test_deep(self, make):
        value = make()
        real = true_size(value, set())
        assert real * 0.8 < object_sizes.deep(value) < real * 1.2

    def test_a_value_that_records_share_counts_once(self):
        shared = "x" * 1_000_000
        assert object_sizes.deep([{"text": shared, "n": i} for i in range(50_000)]) < 20_000_000

    def test_cycles(self):
        x = []
        x.append(x)
        y = Plain(x=x)
        y.y = y
        assert 0 < object_sizes.deep(y) < 2000

    def test_deep_nesting(self):
        x = []
        for _ in range(100_000):
            x = [x]
        assert object_sizes.deep(x) > 0

    def test_arrays(self):
        assert 800_000 <= object_sizes.deep(Plain(a=np.zeros(100_000))) < 810_000
        assert object_sizes.deep(np.array([f"text {i}" for i in range(10_000)], dtype=object)) > 500_000

    def test_stores_count_nothing(self):
        assert object_sizes.deep(Plain(a=recstore.RecordList(records(1000)))) < 1000

    @pytest.mark.parametrize("value", [
        records(100),
        records(50_000),
        {str(i): [i, str(i)] for i in range(30_000)},
        Plain(a=records(10), b=np.arange(10_000), c="text"),
        [records(5000), tuple(range(100_000)), b"x" * 1_000_000],
    ], ids=lambda v: type(v).__name__)  # fmt: skip
    def test_pickled(self, value):
        real = len(pickle.dumps(value, 5))
        size, _, error = object_sizes.pickled(value)
        assert error is None and real * 0.9 < size < real * 1.1

    def test_pickled_exactly(self):
        size, exact, _ = object_sizes.pickled(records(100))
        assert exact and size == len(pickle.dumps(records(100), 5))

    def test_pickling_has_no_side_effects(self, recwarn):
        from recstore.shm import pins

        x = Plain(
            a=recstore.RecordList(records(1000)),
            d=recstore.RecordDict({1: 2}),
            view=recstore.RecordList(records(10)).filter(None),
        )
        before = dict(pins._pins)
        size, _, error = object_sizes.pickled(x)
        assert error is None and size < 2000
        assert pins._pins == before and not recwarn.list and not x.view.blobs[0].published

    def test_sizes_of_text(self):
        assert [object_sizes.parse(text) for text in (
            "1MiB", " 500 kB ", "2gb", "7", "1.5KiB", "12 b"
        )] == [2**20, 500_000, 2 * 10**9, 7, 1536, 12]  # fmt: skip


class TestAudit:
    def test_attributes(self):
        x = Plain(
            samples=records(20_000),
            array=np.zeros(1_000_000),
            few=[1, 2],
            inner=Plain(bad=[object() for _ in range(100_000)]),
        )
        x.me = x
        before = dict(vars(x))
        report = audit(x)
        assert vars(x) == before and type(x.samples) is list
        assert [a.path for a in report.attributes] == ["array", "samples", "inner.bad", "few"]
        assert attribute_at(report, "samples").shareable and not attribute_at(report, "inner.bad").shareable
        assert "cannot store object" in attribute_at(report, "inner.bad").reason
        assert report.size > 8_000_000 + attribute_at(report, "samples").size

    def test_advice(self):
        report = audit(Plain(samples=records(20_000), lookup={i: str(i) for i in range(50_000)}, a=np.zeros(1_000_000)))
        assert report.advice[0] == "recstore.share_dataset(dataset)"
        assert any(line.startswith("self.samples = recstore.RecordList(self.samples)") for line in report.advice)
        assert any(line.startswith("self.lookup = recstore.RecordDict(self.lookup)") for line in report.advice)
        assert len(report.advice) == 3

    def test_after_sharing(self):
        x = Plain(samples=records(20_000), array=np.arange(1_000_000.0))
        before = audit(x, workers=8)
        recstore.share_dataset(x)
        after = audit(x, workers=8)
        assert after.advice == () and after.pickled < 2000 < before.pickled
        assert after.predicted < before.predicted / 100
        assert "shared already: samples, array" in str(after)

    def test_predictions(self, monkeypatch):
        x = Plain(samples=records(20_000))
        one_process = audit(x, workers=0)
        assert one_process.predicted == one_process.size
        eight_processes = audit(x, workers=3, ranks=2)
        assert eight_processes.predicted == 2 * 4 * eight_processes.size
        assert eight_processes.predicted_shared < eight_processes.predicted / 8
        text = str(eight_processes)
        for part in ("recstore.shared", "in all; 2 processes (ranks) with 3 workers each", "samples",
                     "pickled for a worker: about", "predicted for all processes", "recstore.share_dataset(dataset)"):  # fmt: skip
            assert part in text

    def test_forked_arrays_are_not_copied(self):
        if (
            multiprocessing.get_start_method(allow_none=True) not in (None, "fork")
            or sys.platform != "linux"
            or sys.version_info >= (3, 14)
        ):
            pytest.skip("the default start method is not fork")
        report = audit(Plain(a=np.zeros(1_000_000)), workers=4)
        assert report.method == "fork" and report.predicted < report.size + 100_000

    @pytest.mark.parametrize("environment, ranks, text", [
        ({"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "16"}, 4, "4 processes (ranks)"),
        ({"WORLD_SIZE": "2"}, 2, "LOCAL_WORLD_SIZE is not set"),
        ({"WORLD_SIZE": "x"}, 1, "1 process with"),
        ({"WORLD_SIZE": "0"}, 1, "1 process with"),
    ])  # fmt: skip
    def test_ranks(self, monkeypatch, environment, ranks, text):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        report = audit(Plain(samples=records(100)))
        assert report.ranks == ranks and text in str(report)
        assert audit(Plain(), ranks=3).ranks == 3

    def test_unpicklable(self):
        report = audit(Plain(lock=threading.Lock(), generator=(i for i in range(3)), samples=records(20_000)))
        assert report.pickled is None and "cannot pickle" in report.pickle_error
        assert "impossible" in str(report) and report.advice

    @pytest.mark.parametrize(
        "options", [{"workers": -1}, {"workers": "2"}, {"ranks": 0}, {"ranks": 1.5}, {"threshold": "x"}]
    )
    def test_bad_options(self, options):
        pytest.raises(ValueError, lambda: audit(Plain(), **options))

    def test_of_a_list(self):
        assert audit([1]).advice == () and "nothing large to share" in str(audit([1]))
        report = audit(records(20_000))
        assert report.attributes[0].shareable and report.advice == ("x = recstore.RecordList(x)",)
        assert audit({i: str(i) for i in range(50_000)}).advice == ("x = recstore.RecordDict(x)",)

    @pytest.mark.parametrize("value", [5, None, "name", 2.5, Plain, records, sys], ids=lambda v: type(v).__name__)
    def test_of_values_that_hold_no_data(self, value):
        for call in (audit, recstore.share_dataset):
            pytest.raises(TypeError, lambda: call(value)).match("dataset")

    def test_looks_like_a_loader(self):
        class Loader:
            def __init__(self):
                self.dataset, self.num_workers = Plain(samples=records(20_000)), 6

            def __getattr__(self, name):
                raise AssertionError(name)

        report = audit(Loader())
        assert report.workers == 6 and report.advice[0] == "recstore.share_dataset(loader.dataset)"

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_loader(self, method):
        data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")
        loader = data.DataLoader(
            Plain(samples=records(20_000)), num_workers=3, multiprocessing_context=method, sampler=[1]
        )
        report = audit(loader)
        assert (report.workers, report.method, report.workers_known) == (3, method, True)
        if method == "spawn":
            loader.dataset.lock = threading.Lock()
            assert "would fail: the dataset cannot be pickled" in str(audit(loader))

    def test_without_torch(self):
        code = (
            "import sys; sys.modules['torch'] = None\n"
            "import recstore\n"
            "class D: pass\n"
            "d = D(); d.samples = [{'id': i} for i in range(20000)]\n"
            "print(recstore.audit(d, threshold=1000).advice[0]); print(len(recstore.share_dataset(d, 1000).replaced), 'numpy' in sys.modules)"
        )
        done = waiting.python("-c", code, check=True)
        assert done.stdout.split() == ["recstore.share_dataset(dataset)", "1", "False"]
