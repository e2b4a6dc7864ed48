"""The base of RecordList and RecordDict: closing, copying and pickling a store, and the errors for the methods of list
and dict that change them."""

import errno
from abc import ABCMeta

from recstore._core import native
from recstore.errors import BusyError, CorruptError, SegmentNotFoundError
from recstore.later import foreign_names
from recstore.shm import handles, pins

__all__ = ["Container"]


class RecordsOf:
    """A mixin for objects whose attribute `_records` is a container. A RecordList of such an object reads the bytes of
    that container and copies nothing."""

    __slots__ = ()

    def __getattr__(self, name):
        more = foreign_names().of_values(name, "x[:]")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

    def __arrow_c_stream__(self, requested_schema=None):
        """The stream of the container, as :meth:`RecordList.__arrow_c_stream__` gives it."""
        return self._records.__arrow_c_stream__(requested_schema)


class InNotebooks:
    """A mixin for containers and the views of a RecordDict."""

    __slots__ = ()

    def _repr_html_(self):
        """A table of the first records as HTML, for notebooks. It has no script."""
        from recstore.display import notebooks

        return notebooks.container(self)


class _ContainerType(ABCMeta):
    """The class of RecordList and RecordDict, which says where a constructor of another library is here. It is derived
    from ABCMeta, so that a class may inherit from a container and from an abstract class."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __getattr__(cls, name):
        hint = "" if name.startswith("_") else foreign_names().of_constructor(name)
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}", name=name, obj=cls)


class Container(InNotebooks, metaclass=_ContainerType):
    """A mixin for RecordList and RecordDict. The compiled base class that follows it has `segments`, `blobs`,
    `detached` and `_require`, and a `__reduce__` that raises."""

    __slots__ = ()
    _instead = {}  # name of a method of list or dict -> the code to write instead of it
    _of_tables = {}  # name of a method of a DataFrame -> the code to write instead of it
    _plain = "list"  # the builtin type that the container replaces

    @classmethod
    def __class_getitem__(cls, item):
        import types

        return types.GenericAlias(cls, item)

    def __getattr__(self, name):
        hint = self._instead.get(name)
        more = f": {self._read_only(hint)}" if hint else ""
        if name in self._of_tables:
            more = f"; write {self._of_tables[name]}"
        elif not more and self._plain == "dict":
            more = foreign_names().of_values(name, "d.values()[:]")
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
        """Whether the store, or one of the stores of a view, was closed."""
        return any(resource.closed for resource in (*self.segments, *self.sets))

    def close(self):
        """Unmaps the shared memory of the store in this process. Later reads of this store, of its views and of other
        objects over the same bytes raise ClosedError. A second call does nothing.

        A view closes all stores that it reads, and its index arrays. Calls that run in other threads finish first.
        While arrays read with ``arrays="view"`` are alive, it raises BusyError and closes nothing. Safe from several
        threads at once.
        """
        segments = [segment for segment in self.segments if not segment.closed]
        native.close_all([*segments, *(segment for shards in self.sets for segment in shards.segments())])
        for shards in self.sets:
            shards.close()
        blobs = [blob for blob in (*self.blobs, self._spilled) if blob is not None and not blob.closed]
        for blob in blobs:
            blob.close()
        for resource in (*segments, *blobs):
            pins.unpin(resource)

    @property
    def fingerprint(self):
        """A hash of the content, 64 hexadecimal digits: for caches, and for ``shared(..., fingerprint=)``. Different
        content never has the same one.

        It depends on the records, their order and the fields that a view reads; not on the kind of memory, the file or
        the process. Views of the same records in the same order have the same one, whatever slices and lists of
        positions they are made of. Equal records that one release of recstore stored with the same options have the
        same one, unless they hold sets, whose order differs between processes.

        The first call in a process reads the whole store, at some 700 MB a second; a view then takes time for each of
        its records. Raises ClosedError, SegmentNotFoundError and CorruptError. Safe from several threads at
        once.

        >>> from recstore import RecordList
        >>> with RecordList(range(9)) as x, RecordList(range(9)) as y: x[2:][1:3].fingerprint == y[[3, 4]].fingerprint
        True
        """
        from recstore.shm import content_hash

        self._require()
        return content_hash.of(self).hex()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.close()
        except BusyError:
            # The traceback of an error in the block keeps its arrays alive. The caller must see that error.
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
        # The path is for the error messages of workers. Other handles leave it out, since it would make them longer.
        return reduced if path is None or handles._spawning_popen() is None else (*reduced, path)

    def __setstate__(self, path):
        if not isinstance(path, str):
            raise CorruptError("a recstore handle is followed by something else than the name of an attribute")
        self._shared_as = path
