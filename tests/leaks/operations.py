"""The public operations of the leak check, each a function that makes its operands and drops them.

An operation names owners of the pinned public names: classes and modules, without the "recstore." before them. A name of
such an owner counts as run if the function's source uses it; tests/rules/test_leaks.py requires this of the names in tests/rules/public_names.txt.
"""

import contextlib
import copy
import importlib.util
import io
import json
import os
import pathlib
import pickle
import warnings

import numpy as np
from leaks.operands import RECORDS, Plain, Registered, made, mapping

import recstore
from recstore import RecordDict, RecordList, json_default
from recstore.shm import pins

OPERATIONS = {}


def operation(owners=""):
    covers = [owner if owner == "recstore" else f"recstore.{owner}" for owner in owners.split()]

    def note(function):
        OPERATIONS[function.__name__] = (function, covers)
        return function

    return note


def load():
    """Adds the operations of recstore.remote and, with PyTorch, of recstore.torch."""
    importlib.import_module("leaks.remote_operations")
    if importlib.util.find_spec("torch"):
        importlib.import_module("leaks.torch_operations")


def prepared(folder):
    """Yields the name of each operation with a function without arguments."""
    load()
    for name, (function, _) in OPERATIONS.items():
        yield name, lambda function=function: function(pathlib.Path(folder))


def every_attribute(x):
    return [getattr(x, name) for name in dir(x) if not name.startswith("_")]


@operation("recstore containers.records.RecordList containers.base.Container")
def build_and_close(folder):
    for options in ({}, {"compression": "fast"}, {"threads": 2}, {"index_by": "id", "group_by": "label"}):
        with RecordList(RECORDS, **options) as x:
            x.nbytes, x.closed, x.fingerprint, x.attributes, x[1]
    RecordList(RECORDS)  # dropped without close
    x = made()
    x.close()
    RecordList[int]


@operation("_core.native.Records containers.views.ListOperations containers.records.RecordView")
def read(folder):
    x = made()
    x[3], x[-1], x[2:50:3], len(x), list(reversed(x)), x.to_list(), x.get_many([1, 5, 900], default=None)
    next(iter(x))
    RECORDS[4] in x, x.count(RECORDS[2]), x.index(RECORDS[9]), np.asarray(x.field("id")), np.array(x[:3])
    ids = x.field("id")
    x == x[:], ids < ids[1:], ids <= ids, ids > ids[1:], ids >= ids
    with contextlib.suppress(TypeError):
        hash(x)


@operation("containers.views.ListOperations containers.records.RecordList containers.records.RecordView")
def views(folder):
    x = made()
    view = x[5:100]
    view[2], view + x[:3], [RECORDS[0]] + view, view * 2, 2 * view, view.info()
    x + x, [1] + x, x * 2, 2 * x
    for one in (x, view):
        one.shuffled(7)[3], one.filter(lambda r: r["id"] % 2)[1], one.sorted_by("id", reverse=True)[0]
        one.sorted_by(lambda r: -r["id"])[0], one.select([3, 1, 2]).to_list()
        [part[0] for part in one.split([0.5, 0.5], seed=1)]
    x.lazy()[3]["text"], x.map(lambda r: r["id"])[4], x.index_by("id")[7]
    x.group_by("label", default_factory=list)["b"][0]


@operation("containers.base.Container handles")
def handles(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = made()
        for one in (x, x[3:9], x.shuffled(1), mapping(), mapping().keys(), mapping().items()):
            pickle.loads(pickle.dumps(one))
        make, parts = x.__reduce__()[:2]
        recstore.handles.attach(*parts) if make is recstore.handles.attach else make(*parts)
        copy.copy(x)[0], copy.deepcopy(x)[0]
    pins.clear()  # a pin holds a pickled store for a minute


@operation("recstore containers.records containers.records.RecordList containers.dicts.RecordDict")
def files(folder):
    path = folder / "store.rec"
    made().save(path, index_by="id", group_by="label")
    for options in ({}, {"copy": True}, {"verify": "full"}, {"arrays": "view"}):
        with recstore.open(path, **options) as x:
            x[3], x.index_by("id")[4], x.group_by("label")["a"]
    mapping().save(path)
    with recstore.open(path) as y:
        y["k3"]
    made()[4:20].save(path)


@operation("recstore sharing shm.segment_list shm.segment_list.SegmentInfo")
def by_name(folder):
    options = {"fingerprint": "1", "dir": folder}
    with (
        recstore.shared("leaks", lambda: RECORDS, **options) as x,
        recstore.shared("leaks", fingerprint="1", dir=folder) as y,
    ):
        x[1], y[2]
        for info in recstore.names.list(dir=folder):
            every_attribute(info), info.row()
        recstore.shm.segment_list.segments("leaks", folder), recstore.shm.segment_list.duration(70)
    recstore.shared("leaks", lambda: RECORDS, keep=True, **options).close()
    recstore.names.remove("leaks", "1", dir=folder)
    recstore.shared("leaks", lambda: RECORDS, keep=True, **options).close()
    recstore.shm.segment_list.unlink("leaks", "1", folder)
    recstore.names.collect(dir=folder)


@operation("recstore errors")
def refusals(folder):
    """Errors leave nothing behind either. Each call must raise its error."""
    x, path = made(), folder / "bad.rec"
    closed = made()
    closed.close()
    path.write_bytes(b"no store" * 100)
    exported = RecordList([{"a": np.arange(1000)}] * 9, arrays="view")
    array = exported[0]["a"]
    refused = (
        (lambda: x[999], IndexError),
        (lambda: x[1.5], TypeError),
        (lambda: x.get_many([999]), IndexError),
        (lambda: RecordList([{"a": [1, object()]}]), recstore.errors.EncodeError),
        (lambda: closed[0], recstore.errors.ClosedError),
        (lambda: recstore.open(path), (recstore.errors.CorruptError, recstore.errors.VersionError, recstore.Error)),
        (lambda: recstore.shared("leaks-of-nobody", dir=folder), recstore.errors.SegmentNotFoundError),
        (lambda: recstore.read_json(io.BytesIO(b"[1,")), recstore.errors.InputError),
        (exported.close, recstore.errors.BusyError),
    )
    for call, kind in refused:
        with contextlib.suppress(kind):
            call()
            raise AssertionError(f"{kind} was expected")
    del array
    with contextlib.suppress(ZeroDivisionError):
        recstore.shared("leaks-failing", lambda: 1 / 0, fingerprint="1", dir=folder)


@operation(
    "containers.dicts containers.dicts.RecordDict containers.dicts.RecordItems containers.dicts.RecordKeys "
    "containers.dicts.RecordPairs containers.dicts.RecordValues _core.native.Mapping recstore"
)
def dicts(folder):
    x = mapping()
    x["k1"], x.get("none", 3), "k5" in x, len(x), list(x), x == mapping(), list(reversed(x)), x.copy(), x.to_dict()
    x.get_many(["k1", "nobody"], default=None), x.select(["k2"]), x | {"z": 1}, {"z": 1} | x, x.nbytes, x.index_nbytes
    keys, values, items = x.keys(), x.values(), x.items()
    keys[3], "k1" in keys, keys.count("k1"), keys.index("k2"), values[3], RECORDS[3] in values, np.array(values[:2])
    items[3], ("k1", 5) in items, x.field("id")["k1"], x.fields("id")["k2"], x.lazy()["k3"]["text"], x.info(fields=True)
    pairs = items[2:9]
    pairs[0], list(pairs), len(pairs), pairs == pairs[:], pickle.dumps(type(pairs))
    recstore.containers.dicts.RecordPairs([1], [2])
    with contextlib.suppress(TypeError):
        hash(x)
    RecordDict([("a", 1), (2, "b")], compression="none").close()


@operation("containers.fields.FieldView containers.records.RecordList containers.exports.TableExports")
def fields(folder):
    x = made()
    ids, boxes, texts = x.field("id"), x.field("box"), x.field("text", default=None)
    ids.name, ids[3], (ids + ids)[3], ids.to_numpy(), ids.to_numpy([3, 1]), boxes.to_numpy(ragged=True)
    list(x.fields("id", "text")[:9]), texts.to_list(), np.asarray(ids)


@operation("containers.fields.FieldView containers.exports.TableExports containers.records.RecordList recstore")
def tables(folder):
    import pyarrow
    from pyarrow import parquet

    x = RecordList({"id": i, "text": "t" * (i % 4)} for i in range(150))
    table = x.to_arrow(names=["id", "text"])
    x.to_pandas(), x.__arrow_c_stream__(), x.field("text").to_arrow(), x.field("id").to_pandas()
    recstore.RecordList(recstore.sources.table(x.to_pandas())), RecordList(recstore.sources.table(table))[3]
    if importlib.util.find_spec("polars"):  # not every interpreter has a wheel
        recstore.RecordList(recstore.sources.table(x.to_polars()))
    with pyarrow.OSFile(str(folder / "t.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    parquet.write_table(table, folder / "t.parquet")
    recstore.read_arrow(folder / "t.arrow")[0], recstore.read_parquet(folder / "t.parquet")[0]


@operation("recstore jsonable containers.records.RecordList")
def texts(folder):
    lines = "".join(json.dumps({"id": i}) + "\n" for i in range(40))
    (folder / "t.jsonl").write_text(lines), (folder / "t.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "t.json").write_text(json.dumps(list(range(50))))
    recstore.read_jsonl(folder / "t.jsonl")[3], recstore.read_csv(folder / "t.csv")[1]
    recstore.read_lines(folder / "t.csv")[1], recstore.read_json(folder / "t.json")[7]
    recstore.RecordList(recstore.sources.folder(folder, "*.csv", stat=True))[0]
    (folder / "scanned/cats").mkdir(parents=True, exist_ok=True)
    (folder / "scanned/cats/1.png").touch()
    found = recstore.RecordList(recstore.sources.folder(folder / "scanned", class_from="parent"))
    found.classes, found.class_to_idx, found[0]
    json.dumps(made()[:2], default=json_default), json.dumps(mapping(), default=recstore.jsonable.json_default)


@operation(
    "containers.info containers.info.MappingInfo containers.info.Node containers.info.SavedIndex "
    "containers.info.StoreInfo containers.info.Table containers.info.ViewInfo containers.node_sizes "
    "containers.node_sizes.FieldSize containers.records.RecordList containers.views.ListOperations"
)
def infos(folder):
    x = RecordList(RECORDS, index_by="id")
    info = x.info(fields=True)
    for one in (info, mapping().info(), x[:4].info()):
        str(one), repr(one), every_attribute(one)
    mapping().info().sections, str(info.indexes)
    for one in (*info.fields, *info.indexes, *info.tables, *info.trees):
        str(one), every_attribute(one)
    for one in info.tables:
        one.lines()
    for *_, one in info.trees:
        one.lines(), every_attribute(one)


@operation("_core.native.Record recstore")
def records_of_classes(folder):
    path = folder / "classes.rec"
    RecordList([Plain(a=i) for i in range(9)]).save(path)
    with recstore.open(path) as x:
        one, other = x[1], x[2]
        one["a"], one.get("b", 3), "a" in one, len(one), list(one), one == other, one.class_name
        list(one.keys()), list(one.values()), list(one.items()), copy.copy(one), copy.deepcopy(one), pickle.dumps(one)
        with contextlib.suppress(TypeError):
            hash(one)
    recstore.Record("Other", {"a": 1})


@operation("recstore values.classes")
def registered(folder):
    recstore.register(Registered, encode=vars, decode=lambda fields: Registered(**fields))
    RecordList([Registered(a=1)] * 3)[1]


@operation(
    "recstore dataset.share dataset.audit dataset.reports.SharingReport dataset.reports.Audit "
    "dataset.reports.Row dataset.reports.Attribute"
)
def datasets(folder):
    dataset = Plain(samples=list(RECORDS), array=np.arange(1000))
    found = recstore.audit(dataset, threshold=10)
    str(found), every_attribute(found), [every_attribute(one) for one in found.attributes]
    report = recstore.share_dataset(dataset, threshold=10)
    str(report), report.after, report.before, report.replaced, report.skipped
    [every_attribute(one) for one in report.rows]
    dataset.samples[3], report.dry_run, report.store, report.notes, report.threshold
    report.undo()


@operation("recstore caching.cache.Cache")
def caches(folder):
    image = np.zeros((40, 40), np.float32)
    with recstore.cache("leaks", slots=50, limit="1MB", arrays="view") as x:
        x.put(1, image), x.get(1), x.get_or_make(2, image.copy), x.get_many([1, 2], stack=True)
        x.warm(range(50), lambda i: image), 1 in x, len(x), list(x), x.info(), x.seal().close(), x.name, x.slots
        repr(x), pickle.loads(pickle.dumps(x)).close()


@operation("recstore tokens.token_list.TokenList")
def tokens(folder):
    np.save(folder / "tokens.npy", np.arange(1000, dtype=np.uint16) % 10)
    with recstore.open_tokens(folder / "tokens.npy", end=0, keep=False) as t:
        joined = t[1:] + t[[3, 2]]
        list(joined), len(joined), joined.__getitems__([0, 1]), joined.lengths[:], joined.dtype, joined.nbytes
        joined.gather([1, 0], [1, 0], [2, 2]), joined.windows(64, stride=5)[[0, 1]], joined.windows(64)[0]
        list(pickle.loads(pickle.dumps(joined)))
        for refused in (lambda: np.asarray(t), lambda: t.__array__(), lambda: t.gather([0], [0], [99])):
            with contextlib.suppress(TypeError, IndexError):
                refused()
    t.close()


@operation("shm.process_memory shm.process_memory.Usage")
def memory(folder):
    from recstore.shm import process_memory as m

    x, pid = made(), os.getpid()
    keys = m.segments()
    every_attribute(m.usage()), m.available(), m.family(pid), m.peak_rss(), m.reset_peak_rss(), m.total([pid])
    m.unmapped(keys, [pid]), [m.allocated(key) for key in keys], x[0], m.Usage(1, 2, 3)
