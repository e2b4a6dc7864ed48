"""Fields of hostile records: sound values are read, damaged ones raise CorruptError or
VersionError, and nothing crashes.

Fields of objects are tested too."""

import collections
import dataclasses
import pickle

import pytest
from ref import writer as w

import recstore

DAMAGED = (recstore.errors.CorruptError, recstore.errors.VersionError)


def write_and_open(tmp_path, data):
    path = tmp_path / "x.rec"
    path.write_bytes(data)
    return recstore.open(path)


TREE = w.struct_(
    {"a": w.list_(w.str_(1)), "u": w.union((w.str_(1), w.int_(8))), "x": w.any_(), "z": w.list_(w.int_(8))}
)
GOOD = b"\x00" + b"\x01\x01a" + b"\x01b" + b"\x90" + b"\x01\x05"


@pytest.mark.parametrize(
    "record, sound",
    [
        (GOOD, "auxz"),
        (b"\x00" + b"\xff\xff\xff\xff\x0f", ""),  # a count that is too large
        (b"\x00" + b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ""),  # a length that wraps
        (b"\x00" + b"\x01\x7fa", ""),  # a truncated string
        (b"\x00" + b"\x00" + b"\x09b", "a"),  # a truncated string in the union
        (b"\x00" + b"\x00\x00" + b"\x11\xff", "au"),  # an unknown code
        (b"\x00" + b"\x00\x00" + b"\x0d\xff\xff\xff\xff\x0f", "au"),
        (b"\x00" + b"\x00\x00" + b"\x0f\x02\x09\x01a\x90\x09", "au"),
        (b"\x00" + b"\x00\x00" + b"\x90" + b"\x05\x01", "aux"),
        (b"", ""),
    ],
)
def test_hostile_records(tmp_path, record, sound):
    segment = w.segment([w.Block([record] * 2)], [TREE])
    with write_and_open(tmp_path, segment) as x:
        lazy = x.lazy()[1]
        for key in "auxz":
            for read in (
                lambda: lazy[key],
                lambda: x.field(key)[1],
                lambda: x.fields(key)[1][key],
                lambda: x.field(key).to_numpy([1]),
            ):
                if key in sound:
                    read()
                else:
                    pytest.raises(DAMAGED, read).match("record 1: ")
        for path in (("x", "q"), ("x", 0), ("a", 5), ("z", -7), ("u", "v")):
            try:
                x.field(path, None)[1]
            except DAMAGED:
                assert record != GOOD


def test_hostile_union_numbers(tmp_path):
    tree = w.struct_({"u": w.union((w.str_(1), w.int_(8), w.bytes_())), "a": w.str_(1)})
    with write_and_open(tmp_path, w.segment([w.Block([b"\x03\x01\x01a"])], [tree])) as x:
        for key in "ua":
            pytest.raises(recstore.errors.CorruptError, lambda: x.lazy()[0][key]).match("union number")


def test_hostile_dicts(tmp_path):
    twice = b"\x0f\x02" + b"\x09\x01a\x90" * 2
    unhashable_key = b"\x0f\x01" + b"\x0d\x00\x90"
    with write_and_open(tmp_path, w.segment([w.Block([twice, unhashable_key])], [w.any_()])) as x:
        with pytest.raises(recstore.errors.CorruptError, match="record 0: a dict with a repeated key"):
            list(x.lazy()[0])
        for use in (list, len):
            with pytest.raises(recstore.errors.CorruptError, match="record 1: .*key that cannot be hashed"):
                use(x.lazy()[1])


def test_hostile_counts_of_nothing_end_at_the_limit(tmp_path):
    """A list of empty lists or constants takes no bytes per element, so only the declared limits bound the work."""
    tree = w.struct_({"a": w.list_(w.list_(w.str_(1), count=0)), "c": w.list_(w.const(1)), "z": w.int_(8)})
    record = w.varint(2**60) + w.varint(0) + b"\x05"
    with write_and_open(tmp_path, w.segment([w.Block([record])], [tree], max_values=1000)) as x:
        pytest.raises(recstore.errors.CorruptError, lambda: x.lazy()[0]["c"]).match("more than the header declares")
    record = b"\x05" + w.varint(0) + w.varint(2**60)
    with write_and_open(tmp_path, w.segment([w.Block([record])], [tree], max_values=1000)) as x:
        assert x.lazy()[0]["z"] == 5
        for use in (lambda: x.lazy()[0]["c"], lambda: x.field("c").to_numpy(), lambda: x.field(("c", 5))[0]):
            pytest.raises(recstore.errors.CorruptError, use).match("more than the header declares")


def test_foreign_strings_wider_than_need_be(tmp_path):
    """Lookups in an `any` dict find keys of any unit width."""
    keys = [b"\x0b\x02" + w.text("ab", 4), b"\x0a\x02" + w.text("cd", 2), w.any_value("é"), w.any_value("ж")]
    record = b"\x0f\x04" + b"".join(key + w.any_value(i) for i, key in enumerate(keys))
    with write_and_open(tmp_path, w.segment([w.Block([record])], [w.any_()])) as x:
        assert [x.lazy()[0][key] for key in ("ab", "cd", "é", "ж")] == [0, 1, 2, 3]
        assert x.lazy()[0].get("ac") is None and x.lazy()[0].get("abc") is None


# ---- Objects ----


class Camera(collections.namedtuple("Camera", "id lens")):
    __slots__ = ()


@dataclasses.dataclass
class Shot:
    name: str
    camera: Camera
    tags: collections.OrderedDict
    more: object = None


def shots(n):
    return [
        Shot(f"s{i}", Camera(i, {"mm": 50 + i}), collections.OrderedDict(a=i), collections.deque([i, 7]))
        for i in range(n)
    ]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_fields_of_objects(compression):
    records = shots(200)
    with recstore.RecordList(records, compression=compression) as x:
        assert x.field("camera.lens.mm")[3] == 53 and x.field("tags.a").to_numpy().tolist() == list(range(200))
        assert x.field("camera")[4] == records[4].camera and type(x.field("camera")[4]) is Camera
        assert x.field(("camera", 0))[5] == 5 and x.field(("camera", -2))[5] == 5 and x.field(("more", 1))[0] == 7
        assert x.fields("name", "camera.id")[6] == {"name": "s6", "camera": {"id": 6}}
        assert x.field((0,), default=None)[0] is None and x.field("camera.focus", default=None)[0] is None
        r = x.lazy()[9]
        assert type(r) is recstore.Record and r.class_name == f"{__name__}.Shot"
        assert list(r) == ["name", "camera", "tags", "more"] and r["tags"] == {"a": 9}
        assert type(r["tags"]) is collections.OrderedDict
        assert dict(r) == dataclasses.asdict(records[9]) | {"camera": records[9].camera} and r == records[9]
        assert r != records[8]
        assert repr(r) == f"<Record of {__name__}.Shot: name, camera, tags, more>"
        again = pickle.loads(pickle.dumps(r))
        assert again == r and again.class_name == r.class_name
        # Paths into dicts of fields and into defaults find the same values.
        for path in ("camera.lens.mm", ("camera", 0), ("camera", "id"), "name", ("more", 1)):
            assert x.fields("name", "camera", "more").field(path)[9] == x.field(path)[9]
            assert x.field("q", default=records[9]).field(path)[0] == x.field(path)[9]


def test_fields_of_objects_that_are_read_as_records(tmp_path):
    with recstore.RecordList(shots(100)) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec") as x:
        assert x.field("camera.id")[5] == 5 and x.lazy()[5]["name"] == "s5"
        camera = x.lazy()[5]["camera"]
        assert type(camera) is recstore.Record and camera.class_name == f"{__name__}.Camera" and camera["id"] == 5
        assert x[5] == x.lazy()[5] and x[5]["camera"] == camera
        unpickled = [pickle.loads(pickle.dumps(r)) for r in x.lazy()]
        for again in (x.lazy(), unpickled):
            with recstore.RecordList(again) as y:
                assert y.to_list() == x.to_list() and y[0]._origin == x[0]._origin == x.lazy()[0]._origin


def test_records_are_stored_as_their_values():
    records = [{"a": [i], "b": "c"} for i in range(100)]
    with (
        recstore.RecordList(records) as x,
        recstore.RecordList(x.lazy()) as y,
        recstore.RecordList([recstore.Record(None, {"a": 1})]) as z,
    ):
        assert y.to_list() == records and type(y[0]) is dict and z.to_list() == [{"a": 1}]


def test_hostile_class_descriptions(tmp_path):
    """EXTRA of an object is not (module, name, fields), or names more fields than there are values."""
    for extra in (
        b"\x00", b"\x0e\x01\x90", b"\x0e\x03\x90\x90\x0e\x00", b"\x0e\x03\x09\x01m\x09\x01q\x0e\x02\x09\x01a\x09\x01a"
    ):  # fmt: skip
        record = b"\x11\x19" + extra + b"\x0e\x01\x90"
        with write_and_open(tmp_path, w.segment([w.Block([record])], [w.any_()], features_required=1)) as x:
            for use in (lambda: x.lazy()[0], lambda: x.field("a")[0], lambda: x.fields("a")[0], lambda: x[0]):
                pytest.raises(recstore.errors.CorruptError, use).match("record 0: ")
    short = b"\x11\x19\x0e\x03\x09\x01m\x09\x01q\x0e\x02\x09\x01a\x09\x01b" + b"\x0e\x01\x90"
    with write_and_open(tmp_path, w.segment([w.Block([short])], [w.any_()], features_required=1)) as x:
        assert x.lazy()[0]["a"] == 0
        pytest.raises((recstore.errors.CorruptError, KeyError), lambda: x.lazy()[0]["b"])
