"""The operations of recstore.remote in the leak check: sets of shards in a folder, which need no other package.
Sets in object stores have the same readers, but keep threads."""

import copy
import os
import pathlib
import pickle
import tempfile

from leaks.operands import RECORDS
from leaks.operations import every_attribute, operation

import recstore
from recstore.remote import Collected, Compacted, Deleted, Entry, ShardWriter, compact, delete, gc


@operation(
    "remote remote.set.writer.ShardWriter remote.set.writer.Entry remote.set.collecting remote.set.collecting.Collected"
)
def written_sets(folder):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        writer = pickle.loads(pickle.dumps(ShardWriter(place, shard_records=7, dir=place)))
        entries = [writer.write(RECORDS), writer.write(iter(RECORDS[:3]))]
        assert copy.copy(entries[0]) == entries[0] and hash(entries[0]) and Entry("list", ()).records == 0
        writer.commit(entries)
        writer.commit([writer.write(RECORDS[:1])], append=True)
        dropped = writer.write(RECORDS[3:9])
        writer.url, entries[0].hashes, entries[0].nbytes, str(writer), str(dropped)
        writer.remove(dropped.shards)
        writer.tag("a", 1), writer.tag("b"), writer.tag("a"), recstore.open(f"{place}@b").close()
        writer.tag("a", delete=True)
        try:
            writer.write([{"a": 1}, object()])
        except recstore.errors.EncodeError:
            pass
        every_attribute(gc(place, days=0, dry_run=True)), gc(place, days=0), Collected


@operation("remote.set.compacting remote.set.compacting.Compacted remote.set.deleting remote.set.deleting.Deleted")
def changed_sets(folder):
    for mapping in (False, True):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            writer = ShardWriter(place, mapping=mapping, shard_records=7)
            writer.commit(writer.write(enumerate(RECORDS) if mapping else RECORDS))
            every_attribute(compact(place)), Compacted
            for dry_run in (True, False):
                deleted = delete(place, [3, 20], field=None if mapping else "id", dry_run=dry_run)
                every_attribute(deleted), Deleted


@operation()
def lists_of_shards(folder):
    path = _set(folder, "list", False, RECORDS)
    for verify in ("header", "full"):
        with recstore.open(path, verify=verify) as x:
            x[0], x[-1], x[2:9].to_list(), x.get_many([1, 20]), list(x), len(x), x.lazy()[4]["id"]
            x.shuffled(1)[3], x.field("id").to_numpy(), x.info(), x.fingerprint, pickle.loads(pickle.dumps(x))[5]
    x = recstore.open(path)
    x[11]
    with recstore.open(f"{path}@1") as x:
        x[1]


@operation()
def mappings_of_shards(folder):
    pairs = [(f"k{i}", record) for i, record in enumerate(RECORDS)]
    with recstore.open(_set(folder, "mapping", True, pairs)) as d:
        d["k3"], d.get("none"), "k1" in d, d.get_many(["k2", "k9"]), list(d), list(d.items())[-1], len(d)
        pickle.loads(pickle.dumps(d))["k4"]


@operation()
def damaged_sets(folder):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        _write(place, False, RECORDS)
        for path in pathlib.Path(place).rglob("*.recs"):
            os.truncate(path, 1000)
        for verify in ("header", "full"):
            try:
                with recstore.open(place, verify=verify) as x:
                    x[0]
            except recstore.errors.CorruptError:
                pass


def _set(folder, name, mapping, records):
    path = folder / f"shards-{name}"
    if not path.exists():
        _write(path, mapping, records)
    return path


def _write(path, mapping, records):
    writer = ShardWriter(path, mapping=mapping, shard_records=7)
    writer.commit([writer.write(records)])
