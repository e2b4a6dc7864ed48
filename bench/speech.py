"""The suite `speech`: a speech Dataset that holds `utt2fpath`, a dict, and `utts`, the list of its keys.

The job runs in a fresh process (memory_jobs.py starts it). As in the suite `workers`, every worker makes a full pass:
over the Dataset with a dict and a list, with a RecordDict and a RecordList, or over a stub that holds nothing.
"""

import gc

import data

CONTAINERS = ("stub", "dict and list", "recstore")
COUNT = 1_000_000


def pairs(quick):
    """Yields `(utterance, path)` for numbered copies of LibriMix's sources."""
    names = _names()
    for number in range(_count(quick)):
        copy, position = divmod(number, len(names))
        folder, stem = names[position]
        yield f"{stem}-{copy:03d}", f"/data/LibriSpeech/{folder}/{stem}-{copy:03d}.flac"


def note(quick):
    """The origin of the utterances."""
    return f"synthetic: {_count(quick):,} numbered copies of {len(_names()):,} real utterances"


def _count(quick):
    return 20_000 if quick else COUNT


def _names():
    lines = data._lines("speech/LibriMix/libri2mix_train-clean-100.csv.xz")
    next(lines)
    paths = dict.fromkeys(path for line in lines for path in line.split(",")[1:4:2])
    return [tuple(path.removesuffix(".flac").rsplit("/", 1)) for path in paths]


class Utterances:
    """The usual Dataset."""

    def __init__(self, entries):
        self.utt2fpath = dict(entries)
        self.utts = list(self.utt2fpath.keys())

    def __len__(self):
        return len(self.utts)

    def __getitem__(self, index):
        utt = self.utts[index]
        return utt, self.utt2fpath[utt]


class StoredUtterances(Utterances):
    """The same with a RecordDict and a RecordList."""

    def __init__(self, entries):
        from recstore import RecordDict, RecordList

        self.utt2fpath = RecordDict(entries)
        self.utts = RecordList(self.utt2fpath.keys())

    @property
    def nbytes(self):
        return self.utt2fpath.nbytes


class Stub:
    """Makes a fresh pair at each read and holds none, to show the memory of the processes alone."""

    def __init__(self, entries):
        self.length = sum(1 for _ in entries)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        stem = f"1578-6379-{index:04d}"
        return f"{stem}-000", f"/data/LibriSpeech/train-clean-100/1578/6379/{stem}-000.flac"


def job(quick, method, container, workers):
    """A row: USS of the workers, total memory, and bytes of the store."""
    from recstore.cli.workers import full_pass
    from recstore.shm import process_memory

    known = process_memory.segments()
    gc.collect()
    before = process_memory.usage()
    dataset = dict(zip(CONTAINERS, (Stub, Utterances, StoredUtterances), strict=True))[container](pairs(quick))
    gc.collect()
    after = process_memory.usage()
    own_segments = {key: size for key, size in process_memory.segments().items() if key not in known}
    result = full_pass(dataset, method, workers, own_segments)
    result.update(
        container=container,
        method=method,
        records=len(dataset),
        store=getattr(dataset, "nbytes", 0),
        parent_kept=after.uss - before.uss if before else None,
    )
    return result
