"""The rules about copies at their thresholds: copy-on-read, and copies per rank."""

import made_runs
import pytest
from made_runs import copying_run, generations, kinds, process, ranks, sample, verdict_of

# ---- copy-on-read ----


def test_copy_on_read():
    verdict = verdict_of("copy-on-read", *copying_run(100))
    assert verdict.line == "samples = RecordList(samples)"
    assert verdict.evidence["bytes"] == pytest.approx(200 * made_runs.MB)
    assert [one["label"] for one in verdict.evidence["processes"]] == ["worker 0", "worker 1"]
    assert verdict.evidence["processes"][0]["uss"] == 100 * made_runs.MB
    assert "worker 0 and worker 1 copied 200 MB" in verdict.text
    assert kinds(*copying_run(180)) == ["copy-on-read"], "they are not also copies per rank"


@pytest.mark.parametrize(
    ("copied", "options", "found"),
    [
        (31, {}, False),  # below 32 MB
        (33, {}, True),
        (100, {"lost": 65}, False),  # shared memory must shrink
        (100, {"lost": 75}, True),
        (100, {"lost": 100}, True),
        (100, {"rss": 25}, True),  # the RSS must stay flat
        (100, {"rss": 35}, False),
        (100, {"rss": -35}, False),
        (100, {"freed": 45}, True),
        (100, {"freed": 55}, False),  # another process freed the memory
        (100, {"exact": False}, True),  # every second sample is an estimate
        (150, {"ends_at": 5}, True),  # a worker ends in the middle
    ],
)
def test_thresholds_of_copy_on_read(copied, options, found):
    assert ("copy-on-read" in kinds(*copying_run(copied, **options))) is found


def test_pages_that_only_change_their_owner_are_not_copies():
    """The parent drops memory that its worker shares: the worker's USS grows as Shared falls, without a copy."""
    entries = []
    for i in range(11):
        dropped = 10 * i
        main = process("main", 10, uss=20, shared=200 - dropped, pss=20 + (200 - dropped) / 2)
        worker = process("worker 0", 11, uss=20 + dropped, shared=200 - dropped, pss=20 + dropped + (200 - dropped) / 2)
        entries.append(sample(i, [main, worker]))
    assert kinds(*entries) == []


def test_pages_of_an_ended_process_are_not_copies():
    """When one of two workers ends, the other becomes the owner of the pages that they shared."""
    entries = []
    for i in range(12):
        ended = i >= 6
        crew = [
            process("main", 10, uss=20),
            process("worker 0", 11, uss=120 if ended else 20, shared=0 if ended else 100, pss=120),
        ]
        crew += [] if ended else [process("worker 1", 12, uss=20, shared=100, pss=20)]
        entries.append(sample(i, crew))
    assert kinds(*entries) == []


def test_workers_with_one_sample():
    verdict = verdict_of("copy-on-read", *generations(100))
    assert verdict.evidence["bytes"] == pytest.approx(200 * made_runs.MB), "the workers of an epoch end with it"
    assert len(verdict.evidence["processes"]) == 8
    assert verdict.text.startswith("worker 0 and worker 1 (8 processes had these names in turn) copied 200 MB")
    assert kinds(*generations(100, count=1)) == ["copy-on-read"], "one sample is enough"


@pytest.mark.parametrize(
    ("found", "options"),
    [
        (False, {"copied": 31}),
        (True, {"copied": 33}),
        (False, {"copied": 70, "files": 100}),  # garbage collection copies the heap of libraries
        (True, {"copied": 80, "files": 100}),
        (True, {"copied": 130, "files": 2000}),  # mapped stores are not libraries
        (False, {"copied": 0, "own": 100}),
        (False, {"copied": 100, "own": 60}),
        (True, {"copied": 100, "own": 20}),
        (False, {"copied": 100, "faults": 50}),  # the parent wrote to its pages
        (True, {"copied": 100, "faults": 90}),
        (False, {"copied": 100, "forked": False}),
        (True, {"copied": 26, "limit": 300 * made_runs.MB, "current": 280}),
        (False, {"copied": 22, "limit": 300 * made_runs.MB, "current": 280}),
        (False, {"copied": 26, "limit": 300 * made_runs.MB, "current": 200}),
    ],
    ids=str,
)
def test_copies_since_the_start_of_a_worker(found, options):
    current = options.pop("current", None)
    entries = generations(**{"first": 6, **options})
    for entry in entries:
        if entry["kind"] == "sample" and current is not None:
            entry["cgroup"] = {
                "current": current * made_runs.MB, "used": current * made_runs.MB, "oom": 0, "oom_kill": 0
            }  # fmt: skip
    assert ("copy-on-read" in kinds(*entries)) is found


def test_a_parent_that_grew_slightly_after_the_fork():
    for grown, found in ((15, True), (40, False)):
        entries = generations(60)
        for entry in entries:
            entry["processes"][0]["anonymous"] += grown * made_runs.MB
        assert ("copy-on-read" in kinds(*entries)) is found


def test_siblings_of_a_worker_that_copies_are_reported():
    entries = generations(100, count=1)
    entries[0]["processes"][2] |= {"uss": 26 * made_runs.MB, "shared": 174 * made_runs.MB}
    assert "worker 0 and worker 1 copied 126 MB" in verdict_of("copy-on-read", *entries).text


# ---- copies per rank ----


def test_copies_per_rank():
    verdict = verdict_of("copies per rank", *ranks([500, 510, 520, 505]))
    assert verdict.evidence["bytes"] == 1500 * made_runs.MB and len(verdict.evidence["private"]) == 4
    assert verdict.line == 'samples = recstore.shared("train", load_samples)'


@pytest.mark.parametrize(("sizes", "found"), [
    ([127, 130], False), ([129, 130], True), ([500, 390], False), ([500, 410], True), ([900], False),
    ([500, 490, 200], True), ([500, 200, 490, 0], True), ([500, 300, 200], False)
])  # fmt: skip
def test_copies_per_rank_are_large_and_alike(sizes, found):
    assert ("copies per rank" in kinds(*ranks(sizes))) is found


@pytest.mark.parametrize(
    ("memory", "found"),
    [({"anonymous": 40}, False), ({"shared_file": 170}, False), ({"shared_file": 160}, True)],
    ids=["a file mapped by one rank", "libraries", "more than libraries"],
)
def test_private_memory_that_is_not_a_copy(memory, found):
    assert ("copies per rank" in kinds(*ranks([500, 500], **memory))) is found


def spawned(sizes, label="worker {}"):
    crew = [process("main", 10, uss=100), *(process(label.format(i), 11 + i, uss=size) for i, size in enumerate(sizes))]
    return [sample(t, crew) for t in range(12)]


def test_copies_in_spawned_workers():
    verdict = verdict_of("copies per rank", *spawned([300, 310, 305]))
    assert verdict.line == "samples = RecordList(samples)" and verdict.evidence["bytes"] == 900 * made_runs.MB
    assert "Each of 3 workers has" in verdict.text
    assert "workers of rank 2 has" in verdict_of("copies per rank", *spawned([300, 310], "rank 2 worker {}")).text


@pytest.mark.parametrize("sizes", [[300], [127, 127], [300, 200], [300, 40]])
def test_workers_without_copies(sizes):
    assert kinds(*spawned(sizes)) == []
