"""The rivals, which the package has for `recstore bench`, and the stub that memory is held against."""

import marshal

from recstore.cli.bench_rivals import (  # noqa: F401
    Absent,
    ManagerList,
    Marshal,
    Msgspec,
    NumpyPickle,
    Recstore,
    RecstoreFast,
    RecstoreNone,
    RecstoreSmall,
    Resident,
    TorchPickle,
    every,
    need,
    rebuild,
)


class Stub:
    """A container that gives a fresh equal record at each read and holds next to nothing.

    What a program costs with a perfect container: the loop, the records in flight, the allocator's habits. The pool
    is small on purpose, so that the baseline is not flattered by memory of its own.
    """

    def __init__(self, dataset, pool=64):
        self._count = len(dataset)
        try:
            rebuild()
            self._pool = dataset.pool(pool)
            self.how = "rebuild"
        except Absent:
            self._pool = [marshal.dumps(record) for record in dataset.pool(pool)]
            self.how = "marshal"
        self._arm()

    def _arm(self):
        self._make = rebuild() if self.how == "rebuild" else marshal.loads

    def __getstate__(self):
        return self._count, self._pool, self.how

    def __setstate__(self, state):
        self._count, self._pool, self.how = state
        self._arm()

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._make(self._pool[index % len(self._pool)])
