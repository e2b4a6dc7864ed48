"""The verdicts about ended processes: the kernel's OOM killer, and the limit of the address space."""

import made_runs
import pytest
from made_runs import address_space_run, killed_run, kinds, verdict_of

# ---- killed at the limit ----


def test_killed_at_the_limit():
    verdict = verdict_of("killed at the limit", *killed_run())
    assert verdict.evidence == {"bytes": 1000 * made_runs.MB, "kills": 1} and verdict.line == ""
    for word in ("1 GB", "/sys/fs/cgroup/job/memory.max", "Ended by SIGKILL: worker 0", "worker 0 40 MB, main 30 MB"):
        assert word in verdict.text, word


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"counted": 0}, False),  # killed by a supervisor near the limit
        ({"counted": None}, True),
        ({"counted": None, "used": 800}, False),
        ({"counted": None, "signal": "SIGTERM"}, False),
        ({"used": 500}, True),
        ({"signal": None}, True),  # its status is unknown
    ],
)
def test_a_kill_needs_a_counter_or_a_near_limit(how, found):
    assert ("killed at the limit" in kinds(*killed_run(**how))) is found


def test_growth_is_reported_after_the_kill():
    entries = killed_run()
    for i, entry in enumerate(entries[1:7]):
        entry["processes"][0]["anonymous"] = (30 + 100 * i) * made_runs.MB
    assert kinds(*entries) == ["killed at the limit", "growth"]


# ---- address space ----


@pytest.mark.parametrize(("how", "found"), [
    ({}, True), ({"size": 499}, False), ({"size": 501}, True), ({"exit": 0}, False),
    ({"exit": None, "signal": "SIGABRT"}, True), ({"exit": None, "signal": "SIGTERM"}, False), ({"limit": None}, False)
])  # fmt: skip
def test_address_space(how, found):
    assert kinds(*address_space_run(**{"size": 900, **how})) == (["address space"] if found else [])
    if found:
        assert verdict_of("address space", *address_space_run(**{"size": 900, **how})).line == "ulimit -v unlimited"
