"""Saved indexes of the package against the plain-Python reader and writer made from csrc/FORMAT.md."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prop.checks import bytes_of, in_folder, opened
from ref import reader, saved_indexes
from ref import saved_index_writer as sw

import recstore
from recstore import RecordList
from recstore._core import native

KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -0.0, 2.0**70, 1 + 2j]),
    st.text(max_size=2),
    st.binary(max_size=1),
    st.tuples(st.integers(0, 1), st.text(max_size=1)),
    st.frozensets(st.integers(0, 2), max_size=2),
)


def records_of(keys):
    return [{"k": key, "m": {"k": [key], "i": i}, "a.b": i % 3} for i, key in enumerate(keys)]


PATHS = {"k": (("k",),), ("m", "k", 0): (("m",), ("k",), (0,)), "a.b": ("a.b",)}


def compare(mapping, groups, index, kind):
    """Compares the package's `mapping` and the oracle's `index` with the expected `groups`."""
    assert index.n == len(mapping) == len(groups)
    for key, rows in groups.items():
        assert index.find(key) == (rows if kind == sw.GROUPS else rows[-1:])
        got = mapping[key].to_list() if kind == sw.GROUPS else [mapping[key]]
        assert [record["m"]["i"] for record in got] == index.find(key)
    assert index.find("no such key") == [] and mapping.get("no such key") is None


def groups_of(records, path):
    out = {}
    for i, record in enumerate(records):
        out.setdefault(saved_indexes.field(record, path)[1], []).append(i)
    return out


@settings(in_folder, max_examples=60)
@given(st.lists(KEYS, max_size=40), st.booleans())
def test_files_of_the_package_and_of_the_oracle(tmp_path, keys, ordered):
    records = records_of(sorted(keys, key=repr) if ordered else keys)
    kinds = [(kind, name) for kind in (sw.RECORDS, sw.GROUPS) for name in PATHS]
    with RecordList(records) as x:
        own = bytes_of(tmp_path, x, index_by=list(PATHS), group_by=list(PATHS))
    for data in own, sw.segment(records, [(kind, PATHS[name]) for kind, name in kinds]):
        indexes = saved_indexes.check(data)
        assert [(index.kind, index.path()) for index in indexes] == [(kind, PATHS[name]) for kind, name in kinds]
        with opened(tmp_path, data, verify="full") as x:
            for index, (kind, name) in zip(indexes, kinds):
                mapping = x.group_by(name) if kind == sw.GROUPS else x.index_by(name)
                assert mapping.key_index.saved is not None
                compare(mapping, groups_of(records, PATHS[name]), index, kind)


@pytest.mark.parametrize("keys", [[math.nan, 1, float("nan")], []])
def test_keys_without_a_form(tmp_path, keys):
    (tmp_path / "x.recs").write_bytes(sw.segment(records_of(keys), [(1, PATHS["k"]), (2, PATHS["k"])]))
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert list(map(repr, x.index_by("k"))) == list(map(repr, keys)) and len(x.group_by("k")) == len(keys)
        assert math.nan not in x.group_by("k")
    assert [index.n for index in saved_indexes.check((tmp_path / "x.recs").read_bytes())] == [len(keys)] * 2


BROKEN = {
    "reserved": ({"reserved": b"\1" + bytes(31)}, "RESERVED"),
    "in_order of 2": ({"in_order": 2}, "KEYS"),
    "in_order": ({"in_order": 1}, "KEYS"),
    "fewer records": ({"n_records": 5}, "KEYS"),
    "no path": ({"path_size": 0}, "KEYS"),
    "a long path": ({"path_size": 65536}, "TRUNCATED"),
    "too long a path": ({"path_size": 65537}, "KEYS"),
    "large keys": ({"keys_size": 1 << 63}, "TRUNCATED"),
    "small keys": ({"keys_size": 63}, "TRUNCATED"),
    "another kind": ({"kind": 2}, "KEYS"),
}


@pytest.mark.parametrize("change, code", BROKEN.values(), ids=BROKEN)
def test_broken_heads(tmp_path, change, code):
    records = records_of([1, 2, 1, 3, 2, 1])
    data = sw.segment(records, [sw.saved_index(records, 1, PATHS["k"], **change)])
    with pytest.raises(reader.FormatError) as caught:
        saved_indexes.check(data)
    assert caught.value.code == f"RS_E_FMT_{code}"
    (tmp_path / "x.recs").write_bytes(data)
    with pytest.raises(recstore.errors.CorruptError, match=f"RS_E_FMT_{code}"):
        recstore.open(tmp_path / "x.recs", verify="full")
    with recstore.open(tmp_path / "x.recs") as x:
        assert x.to_list() == records
        with pytest.raises(recstore.errors.CorruptError, match=f"RS_E_FMT_{code}"):
            x.index_by("k")


@pytest.mark.parametrize("path", [(), [("k",)], (("k", 1),), ("k",), (1,)], ids=repr)
def test_broken_paths(tmp_path, path):
    """The deep check reports broken indexes. `index_by("k")` ignores them and builds a new index."""
    records = records_of([1, 2])
    section = sw.saved_index(records, 1, PATHS["k"])
    name, wrong = sw.w.any_value(PATHS["k"]), sw.w.any_value(path)
    raw = section[1][:16] + len(wrong).to_bytes(8, "little") + section[1][24:64]
    raw += wrong + bytes(-len(wrong) % 8) + section[1][64 + len(name) + -len(name) % 8 :]
    data = sw.segment(records, [(section[0], raw, section[2])])
    (tmp_path / "x.recs").write_bytes(data)
    with pytest.raises(reader.FormatError):
        saved_indexes.check(data)
    with pytest.raises(recstore.errors.CorruptError):
        recstore.open(tmp_path / "x.recs", verify="full")
    with recstore.open(tmp_path / "x.recs") as x:
        assert x.index_by("k")[2] == records[1]


def test_what_a_reader_ignores(tmp_path):
    """A reader ignores a later kind of index, indexes after the sixteenth, and other optional sections."""
    records = records_of([1, 2, 1])
    later = sw.saved_index(records, 1, PATHS["k"], kind=3)
    data = sw.segment(records, [later, (1, PATHS["k"]), (32770, b"something", 0)])
    (tmp_path / "x.recs").write_bytes(data)
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        saved = x.index_by("k").key_index.saved
        assert saved.number == 1 and len(x.info().indexes) == len(saved_indexes.open_all(data)) == 1
        x.save(tmp_path / "y.recs", group_by="k")
    with recstore.open(tmp_path / "y.recs", verify="full") as y:
        assert [index.kind for index in y.info().indexes] == ["index_by", "group_by"]
    names = [(sw.RECORDS, ((f"f{i}",),)) for i in range(18)]
    data = sw.segment([{f"f{i}": i for i in range(18)}], names)
    (tmp_path / "z.recs").write_bytes(data)
    with recstore.open(tmp_path / "z.recs", verify="full") as z:
        assert len(z.info().indexes) == 16 and z.index_by("f17").key_index.saved is None


def test_a_mapping_has_no_saved_indexes():
    with recstore.RecordDict({"a": {"k": 1}}) as d:
        assert native.saved_indexes(d.segments[0]) == []
