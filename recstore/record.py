"""Record: what a value of a class that the reader may not make is read as: the class's name and the fields."""

from _collections_abc import ItemsView, KeysView, Mapping, ValuesView

__all__ = ["Record"]


class Record:
    """A read-only mapping of field names to values that remembers the name of the class it was stored from.

    Reading a store of unknown origin makes them in place of the classes that the reader has not allowed
    (``recstore.open(path, classes=...)``, :func:`recstore.register`). A record is hashable when its values are.

    Attributes:
        class_name: the full name of the class, ``module.qualname``, as it stands in the store; None for a plain record.

    Raises KeyError for a field that is not there; TypeError for assignment, as any mapping without it does.

    >>> r = Record("shapes.Box", {"x": 1, "y": 2})
    >>> r["x"], list(r), r.class_name
    (1, ['x', 'y'], 'shapes.Box')
    >>> r
    Record(shapes.Box: {'x': 1, 'y': 2})
    >>> dict(r)
    {'x': 1, 'y': 2}
    """

    __slots__ = ("class_name", "_fields", "_origin")
    __module__ = "recstore"

    def __init__(self, class_name, fields, *, _origin=None):
        self.class_name = class_name
        self._fields = dict(fields)
        # (code, EXTRA) of the stored value, so that the record can be stored again as what it was.
        self._origin = _origin

    def __getitem__(self, name):
        return self._fields[name]

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)

    def __contains__(self, name):
        return name in self._fields

    def get(self, name, default=None):
        """The field's value, or `default` where there is none."""
        return self._fields.get(name, default)

    def keys(self):
        return KeysView(self)

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    def __eq__(self, other):
        if isinstance(other, Record):
            return self.class_name == other.class_name and self._fields == other._fields
        if self.class_name is None and isinstance(other, Mapping):
            return self._fields == dict(other)
        return NotImplemented

    def __hash__(self):
        return hash((self.class_name, frozenset(self._fields.items())))

    def __repr__(self):
        name = "" if self.class_name is None else f"{self.class_name}: "
        return f"Record({name}{self._fields!r})"

    def __reduce__(self):
        return _remake, (self.class_name, self._fields, self._origin)


def _remake(class_name, fields, origin):
    return Record(class_name, fields, _origin=origin)


Mapping.register(Record)
