"""`read_json` (recstore/sources/json_files.py, json_document.py, json_values.py): arrays and objects in documents."""

import gzip
import io
import json
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_decoders import decoder  # noqa: F401

import recstore
from recstore.sources import inputs, json_document, json_files, json_values

COCO = {
    "info": {"year": 2017, "note": 'a ] "quoted" } text \\'},
    "images": [{"id": 7, "file_name": "a,b.jpg"}],
    "annotations": [{"id": i, "bbox": [i, 0.5, [], {}], "text": '"], \\'} for i in range(50)],
    "empty": [],
    "words": {"a": 1, "b": {"c": [1, 2]}, "ü": None},
}


def read(text, **options):
    """The records that read_json reads from a text, as a list or dict."""
    file = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    with recstore.read_json(file, **options) as x:
        return x.to_dict() if isinstance(x, recstore.RecordDict) else x.to_list()


def same(a, b):
    """Whether values are equal in types and order of keys; NaN equals NaN."""
    return repr(a) == repr(b)


@pytest.fixture(params=[1, 7, 1000])
def block(request, monkeypatch):
    """Sets the size of the pieces in which documents are read."""
    monkeypatch.setattr(json_document, "BLOCK", request.param)


# ---- Values ----


@pytest.mark.parametrize("indent", [None, 3])
def test_arrays_and_objects_by_their_keys(tmp_path, decoder, block, indent):
    text = json.dumps(COCO, indent=indent)
    path = tmp_path / "coco.json"
    path.write_text(text)
    packed = tmp_path / "coco.json.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    for file in (path, packed):
        for keys, expected in (
            ("annotations", COCO["annotations"]),
            (("images",), COCO["images"]),
            ("empty", []),
            ("words.b.c", [1, 2]),
        ):
            with recstore.read_json(file, records=keys) as x:
                assert x.to_list() == expected
        for keys, expected in (("words", COCO["words"]), (None, COCO), (("words", "b"), COCO["words"]["b"])):
            with recstore.read_json(file, records=keys, entries=True) as d:
                assert isinstance(d, recstore.RecordDict)
                assert same(d.to_dict(), expected)


VALUES = [
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "1" * 400,
    "0.12345678901234567890123",
    "12345678901234567890.5",
    "12345678901234567890e3",
    "-0",
    "-0.0",
    "1e400",
    "-1E400",
    "1e-400",
    "5e-324",
    "9007199254740993",
    "0.1e1000",
    "NaN",
    "-Infinity",
    r'"\ud800"',
    r'"\ud800\u0041"',
    r'"\ud83d\ude00"',
    '"\\u0000\\/\x7f"',
    r'{"\udc00": 1, "a": 2, "\udc00": 3}',
    '{"a": 1, "b": 2, "a": 3}',
    '"12345678901234567890"',
]


def test_values_equal_those_of_json(decoder):
    assert read(b'["\xed\xa0\x80"]') == ["\ud800"] == json.loads(b'["\xed\xa0\x80"]')
    for text in VALUES:
        whole = f'[{text}, [{text}], {{"a": {text}}}]'
        assert same(read(whole), json.loads(whole)), text
        whole = f'{{"a": {text}, "b": [{text}]}}'
        assert same(read(whole, entries=True), json.loads(whole)), text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.text()
    | st.sampled_from(['"', "\\", '\\"', "]", "}", "[{,:", "\\\\", "\ud800", "é", "日本", "😀"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=6),
    max_leaves=30,
)


def spelled(value, draw):
    """A JSON text of a value, with random blanks and escapes."""

    def blank():
        return draw.choice(("", "", " ", "\n", "\t\r ", " " * draw.randrange(1, 70)))

    if isinstance(value, list):
        return "[" + blank() + ",".join(blank() + spelled(item, draw) + blank() for item in value) + "]"
    if isinstance(value, dict):
        members = (
            blank() + spelled(key, draw) + blank() + ":" + blank() + spelled(child, draw) + blank()
            for key, child in value.items()
        )
        return "{" + ",".join(members) + "}"
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5 or value in ("\ud800",))
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        text = json.dumps(value)
    return text


@settings(max_examples=80, deadline=None)
@given(st.lists(JSON, max_size=8), JSON, st.integers(0, 2**32), st.integers(1, 90))
def test_any_document_cut_anywhere(elements, other, seed, block):
    draw = random.Random(seed)
    document = {"other": other, "data": {"x": other, "items": elements, "y": [other]}, "end": other}
    text = spelled(document, draw).encode()
    before, json_document.BLOCK = json_document.BLOCK, block
    try:
        assert same(read(text, records="data.items"), json.loads(text)["data"]["items"])
        assert same(read(text, entries=True), json.loads(text))
    finally:
        json_document.BLOCK = before


def test_every_truncation_of_a_document_is_an_error(tmp_path, block):
    text = json.dumps({"a": {"x": [1, "b"]}, "items": [{"k": [1, 2]}, "s, ]", 3], "c": [4]}, indent=1).encode()
    path = tmp_path / "cut.json"
    for end in range(len(text)):
        with pytest.raises(recstore.errors.InputError, match="too early|empty"):
            read(text[:end], records="items")
        path.write_bytes(text[:end])
        with pytest.raises(recstore.errors.InputError, match="too early|empty"):
            recstore.read_json(path, records="items")


def test_large_elements_and_small_blocks(monkeypatch):
    monkeypatch.setattr(json_document, "BLOCK", 16)
    elements = ["x" * n for n in (0, 1, 15, 16, 17, 1000, 100_000)] + [[0] * 50_000, {"k" * 5000: "v"}]
    assert read(json.dumps({"a": "y" * 3000, "b": elements}), records="b") == elements


SEEDS = [
    rb'[1, 2.5e3, -0, "a\"b\\", [true, false, null], {"k": {"x": []}, "k2": "\ud83d\ude00"}]',
    b'[{"id": 1, "seg": [[1.5, 2]], "t": "x, ]"}, {"id": 22}]',
    b'{"a": 1, "b": [1, 2], "c": {"d": "e"}, "a": NaN}',
    b'{"x": {"y": "]"}, "items": [1], "z": {}}',
    b"[]",
    b" { } ",
    b'["\xc3\xa9\xed\xa0\x80"]',
]


def mutated(draw):
    """A document with a few bytes inserted, removed, changed or repeated."""
    text = bytearray(draw.choice(SEEDS))
    for _ in range(draw.randrange(5)):
        at, other = sorted((draw.randrange(len(text) + 1), draw.randrange(len(text) + 1)))
        byte = draw.choice(b'[]{},:"\\ \n0123456789.eE+-truefalsnNaIity\x00\xff\xc3')
        change = draw.randrange(4)
        if change == 0:
            text.insert(at, byte)
        elif change == 1:
            del text[at : at + 1]
        elif change == 2:
            text[at : at + 1] = bytes([byte])
        else:
            text[at:at] = text[at:other]
    return bytes(text)


def records_of(text, entries):
    """The records, read without the slow build of a store; None for an InputError."""
    source = json_files.JsonSource([inputs.FileObject(io.BytesIO(text))], (), entries)
    try:
        records = []
        source.append_to(records)
    except recstore.errors.InputError:
        return None
    return dict(records) if entries else records


def test_broken_documents_are_accepted_or_refused_like_json(monkeypatch):
    draw = random.Random(0)
    accepted = 0
    for _ in range(3000):
        text = mutated(draw)
        monkeypatch.setattr(json_document, "BLOCK", draw.choice((1, 3, 17, 1000)))
        try:
            expected = json_values.exact(text)
        except ValueError:
            expected = None
        for entries, kind in ((False, list), (True, dict)):
            records = records_of(text, entries)
            assert same(records, expected if isinstance(expected, kind) else None), text
            accepted += records is not None
    assert accepted > 600


# ---- Choosing ----


def test_columns_where_and_limit():
    text = json.dumps([{"id": i, "name": str(i), "n": {"id": 1}} for i in range(10)] + [5])
    assert read(text, columns=["name"])[:2] == [{"name": "0"}, {"name": "1"}]
    assert read(text, columns=["name"])[-1] == 5
    assert read(text, where=lambda r: r != 5 and r["id"] % 2, n_rows=2, columns=["id"]) == [{"id": 1}, {"id": 3}]
    assert read(text, n_rows=0) == []
    words = json.dumps({"a": {"x": 1, "y": 2}, "b": 3, "c": {"x": 4}})
    assert read(words, entries=True, columns=["x"]) == {"a": {"x": 1}, "b": 3, "c": {"x": 4}}
    assert read(words, entries=True, where=lambda pair: pair[0] != "a", n_rows=1) == {"b": 3}


def test_several_documents_are_joined(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"items": [name, name], "words": {name: 1, "x": name}}))
    with recstore.read_json(tmp_path / "*.json", records="items") as x:
        assert x.to_list() == ["a", "a", "b", "b"]
    with recstore.read_json(tmp_path / "*.json", records="words", entries=True) as d:
        assert list(d.items()) == [("a", 1), ("x", "b"), ("b", 1)]


def test_workers_read_ranges_and_files(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_RANGE", 300)
    monkeypatch.setattr(json_document, "BLOCK", 64)
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(COCO))
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    small = tmp_path / "small.json"
    small.write_text('{"annotations": [1, 2], "words": {"a": 5}}')
    files = [small, small, path, packed, small]
    source = json_files.JsonSource(
        [inputs.LocalFile(str(file)) for file in files], ("annotations",), False, None, None, None
    )
    assert [type(shard).__name__ for shard in source.split()].count("RangeSource") > 5
    with recstore.read_json(files, records="annotations", workers=2) as x:
        with recstore.read_json(files, records="annotations") as y:
            assert x.to_list() == y.to_list() == [1, 2] * 2 + COCO["annotations"] * 2 + [1, 2]
    with recstore.read_json(files, records="words", entries=True, workers=2) as d:
        assert same(d.to_dict(), {**COCO["words"], "a": 5})
    with recstore.read_json(path, records="annotations", workers=2, n_rows=3) as x:
        assert len(x) == 3
    path.write_text(json.dumps(COCO).replace('"id": 40,', '"id": 4x,'))
    with pytest.raises(recstore.errors.InputError, match="element 40 of 'annotations'"):
        recstore.read_json(path, records="annotations", workers=2)


# ---- Bad input ----


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("", {}, "the file is empty"),
        (" \n", {}, "the file is empty"),
        ("\ufeff", {}, "the file is empty"),
        ("5", {}, "the document is a number or word, not an array"),
        ("null", {"records": "a"}, "lacks 'a'; give a document"),
        (
            '{"a": [1, 2]}',
            {},
            r"is an object, not an array; arrays in it: 'a' \(2\); choose one with records=, or entries",
        ),
        ('{"a": [1], "b": {"c": [], "d": {"e": [5]}}}', {"records": "x"}, r"'a' \(1\), 'b.c' \(0\); choose"),
        ('{"a": {"b": {"c": 1}}}', {"records": "a.b"}, "'a.b' is an object, not an array; entries=True reads"),
        ("[1]", {"entries": True}, "is an array, not an object; omit entries=True"),
        (
            '{"a": {"x": 1}, "b": {"c": {"d": {}}}}',
            {"records": "e", "entries": True},
            r"objects in it: 'a' \(1\), 'b' \(1\), 'b.c' \(1\); choose one with records=$",
        ),
        ("[1] [2]", {}, r"follows the document; read_jsonl reads one value per line \(byte 4\)"),
        ('{"a": [1]}\n{"a": [2]}', {"records": "a"}, "read_jsonl"),
        ("[1, 2}", {}, r"} closes a \[ \(byte 5\)"),
        ('{"x": [1, 2}, "a": [1]}', {"records": "a"}, "} closes"),
        ("[1, 2,]", {}, r"element 2 of the document \(byte 6\) is not JSON: Expecting value"),
        ("[,1]", {}, "element 0 of the document"),
        ("[1, {'a': 2}]", {}, r"element 1 of the document \(byte 3\) is not JSON.*double quotes.*'a'"),
        ("[1, 2 3]", {}, "element 1 .*Extra data"),
        ('{"a": [1], "b" 2}', {"records": "a"}, "a colon is missing"),
        ('{"a": [1], "b": 2x}', {"records": "a"}, "Extra data"),
        ('{"a": [1] "b": 2}', {"records": "a"}, "a comma is missing"),
        ('{"a": [1],}', {"records": "a"}, r"a key in double quotes is missing \(byte 10\)"),
        ("{1: 2}", {"records": "a"}, "a key in double quotes"),
        ('{"a": 1,}', {"entries": True}, "a key in double quotes is missing"),
        ('{"a": 1, , "b": 2}', {"entries": True}, "a key in double quotes is missing"),
        ('{"a": 1, "b"}', {"entries": True}, r"member 1 of the document \(byte 8\) is not JSON"),
        (b'["a\xff"]', {}, "byte 0xff is not UTF-8"),
        ("[" + "1" * 5000 + "]", {}, "element 0 .*4300"),
        ("[[1], 2]".encode("utf-16")[:-1], {}, "utf-16"),
        ("[" * 100_000, {}, "more than 1024 brackets are open"),
        ('{"a": ' * 5000, {"records": "b"}, "more than 1024 brackets"),
        ('{"a": "\x01", "b": []}', {"records": "b"}, "Invalid control character"),
    ],
)
def test_bad_documents(tmp_path, decoder, text, options, message):
    text = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(recstore.errors.InputError, match=f"(?s)BytesIO.*{message}"):
        read(text, **options)
    with pytest.raises(recstore.errors.InputError, match=f"(?s)bad.json.*{message}"):
        recstore.read_json(path, **options)


def test_depth():
    for deep in (198, 199):
        text = "[" + "[" * deep + "]" * deep + "]"
        assert read(text) == json.loads(text)
    for deep in (201, 1023):
        with pytest.raises(recstore.errors.EncodeError, match="BytesIO>: record 0.*deep"):
            read("[" + "[" * deep + "]" * deep + "]")
        assert read('{"x": ' + "[" * (deep - 1) + "]" * (deep - 1) + ', "a": [5]}', records="a") == [5]


def test_the_last_value_of_a_repeated_key_counts(tmp_path, block):
    path = tmp_path / "twice.json"
    for text, expected in (
        ('{"a": [1, 2], "b": 0, "a": [3]}', [3]),
        ('{"a": {"c": 1}, "a": [3]}', [3]),
    ):
        path.write_text(text)
        with recstore.read_json(path, records="a") as x:
            assert x.to_list() == expected == json.loads(text)["a"]
        with pytest.raises(recstore.errors.InputError, match="the key 'a' is repeated"):
            read(text, records="a")
    path.write_text('{"a": {"c": [1]}, "a": {"d": [2]}}')
    with pytest.raises(recstore.errors.InputError, match="lacks 'a.c'"):
        recstore.read_json(path, records="a.c")
    path.write_text('{"a": [1], "a": 5}')
    with pytest.raises(recstore.errors.InputError, match="'a' is a number"):
        recstore.read_json(path, records="a")
    path.write_text('{"x": {"a": [1]}, "a": [2], "y": [{"a": [3]}]}')
    with recstore.read_json(path, records="a") as x:
        assert x.to_list() == [2]


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"write columns=\['id'\]"):
        read("[]", columns="id")
    for records in (5, ["a"], ("a", 5)):
        with pytest.raises(TypeError, match="dotted path"):
            read("[]", records=records)
    with pytest.raises(ValueError, match="at most 100"):
        read("[]", records=".".join("a" * 101))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        read("[]", colour=1)


def test_an_error_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    path = tmp_path / "bad.json"
    text = json.dumps([["x" * 100] * 100] * 2000)
    for wrong, match in ((text + "x", "follows"), (text[:-1] + ", x]", "element 2,000")):
        path.write_text(wrong)
        with pytest.raises(recstore.errors.InputError, match=match):
            recstore.read_json(path, backing="dir")
    assert [files for _, _, files in os.walk(tmp_path / "stores") if files] == []
