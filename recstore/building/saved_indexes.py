"""The indexes that are saved with a store: the arguments `index_by` and `group_by` of saving and building."""

from recstore._core import native


def wanted(index_by=None, group_by=None):
    """The indexes to save, as pairs of a kind and a native.Path, each once. Both arguments are a field, a list of
    fields, or None. A tuple is one field. TypeError for anything else, such as a function."""
    named = [(native.INDEX_RECORDS, "index_by", index_by), (native.INDEX_GROUPS, "group_by", group_by)]
    pairs = ((kind, _path(option, field)) for kind, option, fields in named for field in _listed(fields))
    return tuple(dict.fromkeys(pairs))


def _listed(fields):
    if fields is None:
        return ()
    return fields if isinstance(fields, list) else (fields,)


def _path(option, field):
    if callable(field):
        raise TypeError(f"{option} is the name of a field, or a list of names: an index by a function cannot be saved")
    return native.Path(field)
