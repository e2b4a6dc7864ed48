"""recstore.monitor.series: processes and figures from samples."""

from made_runs import BEGIN, MB, process, sample

from recstore.monitor import series


def test_a_reused_pid_is_another_process():
    first, second = process("worker 0", 11, uss=1), process("worker 3", 11, uss=2) | {"start": 9999}
    crew = series.processes([sample(0, [first]), sample(1, [first]), sample(2, [second])])
    assert [(one.label, one.times) for one in crew] == [("worker 0", [BEGIN, BEGIN + 1]), ("worker 3", [BEGIN + 2])]


def test_a_process_without_memory_is_omitted():
    (one,) = series.processes([sample(0, [process("main", 10, uss=5)]), sample(1, [process("main", 10)])])
    assert one.times == [BEGIN]


def test_a_process_has_the_labels_of_its_last_entry():
    crew = series.processes(
        [sample(0, [process("process", 11, uss=1)]), sample(1, [process("rank 1 worker 2", 11, uss=1)])]
    )
    assert [(one.label, one.role, one.rank, one.worker) for one in crew] == [("rank 1 worker 2", "worker", 1, 2)]


def test_a_series_omits_unknown_and_estimated_values():
    entries = [process("main", 10, uss=5, rss=9), process("main", 10, uss=5, rss=10) | {"exact": False}]
    entries += [process("main", 10, uss=None, rss=11), process("main", 10, uss=7, rss=12)]
    (one,) = series.processes(sample(t, [entry]) for t, entry in enumerate(entries))
    assert one.series("uss") == ([BEGIN, BEGIN + 3], [5 * MB, 7 * MB])
    assert one.series("rss")[1] == [9 * MB, 10 * MB, 11 * MB, 12 * MB]
    assert one.last("uss") == 7 * MB and one.last("nothing") is None


def test_levels_and_floors():
    assert series.floors([0, 1, 2, 3, 4], [5, 4, 9, 8, 1], [0, 2, 4]) == [4, 1]
    assert series.floors([0, 1], [5, 4], [0, 2, 4]) == [4, None]
    crew = [process("main", 10, uss=100, shared=100)]
    assert series.level(sample(0, crew, unmapped=50)) == 200 * MB
    unknown = [process("main", 10, uss=None, pss=None, rss=300)]
    assert series.level(sample(0, unknown, current=70)) == 70 * MB
    assert series.level(sample(0, unknown)) == 300 * MB
    assert series.level({"t": 0}) is None
