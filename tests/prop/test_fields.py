"""Compares fields with dotted names with the decoded records; test_roundtrip compares the fields at every path."""

from hypothesis import given, settings
from hypothesis import strategies as st
from prop.checks import in_folder
from prop.strategies import same, scalars

import recstore


def picked(record, name):
    """The rule of dotted names: the whole name if the record has it as a key, otherwise its parts."""
    if type(record) is dict and name in record:
        return [name], record[name]
    for key in name.split("."):
        if type(record) is not dict or key not in record:
            return None, None
        record = record[key]
    return name.split("."), record


names = st.sampled_from(["a", "b", "a.b", "b.a", "a.b.a", "a.a", ""])
dotted = st.recursive(scalars, lambda inner: st.dictionaries(names, inner, max_size=4), max_leaves=8)


@given(st.lists(st.one_of(st.dictionaries(names, dotted, max_size=5), dotted), min_size=1, max_size=5), st.lists(names, max_size=4, unique=True),
       st.sampled_from(["auto", "none"]))  # fmt: skip
@settings(in_folder, max_examples=75)
def test_dotted_names(records, asked, compression):
    with recstore.RecordList(records * 20, compression=compression) as x:
        for name in asked:
            expected = [picked(record, name) for record in records]
            got = x.field(name, default=NotImplemented)
            assert all(
                same(got[i], value) if path else got[i] is NotImplemented for i, (path, value) in enumerate(expected)
            )
        for i, record in enumerate(records):
            # Reads one name at a time: if one name leads through another, their order would matter.
            for name in asked:
                path, value = picked(record, name)
                for key in reversed(path or ()):
                    value = {key: value}
                assert same(x._only([name])[i], value if path else {})
            plain = [name for name in asked if "." not in name]
            assert same(x._only(plain)[i], {k: record[k] for k in plain if type(record) is dict and k in record})
