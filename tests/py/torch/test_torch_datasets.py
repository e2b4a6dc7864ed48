"""recstore.torch.RecordDataset: samples and batches, read directly and through PyTorch's readers and wrappers."""

import array
import operator
import pickle
import sys
import weakref

import numpy as np
import pytest

import recstore
from recstore import RecordDict, RecordList

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from torch.utils import data  # noqa: E402
from torch_batches import Delegating  # noqa: E402

from recstore.torch import RecordDataset  # noqa: E402

RECORDS = [{"id": i, "name": f"n{i}", "box": [i, i + 0.5]} for i in range(20)]


@pytest.fixture(scope="module")
def x():
    return RecordList(RECORDS)


def pair(record):
    return record["id"], record["name"]


def loaded(dataset, **options):
    """Every sample that a DataLoader yields, in order."""
    options = {"batch_size": 4, "collate_fn": list, **options}
    return [sample for batch in data.DataLoader(dataset, **options) for sample in batch]


class Counting(RecordDataset):
    """Keeps the indices of each batch that is read."""

    def __init__(self, x, **options):
        super().__init__(x, **options)
        self.batches = []

    def __getitems__(self, indices):
        self.batches.append(list(indices))
        return super().__getitems__(indices)


# ---- Reading ----


def test_it_is_a_dataset_of_the_records(x):
    dataset = RecordDataset(x)
    assert isinstance(dataset, data.Dataset) and len(dataset) == 20
    assert [dataset[i] for i in range(20)] == list(dataset) == RECORDS and dataset[-1] == RECORDS[-1]
    assert RecordDataset[int] is not RecordDataset  # generic, as Dataset is
    assert repr(dataset) == f"RecordDataset({x!r})"
    assert repr(RecordDataset(x, pair)).endswith(f", transform={pair!r})")
    for index in (3, True, torch.tensor(3), np.int16(3)):
        assert dataset[index] == RECORDS[int(index)]
    for view in (x[3:9], x.shuffled(1), x + x[:2], x.field("box"), x.lazy(), x.group_by("id")[3], x[:0]):
        samples = RecordDataset(view).__getitems__(range(len(view)))
        assert [type(sample) for sample in samples] == [type(record) for record in view] and samples == list(view)
        assert loaded(RecordDataset(view)) == list(view)


@pytest.mark.parametrize("indices", [
    [5, 0, 5, -1], range(2, 9, 3), torch.tensor([5, 0]), torch.tensor([5]), array.array("q", [5, 0]), [],
    [torch.tensor(3)]
], ids=str)  # fmt: skip
def test_a_batch_of_indices_is_a_list_of_samples(x, indices):
    expected = [RECORDS[i] for i in indices]
    dataset, transformed = RecordDataset(x), RecordDataset(x, pair)
    assert dataset[indices] == dataset.__getitems__(indices) == dataset.__getitems__(iter(indices)) == expected
    assert transformed[indices] == [pair(record) for record in expected]
    assert dataset[2:8:3] == RECORDS[2:8:3] and transformed[:2] == [(0, "n0"), (1, "n1")]


@pytest.mark.parametrize("index, error", [
    (20, IndexError), (-21, IndexError), ([0, 20], IndexError), (1.0, TypeError), ("id", TypeError), ([1.0], TypeError),
    ([True, False] * 10, TypeError), (torch.tensor([True, False] * 10), TypeError)
])  # fmt: skip
def test_wrong_indices(x, index, error):
    for dataset in (RecordDataset(x), RecordDataset(x, pair)):
        raised = pytest.raises(error, lambda: dataset[index])
        assert "x[mask]" in str(raised.value) or not hasattr(index, "__len__") or len(index) < 20


def test_only_the_fields_are_read(x):
    assert RecordDataset(x, fields=["id", "box"])[:2] == [{"id": 0, "box": [0, 0.5]}, {"id": 1, "box": [1, 1.5]}]
    assert RecordDataset(x, fields="id")[3] == {"id": 3}
    assert RecordDataset(x, operator.itemgetter("id"), fields=("id",))[3] == 3
    pytest.raises(ValueError, lambda: RecordDataset(x, fields=())).match("leave it out")


def test_the_values_of_a_dict():
    d = RecordDict({f"k{i}": record for i, record in enumerate(RECORDS)})
    assert loaded(RecordDataset(d.values(), pair)) == [pair(record) for record in RECORDS]
    assert RecordDataset(d.keys())[4] == "k4"
    assert RecordDataset(d.values()).records.segments == d.segments  # no store of its own


@pytest.mark.parametrize("arguments, remedy", [
    (lambda: [RecordDict({1: 2})], "write RecordDataset(d.values())"),
    (lambda: [RecordDict({1: 2}).items()], "write RecordDataset(d.values())"),
    *((lambda other=other: [other], "RecordDataset(RecordList(x))") for other in ([1, 2], None, "text", {"a": 1})),
    (lambda: [RecordList([1]), "id"], "transform must be a function of one record, not str")
])  # fmt: skip
def test_wrong_arguments(arguments, remedy):
    raised = pytest.raises(TypeError, lambda: RecordDataset(*arguments()))
    assert remedy in str(raised.value)


def test_its_pickle_is_a_handle_and_the_transform(x, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    dataset = RecordDataset(x.shuffled(3), pair, fields=["id", "name"])
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    assert pickle.loads(pickled)[:] == dataset[:]


# ---- Errors of a transform ----


def fail_at_seven(record):
    return 1 / (record["id"] - 7)


def shown(caught):
    """The message and the notes of an exception."""
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize("read", [lambda d: d[7], lambda d: d[[6, 7]], lambda d: loaded(d), lambda d: d[-13]])
def test_an_error_of_the_transform_names_the_record(x, read):
    caught = pytest.raises(ZeroDivisionError, lambda: read(RecordDataset(x, fail_at_seven)))
    assert "in the transform of record 7 of a RecordDataset" in shown(caught)
    assert caught.traceback[-1].name == "fail_at_seven"
    if sys.version_info >= (3, 11):  # exceptions have notes
        assert str(caught.value) == "division by zero"


def test_without_notes_the_message_names_the_record(x):
    class OldError(Exception):
        """Like an exception of Python 3.10."""

        @property
        def add_note(self):
            raise AttributeError

    def refuse(record):
        raise OldError("no", record["id"])

    caught = pytest.raises(OldError, lambda: RecordDataset(x, refuse)[3])
    assert caught.value.args == ("no (in the transform of record 3 of a RecordDataset)", 3)


# ---- Subclasses ----


class Doubling(RecordDataset):
    def __getitem__(self, index):
        return 2 * super().__getitem__(index)["id"]


class DoublingMixin:
    def __getitem__(self, index):
        return 2 * super().__getitem__(index)["id"]


class Mixed(DoublingMixin, RecordDataset):
    pass


class Deeper(Doubling):
    pass


@pytest.mark.parametrize("kind", [Doubling, Mixed, Deeper])
@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: data.Subset(d, range(20))], ids=["bare", "Subset"])
def test_a_getitem_of_a_subclass_reads_every_sample(x, kind, wrap):
    assert loaded(wrap(kind(x))) == [2 * i for i in range(20)]
    assert kind(x).__getitems__(torch.tensor([3, 4])) == [6, 8]


def test_a_replaced_getitem_of_the_class_itself_reads_every_sample(x, monkeypatch):
    monkeypatch.setattr(RecordDataset, "__getitem__", lambda self, index: -self.records[index]["id"])
    assert loaded(RecordDataset(x)) == [-i for i in range(20)]


def test_a_getitem_of_an_instance_is_ignored_everywhere(x):
    """Python ignores a `__getitem__` of an instance too, so `d[0]` and a batch agree."""
    dataset = RecordDataset(x)
    dataset.__getitem__ = lambda index: "mine"
    assert dataset[0] == RECORDS[0]
    assert loaded(dataset) == RECORDS


def test_a_transform_that_is_a_method(x):
    class Named(RecordDataset):
        def transform(self, record):
            return record["name"]

    assert loaded(Named(x))[:2] == ["n0", "n1"]
    assert loaded(Named(x, pair))[:2] == [(0, "n0"), (1, "n1")]


def test_a_subclass_may_define_getitems(x):
    dataset = Counting(x, transform=pair)
    assert loaded(dataset, batch_size=8) == [pair(record) for record in RECORDS]
    assert list(map(len, dataset.batches)) == [8, 8, 4]


def test_a_subclass_may_define_attribute_lookup(x):
    class Watched(Counting):
        def __getattribute__(self, name):
            return super().__getattribute__(name)

        def __getattr__(self, name):
            return getattr(self.records, name)

    class Plain(RecordDataset):
        def __getattribute__(self, name):
            return super().__getattribute__(name)

    watched = Watched(x)
    assert loaded(watched) == RECORDS and len(watched.batches) == 5
    assert Plain(x).__getitems__([1]) == loaded(Plain(x))[1:2]
    assert Watched(x).nbytes == x.nbytes


# ---- Wrapped ----


def test_batches_are_read_at_once_through_pytorchs_wrappers(x):
    dataset = Counting(x, transform=pair)
    expected = [pair(record) for record in RECORDS]
    assert loaded(data.Subset(dataset, range(0, 20, 2))) == expected[::2]
    assert list(map(len, dataset.batches)) == [4, 4, 2]
    dataset.batches.clear()
    first, second = data.random_split(dataset, [15, 5], torch.Generator().manual_seed(1))
    assert sorted(loaded(first) + loaded(second)) == expected
    assert len(dataset.batches) == 6
    dataset.batches.clear()
    assert loaded(data.StackDataset(dataset, range(20))) == list(zip(expected, range(20)))
    assert loaded(data.StackDataset(a=dataset, b=dataset))[3] == {"a": expected[3], "b": expected[3]}
    assert len(dataset.batches) == 15
    nested = data.Subset(data.Subset(dataset, range(10, 20)), [0, 9])
    assert loaded(nested) == [expected[10], expected[19]]
    assert loaded(dataset + data.Subset(dataset, [3])) == [*expected, expected[3]]
    assert loaded(data.ConcatDataset([data.StackDataset(dataset), dataset]))[20:] == expected


def test_the_plain_class_reads_batches_through_wrappers(x, monkeypatch):
    read = []
    get_many = RecordList.get_many
    monkeypatch.setattr(
        RecordList, "get_many", lambda self, indices: read.append(len(indices)) or get_many(self, indices)
    )
    dataset = RecordDataset(x)
    for wrapped in (dataset, data.Subset(dataset, range(20)), data.StackDataset(dataset), data.StackDataset(a=dataset)):
        read.clear()
        assert len(loaded(wrapped)) == 20
        assert read == [4] * 5


class ByLambda(Delegating):
    __getattr__ = lambda self, name: operator.attrgetter(name)(self.inner)


class ByHelper(Delegating):
    def __getattr__(self, name):
        return forwarded(self.inner, name)


def forwarded(inner, name):
    return (lambda: getattr(inner, name))()


class ByAttribute(Delegating):
    def __getattribute__(self, name):
        if name in ("__getitems__", "records"):
            return getattr(object.__getattribute__(self, "inner"), name)
        return object.__getattribute__(self, name)


class ByCache(Delegating):
    def __getattr__(self, name):
        values = [getattr(self.inner, part) for part in [name]]
        return values[0]


class ByProperties(Delegating):
    """A wrapper with a property for each forwarded name, as a class decorator makes it."""


for attribute in ("__getitems__", "records"):
    setattr(ByProperties, attribute, property(lambda self, name=attribute: getattr(self.inner, name)))

WRAPPERS = [Delegating, ByLambda, ByHelper, ByAttribute, ByCache, ByProperties]


class Outer(Delegating):
    def __getitem__(self, index):
        return "outer", *self.inner[index]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_transform_of_a_delegating_wrapper_always_runs(x, wrapper):
    inner = wrapper(RecordDataset(x))
    expected = [("wrapped", i) for i in range(20)]
    for around in (
        inner, data.Subset(inner, range(20)), data.random_split(inner, [20])[0], data.ConcatDataset([inner])
    ):  # fmt: skip
        assert sorted(loaded(around)) == expected
    assert loaded(data.StackDataset(inner)) == [(sample,) for sample in expected]
    assert loaded(data.StackDataset(a=inner)) == [{"a": sample} for sample in expected]
    assert loaded(Outer(inner))[1] == ("outer", "wrapped", 1)
    assert loaded(data.Subset(Outer(inner), [2])) == [("outer", "wrapped", 2)]


def test_a_proxy_written_in_c_is_read_sample_by_sample(x, monkeypatch):
    """Such a proxy has no Python frame, so only the reader's dataset shows that there is a wrapper."""
    monkeypatch.setattr(RecordList, "get_many", None)
    dataset = RecordDataset(x, pair)
    proxy = weakref.proxy(dataset)
    expected = [pair(record) for record in RECORDS]
    assert loaded(proxy) == loaded(data.Subset(proxy, range(20))) == expected
    assert loaded(data.StackDataset(a=proxy, b=proxy))[1] == {"a": expected[1], "b": expected[1]}
    pytest.raises(TypeError, lambda: loaded(dataset)).match("not callable")


def test_a_wrapper_may_define_getitems(x):
    class Batched(Delegating):
        def __getitems__(self, indices):
            return [("batched", r["id"]) for r in self.inner.__getitems__(indices)]

    assert loaded(Batched(RecordDataset(x)))[:2] == [("batched", 0), ("batched", 1)]


def test_the_lookup_error_has_the_reason(x):
    pytest.raises(AttributeError, lambda: Delegating(RecordDataset(x)).__getitems__).match("define it in the wrapper")
    assert hasattr(RecordDataset(x), "__getitems__")
    assert RecordDataset.__getitems__.__doc__
    assert not hasattr(RecordList, "__getitems__")


def test_reads_from_within_another_dataset(x):
    """A dataset that holds another one may read batches from it: it is not a wrapper."""

    class Pairs(data.Dataset):
        dataset = "something else"

        def __init__(self):
            self.samples = RecordDataset(x, pair)

        def __len__(self):
            return 10

        def __getitem__(self, index):
            return self.samples.__getitems__([2 * index, 2 * index + 1])

        def __getitems__(self, indices):
            return [self[index] for index in indices]

    assert loaded(Pairs())[1] == [(2, "n2"), (3, "n3")]


# ---- DataLoader in one process ----


def test_a_closed_store(x):
    dataset = RecordDataset(RecordList(RECORDS), pair)
    dataset.records.close()
    pytest.raises(recstore.errors.ClosedError, lambda: dataset[0])
    pytest.raises(recstore.errors.ClosedError, lambda: dataset.__getitems__([0]))
