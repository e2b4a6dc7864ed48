"""A run on several machines: a Ray cluster writes real files as shards to an object store, while one of its writers is
killed; two nodes with two ranks each train half an epoch; one node resumes it. Every record comes exactly once."""

import json
import lzma
import os
import pathlib
import signal

import nodes
import pytest

import recstore.remote

ray = pytest.importorskip("ray", reason="needs the packages of `nox -s real`")
pytest.importorskip("torch")
pytest.importorskip("moto", reason="needs the extra test")

import pyarrow  # noqa: E402
import s3  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import recstore.remote.ray  # noqa: E402

SHARED = pathlib.Path(os.environ.get("RECSTORE_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))
FILES = (
    "imagenet/ImageNet_val.txt",
    "coco/coco_karpathy_train_list.txt",
    "speech/voxceleb1_veri_test.txt",
    "speech/LibriMix/libri2mix_train-clean-100.csv",
    "tate/artworks.jsonl",
    "chinese-poetry/poet.tang.jsonl",
    "nested/nlvr2/dev.jsonl",
    "map/cmudict.dict",
)
MAX_LINES = 3000  # of a file
BATCH = 50


def lines(name):
    """The first lines of a real file, or generated lines if it is missing."""
    for path in (SHARED / f"{name}.xz", SHARED / name):
        if path.exists():
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8-sig", newline="\n") as file:
                return [line for line, _ in zip(file, range(MAX_LINES))]
    return [f"line {i} of {name}\n" for i in range(MAX_LINES)]


def tables():
    for name in FILES:
        texts = lines(name)
        texts = texts[: len(texts) // (4 * BATCH) * (4 * BATCH)]  # whole batches for 4 ranks: no record is repeated
        yield pyarrow.table({"file": [name] * len(texts), "line": list(range(len(texts))), "text": texts})


def killing_sink(url, mark, **options):
    """A Datasink that kills the process of one task, once, after it uploaded its shards."""
    kind = type(recstore.remote.ray.Datasink(url, **options))

    class Killed(kind):
        def write(self, blocks, ctx):
            written = super().write(blocks, ctx)
            if ctx.task_idx == 1 and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return written

        def get_name(self):
            return "Killed"

    return Killed(url, False, None, options)


def write(server, folder):
    """Writes all records through a cluster of two nodes. Returns the URL with the manifest's number."""
    url, mark = f"{server.url('bucket/train')}", str(folder / "killed")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1, include_dashboard=False)
        ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        dataset = ray.data.from_arrow(list(tables()))
        sink = killing_sink(url, mark, options=server.options, shard_records=1000)
        dataset.write_datasink(sink, ray_remote_args={"max_retries": 3})
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert os.path.exists(mark), "no writer was killed"
    return f"{url}@{sink.number}"


def train(where, options, **settings):
    """Trains with a rank on each of these nodes, and returns their results."""
    program, processes, outs = str(pathlib.Path(__file__).parents[1] / "support/node_rank.py"), [], []
    for rank, node in enumerate(where):
        outs.append(pathlib.Path(f"{settings['cache']}-{len(where)}-{rank}.json"))
        request = {"rank": rank, "ranks": len(where), "batch": BATCH, "out": str(outs[-1]), "options": options[node]}
        processes.append(node.start("-P", program))
        processes[-1].stdin.write(json.dumps(request | settings))
        processes[-1].stdin.close()
        processes[-1].stdin = None  # communicate would close it again
    for process in processes:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, out + errors
    return [json.loads(out.read_text()) for out in outs]


@pytest.mark.skipif(nodes.missing() is not None, reason=str(nodes.missing()))
def test_write_kill_train_stop_resume(tmp_path):
    cache = tmp_path / "nvme"
    cache.mkdir()
    with s3.Server() as server:
        url = write(server, tmp_path)
        expected = sorted((row["file"], row["line"]) for table in tables() for row in table.to_pylist())
        batches = len(expected) // (4 * BATCH) // 2
        with nodes.Node(1, cache) as first, nodes.Node(2, cache) as second:
            options = {node: server.options_at(node.gateway) for node in (first, second)}
            server.reset_counts()
            common = {"url": url, "cache": str(cache)}
            half = train([first, first, second, second], options, nodes=2, batches=batches, state=None, **common)
            fetched = sum(size for path, size in server.sent.items() if path.endswith(".recs"))
            nbytes = sum(len(data) for key, data in server.objects().items() if key.endswith(".recs"))
            assert fetched <= 1.02 * nbytes + 2 * largest(server), "a node fetched a shard more than once"
            assert len({json.dumps(result["state"], sort_keys=True) for result in half}) == 1
            rest = train([first, first], options, nodes=1, batches=None, state=half[0]["state"], **common)
        seen = sorted(tuple(record) for result in half + rest for record in result["seen"])
        assert seen == expected
        report = recstore.remote.gc(server.url("bucket/train"), days=0, options=server.options)
        assert report.files, "the killed writer left shard files that are not in a manifest"
        remaining = {key for key in server.objects() if key.endswith(".recs")}
        with recstore.open(url, cache=str(tmp_path / "last"), options=server.options) as x:
            assert len(remaining) == len(x.selection.shards) and len(x) == len(expected)


def largest(server):
    return max(len(data) for key, data in server.objects().items() if key.endswith(".recs"))
