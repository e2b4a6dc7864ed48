"""Importable functions for the workers of test_views_travel.py."""

from mp.workers import build, segment_fds

KINDS = ["slice", "step", "fancy", "mask", "shuffled", "joined", "repeated", "filtered", "sorted", "split", "mixed", "long",
         "field", "missing", "fields", "many fields", "fields of several", "field of lazy"]  # fmt: skip


def kinds(x, y):
    """A view of every kind over two stores, by name."""
    long = x[[1, 0]]
    for i in range(20):
        long = long + (x, y)[i % 2][[i % 5, 2]].shuffled(i)
    views = [
        x[2:9], x[::-3], x[[3, 1, 1, -1]], x[[i % 3 == 0 for i in range(len(x))]], x.shuffled(7), x + y + x[:2], y * 3,
        x.filter(lambda r: r["id"] % 4 == 1), x.sorted_by("id", reverse=True), x.split([0.8, 0.2], seed=3)[1],
        ((x[[5, 2, 4]] + y.shuffled(1)) * 2).shuffled(9)[1::2], long, x.field("name")[::2],
        x[[4, 2]].field("nobody", default=("none", 1)).shuffled(1), x.shuffled(3).fields("id", "box")[1:],
        y.map(lambda r: r | {f"field {i}": i for i in range(50)}).fields("name", *(f"field {i}" for i in range(50))),
        (x.fields("id") + y[::-1].fields("id"))[[0, -1]], x.lazy()[2:].field("box")
    ]  # fmt: skip
    return dict(zip(KINDS, views, strict=True))


def make(name, n):
    """Returns a view of temporary stores, which only the view keeps alive."""
    return kinds(build(n), build(7))[name]


def send_lists(connection, views):
    connection.send([(type(view).__name__, view.to_list()) for view in views])


def send_blobs(connection, views):
    """Sends the number of segment descriptors, the number of distinct index arrays, and the records of the views."""
    blobs = {id(blob) for view in views for blob in view.selection.blobs()}
    connection.send((len(segment_fds()), len(blobs), [view.to_list() for view in views]))
