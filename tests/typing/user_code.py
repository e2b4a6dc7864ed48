# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""User code for mypy and pyright; it never runs. A line with `type: ignore` must be an error: both checkers report a
`type: ignore` without an error."""

import array
import collections
import copy
import datetime
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy
from numpy.typing import NDArray
from typing_extensions import assert_type

import recstore
import recstore.remote
import recstore.remote.dask
import recstore.remote.ray
import recstore.remote.spark
from recstore import Record, RecordDict, RecordList, RecordView
from recstore.containers.dicts import RecordItems, RecordKeys, RecordPairs, RecordValues
from recstore.containers.fields import FieldView
from recstore.containers.info import MappingInfo, StoreInfo, ViewInfo
from recstore.dataset.reports import Audit, Row, SharingReport
from recstore.shm.segment_list import SegmentInfo


class Sample(TypedDict):
    path: str
    label: int


def read_samples() -> Iterator[Sample]:
    for i in range(10):
        yield {"path": f"{i}.jpg", "label": i}


# ---- Lists ----

samples = RecordList(read_samples())
assert_type(samples, RecordList[Sample])
assert_type(RecordList([1, 2]), RecordList[int])
mixed: list[str | bytes] = ["a", b"b"]
assert_type(RecordList(mixed), RecordList[str | bytes])
assert_type(RecordList(i * 0.5 for i in range(3)), RecordList[float])
assert_type(RecordList({"a": 1}.keys()), RecordList[str])
empty: RecordList[Sample] = RecordList()
tuned = RecordList(read_samples(), on_unsupported="pickle", compression="none", arrays="view", progress=True)
assert_type(tuned, RecordList[Sample])
assert_type(RecordList([[1, 2], range(3)], workers=2), RecordList[int])
assert_type(RecordList([read_samples()], workers=0), RecordList[Iterator[Sample]])
RecordList([1, 2], workers=2)  # type: ignore[arg-type]
RecordList([[1]], workers="2")  # type: ignore[call-overload]
RecordList([1], arrays="shared")  # type: ignore[call-overload]
RecordList([1], "pickle")  # type: ignore[call-overload]
RecordList(3)  # type: ignore[call-overload]
wrong: RecordList[str] = RecordList([1])  # type: ignore[list-item]

# ---- Reading ----

assert_type(samples[0], Sample)
assert_type(samples[-1]["label"], int)
assert_type(samples[True], Sample)
assert_type(samples[numpy.int64(3)], Sample)
assert_type(samples[2:4], RecordView[Sample])
assert_type(samples[[3, 1, 2]], RecordView[Sample])
assert_type(samples[[True] * 10], RecordView[Sample])
assert_type(samples[[]], RecordView[Sample])
assert_type(samples[range(3)], RecordView[Sample])
assert_type(samples[array.array("q", [1, 2])], RecordView[Sample])
positions: NDArray[numpy.int64] = numpy.arange(3)
mask: NDArray[numpy.bool_] = numpy.ones(10, bool)
assert_type(samples[positions], RecordView[Sample])
assert_type(samples[mask], RecordView[Sample])
assert_type(samples[list(positions)], RecordView[Sample])
assert_type(samples[1:][0], Sample)
assert_type(samples[1:][1:], RecordView[Sample])
samples["path"]  # type: ignore[call-overload]
samples[1.0]  # type: ignore[call-overload]
samples[["path"]]  # type: ignore[type-var]
samples[0] = samples[1]  # type: ignore[index]
del samples[0]  # type: ignore[attr-defined]
samples.append(samples[0])  # type: ignore[attr-defined]

assert_type(samples.get_many([2, 0]), list[Sample])
assert_type(samples.get_many(positions), list[Sample])
assert_type(samples.select(range(3)), RecordView[Sample])
assert_type(samples.select(positions).select([True, False]), RecordView[Sample])
samples.select(2)  # type: ignore[arg-type]
samples.select(["path"])  # type: ignore[list-item]
assert_type(samples.get_many(positions, default=None), list[Sample | None])
assert_type(samples.to_list(), list[Sample])
assert_type(list(samples), list[Sample])
assert_type(list(reversed(samples)), list[Sample])
assert_type(len(samples), int)
assert_type(samples[0] in samples, bool)
assert_type(samples.index(samples[0], 0, 5), int)
assert_type(samples.count(samples[0]), int)
assert_type(samples == [samples[0]], bool)
assert_type(RecordList([1]) < [2], bool)
assert_type(numpy.asarray(samples), NDArray[Any])

as_sequence: Sequence[Sample] = samples
as_iterable: Iterable[Mapping[str, object]] = samples
as_wider: RecordList[int | str] = RecordList([1])
as_list: list[Sample] = samples  # type: ignore[assignment]


def labels(records: Sequence[Sample]) -> list[int]:
    return [record["label"] for record in records]


assert_type(labels(samples) + labels(samples[:3]), list[int])

# ---- Views ----

assert_type(samples.shuffled(7), RecordView[Sample])
assert_type(samples.filter(lambda s: s["label"] > 3), RecordView[Sample])
assert_type(samples.filter(None), RecordView[Sample])
assert_type(samples.sorted_by("label", reverse=True), RecordView[Sample])
assert_type(samples.sorted_by(lambda s: s["path"]), RecordView[Sample])
train, test = samples.split([0.9, 0.1], seed=1, stratify="label")
assert_type(train, RecordView[Sample])
assert_type(samples.split([5, 5]), list[RecordView[Sample]])
assert_type(samples.map(lambda s: s["label"]), RecordList[int])
assert_type(samples.map(lambda s: (s["path"], 1.0), compression="none"), RecordList[tuple[str, float]])
assert_type(samples + samples, RecordView[Sample])
assert_type(samples[:2] + samples.to_list(), RecordView[Sample])
assert_type(RecordList([1]) + ["a"], RecordView[int | str])
assert_type([1] + RecordList([2]), list[int])
assert_type(samples * 2, RecordView[Sample])
assert_type(2 * samples, RecordView[Sample])
assert_type(copy.copy(samples), RecordList[Sample])
samples.filter(lambda s: s["size"] > 3)  # type: ignore[typeddict-item]
samples.map(lambda s: s, compression="small")
samples.map(lambda s: s, compression="zip")  # type: ignore[arg-type]
samples + 3  # type: ignore[operator]
samples.shuffled("seed")  # type: ignore[arg-type]

# ---- Fields ----

boxes = samples.field("meta.box")
assert_type(boxes, FieldView[Any])
assert_type(samples.field(("meta", 0), default=None), FieldView[Any])
assert_type(boxes[1:3], FieldView[Any])
assert_type(boxes.filter(None), FieldView[Any])
assert_type(boxes + boxes, FieldView[Any])
assert_type(boxes.name, str)
assert_type(boxes.to_numpy(ragged=False), NDArray[Any])
values, offsets = boxes.to_numpy(positions, ragged=True)
assert_type(offsets, NDArray[numpy.int64])
assert_type(boxes.to_numpy().shape[0], Any)
known: FieldView[int] = samples.field("label")
assert_type(known[0], int)
lazy = samples.lazy()
assert_type(lazy, RecordView[Record])
assert_type(lazy[0]["path"], Any)
assert_type(lazy[0].class_name, str | None)
assert_type(dict(lazy[0]), dict[Any, Any])
as_mapping: Mapping[str, Any] = lazy[0]
assert_type(samples.fields("path", ("meta", "id"))[0], dict[Any, Any])
boxes.to_numpy(ragged="no")  # type: ignore[call-overload]
samples.field(2.5)  # type: ignore[arg-type]

# ---- Mappings ----

paths = RecordDict({"utt1": "./t1.wav", "utt2": "./t2.wav"})
assert_type(paths, RecordDict[str, str])
pairs = [(1, "a"), (2, "b")]
assert_type(RecordDict(pairs), RecordDict[int, str])
assert_type(RecordDict((s["path"], s) for s in samples), RecordDict[str, Sample])
assert_type(RecordDict(zip(range(2), mixed), backing="dir"), RecordDict[int, str | bytes])
assert_type(RecordDict(collections.Counter("aab")), RecordDict[str, int])
assert_type(RecordDict(paths), RecordDict[str, str])
assert_type(paths["utt1"], str)
assert_type(paths.get("utt1"), str | None)
assert_type(paths.get("utt1", ""), str)
assert_type(paths.get("utt1", 0), str | int)
assert_type(paths.get_many(["utt1"]), list[str])
assert_type(paths.get_many(["utt1"], default=None), list[str | None])
assert_type(list(paths), list[str])
assert_type(paths.keys(), RecordKeys[str])
assert_type(paths.keys()[0], str)
assert_type(paths.keys()[:1], RecordView[str])
assert_type(paths.keys() & {"utt1"}, set[str])
assert_type(paths.values(), RecordValues[str])
assert_type(paths.values()[0], str)
assert_type(paths.items(), RecordItems[str, str])
assert_type(paths.items()[0], tuple[str, str])
assert_type(paths.items()[:1], RecordPairs[str, str])
assert_type([(k.upper(), v) for k, v in paths.items()], list[tuple[str, str]])
assert_type(RecordList(paths.keys()), RecordList[str])
assert_type(RecordList(paths.values()), RecordList[str])
assert_type(paths.select(["utt1"]), RecordDict[str, str])
assert_type(paths.to_dict(), dict[str, str])
assert_type(paths | {"utt3": 3}, RecordDict[str, str | int])
assert_type(paths.lazy()["utt1"], Record)
assert_type(paths.index_nbytes, int)
as_dict_protocol: Mapping[str, str] = paths
key_sequence: Sequence[str] = paths.keys()
no_pairs: RecordDict[str, int] = RecordDict()
paths[0]  # type: ignore[index]
paths["utt1"] = "./t3.wav"  # type: ignore[index]
paths.update({"utt3": ""})  # type: ignore[attr-defined]
RecordDict([1, 2])  # type: ignore[arg-type]

assert_type(samples.index_by("path"), RecordDict[Any, Sample])
assert_type(samples.index_by(lambda s: s["path"]), RecordDict[str, Sample])
assert_type(samples.group_by("label"), RecordDict[Any, RecordView[Sample]])
assert_type(RecordList([("a.jpg", 0)]).field(1), FieldView[Any])
RecordList([("a.jpg", 0)]).sorted_by(0)
assert_type(samples.group_by(lambda s: s["label"])[3][0], Sample)

# ---- Files, figures, lifetime ----

opened = recstore.open("train.recs")
assert_type(opened, Any)
print(opened[0], opened.field("label"), recstore.open("train.recs")[0], recstore.open("names.recs").keys())
for name, value in recstore.open("names.recs").items():
    print(name, value)
typed: RecordList[Sample] = recstore.open(pathlib.Path("train.recs"), verify="full", classes=[datetime.date])
by_name: RecordDict[str, Sample] = recstore.open("names.recs", limits=(1000, 1 << 20), allow_pickle=True)
recstore.open("train.recs", verify="deep")  # type: ignore[arg-type]
assert_type(
    recstore.open("s3://bucket/train@12", cache="/nvme", limit="500GiB", lazy=True, options={"region": "x"}), Any
)


def load(path: str) -> RecordDict[str, Sample]:
    return recstore.open(path)


samples.save(pathlib.Path("train.recs"))
info = samples.info()
assert_type(info, StoreInfo | ViewInfo)
assert_type(info.nbytes, int)
assert_type(paths.info(), MappingInfo)
with RecordList([1]) as opened_list, RecordDict({1: 2}) as opened_dict:
    assert_type(opened_list, RecordList[int])
    assert_type(opened_dict, RecordDict[int, int])
try:
    samples.close()
except recstore.errors.BusyError as error:
    assert_type(error, recstore.errors.BusyError)
except recstore.Error:
    raise

# ---- Stores by name ----


def read_paths() -> dict[str, Sample]:
    return {sample["path"]: sample for sample in read_samples()}


assert_type(recstore.shared("train", read_samples), RecordList[Sample])
assert_type(
    recstore.shared("by-path", read_paths, fingerprint="1", keep=True, isolate=True, timeout=60),
    RecordDict[str, Sample],
)
assert_type(
    recstore.shared("squares", lambda: [i * i for i in range(9)], files=["a.json", pathlib.Path("b.json")], keep="2h"),
    RecordList[int],
)
assert_type(
    recstore.shared("short", lambda: {"a": 1}, files="a.json", keep=3600, dir=pathlib.Path("/dev/shm")),
    RecordDict[str, int],
)
assert_type(recstore.shared("labels", lambda: samples.map(lambda s: s["label"])), RecordList[int])
assert_type(recstore.shared("paths", lambda: paths), RecordDict[str, str])
recstore.shared("train", read_samples())  # type: ignore[call-overload]
recstore.shared("train", lambda: 3)  # type: ignore[arg-type,return-value]
recstore.shared("train", read_samples, "1")  # type: ignore[call-overload]

assert_type(recstore.shared("train"), Any)
recstore.shared("names").keys()
attached: RecordDict[str, Sample] = recstore.shared(
    "by-path", fingerprint="1", files="a.json", classes=[Sample], allow_pickle=True, arrays="view"
)
assert_type(RecordList([1], name="numbers", backing="shm"), RecordList[int])
assert_type(RecordList([1], index_by=0, group_by=["a", ("b", 1)]), RecordList[int])
samples.save("train.recs", index_by="id", group_by=["label", ("meta", "camera")])
samples.save("train.recs", index_by=len)  # type: ignore[arg-type]
samples.map(lambda s: s["label"], group_by="label")
assert_type(samples.fingerprint, str)
assert_type(RecordDict({1: 2}, name="numbers"), RecordDict[int, int])
samples.map(lambda s: s["label"], name="labels")
RecordList([1], name=3)  # type: ignore[call-overload]

table = recstore.names.list("train", dir="/dev/shm")
assert_type([segment.name for segment in table], list[str | None])
assert_type(table[0], SegmentInfo)
assert_type(table[0].attached, int | None)
as_segments: list[SegmentInfo] = recstore.names.list()
assert_type(recstore.names.remove("train", "1"), int)
assert_type(recstore.names.collect(), int)

# ---- Datasets ----

shared_report = recstore.share_dataset(
    samples, "500 kB", only="samples", skip=["*.transforms"], strict=True, backing="dir"
)
assert_type(shared_report, SharingReport)
assert_type(shared_report.rows, list[Row])
assert_type(shared_report.skipped[0].after, int | None)
assert_type(shared_report.store, RecordList[Any] | None)
assert_type(shared_report.undo(), int)
recstore.share_dataset(samples, 1.5)  # type: ignore[call-overload]
recstore.share_dataset(samples, backing="disk")  # type: ignore[call-overload]
audited = recstore.audit(samples, workers=8, ranks=2, threshold=1 << 20)
assert_type(audited, Audit)
assert_type(audited.pickled, int | None)
assert_type(audited.advice, tuple[str, ...])
recstore.audit(samples, 8)  # type: ignore[call-arg]

# ---- User classes ----


@recstore.register
@dataclass
class Point:
    x: int
    y: int


@recstore.register(encode=lambda circle: (circle.x, circle.radius), decode=lambda stored: Circle(*stored))
class Circle:
    def __init__(self, x: int, radius: int) -> None:
        self.x, self.radius = x, radius


assert_type(Point(1, 2), Point)
assert_type(Circle(1, 2).radius, int)
assert_type(recstore.register(Point), type[Point])
recstore.register(Point, encode=lambda p: (p.x, p.y), decode=lambda stored: Point(*stored))
recstore.register(Point, encode=lambda p: p.x)  # type: ignore[call-overload]


samples.to_arrow(names=["path", "label"])
samples[:10].to_polars()
samples.field("label").to_arrow([0, 1])
samples.to_arrow(["path"])  # type: ignore[call-arg]


class Samples(RecordList[Sample]):
    """A list class that cannot be sent to workers."""

    def labels(self) -> list[int]:
        return [record["label"] for record in self]


assert_type(Samples(read_samples())[0], Sample)
assert_type(Samples(read_samples()).labels(), list[int])
assert_type(Samples(read_samples())[1:], RecordView[Sample])

reader: Callable[[int], Sample] = samples.__getitem__


# ---- Sources ----

assert_type(recstore.RecordList(recstore.sources.folder("train", "**/*.jpg", class_from="parent")), RecordList[Any])
assert_type(recstore.shared("train", recstore.sources.folder("train", [".jpg"], as_tuples=True)), RecordList[Any])
assert_type(recstore.RecordList(recstore.sources.folder("train")).class_to_idx, dict[str, int])
recstore.RecordList(recstore.sources.folder("train", colour=1))  # type: ignore[call-arg]
assert_type(recstore.read_lines(["a.txt", "b.txt.gz"], where=str.strip), RecordList[str])
assert_type(recstore.read_jsonl("train-*.jsonl", errors="skip", columns=["id"], workers=4), RecordList[Any])
recstore.read_jsonl("train.jsonl", errors="ignore")  # type: ignore[arg-type]
assert_type(
    recstore.shared("coco", recstore.sources.json("coco.json", records="annotations"), keep="2h"), RecordList[Any]
)
assert_type(recstore.read_json("coco.json", records=("words",), entries=True), RecordDict[str, Any])
assert_type(recstore.read_csv("*.csv", dtypes={"id": int}, errors="skip"), RecordList[dict[str, Any]])
assert_type(
    recstore.read_parquet(pathlib.Path("x"), columns=["a"], where=lambda r: r["a"] > 1), RecordList[dict[str, Any]]
)
assert_type(
    recstore.shared("x", recstore.sources.arrow(["a.arrow"], n_rows=5), keep="2h", workers=2),
    RecordList[dict[str, Any]],
)
recstore.read_csv("x.csv", errors="ignore")  # type: ignore[arg-type]

# ---- A dataset for all ranks ----


class Images:
    samples: list[Sample]


assert_type(recstore.share_dataset(Images()), SharingReport)
assert_type(recstore.share_dataset(Images, shared="images"), Images)
assert_type(recstore.share_dataset(lambda: Images(), shared="images", keep="2h", files=["a.json"]), Images)
assert_type(recstore.share_dataset(Images(), shared="images"), Images)


def monitoring(loader: object) -> int | None:
    with recstore.MemoryMonitor(loader, interval=0.5, log=pathlib.Path("run.jsonl"), warn=0.9) as monitor:
        monitor.epoch(1)
        monitor.note("a step", what="note")
        monitor.epoch(number=1, what="x")  # type: ignore[call-arg]
    report = monitor.report()
    assert_type(report.rows, list[dict[str, Any]])
    assert_type(monitor.run().samples, list[dict[str, Any]])
    return report.total


# ---- Sets of shards ----

shard_writer = recstore.remote.ShardWriter("s3://bucket/train", shard_bytes="64MiB", options={"region": "eu-west-1"})
entry = shard_writer.write(read_samples())
assert_type(entry, recstore.remote.Entry)
assert_type(entry.records + entry.nbytes, int)
assert_type(entry.hashes, list[str])
assert_type(shard_writer.commit([entry], append=True, base=3), int)
assert_type(shard_writer.commit(entry), int)
assert_type(shard_writer.remove(entry.hashes[0]) + shard_writer.remove([entry, "0" * 40]), int)
assert_type(shard_writer.tag("best", 3) + shard_writer.tag("best") + shard_writer.tag("best", delete=True), int)
shard_writer.tag(3)  # type: ignore[arg-type]
collected = recstore.remote.gc(pathlib.Path("train"), days=0.5, dry_run=True)
assert_type(collected, recstore.remote.Collected)
assert_type(recstore.remote.compact("s3://bucket/train", shard_bytes="64MiB").new_files, int)
assert_type(recstore.remote.delete("s3://bucket/train", ["a"], field=("user", "id"), dry_run=True).records, int)
assert_type(collected.files + [str(number) for number in collected.manifests], list[str])
shard_writer.commit(["0" * 40])  # type: ignore[list-item]
recstore.remote.ShardWriter("train", compression="zip")  # type: ignore[arg-type]
recstore.remote.gc("train", days="7")  # type: ignore[arg-type]
sink = recstore.remote.ray.Datasink("s3://bucket/train", append=True, task_bytes=None, compression="fast")
rows = recstore.remote.ray.read("train@3", columns=["id"], cache="/nvme", concurrency=4)
recstore.remote.ray.read("train", columns=3)  # type: ignore[arg-type]
recstore.remote.spark.register(None)
assert_type(recstore.remote.dask.to_shards(rows, pathlib.Path("train"), compute={"scheduler": "threads"}), int)
bag = recstore.remote.dask.from_shards("train", bag=True)
try:
    shard_writer.commit(entry, base=1)
except recstore.errors.ConflictError as conflict:
    assert_type(conflict.url, str | None)
