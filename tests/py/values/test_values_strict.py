"""Records under RECSTORE_STRICT=1: writes warn, reads do not, and containers behave like the builtin types."""

import copy
import json
import pickle
import random
import textwrap
import warnings

import interpreters
import pytest
import waiting

import recstore
from recstore import RecordDict, RecordList

RECORDS = [
    {"id": i, "boxes": [[i, 1], [2, 3]], "tags": {"a", "b"}, "raw": bytearray(b"xy"), "pair": ([i], "s"), "t": f"t{i}"}
    for i in range(20)
]


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    from recstore.values import strict_containers

    monkeypatch.setenv("RECSTORE_STRICT", "1")
    monkeypatch.setattr(strict_containers, "_reported", set())


@pytest.fixture
def x():
    with RecordList(RECORDS) as x:
        yield x


def warned(call):
    """The texts, files and lines of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(warning.message), warning.filename, warning.lineno) for warning in caught]


WRITES = {
    "item": lambda r: r.__setitem__("id", 5), "del": lambda r: r.__delitem__("id"), "update": lambda r: r.update(id=5),
    "pop": lambda r: r.pop("id"), "popitem": lambda r: r.popitem(), "clear": lambda r: r.clear(),
    "setdefault": lambda r: r.setdefault("new", 1), "ior": lambda r: r.__ior__({"id": 5}),
    "append": lambda r: r["boxes"].append(1), "deep": lambda r: r["boxes"][0].append(1),
    "in a tuple": lambda r: r["pair"][0].append(1), "extend": lambda r: r["boxes"].extend([1]),
    "insert": lambda r: r["boxes"].insert(0, 1), "iadd": lambda r: r["boxes"].__iadd__([1]),
    "imul": lambda r: r["boxes"].__imul__(2), "list item": lambda r: r["boxes"].__setitem__(0, 1),
    "list del": lambda r: r["boxes"].__delitem__(0), "remove": lambda r: r["boxes"].remove([2, 3]),
    "list pop": lambda r: r["boxes"].pop(), "reverse": lambda r: r["boxes"].reverse(),
    "sort": lambda r: r["boxes"].sort(), "list clear": lambda r: r["boxes"].clear(),
    "add": lambda r: r["tags"].add("c"), "discard": lambda r: r["tags"].discard("a"),
    "set ior": lambda r: r["tags"].__ior__({"c"}), "set isub": lambda r: r["tags"].__isub__({"a"}),
    "set update": lambda r: r["tags"].update("c"), "raw append": lambda r: r["raw"].append(1),
    "raw item": lambda r: r["raw"].__setitem__(0, 1)
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_warns_and_takes_place(x, write):
    record, plain = x[3], copy.deepcopy(RECORDS[3])
    assert len(warned(lambda: write(record))) == 1
    write(plain)
    assert record == plain
    assert x[3] == RECORDS[3]


def test_the_warning_names_the_record_the_place_and_the_remedy(x):
    def change():
        x[17]["boxes"][0][1] = 9

    [(text, file, line)] = warned(change)
    assert text.startswith("record 17['boxes'][0], read from a recstore store, is changed here by [...] = ...: ")
    assert "x = x.map(fn)" in text and "record = copy.deepcopy(record)" in text
    assert (file, line) == (__file__, change.__code__.co_firstlineno + 1)
    [(text, _, _)] = warned(lambda: x[3].update(id=1))
    assert text.startswith("record 3, read") and "by update()" in text and text.endswith("record = dict(record)")


def test_it_warns_once_for_each_line(x):
    def change():
        for i in range(5):
            x[i]["id"] = 0
        x[0]["id"] = 1

    assert len(warned(change)) == 2
    assert warned(change) == []


def test_under_an_error_filter_nothing_is_written(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = x[0]
        for _ in range(2):
            with pytest.raises(RuntimeWarning, match="is changed here"):
                record["id"] = 5
        assert record == RECORDS[0]


def test_a_write_in_pythons_library_warns_at_the_line_of_the_program(x):
    def change():
        random.Random(0).shuffle(x[0]["boxes"])

    [(_, file, line)] = warned(change)
    assert (file, line) == (__file__, change.__code__.co_firstlineno + 1)


READS = {
    "iteration": lambda x: next(iter(x)), "reversed": lambda x: next(reversed(x)), "slice": lambda x: x[2:][1],
    "steps": lambda x: next(iter(x[::3])), "shuffled": lambda x: x.shuffled(1)[0],
    "get_many": lambda x: x.get_many([4, 2])[1], "get_many of a view": lambda x: x[::-1].get_many([4, 2])[1],
    "joined": lambda x: (x + x)[25], "fields": lambda x: x.fields("id", "boxes")[0],
    "index_by": lambda x: x.index_by("id")[7], "group_by": lambda x: x.group_by("id")[7][0],
    "items": lambda x: next(iter(x.index_by("id").items()))[1], "values": lambda x: x.index_by("id").values()[0],
    "dict get": lambda x: x.index_by("id").get(3), "dict get_many": lambda x: x.index_by("id").get_many([3])[0],
    "dict": lambda x: RecordDict({("a", 1): x[1]})["a", 1], "lazy": lambda x: {"boxes": x.lazy()[0]["boxes"]},
    "lazy get": lambda x: {"boxes": x.lazy()[0].get("boxes")}, "field": lambda x: {"boxes": x.field("boxes")[0]},
    "shallow copy": lambda x: dict(x[0])
}  # fmt: skip


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_way_to_read_a_record(x, read):
    record = read(x)
    assert len(warned(lambda: record.update(id=1))) == (type(record) is not dict)
    assert len(warned(lambda: record["boxes"].append(1))) == 1
    assert warned(lambda: record.setdefault("id", 5)) == []  # of an existing key
    default = []
    assert x.field("no", default=default)[0] is default and x.lazy()[0].get("no", default) is default
    assert x.index_by("id").get(99, default) is default and x.get_many([99], default=default)[0] is default


COPIES = {
    "dict": lambda r: dict(r), "unpacked": lambda r: {**r}, "copy": lambda r: r.copy(), "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy, "or": lambda r: r | {"x": 1}, "ror": lambda r: {"x": 1} | r,
    "type": lambda r: type(r)(r), "pickle": lambda r: pickle.loads(pickle.dumps(r)),
    "old pickle": lambda r: pickle.loads(pickle.dumps(r, 0)), "list": lambda r: list(r["boxes"]),
    "list slice": lambda r: r["boxes"][:], "list plus": lambda r: r["boxes"] + [1],
    "list times": lambda r: r["boxes"] * 2, "list copy": lambda r: r["boxes"].copy(),
    "list type": lambda r: type(r["boxes"])(r["boxes"]), "sorted": lambda r: sorted(r["boxes"]),
    "set or": lambda r: r["tags"] | {"x"}, "set minus": lambda r: r["tags"] - {"a"},
    "set union": lambda r: r["tags"].union("x"), "set copy": lambda r: copy.copy(r["tags"]),
    "bytearray": lambda r: r["raw"] + b"x", "bytearray copy": lambda r: r["raw"].copy()
}  # fmt: skip


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_belongs_to_the_program(x, make):
    copied = make(x[2])

    def change():
        if isinstance(copied, dict):
            copied["id"] = 5
            copied.update(new=1)
        elif isinstance(copied, set):
            copied.add("new")
        else:
            copied.append(1)

    assert warned(change) == []
    assert type(make(copy.deepcopy(RECORDS[2]))) in type(copied).__mro__


def is_plain(value):
    if isinstance(value, dict):
        return type(value) is dict and all(map(is_plain, value.values()))
    if isinstance(value, (list, tuple, set)):
        return type(value) in (list, tuple, set) and all(map(is_plain, value))
    return type(value) in (int, str, bytearray, float, bytes, type(None))


def test_pickles_deep_copies_and_whole_exports_are_plain(x):
    assert is_plain(pickle.loads(pickle.dumps(x[0]))) and is_plain(copy.deepcopy(x[0]))
    assert b"strict" not in pickle.dumps(x[0]).lower()
    assert not is_plain(x[0])
    assert is_plain(x.to_list()) and x.to_list() == RECORDS
    with RecordDict(enumerate(RECORDS)) as d:
        assert is_plain(d.to_dict()) and d.to_dict() == dict(enumerate(RECORDS))
    with RecordList([x[0], {"in": x[1], "pair": (x[2]["boxes"], 1)}]) as again:
        assert again.to_list() == [RECORDS[0], {"in": RECORDS[1], "pair": (RECORDS[2]["boxes"], 1)}]


def test_a_store_of_strict_records_has_the_same_bytes(monkeypatch):
    records = [record | {"tags": {"a"}} for record in RECORDS]  # one tag: the order of a set of two is random
    with RecordList(records) as x, RecordList(list(x)) as y:
        assert x.fingerprint == y.fingerprint and x == y and y == records == list(y) and x.index(records[4]) == 4


def test_strict_containers_behave_like_the_builtin_types(x):
    record = x[1]
    assert isinstance(record, dict) and isinstance(record["boxes"], list) and record == RECORDS[1] == record
    assert repr(x[0]["boxes"]) == repr(RECORDS[0]["boxes"]) and repr(record["tags"]) in ("{'a', 'b'}", "{'b', 'a'}")
    plain = {"a": [1, {"b": 2.5}], "c": None}
    with RecordList([plain]) as y:
        assert json.loads(json.dumps(y[0])) == plain and json.dumps(y[0]) == json.dumps(plain)
        assert repr(y[0]) == repr(plain) and str(y[0]) == str(plain)
        match y[0]:
            case {"a": [1, {"b": b}]}:
                assert b == 2.5
        assert {**y[0]} == plain and [*y[0]["a"]] == plain["a"]
        pytest.raises(TypeError, lambda: hash(y[0])).match("unhashable")


def test_strict_types_equal_the_builtin_types(x):
    """pycocotools compares types, and other libraries look up functions by type."""
    record = x[1]
    assert type(record) == dict and type(record["boxes"]) == list and dict == type(record)  # noqa: E721
    assert type(record) != list and not type(record) == type(record["boxes"])  # noqa: E721
    assert {dict: 1, list: 2}[type(record["boxes"])] == 2 and type(record["tags"]) in (set,)
    assert type(record) is not dict
    with RecordList([{"a": {1, 2}, "b": bytearray(b"x")}]) as y, RecordList([y[0], {"c": y[0]["a"] | {3}}]) as z:
        assert is_plain(z.to_list()) and z[1] == {"c": {1, 2, 3}}


def test_a_value_that_cannot_be_stored_is_named(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = x[0]
        record["boxes"].append(object())
    with pytest.raises(recstore.errors.EncodeError, match=r"\$\.boxes\[2\]: cannot store object"):
        RecordList([record])


def test_the_function_of_map_may_change_its_record(x):
    def fn(record):
        record["id"] += 1
        record["boxes"].append(0)
        return record

    def change():
        with x.map(fn) as y:
            assert y[0]["id"] == 1 and x[0]["id"] == 0

    assert warned(change) == []
    assert len(warned(lambda: x.filter(lambda r: r.pop("id")))) == 1


def test_other_libraries(x):
    orjson, msgspec = pytest.importorskip("orjson"), pytest.importorskip("msgspec")
    pyarrow = pytest.importorskip("pyarrow")
    plain = [{"a": [i, 2], "b": {"c": "x"}} for i in range(4)]
    with RecordList(plain) as y:
        records = list(y)
        assert orjson.dumps(records) == orjson.dumps(plain)
        assert msgspec.json.encode(records) == msgspec.json.encode(plain)
        assert pyarrow.array(records).to_pylist() == plain
        assert pyarrow.Table.from_pylist(records).to_pylist() == plain
        assert y.to_arrow().to_pylist() == plain


def test_torch_collates_batches_without_a_warning():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, default_collate

    plain = [{"a": [i, 2], "b": {"c": 0.5}, "d": "x"} for i in range(4)]
    with RecordList(plain) as y:

        def change():
            batch = default_collate(list(y))
            assert type(batch) is dict and torch.equal(batch["a"][0], torch.arange(4)) and batch["d"] == ["x"] * 4
            batch["a"].append(1)
            for batch in DataLoader(y, batch_size=2):
                assert is_plain([batch["d"]])

        assert warned(change) == []


def test_a_transform_may_change_its_record():
    pytest.importorskip("torch")
    from recstore.torch import RecordDataset

    def transform(record):
        record["image"] = 1
        return record

    with RecordList([{"id": 1}]) as y:
        dataset = RecordDataset(y, transform)

        def change():
            for copied in (dataset, copy.copy(dataset), copy.deepcopy(dataset)):
                assert copied[0] == {"id": 1, "image": 1} == copied[[0]][0]

        assert warned(change) == []
        assert len(warned(lambda: RecordDataset(y)[0].update(image=1))) == 1


# ---- Many records alive ----

LARGE = 120_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of large stores: of dicts, and of texts."""
    folder = tmp_path_factory.mktemp("large")
    with RecordList({"path": f"{i:08}.jpg", "label": i % 7} for i in range(LARGE)) as x:
        x.save(folder / "dicts")
        x.field("path").save(folder / "texts")
    return folder


@pytest.fixture
def large(files):
    """A new store of dicts: each store warns once."""
    with recstore.open(files / "dicts") as x:
        yield x


ALIVE = {
    "list": lambda x: list(x), "comprehension": lambda x: [r for r in x if "label" in r],
    "a part": lambda x: [r["path"] for r in x], "by key": lambda x: {i: x[i] for i in range(int(LARGE * 0.55))},
    "get_many": lambda x: x.get_many(range(LARGE)), "random order": lambda x: list(x.shuffled(1)),
    "a field": lambda x: list(x.field("path")), "every rank": lambda x: list(x[::2]) + list(x[1::2])
}  # fmt: skip


@pytest.mark.parametrize("keep", ALIVE.values(), ids=ALIVE)
def test_more_than_half_of_the_records_alive(large, keep):
    kept = []
    [(text, file, _)] = warned(lambda: kept.append(keep(large)))
    assert text.startswith(f"more than half of the {LARGE:,} records of a recstore store are alive as Python objects")
    assert "x.field(name).to_numpy()" in text and file == __file__
    assert warned(lambda: kept.append(keep(large))) == []


DEAD = {
    "a loop": lambda x: sum(1 for r in x if r["label"]),
    "epochs": lambda x: [sum(r["label"] for r in x) for _ in range(3)],
    "less than half": lambda x: list(x[: int(LARGE * 0.45)]),
    "numbers": lambda x: [r["label"] for r in x],
    "a deque of some": lambda x: __import__("collections").deque(x, 1000),
    "views": lambda x: [x[i : i + 10] for i in range(0, LARGE, 10)],
    "lazy": lambda x: list(x.lazy()),
    "a column": lambda x: x.field("path").to_numpy(),
    "sorted": lambda x: x.sorted_by("path"),
    "shared texts": lambda x: [r["t"] for r in x.map(lambda r: {**r, "t": ("a", "dog", "owls")[r["label"] % 3]})],
}


@interpreters.counts_references
@pytest.mark.parametrize("use", DEAD.values(), ids=DEAD)
def test_fewer_records_alive(large, use):
    kept = []
    assert warned(lambda: kept.append(use(large))) == []


def test_texts_are_counted(files):
    with recstore.open(files / "texts") as x:
        assert warned(lambda: [len(r) for r in x]) == []
        assert len(warned(lambda: list(x))) == 1


def test_long_texts_that_are_read_many_times():
    """The sample holds up to 16 MB of texts. A dead text that is read again counts once."""
    with RecordList("x" * 400_000 + str(i) if i < 60 else f"{i:08}" for i in range(100_000)) as x:
        for _ in range(60):
            assert all(x[i] for i in range(60))
        assert len(warned(lambda: list(x))) == 1


def test_to_list_of_a_large_store_warns(large):
    [(text, file, _)] = warned(lambda: large.to_list())
    assert text.startswith(f"to_list() makes Python objects of {LARGE:,} records") and file == __file__
    assert warned(large[:100].to_list) == []


def test_small_stores_are_not_counted(x):
    assert warned(lambda: list(x)) == [] and warned(x.to_list) == []


# ---- The variable ----


def test_without_the_variable_records_are_plain(monkeypatch):
    for value in (None, "0"):
        monkeypatch.delenv("RECSTORE_STRICT", raising=False)
        if value is not None:
            monkeypatch.setenv("RECSTORE_STRICT", value)
        with RecordList(RECORDS) as x:
            assert is_plain(x[0]) and is_plain(next(iter(x))) and warned(lambda: x[0].update(id=1)) == []


@pytest.mark.parametrize("value", ["", "yes", "2", "true"])
def test_another_value_is_an_error_before_the_build(monkeypatch, value, tmp_path):
    with RecordList([1]) as x:
        x.save(tmp_path / "x.recs")
    monkeypatch.setenv("RECSTORE_STRICT", value)

    def records():
        raise AssertionError("the build began")
        yield

    for make in (RecordList, RecordDict):
        pytest.raises(ValueError, lambda: make(records())).match(f"RECSTORE_STRICT is 0 or 1, not {value!r}")
    pytest.raises(ValueError, lambda: recstore.open(tmp_path / "x.recs")).match("RECSTORE_STRICT is 0 or 1")


def test_a_program_with_workers(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import recstore

            def sample(x):
                record = x[0]
                record["boxes"].append(1)  # line 7
                return record

            if __name__ == "__main__":
                x = recstore.RecordList({"id": i, "boxes": []} for i in range(8))
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        record = pool.apply(sample, (x,))
                    record["main"] = 1
                    assert type(record) is dict and type(record["boxes"]) is list
            """
        )
    )
    out = waiting.python(program, check=True)
    assert out.stderr.count("train.py:7: RuntimeWarning: record 0['boxes'], read from a recstore store") == 2
    assert out.stderr.count("RuntimeWarning") == 2
