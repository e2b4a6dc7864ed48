"""The reference reader and writer against each other, and reference and package against literals worked out by hand from
FORMAT.md."""

import collections
import datetime
import decimal
import fractions
import pathlib
import struct
import uuid
import zoneinfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prop import ext_values
from prop import strategies as own
from prop.checks import read_back
from prop.strategies import same
from ref import reader
from ref import writer as w
from ref.ext_values import Ext

import recstore

slow_to_draw = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CRC_OF_DIGITS = 0xE3069283  # RFC 3720, "123456789"


def any_segment(raw):
    """A segment with one record of these bytes, whose tree is `any`."""
    return w.segment([w.Block([bytes.fromhex(raw)])], [w.any_()])


def code_of(data, deep=True):
    with pytest.raises(reader.FormatError) as caught:
        (reader.check if deep else reader.read)(data)
    return caught.value.code.removeprefix("RS_E_FMT_")


LITERALS = [
    ("00", None), ("01", False), ("02", True),
    ("03 80", -128), ("04 00 80", -32768), ("05 00 00 00 80", -(1 << 31)), ("06 FF FF FF FF FF FF FF 7F", (1 << 63) - 1),
    ("07 09 00 00 00 00 00 00 00 00 01", 1 << 64), ("07 01 FF", -1), ("07 81 80 00 05", 5),
    ("08 00 00 00 00 00 00 F0 3F", 1.0), ("08 00 00 00 00 00 00 00 80", -0.0),
    ("08 01 00 00 00 00 00 F8 7F", struct.unpack("<d", bytes.fromhex("01000000 0000F87F"))[0]),
    ("09 03 61 00 FF", "a\0\xff"), ("0A 02 AC 20 00 D8", "€\ud800"), ("0A 02 3D D8 00 DE", "\ud83d\ude00"),
    ("0B 01 00 F6 01 00", "\U0001F600"), ("0C 02 00 FF", b"\0\xff"),
    ("0D 00", []), ("0D 02 91 0D 01 92", [1, [2]]), ("0E 01 00", (None,)), ("0F 02 09 01 61 90 91 01", {"a": 0, 1: False}),
    ("80", -16), ("90", 0), ("FF", 111),
    ("10 00 02 01 02 FF 01", np.array([-1, 1], "i1")),
    ("10 00 83 01 01 01 02", np.array([258], ">i2")),
    ("10 01 06 02 02 02 01 02 03 04", np.array([[1, 3], [2, 4]], "u1", order="F")),
    ("10 00 01 00 01", np.array(True)), ("10 00 0C 01 00", np.zeros(0)),
    ("10 10 04 01 03 9C FF FF FF A0 0F", np.array([-100, -90, -85], "i4")), ("10 21 07 02 01 02 00 FF 01 02", np.array([[65281, 65282]], "u2")),
    ("10 04 02 01 09 FF FF 01", np.array([0] * 9, "i1")), ("10 20 04 01 00 07 00 00 00", np.zeros(0, "i4")),
    ("10 02 04 07 00 00 00", np.int32(7)), ("10 02 0F 02 61 00", np.bytes_(b"a\0")),
    ("10 02 10 04 00 F6 01 00", np.str_("\U0001F600")), ("10 02 11 02 01 02", np.void(b"\1\2")),
    ("10 00 0F 02 01 02 61 00 62 63", np.array([b"a", b"bc"])), ("10 00 90 04 01 01 00 00 00 61", np.array(["a"], ">U1")),
    ("10 00 12 07 01 00 01 00 00 00 00 00 00 00", np.array(1, "M8[s]")),
    ("10 02 13 04 07 02 00 00 00 00 00 00 00", np.timedelta64(2, "7D")),
    ("10 00 12 0E 01 00 00 00 00 00 00 00 00 80", np.array("NaT", "M8")),
]  # fmt: skip

BAD_ANY = [  # bytes, code
    ("", "TRUNCATED"), ("12", "VERSION"), ("7F", "VERSION"), ("03", "TRUNCATED"), ("00 00", "TRAILING"),
    ("09 02 61", "TRUNCATED"), ("0D FF FF FF FF 0F", "TRUNCATED"), ("0D 02 00", "TRUNCATED"),
    ("0B 01 00 00 11 00", "VALUE"), ("0F 02 91 00 02 00", "VALUE"), ("0F 01 0D 00 00", "VALUE"),
    ("10 00 00 00", "TAG"), ("10 00 17 00", "VERSION"), ("10 00 12 03 01 00", "TAG"), ("10 00 12 0F 01 00", "TAG"),
    ("10 00 02 01 80 08 00", "VALUE"),  # 1024 bytes belong in the arrays, but the arrays are empty
    ("10 00 02 01 04 00", "TRUNCATED"), ("10 10 04 01 03 9C FF FF FF A0", "TRUNCATED"), ("10 10 04 01 00 9C FF FF", "TRUNCATED"),
    ("10 12 04 9C FF FF FF A0 0F", "VALUE"), ("10 10 84 01 01 00 00 00 00 00", "VALUE"), ("10 20 02 01 01 00 00", "VALUE"),
    ("10 80 04 01 01 00 00 00 00 00 00 00 00", "VALUE"), ("10 10 0B 01 01 00 00 00 00 00", "VALUE"), ("10 10 01 01 01 00 00", "VALUE"),
    ("10 20 04 01 80 08 00", "VALUE"),  # 1028 bytes belong in the arrays, but the arrays are empty
    ("10 00 05 02 FF FF FF FF FF FF FF FF 7F 02 00", "VALUE"),
]  # fmt: skip


NONE_ZONE = datetime.timezone(datetime.timedelta(hours=-1), "A")
PAIR = np.dtype({"names": ["a", "é"], "formats": ["u1", ">i2"], "offsets": [0, 2], "itemsize": 5})
ALIGNED = np.dtype([("a", "u1"), ("b", "<i2", (2,))], align=True)

EXT_LITERALS = [
    ("11 01 00 0E 02 08 00 00 00 00 00 00 F0 3F 08 00 00 00 00 00 00 00 80", complex(1.0, -0.0)), ("11 02 00 0C 01 FF", bytearray(b"\xff")),
    ("11 03 00 0D 02 91 92", {1, 2}), ("11 04 00 0E 01 11 04 00 0E 00", frozenset({frozenset()})), ("11 05 00 0E 03 91 99 8F", range(1, 9, -1)),
    ("11 06 00 0E 03 00 92 00", slice(2)), ("11 07 00 00", ...), ("11 08 00 0F 01 91 92", collections.OrderedDict({1: 2})),
    ("11 09 00 0F 01 91 92", collections.Counter({1: 2})), ("11 0A 09 03 69 6E 74 0F 01 91 92", collections.defaultdict(int, {1: 2})),
    ("11 0A 00 0F 00", collections.defaultdict(None)), ("11 0B 00 0D 02 0F 00 0F 01 91 92", collections.ChainMap({}, {1: 2})),
    ("11 0C 92 0D 01 91", collections.deque([1], 2)), ("11 0C 00 0D 00", collections.deque()), ("11 0D 00 91", datetime.date(1, 1, 1)),
    ("11 0E 00 0E 03 91 91 00", datetime.time(0, 0, 0, 1, fold=1)), ("11 0F 00 0E 03 90 90 00", datetime.datetime(1, 1, 1)),
    ("11 0F 00 0E 03 90 90 11 11 00 0E 02 06 00 5C 6C 29 FF FF FF FF 09 01 41", datetime.datetime(1, 1, 1, tzinfo=NONE_ZONE)),
    ("11 10 00 8F", datetime.timedelta(microseconds=-1)), ("11 11 00 0E 02 90 00", datetime.timezone.utc),
    ("11 12 00 09 03 55 54 43", zoneinfo.ZoneInfo("UTC")), ("11 13 00 09 04 31 2E 31 30", decimal.Decimal("1.10")),
    ("11 14 00 0E 02 8F 92", fractions.Fraction(-1, 2)), ("11 15 00 0C 10" + " 00" * 15 + " 07", uuid.UUID(int=7)),
    ("11 16 09 0D 50 75 72 65 50 6F 73 69 78 50 61 74 68 09 01 61", pathlib.PurePosixPath("a")),
    ("11 17 0E 02 09 01 6D 09 01 45 09 01 41", Ext(23, ("m", "E"), "A")), ("11 17 0E 02 09 01 6D 09 01 45 93", Ext(23, ("m", "E"), 3)),
    ("11 18 0E 03 09 01 6D 09 01 50 0E 01 09 01 78 0E 01 91", Ext(24, ("m", "P", ("x",)), (1,))),
    ("11 1B 0E 03 09 01 6D 09 01 50 0E 00 0E 00", Ext(27, ("m", "P", ()), ())), ("11 1C 00 0C 02 80 2E", Ext(28, None, b"\x80.")),
    ("10 00 14 05 00 02 01 61 00 06 00 02 C3 A9 02 83 00 01 01 07 00 01 02 00", np.frombuffer(bytes([7, 0, 1, 2, 0]), PAIR)),
    ("10 02 14 06 01 02 01 61 00 06 00 01 62 02 03 01 02 07 00 01 00 02 00", np.frombuffer(bytes([7, 0, 1, 0, 2, 0]), ALIGNED)[0]),
    ("10 00 15 00" + " 00" * 16, np.zeros((), "f16")), ("10 00 16 01 00", np.zeros(0, "c32")),
]  # fmt: skip

BAD_EXT = [
    ("11", "TRUNCATED"), ("11 07", "TRUNCATED"), ("11 07 00", "TRUNCATED"), ("11 00 00 00", "VERSION"), ("11 20 00 00", "VERSION"),
    ("11 07 01 00", "VALUE"), ("11 07 0D 00 00", "VALUE"), ("11 07 0F 00 00", "VALUE"), ("11 07 11 07 00 00 00", "VALUE"),
    ("11 03 00 11 07 00 00", "VALUE"), ("11 18 0E 01 0E 01 0E 01 0E 01 0E 01 00 00", "VALUE"), ("11 07 91 00", "VALUE"), ("11 07 00 91", "VALUE"),
    ("11 03 00 0D 02 91 91", "VALUE"), ("11 03 00 0D 01 0D 00", "VALUE"), ("11 04 00 0D 00", "VALUE"), ("11 05 00 0E 03 91 91 90", "VALUE"),
    ("11 0A 09 01 78 0F 00", "VALUE"), ("11 0C 90 0D 01 91", "VALUE"), ("11 0D 00 90", "VALUE"), ("11 0E 00 0E 03 8F 90 00", "VALUE"),
    ("11 0E 00 0E 03 90 92 00", "VALUE"), ("11 0E 00 0E 03 90 90 91", "VALUE"), ("11 11 00 0E 02 06 00 60 DC 1D 14 00 00 00 00", "VALUE"),
    ("11 12 00 09 01 2F", "VALUE"), ("11 13 00 09 01 78", "VALUE"), ("11 13 00 09 03 31 65 35", "VALUE"), ("11 14 00 0E 02 92 94", "VALUE"), ("11 14 00 0E 02 92 90", "VALUE"),
    ("11 15 00 0C 01 00", "VALUE"), ("11 16 09 01 78 09 01 78", "VALUE"), ("11 18 0E 02 09 01 6D 09 01 50 0E 00", "VALUE"),
    ("11 18 0E 03 09 01 6D 09 01 50 0E 01 09 01 78 0E 00", "VALUE"),
    ("11 18 0E 03 09 01 6D 09 01 50 0E 02 09 01 78 09 01 78 0E 02 90 90", "VALUE"), ("0F 01 11 03 00 0D 00 00", "VALUE"),
    ("10 00 10 04 00 00 00 11 00", "VALUE"), ("10 00 14 04 00 01 01 61 00 10 04 00 00 00 00 11 00", "VALUE"),
    ("10 00 94 00 00 00 00", "TAG"), ("10 00 14 01 02 00 00", "VALUE"), ("10 00 14 01 00 01 01 61 00 03 00 00", "VALUE"),
    ("10 00 14 01 00 01 00 00 06 00 00", "VALUE"), ("10 00 14 01 00 01 01 FF 00 06 00 00", "VALUE"),
    ("10 00 14 01 00 02 01 61 00 06 00 01 61 00 06 00 00", "VALUE"), ("10 00 14 80 80 80 80 08 00 00 00", "VALUE"),
    ("10 00 14 01 00 81 08 00", "VALUE"), ("10 00" + " 14 00 00 01 01 61 00" * 9 + " 06 00 00", "VALUE"),
]  # fmt: skip


def test_crc():
    assert reader.crc32c(b"123456789") == CRC_OF_DIGITS


@pytest.mark.parametrize(("raw", "value"), LITERALS + EXT_LITERALS, ids=[raw for raw, _ in LITERALS + EXT_LITERALS])
def test_literal(tmp_path, raw, value):
    data = any_segment(raw)
    assert same(reader.check(data), [value])
    if not raw.startswith("11 1C"):  # a pickle, which the package loads only from a trusted file
        assert same(read_back(tmp_path, data, "full"), [value])


@pytest.mark.parametrize(("raw", "code"), BAD_ANY + BAD_EXT, ids=[raw for raw, _ in BAD_ANY + BAD_EXT])
def test_bad_any(tmp_path, raw, code):
    data = any_segment(raw)
    assert code_of(data, deep=False) == code
    for verify in ("header", "full"):
        with pytest.raises(recstore.errors.VersionError if code == "VERSION" else recstore.errors.CorruptError):
            read_back(tmp_path, data, verify)


NODE_LITERALS = [  # tree, the record's bytes, the value
    (w.int_(0, -7), "", -7), (w.int_(3, 10), "05", 15), (w.int_(3, 10), "FD", 15), (w.int_(8, -1), "00", -1),
    (w.int_(64, 1), "FF FF FF FF FF FF FF 7F", -(1 << 63)), (w.int_(63, 0), "01 00 00 00 00 00 00 40", (1 << 62) + 1),
    (w.float_(), "00 00 00 00 00 00 00 80", -0.0), (w.bool_(), "01", True), (w.const(None), "", None),
    (w.str_(), "08 61 62", "ab"), (w.str_(), "05 AC 20", "€"), (w.str_(), "06 00 F6 01 00", "\U0001F600"),
    (w.str_(1), "01 FF", "\xff"), (w.str_(2), "01 61 00", "a"), (w.str_(4), "81 00 61 00 00 00", "a"),
    (w.bytes_(), "01 07", b"\7"),
    (w.list_(w.bool_()), "09 55 01", [True, False] * 4 + [True]), (w.list_(w.bool_(), 1, 3), "05", (True, False, True)),
    (w.list_(w.int_(12), 0, 3), "01 20 00 03 00", [1, 2, 3]), (w.list_(w.const(0)), "02", [0, 0]),
    (w.tuple_([w.str_(), w.int_(3), w.int_(8), w.bool_()]), "0D 2A 04 61", ("a", 5, 42, True)),
    (w.tuple_([], 0), "", []), (w.struct_({}), "", {}), (w.struct_({"b": w.any_(), "a": w.int_(16)}), "01 00 00", {"b": None, "a": 1}),
    (w.union([w.const(None), w.int_(8), w.bool_()]), "00", None), (w.union([w.const(None), w.int_(8), w.bool_()]), "01 07", 7),
    (w.union([w.const(None), w.int_(8), w.bool_()]), "02 01", True),
    (w.list_(w.union([w.bool_(), w.int_(8)])), "03 02 01 07 00", [True, 7, False]),
    (w.ndarray(np.zeros(2, "u1"), True), "01 02", np.array([1, 2], "u1")),
    (w.ext(13, None, w.int_(20, 1)), "02 00 00", datetime.date(1, 1, 3)),
    (w.list_(w.ext(16, None, w.int_(3))), "02 11", [1 * ext_values.US, 2 * ext_values.US]),
    (w.ext(23, ("m", "E"), w.str_(1)), "01 41", Ext(23, ("m", "E"), "A")), (w.const(datetime.date(1, 1, 1)), "", datetime.date(1, 1, 1)),
    (w.ext(3, None, w.union([w.bytes_(), w.list_(w.any_())])), "01 01 91", {1}),
    (w.ndarray(np.zeros(2, PAIR), True), "00 00 01 00 00 07 00 00 02 00", np.frombuffer(bytes([0, 0, 1, 0, 0, 7, 0, 0, 2, 0]), PAIR)),
    (w.ndarray(np.zeros(2, "u1")), "01 01 09", np.array([9], "u1")), (w.ndarray(np.uint8(0)), "09", np.uint8(9)),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "raw", "value"), NODE_LITERALS, ids=range(len(NODE_LITERALS)))
def test_node_literal(tree, raw, value):
    raw = bytes.fromhex(raw)
    assert same(reader.check(w.segment([w.Block([raw])], [tree]))[0], value)
    data = w.segment([w.Block([raw + b"\0"], index_width=2)], [tree])
    assert code_of(data) == "TRAILING"


BAD_TREES = [
    (w.Node(0), "TREE"), (w.Node(23), "VERSION"), (w.Node(3, param=65, aux=bytes(8)), "TREE"), (w.int_(3).__class__(3), "TREE"),
    (w.Node(11), "TREE"), (w.Node(8), "TREE"), (w.Node(2), "TREE"), (w.Node(2, aux=b"\0\0"), "TREE"),
    (w.Node(6, param=3), "TREE"), (w.Node(1, flags=1), "TREE"), (w.Node(4, count=1), "TREE"),
    (w.Node(10, (w.any_(), w.any_()), aux=b"\x91\x0D\0"), "TREE"), (w.list_(w.float_(), 0, 1 << 28), "TREE"),
    (w.ext(13, None, w.ext(13, None, w.any_())), "TREE"), (w.ext(13, None, w.const(...)), "TREE"), (w.Node(13, (w.any_(),), 13), "TREE"),
    (w.ext(13, None, w.union([w.any_(), w.union([w.any_(), w.ext(13, None, w.any_())])])), "TREE"), (w.ext(0, None, w.any_()), "VERSION"),
    (w.ext(32, None, w.any_()), "VERSION"), (w.Node(13, (w.any_(), w.any_()), 13, aux=b"\0"), "TREE"), (w.Node(13, (), 13, aux=b"\0"), "TREE"),
    (w.Node(13, (w.any_(),), 13, aux=b"\0\0"), "TREE"), (w.Node(13, (w.any_(),), 13, aux=b"\x0D\0"), "TREE"),
    (w.Node(13, (w.any_(),), 13, 1, aux=b"\0"), "TREE"), (w.Node(2, aux=b"\x11\x20\0\0"), "VERSION"),
    (w.Node(10, (w.any_(),), aux=b"\x11\3\0\x0D\0"), "TREE"),
    (struct.pack("<II", 0, 0), "TREE"), (struct.pack("<II", 5000, 0) + bytes(24 * 5000), "TREE"), (b"\1", "TREE"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "code"), BAD_TREES, ids=range(len(BAD_TREES)))
def test_bad_tree(tree, code):
    assert code_of(w.segment([w.Block([b""])], [tree])) == code


def nested(depth):
    return w.list_(nested(depth - 1)) if depth else w.any_()


def test_depth():
    assert reader.check(w.segment([w.Block([b"\1" * 199 + b"\0"])], [nested(200)])) is not None
    assert code_of(w.segment([w.Block([b""])], [nested(201)])) == "TREE"
    assert reader.check(w.segment([w.Block([b"\x0d\1" * 199 + b"\x0d\0"])], [w.any_()])) is not None
    assert code_of(w.segment([w.Block([b"\x0d\1" * 200 + b"\x0d\0"])], [w.any_()])) == "LIMIT"
    ext = b"\x11\x0c\0"  # a deque adds no level to its list
    assert reader.check(w.segment([w.Block([(ext + b"\x0d\1") * 199 + ext + b"\x0d\0"])], [w.any_()])) is not None
    assert code_of(w.segment([w.Block([(ext + b"\x0d\1") * 200 + ext + b"\x0d\0"])], [w.any_()])) == "LIMIT"


def test_limits():
    three = w.any_value([1, 2])
    assert reader.check(w.segment([w.Block([three])], [w.any_()], max_values=3, max_bytes=4, max_depth=1))
    for limit in ({"max_values": 2}, {"max_bytes": 3}, {"max_depth": 0}):
        assert code_of(w.segment([w.Block([three])], [w.any_()], **limit)) == "LIMIT"
    huge_list = w.list_(w.const(None), 0, 0xFFFFFFFF)
    assert code_of(w.segment([w.Block([b""], index_width=0)], [huge_list])) == "LIMIT"
    for value in ([0] * 1000, collections.deque([0] * 1000)):
        bomb = w.list_(w.const(value), 0, 100)
        assert code_of(w.segment([w.Block([b""], index_width=0)], [bomb], max_bytes=50000)) == "LIMIT"
    assert reader.check(
        w.segment([w.Block([b"\x11\x0c\0\x0d\2\x91\x92"])], [w.any_()], max_values=3, max_bytes=7, max_depth=1)
    )


HEADERS = [
    ({"magic": b"12345678"}, "MAGIC"), ({"reader_version": 2}, "VERSION"), ({"reader_version": 3}, "VALUE"), ({"features_required": 1 << 63}, "VERSION"),
    ({"features_required": 16384}, "VERSION"),
    ({"content": 2}, "VERSION"), ({"header_size": 8192}, "VALUE"), ({"max_depth": 201}, "VALUE"),
    ({"segment_size": 1 << 40}, "TRUNCATED"), ({"max_values": (1 << 28) + 1}, "LIMIT"), ({"max_bytes": (1 << 32) + 1}, "LIMIT"),
    ({"directory_count": 65}, "SECTION"), ({"directory_count": 5}, "CHECKSUM"), ({"directory_offset": 1 << 63}, "SECTION"),
    ({"directory_crc": 0}, "CHECKSUM"), ({"n_records": 0}, "BLOCK"), ({"n_records": 4}, "BLOCK"),
    ({"n_records": 2}, "BLOCK"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), HEADERS, ids=[next(iter(f)) for f, _ in HEADERS])
def test_header(fields, code):
    assert code_of(w.simple(w.any_(), [1, 2, 3], **fields)) == code


def test_header_ignored():
    data = bytearray(w.simple(w.any_(), [1], version=7, features_optional=9))
    data[200] = 1
    assert reader.check(w.reseal(data) + b"more") == [1]
    assert code_of(bytes(data)) == "CHECKSUM"
    assert code_of(data[:4095]) == "TRUNCATED"
    assert code_of(data[:-1]) == "CHECKSUM"


def test_sections():
    assert reader.check(w.segment([w.Block([b"\0"])], [w.any_()], extra=[(0x8000, b"x")])) == [None]
    assert code_of(w.segment([w.Block([b"\0"])], [w.any_()], extra=[(7, b"x")])) == "VERSION"
    assert code_of(w.segment([w.Block([b"\0"])], [w.any_()], extra=[(1, b"")])) == "SECTION"


BLOCK_FIELDS = [
    ({"n_records": 0}, "BLOCK"), ({"n_records": 65537}, "BLOCK"), ({"n_records": 65}, "BLOCK"), ({"tree": 1}, "BLOCK"),
    ({"heap_offset": 4097}, "BLOCK"), ({"heap_size": 1 << 62}, "BLOCK"), ({"heap_size": 1}, "CHECKSUM"), ({"index_width": 1}, "BLOCK"),
    ({"index_offset": 0}, "BLOCK"), ({"row_size": 1}, "BLOCK"), ({"reserved1": 256}, "RESERVED"), ({"index_bits": 1}, "BLOCK"), ({"places_size": 1 << 40}, "BLOCK"),
    ({"arrays_offset": 1}, "BLOCK"), ({"arrays_size": 1 << 63}, "BLOCK"), ({"heap_crc": 0}, "CHECKSUM"),
    ({"arrays_crc": 1}, "CHECKSUM"), ({"first_record": 1}, "BLOCK"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code"), BLOCK_FIELDS, ids=[f"{k}={v}" for f, _ in BLOCK_FIELDS for k, v in f.items()]
)
def test_block_field(fields, code):
    assert code_of(w.segment([w.Block([b"\0"] * 3, fields=fields)], [w.any_()])) == code


def test_split_group():
    """A group of 64 records may span several blocks."""
    sizes = [3, 1, 60, 64, 65, 1]
    blocks, expected = [], []
    for n, width in zip(sizes, (0, 2, 4, 8, 2, 0)):
        numbers = range(len(expected), len(expected) + n)
        blocks.append(w.Block([w.encode(w.int_(16), i) for i in numbers], 0, width))
        expected.extend(numbers)
    assert reader.check(w.segment(blocks, [w.int_(16)])) == expected
    assert code_of(w.segment(blocks, [w.int_(16)], groups=[1, 3, 4, 4])) == "BLOCK"
    assert code_of(w.segment(blocks, [w.int_(16)], groups=[9, 3, 4, 4])) == "BLOCK"


@given(st.one_of(own.values, ext_values.known))
@slow_to_draw
def test_any_round_trip(value):
    assert same(reader.check(w.simple(w.any_(), [value]))[0], value)
    assert reader.any_size(value) <= len(w.any_value(value, bytearray()))
