"""Sequences that are read by length (recstore/building/source.py): no IndexError or StopIteration ends them early."""

import importlib.util
from collections import UserList
from collections.abc import Sequence

import pytest

import recstore
from recstore.remote import ShardWriter


class Samples:
    """A map-style dataset, without __iter__."""

    def __init__(self, length, fails_at=None, error=IndexError("list index out of range")):
        self.length, self.fails_at, self.error = length, fails_at, error

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i == self.fails_at:
            raise self.error
        return {"i": i}


class Inherited(Samples, Sequence):
    """Sequence's __iter__ ends at an IndexError too."""


class Pairs(Samples):
    def __getitem__(self, i):
        return i, super().__getitem__(i)


def rows(n):
    return [{"i": i} for i in range(n)]


@pytest.mark.parametrize("kind", [Samples, Inherited])
def test_an_index_error_within_a_record_is_raised_with_its_number(kind):
    with pytest.raises(IndexError, match="record 2 of") as raised:
        recstore.RecordList(kind(5, 2))
    assert str(raised.value.__cause__) == "list index out of range"


@pytest.mark.parametrize("kind", [Samples, Inherited])
def test_the_length_counts_and_not_the_first_index_error(kind):
    with recstore.RecordList(kind(3)) as x:  # its __getitem__ never raises
        assert x.to_list() == rows(3)
    with recstore.RecordList(UserList(rows(3))) as x:
        assert x.to_list() == rows(3)


def test_a_length_beyond_the_items_is_an_error():
    class Long(UserList):
        def __len__(self):
            return 5

    with pytest.raises(IndexError, match="record 3 of a Long of 5"):
        recstore.RecordList(Long(rows(3)))


def test_an_end_within_a_record_is_an_error():
    with pytest.raises(RuntimeError, match="record 2 of .*StopIteration"):
        recstore.RecordList(Samples(5, 2, StopIteration()))


@pytest.mark.parametrize("error", [TypeError, NotImplementedError])
def test_without_a_length_an_index_error_is_the_end(error):
    class Unsized(Samples):
        def __len__(self):
            raise error

    with recstore.RecordList(Unsized(None, 3)) as x:
        assert x.to_list() == rows(3)


def test_an_own_iter_counts_more_than_the_length():
    class Iterable(Samples):
        def __iter__(self):
            return iter(rows(7))

    with recstore.RecordList(Iterable(2)) as x:
        assert len(x) == 7


def test_pairs():
    with recstore.RecordDict(Pairs(3)) as d:
        assert d.to_dict() == dict(enumerate(rows(3)))
    with pytest.raises(IndexError, match="record 2 "):
        recstore.RecordDict(Pairs(5, 2))


def test_builds_in_other_ways(tmp_path):
    with recstore.RecordList([Samples(3), Samples(2)], workers=2) as x:
        assert x.to_list() == rows(3) + rows(2)
    builds = [
        lambda: recstore.RecordList([Samples(3), Samples(5, 2)], workers=2),
        lambda: ShardWriter(str(tmp_path)).write(Samples(5, 2)),
    ]
    if importlib.util.find_spec("rich"):
        builds.append(lambda: recstore.RecordList(Samples(5, 2), progress=True))
    for build in builds:
        with pytest.raises(IndexError, match="record 2 "):
            build()
    with pytest.raises(IndexError, match="record 1 "):  # while the list of shards is read
        recstore.RecordList(Samples(3, 1), workers=2)


def test_datasets_of_torch():
    data = pytest.importorskip("torch.utils.data")
    for wrapped in (data.Subset(Samples(5, 3), range(5)), data.ConcatDataset([Samples(2), Samples(5, 2)])):
        with pytest.raises(IndexError):
            recstore.RecordList(wrapped)
    with recstore.RecordList(data.Subset(Samples(5), [4, 0])) as x:
        assert x.to_list() == [{"i": 4}, {"i": 0}]


def first(record):
    return next(iter(record))


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_in_a_function_does_not_end_a_map(workers):
    with recstore.RecordList([[1], [], [2]]) as x, pytest.raises(RuntimeError):
        x.map(first, workers=workers)


def test_stop_iteration_in_a_key_does_not_end_an_index():
    with recstore.RecordList([[1], [], [2]]) as x:
        for method in (x.index_by, x.group_by):
            with pytest.raises(RuntimeError):
                method(first)
