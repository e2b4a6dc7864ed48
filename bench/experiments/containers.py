"""The ways in which the program of an experiment holds its records. Each function runs in a rank, before its workers
start, and imports what a program of its kind imports."""

NAME = "bench-experiments"


def make(arguments, number, beside):
    """The records of a rank.

    Args:
        arguments: of the experiment: `container`, one of WAYS; `pool`, a file of records; `store`, a saved store.
        number: of the rank.
        beside: as in program.py.
    """
    for module in arguments["imports"]:
        __import__(module)
    return WAYS[arguments["container"]](arguments, number, beside)


def record_list(arguments):
    """All records in a list: json.load of the annotations in the published programs, a file of marshalled ones here."""
    from recstore.cli import records

    return list(records.read_pool(arguments["pool"]))


def naive(arguments, number, beside):
    """The list."""
    return record_list(arguments)


def numpy(arguments, number, beside):
    """mmengine's way, once also detectron2's: pickles in one numpy array."""
    from recstore.cli.bench_rivals import NumpyPickle

    return NumpyPickle(record_list(arguments))


def torch(arguments, number, beside):
    """detectron2's way: pickles in one tensor, which torch.multiprocessing moves to shared memory when it is sent.
    Of two ranks the first makes it and sends it to the second."""
    from multiprocessing.reduction import ForkingPickler

    if number == 1:
        return ForkingPickler.loads(beside.recv_bytes())
    records = torch_alone(arguments, number, beside)
    if beside is not None:
        beside.send_bytes(ForkingPickler.dumps(records))
    return records


def torch_alone(arguments, number, beside):
    """The same, of each rank its own."""
    # torch registers its ways of sending tensors when it is imported, here as in the user's program.
    import torch.multiprocessing  # noqa: F401

    from recstore.cli.bench_rivals import TorchPickle

    return TorchPickle(record_list(arguments))


def recstore_from_list(arguments, number, beside):
    """A RecordList made of the list. The list is dropped, as user code drops it; what the interpreter keeps of it
    counts."""
    import recstore

    return recstore.RecordList(record_list(arguments))


def recstore_opened(arguments, number, beside):
    """A store that another process has built and saved."""
    import recstore

    return recstore.open(arguments["store"])


def recstore_shared(arguments, number, beside):
    """A store by name: the first rank builds it in a child process, the second attaches."""
    import functools

    import recstore
    from recstore.cli import records

    build = functools.partial(records.read_pool, arguments["pool"])
    return recstore.shared(NAME, build, fingerprint=arguments["pool"], isolate=True)


WAYS = {
    "list": naive,
    "numpy": numpy,
    "torch": torch,
    "torch, one per rank": torch_alone,
    "recstore": recstore_opened,
    "recstore from a list": recstore_from_list,
    "recstore by name": recstore_shared,
}


def save(pool, path):
    """Builds the store of the records in a pool file and saves it."""
    import recstore
    from recstore.cli import records

    with recstore.RecordList(records.read_pool(pool)) as store:
        store.save(path)
