"""share_dataset(..., shared="name"): one process makes the dataset, the others attach before they load."""

import multiprocessing

import interpreters
import numpy as np
import pytest
from mp import shared_datasets as datasets
from mp.sharers import FORK, end, notes, open_gate, start, wait_until_gone
from mp.workers import run_worker
from waiting import LIMIT_S, until

import recstore
from recstore import share_dataset
from recstore.shm import process_memory

SPAWN = multiprocessing.get_context("spawn")


def ranks(context, n, kind, name, log, options=None, *arguments):
    """Starts n ranks. Returns their processes and pipes."""
    crew = []
    for _ in range(n):
        parent_end, child_end = context.Pipe()
        process = context.Process(target=datasets.rank, args=(child_end, kind, name, log, options or {}, *arguments))
        process.start()
        child_end.close()
        crew.append((process, parent_end))
    return crew


def answers(crew):
    out = []
    for _, pipe in crew:
        assert pipe.poll(LIMIT_S)
        out.append(pipe.recv())
    return out


@pytest.mark.parametrize("context", [FORK, SPAWN], ids=["fork", "spawn"])
def test_one_rank_makes_the_dataset_and_the_others_attach_before_they_load(context, name, log):
    crew = ranks(context, 4, datasets.Dataset, name, log)
    assert answers(crew) == [datasets.expected()] * 4
    assert len(notes(log)) == 1 and len(recstore.names.list(name)) == 1
    end(*crew)
    wait_until_gone(name)


def test_others_wait_while_one_rank_makes_the_dataset(name, log, tmp_path):
    gate = str(tmp_path / "gate")
    crew = ranks(FORK, 3, datasets.Dataset, name, log, {}, 1, gate)
    until(lambda: notes(log))
    assert not any(pipe.poll(0.3) for _, pipe in crew)
    open_gate(gate)
    assert answers(crew) == [datasets.expected()] * 3 and len(notes(log)) == 1
    end(*crew)


@pytest.mark.parametrize("kind", [datasets.Unpicklable, datasets.Holding])
def test_each_rank_makes_a_dataset_that_cannot_be_sent_and_then_shares_it(kind, name, log):
    crew = ranks(FORK, 3, kind, name, log)
    assert answers(crew) == [datasets.expected()] * 3
    assert len(notes(log)) == 3 and len(recstore.names.list(name)) == 1
    end(*crew)
    wait_until_gone(name)


def test_the_reason_is_logged(name, log, messages):
    dataset = share_dataset(datasets.factory(datasets.Unpicklable, log), datasets.THRESHOLD, shared=name)
    (message,) = [message for message in messages() if "each process makes" in message]
    assert "cannot be pickled: " in message and "lambda" in message
    del dataset


def test_a_loaded_dataset_only_attaches_to_equal_data(name, log):
    first, again, other = datasets.Dataset(log), datasets.Dataset(log), datasets.Dataset(log, 2)
    for dataset in (first, again, other):
        assert share_dataset(dataset, datasets.THRESHOLD, shared=name) is dataset
    assert list(map(datasets.description, (first, again, other))) == [datasets.expected(n) for n in (1, 1, 2)]
    assert first.samples.segments[0].id == again.samples.segments[0].id != other.samples.segments[0].id
    assert len(recstore.names.list(name)) == 2


class Arrays:
    def __init__(self, a, b):
        self.a, self.b, self.part_of_b = a, b, b[10:20]


def test_equal_arrays_have_one_segment_in_any_memory_order(name):
    arrays = []
    for first, second in ((slice(0, 50_000), slice(50_000, None)), (slice(50_000, None), slice(0, 50_000))):
        memory = np.empty(100_000)
        dataset = Arrays(memory[first], memory[second])
        dataset.a[:], dataset.b[:] = np.arange(50_000), np.arange(50_000) * 2.0
        arrays.append(share_dataset(dataset, datasets.THRESHOLD, shared=name).a)
        infos = recstore.names.list(name)
        assert dataset.part_of_b[1] == 22.0
    assert len(arrays) == 2 and len(infos) == 1


def test_workers_read_an_attached_dataset(context, name, log):
    make = datasets.factory(datasets.Dataset, log)
    kept = share_dataset(make, datasets.THRESHOLD, shared=name)
    dataset = share_dataset(make, datasets.THRESHOLD, shared=name)
    assert dataset is not kept and len(notes(log)) == 1
    assert run_worker(context, datasets.send_description, dataset) == datasets.expected()


def test_another_argument_or_option_is_another_dataset(name, log):
    results = [
        share_dataset(datasets.factory(datasets.Dataset, log, *arguments), datasets.THRESHOLD, shared=name, **options)
        for arguments, options in (((), {}), ((2,), {}), ((), {"skip": "array"}), ((), {}))
    ]
    assert len(notes(log)) == 3 == len(recstore.names.list(name))
    assert type(results[2].array) is np.ndarray and results[2].array.flags.writeable
    assert [dataset.scale for dataset in results] == [1, 2, 1, 1]


def test_kept_datasets_outlive_their_processes(name, log, tmp_path):
    path = tmp_path / "data"
    path.write_text("1")
    options = {"keep": True, "files": [str(path)]}
    for _ in range(2):
        crew = ranks(FORK, 1, datasets.Dataset, name, log, options)
        assert answers(crew) == [datasets.expected()]
        end(*crew)
        assert len(notes(log)) == 1
    path.write_text("22")
    crew = ranks(FORK, 1, datasets.Dataset, name, log, options)
    assert answers(crew) == [datasets.expected()] and len(notes(log)) == 2
    end(*crew)
    assert recstore.names.remove(name) == 2


def test_an_exception_of_the_constructor_reaches_all_and_leaves_nothing(name, log):
    with pytest.raises(OSError, match="the disk is gone"):
        share_dataset(datasets.factory(datasets.Failing, log), shared=name)
    wait_until_gone(name)
    assert len(notes(log)) == 1
    with pytest.raises(TypeError, match="returned None"):
        share_dataset(datasets.factory(lambda log: None, log), shared=name, fingerprint="1")


def test_strict_raises_for_a_value_that_cannot_be_stored(name, log):
    def make():
        dataset = datasets.Dataset(log)
        dataset.odd = [object() for _ in range(1000)]
        return dataset

    with pytest.raises(recstore.errors.EncodeError, match="odd"):
        share_dataset(make, datasets.THRESHOLD, shared=name, strict=True, fingerprint="1")
    wait_until_gone(name)


def test_a_value_that_fails_late_is_kept_unchanged(name, log):
    make = datasets.factory(datasets.Late, log)
    results = [share_dataset(make, datasets.THRESHOLD, shared=name) for _ in range(2)]
    assert len(notes(log)) == 1
    for dataset in results:
        assert type(dataset.good) is recstore.RecordView
        assert type(dataset.bad) is list and dataset.bad[777] == {"i": complex}


def test_a_store_of_another_kind_is_refused(name):
    with recstore.shared(name, lambda: [1, 2], fingerprint="1"):
        with pytest.raises(recstore.Error, match="does not hold a dataset"):
            share_dataset(lambda: None, shared=name, fingerprint="1")


@pytest.mark.parametrize("options, error, text", [
    ({"shared": "a", "dry_run": True}, TypeError, "'dry_run' with shared="),
    ({"shared": "a", "backing": "shm"}, TypeError, "'backing' with shared="),
    ({"keep": True}, TypeError, "'keep' without shared="),
    ({"colour": 1}, TypeError, "unexpected keyword argument 'colour'$"),
    ({"shared": "a", "keep": True}, ValueError, "files=")
])  # fmt: skip
def test_invalid_options_are_refused(options, error, text, log):
    pytest.raises(error, lambda: share_dataset(datasets.factory(datasets.Dataset, log), **options)).match(text)
    assert notes(log) == []


@interpreters.measures_memory
def test_the_ranks_share_one_copy(name, log):
    """Four attached ranks take less than half of the memory of four ranks with their own data."""
    if process_memory.usage() is None:
        pytest.skip("needs smaps_rollup")
    plain = _memory_of_ranks(None, log)
    assert _memory_of_ranks(name, log) < plain / 2


def _memory_of_ranks(name, log):
    crew = [start(datasets.hold_large, name, log) for _ in range(4)]
    total = sum(answers(crew))
    end(*crew)
    return total
