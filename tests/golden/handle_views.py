"""The views whose handles are golden: within a version of handles, the description of a view never changes.

The code of commit e3fd5e5 wrote handles.json from these views, before the modules were moved into subpackages. That
file never changes: a new version of handles gets a file of its own.
"""

from recstore import RecordDict, RecordList


def views():
    """Yields `(name, container)` of each view. The stores live as long as the containers."""
    records = [{"id": i, "image": i // 2, "meta": {"a": i, "b": str(i)}} for i in range(20)]
    x, y = RecordList(records), RecordList(range(5))
    yield "list", x
    yield "slice", x[15:2:-3]
    yield "index array", x[[3, 1, 2]]
    yield "shuffled", x.shuffled(7)
    yield "shuffled slice", x.shuffled(7)[2:9]
    yield "joined", x[:3] + x[5:7]
    yield "two stores", y + y[1:3] + RecordList(["a", "b"])
    yield "repeated", y * 3
    yield "empty", x[:0]
    yield "lazy", x.lazy()
    yield "field", x.field("meta.a")
    yield "field with a default", x.field(("meta", "c"), default=-1)
    yield "fields", x.fields("id", "meta.b")
    yield "mapping", RecordDict({"a": 1, "b": [2]})
    yield "mapping of duplicates", RecordDict([("a", 1), ("b", 2), ("a", 3)])
    yield "index_by", x.index_by("id")
    yield "group_by", x.group_by("image", default_factory=list)
    yield "field of groups", x.group_by("image").field("id")


def body_of(container, write_records, write_mapping):
    """The bytes in which a handle describes the container, once its segments and blobs have numbers."""
    resources = [*container.segments, *container.blobs]
    number = {id(resource): i for i, resource in enumerate(resources)}
    write = write_mapping if isinstance(container, RecordDict) else write_records
    return write(container, lambda resource: number[id(resource)])
