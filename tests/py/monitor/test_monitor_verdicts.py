"""The rules of the verdicts at their thresholds, on artificial runs. tests/mp has real programs."""

import made_proc
import made_runs
import pytest
from made_runs import (
    BEGIN,
    address_space_run,
    copying_run,
    event,
    generations,
    growing_run,
    killed_run,
    kinds,
    process,
    ramp,
    ranks,
    run,
    sample,
    verdict_of,
)

from recstore.monitor import sampler, verdicts

# ---- leak ----


def test_leak():
    verdict = verdict_of("leak", *growing_run(ramp(60, 100, 400)))
    # from the floor of the second quarter to that of the last
    assert 140 < verdict.evidence["bytes"] / made_runs.MB < 170
    assert verdict.evidence["seconds to the limit"] is None
    speed = verdict.evidence["bytes per second"] / made_runs.MB
    assert speed == pytest.approx(300 / 59, rel=0.1)


@pytest.mark.parametrize(
    ("count", "line"), [(120, "samples = RecordList(read_samples())"), (125, "losses.append(loss.item())")]
)
def test_the_line_of_a_leak(count, line):
    """A process younger than two minutes may still be loading its data, unless it has started an epoch."""
    assert verdict_of("leak", *growing_run(ramp(count, 100, 400))).line == line
    epoch = event(10, "epoch", text="epoch 0")
    assert verdict_of("leak", *growing_run(ramp(count, 100, 400)), epoch).line == "losses.append(loss.item())"


def test_the_line_of_a_leak_in_workers():
    entries = [sample(i, [process("main", 10, uss=50), process("worker 0", 11, uss=20 + 5 * i)]) for i in range(60)]
    assert "lru_cache" in verdict_of("leak", *entries).line


def test_a_leak_has_the_time_to_the_limit():
    entries = growing_run(ramp(61, 100, 400), current=400)
    left = verdict_of("leak", made_runs.start(limit=1000 * made_runs.MB), *entries).evidence["seconds to the limit"]
    assert left == pytest.approx(120, rel=0.1)


@pytest.mark.parametrize(
    ("count", "grown", "found"), [(200, 125, False), (200, 135, True), (19, 300, False), (21, 300, True)]
)
def test_the_least_size_of_a_leak_and_the_fewest_samples(count, grown, found):
    """Half of the growth is between the floors of the second and the last quarter; the threshold is 64 MB."""
    assert ("leak" in kinds(*growing_run(ramp(count, 100, 100 + grown)))) is found


# Twice the sizes of a DataLoader worker in its first seconds.
SETTLING = [
    152, 157, 165, 153, 161, 165, 169, 177, 185, 189, 195, 185, 189, 197, 201, 205, 213, 213, 213, 217, 217, 217, 221,
    221, 225, 225, 225, 229, 229, 229, 229, 229
]  # fmt: skip
MEMORY = {
    "loaded": (ramp(20, 20, 270) + [270] * 60, []),
    "much is loaded": (ramp(20, 20, 400) + [400] * 60, ["growth"]),
    "a cache fills": (ramp(50, 20, 270) + [270] * 30, []),
    "a heap settles": ([2 * value for value in SETTLING], []),
    "temporary": ([100 + 40 * (i % 7) for i in range(80)], []),
    "temporary and a leak": ([100 + 4 * i + 40 * (i % 7) for i in range(80)], ["leak"]),
}


@pytest.mark.parametrize(("values", "found"), MEMORY.values(), ids=MEMORY)
def test_memory_that_is_not_a_leak(values, found):
    assert kinds(*growing_run(values)) == found


@pytest.mark.parametrize(("last", "found"), [(3, True), (6, True), (10, False)])
def test_memory_freed_by_an_ending_process(last, found):
    assert ("leak" in kinds(*growing_run(ramp(60, 100, 400) + [50] * last))) is found


def test_a_leak_by_epochs():
    """Within an epoch memory rises and falls; the floors of the epochs rise."""
    values = [100 + 30 * (i // 20) + 5 * (i % 20) for i in range(120)]
    epochs = [event(20 * i, "epoch", text=f"epoch {i}") for i in range(6)]
    assert kinds(*growing_run(values), *epochs) == ["leak"]
    assert kinds(*growing_run([100 + 5 * (i % 20) for i in range(120)]), *epochs) == []


# ---- backlog ----


def waiting(sizes, unmapped=None, total=300):
    entries = []
    for i, size in enumerate(sizes):
        rest = size if unmapped is None else unmapped[i]
        crew = [process("main", 10, uss=total), process("worker 0", 11, uss=20), process("worker 1", 12, uss=20)]
        entries.append(sample(i, crew, unmapped=rest, named={"private": total, "batches": size, "other": 0}))
    return entries


def test_backlog():
    verdict = verdict_of("backlog", *waiting([0, 60, 120] + [128, 120] * 10 + [60, 0]))
    assert verdict.line == "loader = DataLoader(dataset, num_workers=1, prefetch_factor=1, ...)"
    assert verdict.evidence["workers"] == 2 and verdict.evidence["bytes"] == 120 * made_runs.MB


@pytest.mark.parametrize(
    ("size", "total", "found"), [(63, 300, False), (65, 300, True), (66, 1100, True), (66, 1500, False)]
)
def test_the_least_size_and_share_of_a_backlog(size, total, found):
    assert ("backlog" in kinds(*waiting([size] * 20, total=total))) is found


def test_no_backlog():
    assert kinds(*waiting([128] * 20, unmapped=[0, 10] * 10)) == [], "the consumer has the batches"
    assert kinds(*waiting([0, 128, 20, 0, 70, 10] * 5)) == [], "the queue runs empty"
    entries = waiting([128] * 20)
    for entry in entries:
        entry["named"] = None
    assert kinds(*entries) == [], "the log has no batches"


# ---- pinned memory ----


def pinned(size, total=300):
    return [
        sample(t, [process("main", 10, uss=total)], named={"private": total - size, "pinned": size}) for t in range(12)
    ]


@pytest.mark.parametrize(
    ("size", "total", "found"), [(63, 300, False), (65, 300, True), (65, 700, False), (75, 700, True)]
)
def test_pinned_memory(size, total, found):
    assert ("pinned memory" in kinds(*pinned(size, total))) is found
    if found:
        assert "pin_memory=False" in verdict_of("pinned memory", *pinned(size, total)).line


PINNED = "7f5a20000000-7f5a24000000 rw-s 00000000 00:01 166935    /dev/zero (deleted)\n"
DEVICES = "7f5a10000000-7f5a10200000 rw-s 00000000 00:06 529    /dev/nvidiactl\n7f5a10400000-7f5a10600000 rw-s 00000000 00:06 531    /dev/nvidia0\n"


def with_shared_anonymous_memory(tmp_path, devices, kilobytes=200_000):
    """`(named, kinds)` of a process with a shared anonymous mapping, named /dev/zero and counted as shared memory in
    the RSS. A GPU driver page-locks memory this way (reported for driver 570 and PyTorch 2.9)."""
    made = made_proc.MadeProc(tmp_path)
    sizes = (
        f"Rss: {kilobytes} kB\nPss: {kilobytes} kB\nPrivate_Dirty: {kilobytes} kB\nAnonymous: 0 kB\nVmFlags: rd wr sh\n"
    )
    none = "Rss: 0 kB\nPss: 0 kB\nVmFlags: rd wr sh\n"
    smaps = "".join(f"{line}\n{none}" for line in devices.splitlines()) + PINNED + sizes
    made.process(10, anon=300_000, shmem=kilobytes, uss=300_000 + kilobytes, smaps=smaps)
    one = sampler.Sampler(10, proc=made.folder, root_folder=str(made.root))
    entries = [one.sample()[0] for _ in range(10)]
    return entries[-1]["named"], kinds(*entries)


@pytest.mark.parametrize(("devices", "pinned", "found"), [(DEVICES, 204_800_000, ["pinned memory"]), ("", 0, [])])
def test_shared_anonymous_memory_is_pinned_if_there_is_a_gpu(tmp_path, devices, pinned, found):
    named, verdicts_found = with_shared_anonymous_memory(tmp_path, devices)
    assert (named["pinned"], named["shared memory"]) == (pinned, 204_800_000 - pinned) and verdicts_found == found


# ---- growth ----


@pytest.mark.parametrize(("taken", "found"), [(250, False), (260, True), (2000, True)])
def test_growth(taken, found):
    entries = growing_run([20, 20 + taken / 2, *[20 + taken] * 5, 30])
    assert kinds(*entries) == (["growth"] if found else [])
    if found:
        verdict = verdict_of("growth", *entries)
        assert verdict.evidence["bytes"] == taken * made_runs.MB and "most of it within 2 s" in verdict.text
        assert verdict.line == "samples = RecordList(read_samples())"


def test_growth_of_two_samples_and_of_several_processes():
    entries = [
        sample(i, [process("main", 10, uss=20 + 300 * i), process("tool", 11, uss=1 + 900 * i)]) for i in range(2)
    ]
    verdict = verdict_of("growth", *entries)
    assert verdict.text.startswith("tool took 900 MB of private") and "main took 300 MB or less" in verdict.text


def test_initial_and_explained_memory_is_not_growth():
    assert kinds(*growing_run([900] * 8)) == []
    assert kinds(*generations(10, count=8, inherited=900)) == []
    assert kinds(*growing_run(ramp(60, 100, 700))) == ["leak"]
    assert kinds(*ranks([500, 500])) == ["copies per rank"]


# ---- unclear ----


@pytest.mark.parametrize("named", ["files", "caches"])
def test_page_cache_and_caches_are_not_growth(named):
    for known, found in ((True, []), (False, ["unclear"])):
        entries = [sample(i, [process(
            "main", 10, uss=20, shared=20 * i, anonymous=20
        )], named={named: 10 * i if known else 0}) for i in range(80)]  # fmt: skip
        assert kinds(*entries) == found


def test_few_samples_are_unclear():
    for count in range(verdicts.FEWEST_SAMPLES):
        (verdict,) = verdicts.judge(run(*growing_run([100] * count)))
        assert verdict.kind == "unclear" and verdict.line == "" and "too few" in verdict.text
    assert kinds(*growing_run([100] * verdicts.FEWEST_SAMPLES)) == []
    assert verdicts.text([]).startswith("No verdict")


def test_unexplained_growth_is_unclear():
    """The mapped files of a process grow."""
    entries = [sample(i, [process("main", 10, uss=20, shared=5 * i, anonymous=20)]) for i in range(80)]
    (verdict,) = verdicts.judge(run(*entries))
    assert verdict.kind == "unclear" and "no rule explains it" in verdict.text and verdict.evidence["bytes"] > 0


@pytest.mark.parametrize(
    ("current", "used", "found"), [(840, None, False), (860, None, True), (990, 200, False), (990, 900, True)]
)
def test_near_the_limit_is_unclear(current, used, found):
    """Page cache in the cgroup does not count, if the log has the memory in use."""
    entries = [made_runs.start(limit=1000 * made_runs.MB), *growing_run([100] * 20, current=current)]
    for entry in entries[1:] if used is not None else ():
        entry["cgroup"]["used"] = used * made_runs.MB
    assert kinds(*entries) == (["unclear"] if found else [])


def test_missing_figures_are_unclear():
    entries = [
        sample(i, [process("main", 10, uss=None, shared=None, pss=None, rss=100, anonymous=90)]) for i in range(20)
    ]
    (verdict,) = verdicts.judge(run(made_runs.start(missing=["This container has no smaps_rollup."]), *entries))
    assert verdict.kind == "unclear" and "This container has no smaps_rollup." in verdict.text


# ---- Several verdicts ----


def test_the_largest_verdict_is_first():
    entries = copying_run(60, steps=40)
    for i, entry in enumerate(entries):
        entry["processes"][0]["anonymous"] = round((100 + 20 * i) * made_runs.MB)
    found = verdicts.judge(run(*entries))
    assert [one.kind for one in found] == ["leak", "copy-on-read"]
    text = verdicts.text(found)
    assert text.startswith("leak: The private memory of main grows") and "\n    samples = RecordList(samples)" in text


def test_every_kind_occurs():
    found = kinds(*copying_run(100)) + kinds(*growing_run(ramp(60, 100, 400))) + kinds(*waiting([128] * 20))
    found += kinds(*ranks([500, 500])) + kinds(*pinned(200)) + kinds(*killed_run()) + kinds(*address_space_run(900))
    found += kinds(*growing_run([20, 300])) + kinds()
    assert tuple(found) == verdicts.KINDS


def test_entries_without_figures():
    entries = [{"kind": "sample", "t": BEGIN + i, "processes": [{"pid": 5}], "sum": {}} for i in range(30)]
    assert kinds(*entries) == ["unclear"]
    assert kinds(*[entry | {"processes": []} for entry in entries]) == ["unclear"]
