"""The containers of the experiments. A rank makes its container before its workers start. Each function imports its own
modules, so a rank loads only what its container needs."""

NAME = "bench-experiments"


def make(arguments, number, beside):
    """The records of a rank.

    Args:
        arguments: a dict with `container`, a key of WAYS; `imports`, names of modules; `pool`, a file of records;
            `store`, a saved store.
        number: the number of the rank.
        beside: see `be_rank` in program.py.
    """
    for module in arguments["imports"]:
        __import__(module)
    return WAYS[arguments["container"]](arguments, number, beside)


def record_list(arguments):
    """All records in a list. The published programs use json.load; here a file has marshalled records."""
    from recstore.cli import records

    return list(records.read_pool(arguments["pool"]))


def naive(arguments, number, beside):
    """A list."""
    return record_list(arguments)


def numpy(arguments, number, beside):
    """As in mmengine, and formerly detectron2: pickles in one numpy array."""
    from recstore.cli.bench_rivals import NumpyPickle

    return NumpyPickle(record_list(arguments))


def torch(arguments, number, beside):
    """As in detectron2: pickles in one tensor. torch.multiprocessing moves it to shared memory to send it. The
    first of two ranks makes the tensor and sends it to the second."""
    from multiprocessing.reduction import ForkingPickler

    if number == 1:
        return ForkingPickler.loads(beside.recv_bytes())
    records = torch_alone(arguments, number, beside)
    if beside is not None:
        beside.send_bytes(ForkingPickler.dumps(records))
    return records


def torch_alone(arguments, number, beside):
    """The same, with a tensor for each rank."""
    # The import registers the reductions for tensors.
    import torch.multiprocessing  # noqa: F401

    from recstore.cli.bench_rivals import TorchPickle

    return TorchPickle(record_list(arguments))


def recstore_from_list(arguments, number, beside):
    """A RecordList built from the list. The list is dropped, but the memory that the interpreter keeps of it counts."""
    import recstore

    return recstore.RecordList(record_list(arguments))


def recstore_opened(arguments, number, beside):
    """A store that another process built and saved."""
    import recstore

    return recstore.open(arguments["store"])


def recstore_shared(arguments, number, beside):
    """A store with a shared name: the first rank builds it in a child process, and the second attaches."""
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
    """Builds a store of the records in a pool file and saves it."""
    import recstore
    from recstore.cli import records

    with recstore.RecordList(records.read_pool(pool)) as store:
        store.save(path)
