"""share_dataset and audit over random object graphs: nothing raises, every process reads equal values, distinct memory
never grows by more than SLACK, and audit forecasts it. RECSTORE_STORM=full tries 2,000 graphs."""

import json
import multiprocessing
import os

import graphs
import launching
import pytest

import recstore
from recstore import share_dataset

SLACK = 16 * 1024  # bytes of a segment besides its data
BATCH = 10  # graphs per test


def check(graph, threshold):
    """Shares a graph, and checks values, memory and forecasts in this process. Returns the report."""
    values, before = graphs.digest_of(graph), graphs.distinct_memory(graph)
    forecast = recstore.audit(graph, workers=0, threshold=threshold)
    dry = share_dataset(graph, threshold, dry_run=True)
    assert graphs.digest_of(graph) == values
    report = share_dataset(graph, threshold)
    assert graphs.digest_of(graph) == values
    after = graphs.distinct_memory(graph) + report.after
    assert after <= before + SLACK, (before, after, str(report))
    assert abs(dry.after - report.after) <= 0.1 * report.after + SLACK, (str(dry), str(report))
    assert abs(forecast.size - before) <= 0.05 * before + SLACK, (before, str(forecast))
    assert abs(forecast.predicted_shared - after) <= 0.1 * after + SLACK, (after, str(forecast), str(report))
    return report


def digest_in_fork(graph):
    """The digest of a graph in a forked child, which then writes to the shared memory."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, json.dumps([graphs.digest_of(graph), graphs.overwrite_firsts(graph, 3)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        digests, first_elements = json.load(file)
    os.waitpid(pid, 0)
    assert graphs.firsts(graph) == first_elements
    return digests


def digests_in_spawned_child(shared_graphs):
    """The digests of graphs in a spawned child."""
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=graphs.send_digests, args=(shared_graphs, queue))
    child.start()
    child.join(110)
    assert child.exitcode == 0
    digests, first_elements = queue.get(), queue.get()
    assert [graphs.firsts(graph) for graph in shared_graphs] == first_elements
    return digests


def run(seeds, folder):
    shared_graphs, digests = [], []
    for seed in seeds:
        maker = graphs.Maker(seed, folder)
        graph, threshold = maker.graph(), maker.rng.choice([0, 1000, 20_000, 100_000])
        report = check(graph, threshold)
        graphs.overwrite_firsts(graph, 1)
        values = graphs.digest_of(graph)
        assert digest_in_fork(graph) == values
        values = graphs.digest_of(graph)  # includes the writes of the child
        if maker.rng.random() < 0.5:
            shared_graphs.append(graph)
            digests.append(values)
        else:
            report.undo()
            assert graphs.digest_of(graph) == values
    assert digests_in_spawned_child(shared_graphs) == digests


def test_graphs(tmp_path):
    run(range(2 * BATCH), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(2, 200, 1 if os.environ.get("RECSTORE_STORM") == "full" else 14))
def test_many_graphs(batch, tmp_path):
    run(range(batch * BATCH, (batch + 1) * BATCH), tmp_path)


@pytest.mark.slow
def test_ranks(tmp_path):
    pytest.importorskip("torch.distributed.run", reason="needs PyTorch (pip install recstore[torch])")
    tests = os.path.dirname(graphs.__file__)
    command = *launching.TORCHRUN, "--nproc-per-node=2", graphs.__file__, f"graphs {os.getpid()}", tmp_path, 0, 40
    with launching.launched(tmp_path, *command, PYTHONPATH=tests) as process:
        assert process.wait(110) == 0, (tmp_path / "output").read_text()
    for rank in range(2):
        digests = json.loads((tmp_path / f"{rank}.json").read_text())
        assert len(digests) == 40 and all(digest == own for digest, own in digests)
