"""info(): figures, and the schema as text."""

import os
import pathlib
import re

import pytest

import recstore
from recstore import RecordList
from recstore._core import native
from recstore.shm import process_memory

RECORDS = [{"id": i, "name": "n" * (i % 7), "box": [0.5, i / 3], "tag": None if i % 2 else "x", "pair": (i % 2 == 0, b"k")}
           for i in range(2000)]  # fmt: skip


@pytest.fixture
def info():
    with RecordList(RECORDS, backing="anonymous" if hasattr(os, "memfd_create") else "dir") as x:
        info = x.info()
        assert info.nbytes == x.nbytes
    return info


def test_figures(info):
    assert (info.records, info.blocks) == (2000, 1)
    if info.backing == "anonymous":
        assert info.name is None
    sections = ["heap", "offsets", "groups", "blocks", "trees", "tree table"]
    assert list(info.sections) == sections + ["tables"] * (len(info.tables) > 0)
    assert 128 + sum(info.sections.values()) <= info.nbytes < 128 + sum(info.sections.values()) + 64 * 8 + 240
    assert info.kept_bytes >= 0
    ((records, heap, root),) = info.trees
    assert (records, root.name, root.kind) == (2000, "record", "struct")
    assert 0 < heap <= info.sections["heap"]
    assert [child.name for child in root.children] == ["id", "name", "box", "tag", "pair"]
    assert [child.kind for child in root.children] == ["rising", "dict-coded", "list", "optional", "dict-coded"]
    assert [(table.number, table.entries) for table in info.tables] == [(0, 7), (1, 2)]
    assert 0 < sum(table.nbytes for table in info.tables) <= info.sections["heap"] - heap


def test_text(info):
    text = str(info)
    assert text.startswith(f"2,000 records, {info.nbytes:,} bytes (")
    for part in ("sections: heap ", "1 block, 1 schema tree", "record: struct", "id: rising\n      /: int 0 bits from 0", "name: dict-coded 7 entries, 3 bits, of table 0", "box: list",
                 "float 8 bytes", "tag: optional value or None", "?: const 'x'", "2 tables, ", "table 0: 7 entries, "):  # fmt: skip
        assert part in text, part


def test_a_file(tmp_path):
    RecordList(RECORDS).save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec") as x:
        info = x.info()
        assert (x[:10].info().records, x[:10].info().nbytes) == (10, x.nbytes), "a view has its own count"
    assert (info.backing, info.name, info.kept_bytes) == ("file", str(tmp_path / "x.rec"), None)
    assert info.nbytes == (tmp_path / "x.rec").stat().st_size
    assert "private memory" not in str(info)


@pytest.mark.parametrize(
    "records",
    [[], [1], [{1: 2, (3, 4): 5}] * 100, [{"é€😀\ud800": i, "k" * 300: i} for i in range(100)], [None, 1, "x", [], {}] * 100,
     [b"x" * i for i in range(100)]],
    ids=["empty", "one", "keys", "names", "union", "bytes"],
)  # fmt: skip
def test_any_store_can_be_described(records):
    with RecordList(records) as x:
        text = str(x.info())
    assert text.startswith((f"{len(records):,} records, ", "1 record, "))
    text.encode("utf-8")


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="needs smaps")
def test_huge_pages_as_in_smaps():
    with RecordList([f"{i:0100d}" for i in range(100_000)]) as x:
        x[-1]
        begin, size = x.segment.mapped
        text = pathlib.Path("/proc/self/smaps").read_text()
        info = x.info()
    (block,) = re.findall(rf"^{begin:08x}-.*?^VmFlags", text, re.M | re.S)
    huge_kib = sum(int(kib) for kib in re.findall(r"^(?:AnonHuge\w*|\w+PmdMapped): +(\d+)", block, re.M))
    assert (info.huge_bytes, info.huge_bytes <= size + (2 << 20)) == (huge_kib * 1024, True)
    assert f"huge pages: {huge_kib * 1024:,} bytes" in str(info)


def test_names_of_kinds_and_codes_come_from_the_core():
    assert [native.node_name(kind) for kind in (1, 13, 16, 22)] == ["any", "ext", "dict-coded", "optional"]
    assert [native.ext_name(code) for code in (1, 10, 30)] == ["complex", "defaultdict", "StringDType"]
    for name, number in ((native.node_name, 0), (native.node_name, 99), (native.ext_name, 0), (native.ext_name, 32)):
        pytest.raises(ValueError, lambda: name(number)).match(str(number))


def test_many_stores_read_the_list_of_mappings_once(monkeypatch):
    """With one read of the kernel's list per store, the time would be quadratic."""
    paths = []

    def recording_open(path, *args):
        paths.append(path)
        return open(path, *args)

    monkeypatch.setattr(process_memory, "open", recording_open, raising=False)
    stores = [RecordList([{"a": i}]) for i in range(20)]
    view = stores[0]
    for store in stores[1:]:
        view = view + store
    assert len(view.info().stores) == 20
    assert paths.count("/proc/self/smaps") <= 1
    paths.clear()
    view.index_by("a").info()
    assert paths.count("/proc/self/smaps") <= 1
    view.close()


def test_huge_pages_of_other_mappings_do_not_count():
    pages = process_memory.HugePages()
    lines = [
        *(b"1000-3000 r--s 0 00:01 5 /a", b"Rss: 8 kB", b"AnonHugePages: 2 kB"),
        *(b"3000-4000 r--s 0 00:01 5 /a", b"AnonHugePages: 0 kB", b"ShmemPmdMapped: 0 kB"),
        *(b"5000-9000 r--s 0 00:01 5 /a", b"ShmemPmdMapped: 4 kB", b"FilePmdMapped: 1 kB"),
    ]
    pages.mappings = list(process_memory._huge_mappings(lines))
    assert pages.mappings == [(0x1000, 0x3000, 2048), (0x5000, 0x9000, 5120)]
    spans = [(0x1000, 0x2000), (0x2000, 1), (0x3000, 0x1000), (0x2FFF, 0x2002), (0x8FFF, 9), (0x9000, 9), (0, 0x1000)]
    assert [pages.within(*span) for span in spans] == [2048, 2048, 0, 7168, 5120, 0, 0]
    pages.mappings = None
    assert pages.within(0x1000, 9) is None
