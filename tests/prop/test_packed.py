"""The package reads packed nodes, tables, texts and optional values: literals of the reference tests, random segments
as a whole and field by field, and damaged segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from prop import packed
from prop.strategies import same
from prop.test_fields import check_all, paths_of
from prop.test_packed_ref import BAD, LITERALS, single
from prop.test_roundtrip import after_header, flip, flip_lists, in_folder, new_path, resealed, values_or_refusal

recstore = pytest.importorskip("recstore", exc_type=ImportError)

REFUSALS = (recstore.errors.CorruptError, recstore.errors.VersionError)


def opened(folder, data, **options):
    path = new_path(folder)
    path.write_bytes(data)
    x = recstore.open(path, **options)
    path.unlink()
    return x


@pytest.mark.parametrize(("root", "raw", "value"), LITERALS, ids=range(len(LITERALS)))
def test_literal(tmp_path, root, raw, value):
    with opened(tmp_path, single(root, raw), verify="full") as x:
        assert same(x[0], value)


@pytest.mark.parametrize(("root", "raw", "code"), BAD, ids=range(len(BAD)))
def test_bad_record(tmp_path, root, raw, code):
    with (
        opened(tmp_path, single(root, raw)) as x,
        pytest.raises(recstore.errors.CorruptError, match=f"RS_E_FMT_{code}"),
    ):
        x[0]


@given(packed.segments())
@settings(in_folder, max_examples=50)
def test_segments(tmp_path, case):
    data, values = case
    with opened(tmp_path, data, verify="full") as x:
        assert same(x.to_list(), values)
        assert same(x.to_list(), values), "with cached table entries"
        assert str(x.info())
        check_all(x, values[:3])


@given(packed.segments(), flip_lists)
@settings(in_folder, max_examples=50)
def test_damage(tmp_path, case, flips):
    data, values = case
    damaged = resealed(flip(data, flips, after_header(data)), data)
    read = values_or_refusal(tmp_path, damaged, "header")
    checked = values_or_refusal(tmp_path, damaged, "full")
    assert checked is None or (read is not None and same(read, checked))
    try:
        with opened(tmp_path, damaged) as x:
            for i, value in enumerate(values[: len(x)]):
                for way, _ in paths_of(value):
                    for part in (x.lazy, lambda way=way: x.field(way, None), lambda way=way: x.fields(way)):
                        try:
                            got = part()[i]
                            assert type(got) is not recstore.Record or len(dict(got)) == len(got)
                        except (*REFUSALS, KeyError):  # KeyError: the damage removed the field from all records
                            continue
                    try:
                        assert isinstance(x.field(way, None).to_numpy([i]), np.ndarray | tuple)
                    except (*REFUSALS, ValueError):
                        continue
    except REFUSALS:
        return
