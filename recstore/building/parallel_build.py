"""Builds with worker processes. A shard is one of the iterables that a build with `workers=N` takes. The workers
iterate over the shards, encode the records and compress them; the building process places the blocks in the order of
the shards. A shard of less than a block is compressed in the building process, so that small shards share blocks. The
building process itself stores a list, a tuple or, for a mapping, a dict, because pickling its records would take
longer. The segment's bytes depend on the shards, but not on the number of workers, except that a set's elements have
the order of the process that encodes them.

Each worker has two pipes. One carries pickled shards, one at a time. The other carries parcels or blocks (parcels.pyx),
followed by an END or an ERROR message. The building process reads up to RUN_AHEAD bytes ahead of the current shard.
Then it stops reading from the other workers, whose pipes fill up. This bounds the memory; much larger shards are read
one after another. An exception in a worker is raised when its shard is current, the death of a worker as soon as its
pipe is read. A worker ends after an empty message, or when its pipe of shards is closed, for example by the death of
the building process.
"""

from __future__ import annotations

import itertools
import pickle
from _collections_abc import Mapping
from collections import deque
from contextlib import closing, suppress
from multiprocessing import connection, current_process, get_context, get_start_method, reduction

from recstore._core import forks, native, trust
from recstore.building import build_workers, cores
from recstore.building.build_workers import BLOCKS, END, ERROR, PARCEL, open_pipes
from recstore.building.pairs import pairs_of
from recstore.building.source import Source, items_of
from recstore.errors import BuildError, EncodeError, Error
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import DefaultContext
    from multiprocessing.process import BaseProcess
    from typing import Any, NoReturn

    from recstore._core.trust import ClassName
    from recstore.building.build_options import Options
    from recstore.containers.records import RecordList

RUN_AHEAD = 32 << 20
_STEP = 1024  # records of a local shard between two reads from the workers
_PATIENCE_S = 5  # seconds before a process that does not end is killed
_UNGUARDED = (
    "; each worker imports the main module first: in that module, put the code that builds a store under "
    'if __name__ == "__main__":'
)


class WorkerTraceback(Exception):
    """The traceback in the worker, as the cause of an exception that a worker raised. Its argument is the text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def fill(builder: native.AnyBuilder, shards: Any, options: Options) -> list[object]:
    """Appends the records or pairs of all shards to a builder. Returns the reports of the Sources that have one. Raises
    the exceptions of iterating over the shards, EncodeError, BuildError if a worker dies or cannot start, and TypeError
    if `shards` is not an iterable of shards. All workers have ended when this returns or raises."""
    if isinstance(shards, (str, bytes, bytearray, Mapping, native.Mapping)):
        raise TypeError(
            f"with workers={options.workers} the argument is an iterable of shards, each an iterable, not "
            f"{an(type(shards).__name__)}"
        )
    if current_process().daemon:
        raise BuildError(
            "this process is a daemonic child of multiprocessing, which may have no children: build with workers=0"
        )
    team = _Team(builder, options)
    with closing(team.run(shards)) as run:
        steps: Iterator[None] = run
        if options.progress:
            from recstore.building import progress

            steps = progress.track(run, len(shards) if hasattr(shards, "__len__") else None)
        deque(steps, 0)
    return team.reports


_MAPPED = 4096  # records in a shard of `mapped`


class _Mapped:
    """A shard whose records are the results of a function."""

    def __init__(self, fn: Callable[[Any], object], records: RecordList[Any]) -> None:
        self.fn, self.records = fn, records

    def __iter__(self) -> Iterator[object]:
        # The function may change its record. With map(), a StopIteration from it would end the records.
        return (self.fn(record) for record in self.records._unwatched())


def mapped(fn: Callable[[Any], object], records: RecordList[Any], workers: int) -> Iterator[_Mapped]:
    """Divides map(fn, records) into shards. Raises TypeError for a function that cannot be pickled."""
    try:
        reduction.ForkingPickler.dumps(fn)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        name = getattr(fn, "__qualname__", type(fn).__name__)
        raise TypeError(
            f"map sends its function to {workers} worker processes, and {name} cannot be pickled: {e}; define the "
            "function with def at the top of a module, or leave workers= out"
        ) from e
    return (_Mapped(fn, records[i : i + _MAPPED]) for i in range(0, len(records), _MAPPED))


class _Worker:
    """A worker process, and this side of its pipes."""

    def __init__(self, context: DefaultContext, *arguments: Any) -> None:
        self.shard: int | None = None
        self.answered = False  # whether the worker has sent a message
        with build_workers.forking:
            worker_shards, self.shards = context.Pipe(duplex=False)
            self.parcels, worker_parcels = context.Pipe(duplex=False)
            try:
                open_pipes.update((worker_shards, self.shards, self.parcels, worker_parcels))
                self.process: BaseProcess = context.Process(
                    target=build_workers.work, args=(worker_shards, worker_parcels, *arguments), daemon=True
                )
                self.process.start()
            except BaseException as error:
                _close(self.shards, self.parcels)
                if isinstance(error, (ConnectionError, EOFError)):  # the forkserver, importing the main module, died
                    raise BuildError(f"a worker process could not be started{_UNGUARDED}") from error
                raise
            finally:
                _close(worker_shards, worker_parcels)

    def exit_code(self) -> int | None:
        """Waits up to _PATIENCE_S for the process to end. Returns its exit code, or None if it has none."""
        ended = connection.wait([self.process.sentinel], _PATIENCE_S)
        with build_workers.forking:
            if ended:
                self.process.join()
            return self.process.exitcode

    def died(self) -> BuildError:
        """The BuildError for a process that has closed its pipe."""
        code = self.exit_code()
        if code is None:
            how = "stopped answering"
        elif code < 0:
            how = f"was killed by signal {-code}" + ("; perhaps for lack of memory" if code == -9 else "")
        else:
            how = f"ended with status {code}"
            if code == 1 and not self.answered and get_start_method() != "fork":
                how += _UNGUARDED
        return BuildError(f"the worker process {self.process.pid} that was reading shard {self.shard} {how}")

    def end(self) -> None:
        """Waits for the process, which has no more work, and kills it if it does not end. A process that does not end,
        or that has no status because the program ignores SIGCHLD, is left to multiprocessing."""
        if (code := self.exit_code()) is None:
            self.process.kill()
            code = self.exit_code()
        with build_workers.forking:
            if code is not None:
                self.process.close()
            _close(self.shards, self.parcels)


def _close(*pipes: Connection) -> None:
    for pipe in pipes:
        open_pipes.discard(pipe)
        pipe.close()


class _Team:
    """The workers of one build, and their pending messages."""

    def __init__(self, builder: native.AnyBuilder, options: Options) -> None:
        self.builder = builder
        self.options = options
        self.hashes = builder.hashes if isinstance(builder, native.MappingBuilder) else None
        self.workers: list[_Worker] = []
        self.shards: Iterator[tuple[int, Any]] = iter(())
        # Number of a shard -> its messages, or the iterator over a local shard.
        self.queues: dict[int, deque[bytes | Iterator[Any]]] = {}
        self.queued_bytes = 0
        self.reports: list[object] = []
        self.opaque: dict[int, Any] = {}  # number of an opaque key -> the key, for the current shard
        self.placing: native.Placing | None = None  # adds the blocks of the current shard
        self.local = 0  # the number of local shards in `queues`

    def run(self, shards: Iterable[Any]) -> Generator[None]:
        """Yields after each shard."""
        try:
            self.shards = enumerate(items_of(shards))
            first = list(itertools.islice(self.shards, self.options.workers))
            self.start(sum(not self.is_local(shard) for _, shard in first))
            self.shards = itertools.chain(first, self.shards)
            del first
            self.distribute()
            current = 0
            while self.queues:
                self.read(current)
                if self.queues[current] and self.append_next(current):
                    del self.queues[current]
                    self.opaque, self.placing = {}, None
                    current += 1
                    self.distribute()
                    yield
            for worker in self.workers:
                with suppress(OSError):  # a worker that died after the last shard has done its work
                    worker.shards.send_bytes(b"")
        except BaseException:
            # The workers may be stuck in the iteration over a shard.
            for worker in self.workers:
                worker.process.terminate()
            raise
        finally:
            for worker in self.workers:
                worker.end()

    def start(self, n: int) -> None:
        context, options = get_context(), self.options
        seed = None if self.hashes is None else self.hashes.seed
        threads = cores.available() if options.threads is None else options.threads
        threads = -(-threads // options.workers)
        compression = options.compression, options.without
        arguments = options.on_unsupported == "pickle", options.arrays, seed, compression, threads
        for _ in range(n):
            with forks.undisturbed():  # an interrupt ends each worker that has started
                self.workers.append(_Worker(context, *arguments))

    def is_local(self, shard: object) -> bool:
        """Whether the records of a shard are in the memory of this process, which then stores them itself."""
        return type(shard) in (list, tuple) or self.hashes is not None and type(shard) is dict

    def distribute(self) -> None:
        """Gives shards to idle and new workers. Queues the local shards that come first, at most one per worker,
        because each holds its records."""
        while self.local < self.options.workers:
            idle = next((worker for worker in self.workers if worker.shard is None), None)
            if idle is None and len(self.workers) == self.options.workers:
                return
            following = next(self.shards, None)
            if following is None:
                return
            number, shard = following
            del following
            if self.is_local(shard):
                self.queues[number] = deque([iter(pairs_of(shard) if self.hashes is not None else shard)])
                self.local += 1
                continue
            if idle is None:
                self.start(1)
                idle = self.workers[-1]
            self.send(idle, number, shard)

    def send(self, worker: _Worker, number: int, shard: Any) -> None:
        """Gives a shard to an idle worker."""
        self.check(number, shard)
        try:
            data = reduction.ForkingPickler.dumps(shard)
        except (pickle.PicklingError, TypeError, AttributeError) as e:
            if isinstance(shard, Source):
                raise TypeError(
                    f"an argument of the reader, such as a function, cannot be sent to a worker: {e}; define functions "
                    "with def at the top of a module, or leave workers= out"
                ) from e
            raise TypeError(
                f"shard {number}, {an(type(shard).__name__)}, cannot be sent to a worker: {e}; give a list, "
                "or an object whose class, at the top of a module, has __iter__"
            ) from e
        worker.shard = number
        self.queues[number] = deque()
        try:
            worker.shards.send_bytes(data)
        except OSError:
            raise worker.died() from None

    def check(self, number: int, shard: Any) -> None:
        """Raises TypeError for a value that is probably a record instead of a shard: iterating over a dict would store
        its keys."""
        if isinstance(shard, Source):
            return
        kind, content = type(shard), "of records" if self.hashes is None else "of pairs or a mapping"
        refused: tuple[type, ...] = str, bytes, bytearray
        if self.hashes is None:
            refused += Mapping, native.Mapping
        if isinstance(shard, refused) or not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
            raise TypeError(
                f"shard {number} is {an(kind.__name__)}: with workers={self.options.workers} the argument is "
                f"an iterable of shards, each an iterable {content}"
            )

    def read(self, current: int) -> None:
        """Receives a message from each worker that has sent one, within RUN_AHEAD. Waits if nothing can be appended."""
        readable = [worker for worker in self.workers if worker.shard == current or self.queued_bytes < RUN_AHEAD]
        pipes = [worker.parcels for worker in readable if worker.shard is not None]
        ready = connection.wait(pipes, 0 if self.queues[current] else forks.WAKE_S)
        for worker in readable:
            if worker.shard is None or worker.parcels not in ready:
                continue
            try:
                message = worker.parcels.recv_bytes()
            except (EOFError, OSError):
                raise worker.died() from None
            worker.answered = True
            self.queues[worker.shard].append(message)
            self.queued_bytes += len(message)
            if message[:1] == ERROR:
                self.shards = iter(())
            if message[:1] in (END, ERROR):
                worker.shard = None
                self.distribute()

    def append_next(self, current: int) -> bool:
        """Appends the content of the next message of the current shard. Returns True for the shard's last message."""
        message = self.queues[current].popleft()
        if not isinstance(message, bytes):
            return self.append_local(current, message)
        self.queued_bytes -= len(message)
        kind, content = message[:1], memoryview(message)[1:]
        if kind == ERROR:
            self.fail(current, *pickle.loads(content))
        if kind in (PARCEL, BLOCKS):
            arguments, seen, foreign = pickle.loads(content)
            self.note_classes(seen, foreign)
            if self.hashes is not None:
                *arguments, opaque = arguments
                arguments.append([(number, self.opaque.setdefault(first, key)) for number, first, key in opaque])
            if kind == PARCEL:
                self.builder.append_parcel(*arguments)
            else:
                self.placing = self.placing or native.Placing(self.builder)
                self.placing.place(*arguments)
        if kind == END and self.placing is not None:
            self.placing.end()
        if kind == END and (report := pickle.loads(content)) is not None:
            self.reports.append(report)
        return kind == END

    def append_local(self, current: int, records: Iterator[Any]) -> bool:
        """Appends some records of a local shard. Returns True at its end."""
        before = self.records()
        self.builder.extend(itertools.islice(records, _STEP))
        if self.records() - before == _STEP:
            self.queues[current].append(records)
            return False
        self.local -= 1
        return True

    def records(self) -> int:
        return self.builder.records if isinstance(self.builder, native.Builder) else self.builder.hashes.n

    def note_classes(self, seen: list[ClassName], foreign: bool) -> None:
        """Registers the classes that a worker has stored, so that this process can read their values. Raises
        EncodeError for a class that this process cannot import."""
        writer = self.builder.settings
        writer.foreign = writer.foreign or foreign
        for name in seen:
            try:
                cls = trust.Reader().find(*name)
            except Error as e:
                why = f"values of a class that only a worker knows: {e}; define it at the top of a module"
                raise EncodeError(why) from None
            writer.note(name, cls)  # type: ignore[arg-type]  # a Reader that trusts its bytes finds a class or raises

    def fail(self, shard: int, refused: native.Refused | None, error: bytes | None, text: str | None) -> NoReturn:
        """Raises the exception of a worker."""
        if refused is not None:
            encode_error = EncodeError(refused.reason, self.records(), refused.key)
            encode_error.filename = refused.filename
            raise encode_error
        cause: object = None
        with suppress(Exception):
            cause = pickle.loads(error) if error is not None else None
        if not isinstance(cause, BaseException):
            raise BuildError(f"reading shard {shard} failed in a worker:\n{text}")
        raise cause from WorkerTraceback(f"in a worker, reading shard {shard}:\n{text}")
