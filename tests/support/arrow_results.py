"""Compares exported Arrow arrays with the arrays that pyarrow makes from decoded records."""

import pyarrow as pa


def same_type(got, expected):
    """Whether two types are equal; the order of struct fields does not matter."""
    if pa.types.is_struct(got) and pa.types.is_struct(expected):
        names = [field.name for field in got]
        return sorted(names) == sorted(f.name for f in expected) and all(
            same_type(got.field(name).type, expected.field(name).type) for name in names
        )
    if pa.types.is_list(got) and pa.types.is_list(expected):
        return same_type(got.value_type, expected.value_type)
    return got == expected


def check_table(records, x):
    """Checks to_arrow() and the stream against the columns that pyarrow makes from the decoded records."""
    names = dict.fromkeys(name for record in records for name in record)
    table, streamed = x.to_arrow(), pa.table(x)
    assert sorted(table.column_names) == sorted(names) and set(names) <= set(streamed.column_names)
    for result in (table, streamed):
        result.validate(full=True)
        assert result.num_rows == len(records)
    for name in streamed.column_names:
        expected = pa.array([record.get(name) for record in records])
        assert streamed[name].to_pylist() == expected.to_pylist(), name
        if name in names:
            assert table[name].to_pylist() == expected.to_pylist(), name
            assert same_type(table[name].type, expected.type), (name, table[name].type, expected.type)


def check_values(got, expected):
    got.validate(full=True)
    assert same_type(got.type, expected.type), (got.type, expected.type)
    assert repr(got.to_pylist()) == repr(expected.to_pylist()) or got.to_pylist() == expected.to_pylist()
