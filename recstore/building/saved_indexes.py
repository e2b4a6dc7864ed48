"""The indexes that are saved with a store: the arguments `index_by` and `group_by` of saving and building."""

from __future__ import annotations

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore._types import FieldNames


def indexes_of(index_by: FieldNames | None = None, group_by: FieldNames | None = None) -> native.Indexes:
    """The indexes to save, as distinct pairs of a kind and a native.Path. Each argument is a field, a list of fields,
    or None. A tuple is one field. Raises TypeError for anything else, such as a function."""
    indexes: dict[tuple[int, native.Path], None] = {}
    for kind, option, fields in (
        (native.INDEX_RECORDS, "index_by", index_by),
        (native.INDEX_GROUPS, "group_by", group_by),
    ):
        for field in () if fields is None else fields if isinstance(fields, list) else (fields,):
            if callable(field):
                why = "is the name of a field, or a list of names: an index by a function cannot be saved"
                raise TypeError(f"{option} {why}")
            indexes[kind, native.Path(field)] = None
    return tuple(indexes)
