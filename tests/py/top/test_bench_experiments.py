"""bench/experiments: small runs of its programs, and plots and tables of their rows."""

import importlib
import pathlib

import pytest

from recstore.cli import records as pools

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"

if not BENCH.exists():
    pytest.skip("bench/ is not here", allow_module_level=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pathlib.Path("/proc/self/smaps_rollup").exists(), reason="needs Linux"),
]
COUNT = 4_000


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """Imports a module of bench/."""
    monkeypatch.setenv("RECSTORE_BENCH_POOLS", str(tmp_path))
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


@pytest.fixture
def arguments(bench, tmp_path):
    """The arguments of suite.measure for a small file of records and its saved store."""
    pool, store = tmp_path / "pool", tmp_path / "store.recs"
    pools.write_pool(({"id": i, "name": f"img_{i:05}.jpg", "box": [i / 2, i / 4]} for i in range(COUNT)), pool)
    bench("experiments.containers").save(str(pool), str(store))
    return {"count": COUNT, "pool": str(pool), "store": str(store), "workers": 2, "interval": 0.1}


def measure(bench, arguments, experiment, container):
    suite = bench("experiments.suite")
    try:
        return suite.measure(experiment, container, **arguments)
    except suite.Skipped as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("experiment", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("container", ["recstore", "list", "numpy"])
def test_programs_run(bench, arguments, experiment, container):
    row = measure(bench, arguments, experiment, container)
    assert (row["records"], row["ranks"], row["workers"]) == (COUNT, 1, 2)
    assert row["processes"] == 3 + {"fork": 0, "spawn": 1, "forkserver": 2}[experiment]
    assert row["total"] > 0 < row["worker_uss_max"] and (container == "list" or row["store"] > 0)
    series = bench("experiments.sampling").read_series(row["series"])
    assert {"t", "sum: pss", "rank 0: uss", "rank 0 worker 0: shared", "rank 0 worker 1: pss"} <= set(series)
    assert {len(sizes) for sizes in series.values()} == {len(series["t"])} and series["t"] == sorted(series["t"])
    assert series["rank 0 worker 0: uss"][-1] > 0
    # The runner, which uses more memory than a small program, is not counted.
    parts = [sizes[-1] for key, sizes in series.items() if key.endswith(": pss") and not key.startswith("sum")]
    assert abs(series["sum: pss"][-1] - sum(parts)) < 3 and len(parts) == row["processes"]


@pytest.mark.parametrize("container", ["recstore by name", "numpy", "torch"])
def test_two_ranks(bench, arguments, container):
    if container == "torch":
        pytest.importorskip("torch")
    row = measure(bench, arguments, "ranks", container)
    assert (row["ranks"], len(row["ranks_uss"])) == (2, 2) and row["processes"] >= 2 * 3 + 1
    assert "rank 1 worker 1: uss" in row["series"]


def test_a_run_from_the_folder_of_a_checkout(bench, arguments, monkeypatch):
    """A fork server that preloads recstore would find its source there."""
    monkeypatch.chdir(BENCH.parent)
    assert measure(bench, arguments, "forkserver", "recstore")["total"] > 0


def test_a_program_that_fails_is_an_error(bench, arguments):
    with pytest.raises(RuntimeError, match="ended with exit code"):
        measure(bench, {**arguments, "store": "/nowhere.recs"}, "fork", "recstore")


def test_experiments_that_need_more_memory_are_skipped(bench, monkeypatch):
    suite = bench("experiments.suite")
    monkeypatch.setattr(suite.process_memory, "available", lambda: 8 << 30)
    with pytest.raises(suite.Skipped, match=r"needs about 1\d GB of memory, 9 GB are available"):
        suite.measure("spawn", "list", 860_001, "", "", 4)


def test_a_suite_without_its_data_is_skipped(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("RECSTORE_DATA", str(tmp_path / "none"))
    suite, skipped = bench("experiments.suite"), {}

    class Options:
        quick, workers, only = True, 2, ["fork: list", "paths: fork"]

    assert list(suite.run(Options, lambda text: None, skipped.__setitem__)) == []
    assert set(skipped) == {"experiments, fork: list", "experiments, paths: fork"}


def test_the_backlog_is_bounded(bench, monkeypatch):
    pytest.importorskip("torch")
    suite = bench("experiments.suite")
    (queue,) = suite._backlog("Queue()", 0, 0.1, True, 2)
    (loader,) = suite._backlog("DataLoader", 2, 0.1, True, 2)
    assert queue["bound_batches"] is None and loader["bound_batches"] == 6
    # A sample reads one process after another. Meanwhile, each worker may replace a batch with the next one.
    assert 0 < loader["in_flight_batches"] <= 6 + 2 and 0 < queue["in_flight_batches"] <= 16
    figures = plots(bench)
    ((name, figure),) = figures.draw_backlog([loader, queue])
    assert name == "experiments-backlog" and len(figure.axes[0].lines) == 2


def plots(bench):
    pytest.importorskip("matplotlib").use("Agg")
    return bench("experiments.figures")


def row(experiment, container, total, ranks=1):
    """A row such as suite.py makes."""
    labels = [f"rank {rank}{worker}" for rank in range(ranks) for worker in ("", " worker 0", " worker 1")]
    series = {f"{label}: {figure}": "1.0 - 3.0" for label in labels for figure in ("uss", "shared", "pss")}
    row = {"experiment": experiment, "container": container, "records": 5, "ranks": ranks, "workers": 2, "total": total}
    row |= {"published_gib": 9.8 if container == "list" else None, "ranks_uss": [5_000_000] * ranks}
    row |= {"worker_uss_max": 2_000_000, "helpers_pss": 0, "made_s": 1.0, "read_s": 2.5}
    return {**row, "series": {"t": "0.0 1.0 2.0", "sum: pss": "1.0 2.0 3.0", **series}}


def test_figures_show_every_process(bench):
    figures = plots(bench)
    rows = [row("fork", "recstore", 10**8), row("fork", "list", 10**10), row("ranks", "numpy", 10**9, 2)]
    drawn = dict(figures.draw(rows))
    assert set(drawn) == {"experiments", "experiments-fork", "experiments-ranks"}
    fork, ranks = drawn["experiments-fork"], drawn["experiments-ranks"]
    assert [len(axis.lines) for axis in fork.axes] == [3] * 6 and [len(axis.lines) for axis in ranks.axes] == [6] * 3
    names = [text.get_text() for text in drawn["experiments"].axes[0].texts]
    assert names == ["recstore 0.1", "list 10"]
    alike = [row("fork", name, total) for name, total in (("recstore", 100e6), ("numpy", 101e6), ("torch", 102e6))]
    drawn["alike"] = dict(figures.draw(alike))["experiments"]
    for figure in drawn.values():
        figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in drawn["alike"].axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 3 and all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:])), "names overlap"
    figures.pyplot.close("all")


def test_tables(bench):
    page = bench("experiments.page")
    rows = [row("fork", "list", 2 << 30), row("fork", "recstore", 10**8), row("fork", "recstore with torch", 3 << 30)]
    assert "| list, fork | 9.8 | 2.00 | 3.00 | 0.09 |" in page.published(rows)
    assert "| fork | **recstore** | 100 | 5.0 | 2.0 | 0.0 | 1 | 2 |" in page.memory(rows)
    backlog = {"loader": "Queue()", "depth": 0, "consumer_s": 0.15, "bound_batches": None}
    assert "| `Queue()` | 150 ms | none | 16 | 3.0 |" in page.backlog(
        [{**backlog, "in_flight_batches": 16.0, "in_flight_most": 3_000_000}]
    )
    paths = {"method": "spawn", "container": "list", "ranks": 1, "workers": 2, "total": 10**9}
    paths |= {"rank_uss_max": 5 * 10**8, "worker_uss_max": 5 * 10**8, "all_ranks": 10**11}
    assert "| spawn | list | 1 x 2 | 1,000 | 500 | 500 |  | 100 GB |" in page.paths([paths])


def test_a_list_in_many_ranks_is_extrapolated(bench):
    paths = bench("experiments.paths")
    assert paths.extrapolated({"rank_uss_max": 10, "worker_uss_max": 3}, 12, 16) == 12 * (10 + 16 * 3)
    assert paths.extrapolated({"rank_uss_max": None, "worker_uss_max": None}, 12, 16) is None
