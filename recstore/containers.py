"""The base of RecordList and RecordDict: closing, copying and pickling a store, and the errors for the methods of list
and dict that change them."""

import errno

from recstore._core import native
from recstore.errors import BusyError, CorruptError, SegmentNotFoundError
from recstore.shm import handles, pins

__all__ = ["Container"]


class RecordsOf:
    """A mixin for objects over the records of a container, their attribute `_records`: RecordList makes a store of them
    without a copy."""

    __slots__ = ()


class Container:
    """A mixin. The compiled base behind it has `segments`, `blobs`, `detached` and `_require`, and a `__reduce__` that
    only refuses."""

    __slots__ = ()
    _instead = {}  # method that a list or dict has -> what to write in its place
    _plain = "list"  # the type whose place a container takes

    @classmethod
    def __class_getitem__(cls, item):
        import types

        return types.GenericAlias(cls, item)

    def __getattr__(self, name):
        hint = self._instead.get(name)
        more = f": {self._read_only(hint)}" if hint else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

    def _read_only(self, hint):
        """The end of an error's message: why a change is refused, and the code to write instead. A container that
        share_dataset put in place of a list or dict names the attribute."""
        path = getattr(self, "_shared_as", None)
        if path is None:
            return f"it is read-only; {hint}"
        return (
            f"share_dataset put it in place of the {self._plain} {path!r}; "
            f"share_dataset(dataset, skip=[{path!r}]) leaves it a {self._plain}"
        )

    @property
    def closed(self):
        """Whether the store was closed, or one of several."""
        return any(segment.closed for segment in self.segments)

    def close(self):
        """Gives the shared memory back in this process; later reads through this store, its views or anything else over
        the same bytes raise ClosedError. Idempotent.

        A view closes all stores that it looks at, and its index arrays. Calls in flight in other threads finish first.
        Raises BusyError, and closes nothing, while arrays read with ``arrays="view"`` are alive. Any thread may call
        it.
        """
        segments = [segment for segment in self.segments if not segment.closed]
        native.close_all(segments)
        blobs = [blob for blob in (*self.blobs, self._spilled) if blob is not None and not blob.closed]
        for blob in blobs:
            blob.close()
        for resource in (*segments, *blobs):
            pins.unpin(resource)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.close()
        except BusyError:
            # The frames of an error on its way hold the arrays: it is what the caller must see.
            if error is None:
                raise

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        if "_kind" not in type(self).__dict__:
            ours = next(base.__name__ for base in type(self).__mro__ if "_kind" in base.__dict__)
            raise TypeError(
                f"{type(self).__name__}, a subclass of {ours}, cannot travel: hold a {ours} as an attribute instead"
            )
        if self.detached is not None:
            raise SegmentNotFoundError(errno.ENOENT, f"a detached store cannot be pickled again: {self.detached}")
        self._require()
        reduced = handles.reduce(self)
        path = getattr(self, "_shared_as", None)
        # Only a worker that is being started is told: elsewhere a handle keeps its size.
        return reduced if path is None or handles._spawning_popen() is None else (*reduced, path)

    def __setstate__(self, path):
        if not isinstance(path, str):
            raise CorruptError("a recstore handle is followed by something else than the name of an attribute")
        self._shared_as = path
