"""Finds the pinned public names that no operation runs. A name counts as run if an operation covers it, or covers its
owner and uses the name, or syntax that calls it, in its source.
"""

import ast
import fnmatch
import functools
import inspect
import textwrap

from leaks import operations

# Special methods, by the syntax or the names that call them.
SYNTAX = {
    "__getitem__": ast.Subscript, "__class_getitem__": ast.Subscript, "__contains__": ast.In, "__eq__": ast.Eq, "__lt__": ast.Lt,
    "__le__": ast.LtE, "__gt__": ast.Gt, "__ge__": ast.GtE, "__enter__": ast.With, "__exit__": ast.With, "__add__": ast.Add,
    "__radd__": ast.Add, "__mul__": ast.Mult, "__rmul__": ast.Mult, "__or__": ast.BitOr, "__ror__": ast.BitOr,
}  # fmt: skip
CALLED = {
    "__len__": "len", "__iter__": "list next", "__reversed__": "reversed", "__hash__": "hash", "__reduce__": "dumps __reduce__",
    "__copy__": "copy", "__deepcopy__": "deepcopy", "__array__": "array asarray",
}  # fmt: skip
# Names that need no operation of their own, with the reason.
LEFT_OUT = {
    "recstore.lazy_names.*": "run by each name that a package imports late, and by errors for names of other libraries",
    "recstore.integrations.*": "adapters in Python over the containers here; they need packages of other projects",
    "recstore.monitor.*": "Python that holds no store: it reads /proc, its log and the series made of it",
    "recstore.MemoryMonitor": "see recstore.monitor",
    "recstore.sources.*": "the same functions are run as recstore.read_*, and as recstore.sources.*",
    "recstore.remote.dask.*": "an adapter over ShardWriter and recstore.open, which needs dask",
    "recstore.remote.ray.*": "an adapter over ShardWriter and recstore.open, which needs Ray",
    "recstore.remote.spark.*": "an adapter over ShardWriter and recstore.open, which needs Spark",
    "recstore.__version__": "a str",
    "recstore.RecordView": "made by slices, not by name",
    "recstore.containers.records.RecordView.__new__": "made by slices, not by name",
    "recstore.containers.opening.open": "run as recstore.open",
    "recstore.dataset.reports.SharingReport.__init__": "made by share_dataset",
    "recstore.shm.segment_list.SegmentInfo.__init__": "made by segments",
    "recstore.shm.segment_list.SegmentTable": "made by segments",
    "recstore.torch.batches.Batch.pin_memory": "needs a GPU",
    "recstore.errors.*": "classes without state; refusals raises the errors of a single process",
    "recstore.*Error": "see recstore.errors",
    "recstore.torch.*.__reduce__": "pickled by tensors",
    "recstore.torch.cached.CachedDataset.__getattr__": "run by the name of an attribute of the dataset",
    "recstore.torch.bottleneck.*": "Python that measures a loader and holds no store",
    "recstore.values.classes.register": "run as recstore.register",
    "recstore.names.*": "run as recstore.names.list, remove and collect",
    "recstore.sharing.*": "run as recstore.shared",
    "recstore.caching.info.*": "Python made by Cache.info",
    "recstore.caching.cache.Cache.__init__": "made by recstore.cache",
    "recstore.caching.cache.cache": "run as recstore.cache",
    "recstore.tokens.opening.open_tokens": "run as recstore.open_tokens",
    "recstore.tokens.token_list.TokenList.__init__": "made by recstore.open_tokens",
    "recstore.dataset.share.share_dataset": "run as recstore.share_dataset",
    "recstore.dataset.audit.audit": "run as recstore.audit",
}


def pinned(text):
    """Returns the dotted names of the list, without arguments and bases, as {name: whether it is a plain attribute}."""
    return {line.split("(")[0].removesuffix(":"): "(" not in line for line in text.splitlines()}


@functools.cache
def names_and_syntax(name):
    """The identifiers and the kinds of syntax in the source of an operation."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(operations.OPERATIONS[name][0])))
    found = set()
    for node in ast.walk(tree.body[0]):
        names = [getattr(node, name, None) for name in ("attr", "id", "arg")]
        found.update((type(node), *filter(None, names)))
    return frozenset(found)


def runs(operation, owner, last, plain):
    used = names_and_syntax(operation)
    if last in SYNTAX:
        return SYNTAX[last] in used
    if last in CALLED:
        return not used.isdisjoint(CALLED[last].split())
    if last in ("__init__", "__new__"):
        return owner.rpartition(".")[2] in used or last in used or "made" in used
    return last in used or (plain and owner != "recstore" and "every_attribute" in used)


def missing(names):
    """The names that no operation runs and no pattern of LEFT_OUT matches."""
    operations.load()
    by_owner = {}
    for operation, (_, covers) in operations.OPERATIONS.items():
        for owner in covers:
            by_owner.setdefault(owner, []).append(operation)
    not_run = []
    for name, plain in names.items():
        owner, _, last = name.rpartition(".")
        if name in by_owner or any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT):
            continue
        if not any(runs(operation, owner, last, plain) for operation in by_owner.get(owner, ())):
            not_run.append(name)
    return not_run
