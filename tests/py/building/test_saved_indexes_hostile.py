"""Hostile saved indexes must not crash the reader or give a record whose key is not the requested one."""

import dataclasses
import random
import struct

import pytest
from golden.make import resealed
from indexed import FIELDS, RECORDS, path  # noqa: F401
from ref import reader

import recstore
from recstore import RecordList
from recstore._core import native


def section_of(data, number):
    """Returns `(offset, size)` of a saved index."""
    count, at = struct.unpack_from("<IQ", data, 68)
    entries = [reader.Entry(*reader.ENTRY.unpack_from(data, entry)) for entry in range(at, at + 40 * count, 40)]
    saved = [entry for entry in entries if entry.kind == 32769]
    return saved[number].offset, saved[number].size


def changed_copy(path, number, from_end, values):
    """Copies a file with `values` in a saved index, `from_end` bytes before its section's end. Returns the new path."""
    data = bytearray(path.read_bytes())
    offset, size = section_of(data, number)
    struct.pack_into(f"<{len(values)}I", data, offset + size - from_end, *values)
    out = path.with_name("changed.recs")
    out.write_bytes(resealed(data))
    return out


def saved_by(tmp_path, **options):
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "one.recs", **options)
    return tmp_path / "one.recs"


def test_a_record_of_another_key_is_an_error(tmp_path):
    """In index_by("label") the last of 13 entries leads to record 0, which has another label."""
    path = changed_copy(saved_by(tmp_path, index_by="label"), 0, 4, [0])
    with recstore.open(path) as x:
        d = x.index_by("label")
        last = list(d)[-1]
        for read in (lambda: d[last], lambda: d.get(last), lambda: last in d, lambda: d.get_many([last])):
            with pytest.raises(recstore.errors.CorruptError, match="has another key") as error:
                read()
            assert error.value.filename == str(path)
        assert d[RECORDS[0]["label"]]["label"] == RECORDS[0]["label"]
    with pytest.raises(recstore.errors.CorruptError):
        recstore.open(path, verify="full")


def test_a_row_of_another_group_is_an_error(tmp_path):
    """The last row of the last group becomes row 299, of another group. Rows still ascend; only its key is wrong."""
    path = changed_copy(saved_by(tmp_path, group_by="label"), 0, 4, [299])
    label_of_299 = RECORDS[299]["label"]
    with recstore.open(path) as x:
        g = x.group_by("label", default_factory=list)
        last = list(g)[-1]
        if last != label_of_299:
            with pytest.raises(recstore.errors.CorruptError, match="has another key"):
                g[last]
        assert [r["label"] for r in g[label_of_299]] == [label_of_299] * len(g[label_of_299])
    with pytest.raises(recstore.errors.CorruptError):
        recstore.open(path, verify="full")


def test_groups_that_end_elsewhere_are_an_error(tmp_path):
    """The bound between two groups of ascending rows is moved by two."""
    path = changed_copy(saved_by(tmp_path, group_by="image"), 0, 4 * 3, [296])
    with recstore.open(path) as x:
        g = x.group_by("image")
        wrong = 0
        for key in (97, 98, 99):
            try:
                assert [r["image"] for r in g[key]] == [key] * len(g[key])
            except (recstore.errors.CorruptError, KeyError):
                wrong += 1
        assert wrong
    with pytest.raises(recstore.errors.CorruptError):
        recstore.open(path, verify="full")


def test_trusted_and_checked_indexes_are_not_compared_again(path):
    with RecordList(RECORDS, index_by="label", group_by="label") as y, recstore.open(path, verify="full") as z:
        assert y.segment.verified is False and z.segment.verified is True
        for x in (y, z):
            assert x.index_by("label")[3]["label"] == 3 and len(x.group_by("label")[3]) > 20


@pytest.mark.parametrize("seed", range(8))
def test_random_damage(path, tmp_path, seed):
    """Bytes anywhere in the saved indexes change, and the checksums are valid."""
    rng = random.Random(seed)
    whole = path.read_bytes()
    for _ in range(40):
        data = bytearray(whole)
        number = rng.randrange(12)
        offset, size = section_of(data, number)
        for _ in range(rng.choice((1, 1, 3, 20))):
            data[offset + rng.randrange(size)] = rng.choice((0, 1, 255, rng.randrange(256)))
        (tmp_path / "damaged.recs").write_bytes(resealed(data))
        with recstore.open(tmp_path / "damaged.recs") as x:
            for field, kind in ((FIELDS[number % 6], number // 6), (FIELDS[rng.randrange(6)], rng.randrange(2))):
                check_lookups(x, field, kind, rng)


def check_lookups(x, field, kind, rng):
    keys = [native.Path(field).keys_in(r)[2] for r in rng.sample(RECORDS, 20)]
    try:
        d = x.group_by(field) if kind else x.index_by(field)
    except recstore.errors.CorruptError:
        return
    for key in keys:
        try:
            records = d[key].to_list() if kind else [d[key]]
        except (recstore.errors.CorruptError, KeyError):
            continue
        assert records and all(native.Path(field).keys_in(r)[2] == key for r in records)


def test_the_deep_check_finds_every_changed_number(tmp_path):
    path = saved_by(tmp_path, index_by="label", group_by="label")
    whole = path.read_bytes()
    for number, count in ((0, 26), (1, 314)):
        offset, size = section_of(whole, number)
        for i in range(1, count + 1, 1 if number == 0 else 7):
            data = bytearray(whole)
            at = offset + size - 4 * i
            struct.pack_into("<I", data, at, struct.unpack_from("<I", data, at)[0] ^ 1)
            path.write_bytes(resealed(data))
            with pytest.raises(recstore.errors.CorruptError):
                recstore.open(path, verify="full")


def test_the_deep_check_runs_no_code_of_classes(tmp_path):
    ran = []

    @dataclasses.dataclass(frozen=True)
    class Key:
        a: int

        def __hash__(self):
            ran.append(self)
            return hash(self.a)

    recstore.register(Key)
    with RecordList({"k": Key(i % 3)} for i in range(9)) as x:
        x.save(tmp_path / "x.recs", index_by="k", group_by="k")
    ran.clear()
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert ran == []
        assert len(x.group_by("k")[Key(1)]) == 3 and x.index_by("k")[Key(2)] == {"k": Key(2)}
