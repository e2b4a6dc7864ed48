"""The views whose handles are golden (handles.json): what a handle says of a view never changes within its version.

python tests/golden/handle_views.py OUT     writes the file anew; only a new version of handles may do that
"""

import json
import pickle
import sys

from recstore import RecordDict, RecordList


def views():
    """`(name, container)` of each; the stores behind them live as long as the containers."""
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


def main(path):
    from recstore import recipes  # as the module was called when these were written

    out = {}
    for name, container in views():
        body = body_of(container, recipes.write_records, recipes.write_mapping)
        out[name] = {"length": len(container), "body": body.hex(), "pickle": pickle.dumps(container, 4).hex()}
    with open(path, "w") as file:
        json.dump(out, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
