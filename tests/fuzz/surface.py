"""Reads damaged stores through the public API of recstore: each read gives a value or a documented error.

`python tests/fuzz/surface.py N [SEED]`, run by `nox -s surface -- N`, reads N of them in child processes. The current
store is the file current.rec in build/fuzz/surface. If a child fails, or a store takes more than a minute, the file is
kept as found-SEED-NUMBER.rec, and the run ends with an error."""

import contextlib
import faulthandler
import io
import os
import pickle
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

from fuzz.damage import damaged, lowered  # noqa: E402

import recstore  # noqa: E402

SLICE = 500  # stores that one child reads
SECONDS = 60  # for one store
LIMITS = (1 << 14, 1 << 20)  # values and bytes of the largest record, so that reading a store is quick
SAMPLE = 12
# Any read of a damaged store may raise these, and the errors documented for a valid store.
DAMAGE = (recstore.errors.CorruptError, recstore.errors.VersionError, recstore.errors.UntrustedError)


def seed_files():
    """The undamaged golden files, and the stores of the corpus."""
    files = [*(TESTS / "golden").glob("*.rec"), *(TESTS / "fuzz/corpus/segments").glob("*.rec")]
    return [path for path in sorted(files) if "damaged" not in path.name]


def seeds():
    return [path.read_bytes() for path in seed_files()]


@contextlib.contextmanager
def may_raise(*documented):
    """Ignores DAMAGE and errors of the `documented` types."""
    try:
        yield
    except recstore.Error as e:
        # A valid store raises these too if the system does not know the zone or lacks the file of a line.
        of_valid = "this system does not know the time zone" in str(e) or "restore this file" in str(e)
        if not isinstance(e, (*DAMAGE, *documented)) and not of_valid:
            raise
    except documented:
        return


def read_first(values, n=SAMPLE):
    for _, value in zip(range(n), values):
        repr(value)


def read_records(x, rng):
    n = len(x)
    for i in {0, n - 1, *(rng.randrange(n) for _ in range(SAMPLE))} if n else ():
        with may_raise():
            repr(x[i])
    with contextlib.suppress(IndexError):
        x[n]


def read_views(x, rng):
    n = len(x)
    read_first(x[: min(n, SAMPLE) : 2])
    read_first(reversed(x[-SAMPLE:]))
    read_first(x.shuffled(rng.randrange(9))[:SAMPLE])
    read_first(x.get_many([rng.randrange(n) for _ in range(SAMPLE)] if n else []))
    if n <= 1000:
        repr(x.to_list())
        with contextlib.suppress(ValueError):  # numpy raises it when arrays are compared, as in a list
            x == list(x)


def names_of(x):
    """Returns up to six names: fields of the first records, "id", and one that no record has."""
    names = {"no such field", "id"}
    for i in range(min(len(x), 4)):
        with may_raise():
            record = x[i]
            if isinstance(record, dict):
                names.update(key for key in record if isinstance(key, str))
    return sorted(names)[:6]


def read_fields(x, rng):
    n = min(len(x), 200)
    for name in names_of(x):
        for read in (
            lambda: read_first(x[:n].field(name)),
            lambda: read_first(x[:n].field(name, default=None)),
            lambda: x[:n].field(name, default=0).to_numpy(),
            lambda: x[:n].field(name).to_arrow(),
            lambda: read_first(x[:n].fields(name)),
            lambda: x[:n].group_by(name),
        ):
            # The field is missing, or its values have several types, fit no array or cannot be keys.
            with may_raise(KeyError, TypeError, ValueError, recstore.errors.EncodeError):
                read()


def read_lazily(x, rng):
    for record in x[:SAMPLE].lazy():
        with may_raise():
            if isinstance(record, recstore.Record):
                for key in record:
                    repr(record[key])
                dict(record)


def read_saved_indexes(x, rng):
    for name in ("id", "image_id", "k", "a"):
        for make in (x.index_by, x.group_by):
            with may_raise(KeyError, TypeError):
                d = make(name)
                for key in list(d)[:SAMPLE]:
                    read_first([d[key]])
                d.get("no such key")


def read_arrow(x, rng):
    with may_raise(TypeError, ValueError, recstore.errors.EncodeError):
        x[: min(len(x), 500)].to_arrow()


def read_info(x, rng):
    str(x.info())
    repr(x)
    x.nbytes, x.fingerprint
    if isinstance(x, recstore.RecordList):
        x.attributes


def read_pickled(x, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = pickle.loads(pickle.dumps(x))
    if len(again):
        repr(again[0] if isinstance(again, recstore.RecordList) else next(iter(again)))


def save(x, rng):
    with tempfile.TemporaryDirectory() as folder:
        x.save(os.path.join(folder, "again.rec"))
        (x[:SAMPLE] if isinstance(x, recstore.RecordList) else x.values()[:SAMPLE]).save(
            os.path.join(folder, "some.rec")
        )


def read_keys(d, rng):
    read_first(d)
    for key in ["no such key", 7, 1.5, None, ("a", 1), b"x"]:
        with may_raise():
            d.get(key)
            key in d
    for key in list(d)[:SAMPLE]:
        with may_raise(KeyError):
            repr(d[key])
    with may_raise():
        read_first(d.values())
    with may_raise():
        read_first(d.items())
    with may_raise(KeyError):
        d.get_many(list(d.keys())[:SAMPLE])
    if len(d) <= 1000:
        repr(d.to_dict())


# These wait for the disk, or read the kernel's figures for the whole process, so each runs one time in eight.
SLOW_READS = [read_info, save]
LIST_READS = [
    read_records,
    read_views,
    read_fields,
    read_lazily,
    read_saved_indexes,
    read_arrow,
    read_info,
    read_pickled,
    save,
]
DICT_READS = [read_keys, read_info, read_pickled, save]


def read_all(path, rng):
    """Reads a store in every way. An exception is a finding."""
    for verify in ("header", "full"):
        with may_raise(), recstore.open(path, verify=verify) as x:
            for read in LIST_READS if isinstance(x, recstore.RecordList) else DICT_READS:
                if read in SLOW_READS and rng.randrange(8) != 0:
                    continue
                with may_raise():
                    read(x, rng)


def write_damaged(path, original, rng):
    """Writes a damaged copy of a store to the file `path`."""
    Path(path).write_bytes(lowered(damaged(rng, original), *LIMITS))


def run(path, seed, begin, end, note=None):
    """Writes damaged stores `begin` to `end` - 1 to the file `path` in turn, and reads each."""
    originals = seeds()
    for number in range(begin, end):
        rng = random.Random(f"{seed} {number}")
        write_damaged(path, rng.choice(originals), rng)
        if note is not None:
            note(number)
        read_all(path, rng)


# ---- From the command line -------------------------------------------------------------------------------------------


def child(path, seed, begin, end):
    def note(number):
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        Path(path).with_name("current.txt").write_text(str(number))

    faulthandler.enable()
    # Discards printed text, such as notes on unknown classes.
    with contextlib.redirect_stdout(io.StringIO()):
        run(path, seed, begin, end, note)
    faulthandler.cancel_dump_traceback_later()


def main(n, seed="1"):
    folder = TESTS.parent / "build" / "fuzz" / "surface"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "current.rec"
    for begin in range(0, n, SLICE):
        end = min(begin + SLICE, n)
        command = [sys.executable, __file__, "child", str(path), seed, str(begin), str(end)]
        if subprocess.run(command, cwd=folder).returncode != 0:
            number_file = path.with_name("current.txt")
            number = int(number_file.read_text()) if number_file.exists() else begin
            path.rename(folder / f"found-{seed}-{number}.rec")
            print(f"a finding: {folder}/found-{seed}-{number}.rec", file=sys.stderr)
            return 1
    with (folder.parent / "executions").open("a") as log:
        log.write(f"surface {n} 0\n")
    print(f"surface: {n} damaged stores")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
