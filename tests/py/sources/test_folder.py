"""`sources.folder` (recstore/sources/folder_files.py), its walk and patterns, and the attributes of a store."""

import os
import pathlib
import pickle
import random
import re

import pytest
import vision

import recstore
from recstore import RecordList
from recstore.shm import attributes
from recstore.sources import folder_walk, globs
from recstore.sources.folder_files import Walking

TREE = [
    "dog/b.jpg",
    "dog/a.JPG",
    "cat/x/1.jpg",
    "cat/x-y/1.png",
    "cat/x/z/0.jpg",
    "cat-2/1.jpg",
    "note.jpg",
    "dog/n.txt",
]

NAME = "test-scan"


def planted(root, paths=TREE):
    for path in paths:
        path = os.path.join(os.fsencode(root), os.fsencode(path))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"x" * (len(path) % 7))
    return str(root)


@pytest.fixture
def root(tmp_path):
    return planted(tmp_path)


def scanned(*args, **options):
    building = {name: options.pop(name) for name in ("workers", "index_by", "progress") if name in options}
    with recstore.RecordList(recstore.sources.folder(*args, **options), **building) as x:
        return x.to_list(), getattr(x, "classes", None)


# ---- Against ImageFolder ----


def test_order_and_classes_equal_those_of_imagefolder(tmp_path):
    folder = vision.datasets().folder
    chooser = random.Random(5)
    names = ["a", "a-b", "a.b", "b", "B", "10", "9", "ä", "z z"]
    paths = {
        "/".join(
            [
                *chooser.choices(names, k=chooser.randint(1, 4)),
                f"{chooser.choice(names)}.{chooser.choice(['jpg', 'PNG', 'txt'])}",
            ]
        )
        for _ in range(400)
    }
    paths |= {f"{name}/one.jpg" for name in names} | {"in_root.jpg"}
    root = planted(tmp_path, sorted(paths))
    os.symlink(os.path.join(root, "a"), os.path.join(root, "b", "link"))
    dataset = folder.DatasetFolder(root, loader=None, extensions=folder.IMG_EXTENSIONS)
    for threads in (0, 1, 4):
        options = {"class_from": "first", "as_tuples": True, "threads": threads}
        with recstore.RecordList(recstore.sources.folder(root, folder.IMG_EXTENSIONS, **options)) as x:
            assert x.to_list() == dataset.samples
            assert (x.classes, x.class_to_idx) == (dataset.classes, dataset.class_to_idx)
            assert x.field(1).to_list() == dataset.targets


def test_empty_classes_are_an_error_as_with_imagefolder(tmp_path):
    folder = vision.datasets().folder
    root = planted(tmp_path, ["cat/1.jpg", "dog/1.txt"])
    for class_from in ("first", "parent"):
        with pytest.raises(FileNotFoundError, match="classes dog.*allow_empty"):
            recstore.RecordList(recstore.sources.folder(root, ".jpg", class_from=class_from))
        records, classes = scanned(root, ".jpg", class_from=class_from, allow_empty=True, as_tuples=True)
        dataset = folder.DatasetFolder(root, loader=None, extensions=(".jpg",), allow_empty=True)
        assert (records, classes) == (dataset.samples, dataset.classes)
    with pytest.raises(FileNotFoundError):
        folder.DatasetFolder(root, loader=None, extensions=(".jpg",))
    with pytest.raises(FileNotFoundError, match="no class folders"):
        recstore.RecordList(recstore.sources.folder(os.path.join(root, "cat"), class_from="first"))


# ---- Classes ----


@pytest.mark.parametrize(
    "class_from, classes, labels",
    [
        (None, None, None),
        ("parent", ["cat-2", "dog", "x", "x-y", "z"], [2, 3, 4, 0, 1, 1]),
        ("first", ["cat", "cat-2", "dog"], [0, 0, 0, 1, 2, 2]),
        (r"(?P<class>[^/]+)/[^/]+$", ["cat-2", "dog", "x", "x-y", "z"], [2, 3, 4, 0, 1, 1]),
        (re.compile("(CAT|dog)", re.IGNORECASE), ["cat", "dog"], [0, 0, 0, 0, 1, 1]),
        (lambda path: path[-5], ["0", "1", "a", "b"], [1, 1, 0, 1, 2, 3]),
        (lambda path: path[0] if "dog" in path else None, ["d"], [0, 0]),
    ],
)
def test_the_class_comes_from_the_path(root, class_from, classes, labels):
    found, names = scanned(root, ["*/**/*.jpg", ".png", "**/*.JPG"], class_from=class_from, paths="relative")
    order = ["cat/x/1.jpg", "cat/x-y/1.png", "cat/x/z/0.jpg", "cat-2/1.jpg", "dog/a.JPG", "dog/b.jpg"]
    order = order[-2:] if labels == [0, 0] else order
    assert [record["path"] for record in found] == order
    assert names == classes
    assert [record.get("label") for record in found] == (labels or [None] * len(order))


def test_given_classes_number_the_files_and_others_are_refused(root):
    records, classes = scanned(
        root, ".jpg", class_from="first", classes=["none", "dog", "cat", "cat-2"], as_tuples=True
    )
    assert (classes, [label for _, label in records]) == (["none", "dog", "cat", "cat-2"], [2, 2, 3, 1, 1])
    with pytest.raises(recstore.errors.InputError, match="cat-2.*not among the 2 classes: dog, cat"):
        recstore.RecordList(recstore.sources.folder(root, ".jpg", class_from="first", classes=["dog", "cat"]))


def test_a_path_without_a_class_says_so(root):
    with pytest.raises(recstore.errors.InputError, match="note.jpg.*finds no class"):
        recstore.RecordList(recstore.sources.folder(root, class_from="^(.*)/"))
    with pytest.raises(TypeError, match="class_from must return .* not an int"):
        recstore.RecordList(recstore.sources.folder(root, class_from=len))


def test_files_in_the_root_have_its_name_as_parent(tmp_path):
    root = planted(tmp_path / "pets", ["1.jpg", "cat/1.jpg"])
    records, classes = scanned(root, class_from="parent", paths="relative", as_tuples=True)
    assert (records, classes) == ([("1.jpg", 1), ("cat/1.jpg", 0)], ["cat", "pets"])


# ---- Paths, patterns, sizes ----


def test_patterns_select_as_glob_does(root):
    for pattern in (
        "*",
        "*/*",
        "**/*",
        "**/*.jpg",
        "cat/**/*",
        "cat/**/?.jpg",
        "cat/*/*.[jp]*g",
        "[!c]*/*",
        "*/x*/**/*",
        "**/x/**/*.jpg",
        "none/*",
    ):
        expected = sorted(str(p.relative_to(root)) for p in pathlib.Path(root).glob(pattern) if p.is_file())
        found, _ = scanned(root, pattern, paths="relative", allow_empty=True)
        assert sorted(record["path"] for record in found) == expected, pattern


def test_patterns_lead_only_to_folders_that_can_hold_a_file():
    pattern = globs.Patterns("train/*/x/**/*.jpg")
    paths = ("train", "val", "train/a", "train/a/y", "train/a/x/b/c")
    leads = {path: pattern.leads(tuple(path.split("/"))) for path in paths}
    assert leads == {"train": True, "val": False, "train/a": True, "train/a/y": False, "train/a/x/b/c": True}
    assert not globs.Patterns("*.jpg").leads(("a",)) and globs.Patterns(["*.jpg", ".png"]).leads(("a",))


@pytest.mark.parametrize("bad", ["/a/*", "", "../*", []])
def test_wrong_patterns_are_refused(bad):
    with pytest.raises(ValueError):
        globs.Patterns(bad)


def test_paths_come_in_three_forms(tmp_path, monkeypatch):
    planted(tmp_path, ["cat/1.jpg"])
    monkeypatch.chdir(tmp_path)
    for root, paths, path in (
        (".", "joined", os.path.join(".", "cat/1.jpg")),
        ("cat/", "joined", "cat/1.jpg"),
        ("cat", "relative", "1.jpg"),
        (".", "absolute", str(tmp_path / "cat/1.jpg")),
    ):
        assert scanned(root, paths=paths)[0] == [{"path": path}]


def test_stat_gives_size_and_time(tmp_path):
    root = planted(tmp_path, ["a", "bb/c"])
    for record in scanned(root, stat=True)[0]:
        status = os.stat(record["path"])
        assert record == {"path": record["path"], "size": status.st_size, "mtime": status.st_mtime}
    assert len(scanned(root, stat=True, as_tuples=True)[0][0]) == 3


def test_hidden_files_are_read_on_request(tmp_path):
    root = planted(tmp_path, ["a/1", "a/.2", ".b/3"])
    assert [r["path"] for r in scanned(root, paths="relative")[0]] == ["a/1"]
    assert [r["path"] for r in scanned(root, paths="relative", hidden=True)[0]] == [".b/3", "a/.2", "a/1"]


def test_n_rows_where_and_progress(tmp_path, capfd):
    pytest.importorskip("rich")
    root = planted(tmp_path)
    whole = scanned(root, progress=True)[0]
    assert f"{len(TREE)}" in capfd.readouterr().err
    assert scanned(root, n_rows=3)[0] == whole[:3]
    assert scanned(root, n_rows=0)[0] == []
    assert scanned(root, where=lambda record: "dog" in record["path"])[0] == whole[-3:]


def test_workers_scan_the_folders_of_the_root(root):
    alone = scanned(root, class_from="parent")
    assert scanned(root, class_from="parent", workers=2) == alone
    alone = scanned(root, class_from="first")
    assert scanned(root, class_from="first", workers=2, n_rows=4) == (alone[0][:4], alone[1])
    with pytest.raises(FileNotFoundError, match="matches"):
        recstore.RecordList(recstore.sources.folder(root, ".none"), workers=2)


# ---- File systems as they are ----


def test_names_that_are_not_utf8_keep_their_bytes(tmp_path):
    root = planted(tmp_path, [b"c\xff/\xfe.jpg", "c/1.jpg"])
    records, classes = scanned(root, class_from="first", as_tuples=True)
    assert [os.fsencode(path)[len(os.fsencode(root)) + 1 :] for path, _ in records] == [b"c/1.jpg", b"c\xff/\xfe.jpg"]
    assert classes == ["c", "c\udcff"]


def test_links_are_followed_and_loops_left_out(tmp_path):
    root = planted(tmp_path / "root", ["a/1", "a/b/2"])
    elsewhere = planted(tmp_path / "else", ["3"])
    os.symlink("..", f"{root}/a/b/up")
    os.symlink(root, f"{root}/a/top")
    os.symlink(elsewhere, f"{root}/c")
    os.symlink(f"{root}/a/1", f"{root}/a/one")
    paths = [record["path"] for record in scanned(root, paths="relative")[0]]
    assert paths == ["a/1", "a/one", "a/b/2", "c/3"]
    paths = [record["path"] for record in scanned(root, paths="relative", follow_symlinks=False)[0]]
    assert paths == ["a/1", "a/one", "a/b/2"]


def test_links_in_a_ring_end(tmp_path):
    root = planted(tmp_path, ["a/1", "b/2"])
    os.symlink(f"{root}/b", f"{root}/a/x")
    os.symlink(f"{root}/a", f"{root}/b/y")
    assert [r["path"] for r in scanned(root, paths="relative")[0]] == ["a/1", "a/x/2", "b/2", "b/y/1"]


def test_unreadable_entries_raise_or_are_skipped(tmp_path, caplog):
    root = planted(tmp_path, ["a/1", "b/2"])
    os.symlink("nowhere", f"{root}/a/broken")
    with pytest.raises(FileNotFoundError, match="broken.*skip"):
        recstore.RecordList(recstore.sources.folder(root))
    assert [r["path"] for r in scanned(root, errors="skip", paths="relative")[0]] == ["a/1", "b/2"]
    assert "skipped unreadable files and folders (1)" in caplog.text
    for missing in (f"{root}/none", f"{root}/a/1"):
        for errors in ("raise", "skip"):
            with pytest.raises(OSError):
                recstore.RecordList(recstore.sources.folder(missing, errors=errors))


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    root = planted(tmp_path, ["a/1", "b/2"])
    scandir = os.scandir

    def refusing(path):
        if os.path.basename(path) == "a":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(folder_walk.os, "scandir", refusing)
    with pytest.raises(PermissionError, match="/a"):
        recstore.RecordList(recstore.sources.folder(root))
    assert [r["path"] for r in scanned(root, errors="skip", paths="relative")[0]] == ["b/2"]


def test_the_walk_lists_a_bounded_number_of_folders_ahead(tmp_path):
    root = planted(tmp_path, [f"{i:03}/1" for i in range(200)])
    walk = folder_walk.Walk(root, globs.Patterns("**"), Walking(threads=2))
    listed = []
    walk.list = lambda names, plain=walk.list: listed.append(names) or plain(names)
    listings = walk.listings()
    next(listings), next(listings)
    assert len(listed) <= 2 + 2 * folder_walk._AHEAD
    listings.close()


@pytest.mark.parametrize(
    "options, error",
    [
        ({"paths": "odd"}, ValueError),
        ({"errors": "odd"}, ValueError),
        ({"class_from": "cat"}, ValueError),
        ({"class_from": "("}, ValueError),
        ({"class_from": 5}, TypeError),
        ({"classes": ["a"]}, TypeError),
        ({"classes": "ab", "class_from": "first"}, TypeError),
        ({"classes": ["a", "a"], "class_from": "first"}, ValueError),
        ({"threads": -1}, ValueError),
        ({"colour": 1}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, options, error):
    with pytest.raises(error):
        recstore.RecordList(recstore.sources.folder(planted(tmp_path), **options))


def test_arguments_of_another_type_are_named():
    for root in (None, 3, ["a", "b"]):
        with pytest.raises(TypeError, match=f"root must be a path, not an? {type(root).__name__}"):
            recstore.sources.folder(root)
    with pytest.raises(TypeError, match="not NoneType"):
        recstore.sources.folder(".", None)
    with pytest.raises(TypeError, match="not an int"):
        recstore.sources.folder(".", class_from="first", classes=3)


# ---- One per machine ----


def test_shared_notices_files_that_come_and_go(root, tmp_path):
    def shared(pattern, **options):
        return recstore.shared(NAME, recstore.sources.folder(root, pattern, class_from="first", **options))

    with shared(".jpg") as x, shared(".jpg") as y:
        assert len(recstore.names.list(NAME)) == 1
        assert x.to_list() == y.to_list() and x.classes == y.classes == ["cat", "cat-2", "dog"]
        planted(tmp_path, ["cat/x/z/more.jpg"])
        with shared(".jpg") as z, shared(".png", allow_empty=True):
            assert len(z) == len(x) + 1
            assert len(recstore.names.list(NAME)) == 3
    assert recstore.names.list(NAME) == []


def test_shared_with_a_fingerprint_does_not_walk(root, monkeypatch):
    with recstore.shared(NAME, recstore.sources.folder(root, class_from="first"), fingerprint="1") as x:
        monkeypatch.setattr(folder_walk.Walk, "list", None)
        with recstore.shared(NAME, recstore.sources.folder(root, class_from="first"), fingerprint="1") as y:
            assert y.to_list() == x.to_list()


def test_shared_with_stat_notices_new_content(root):
    with recstore.shared(NAME, recstore.sources.folder(root, stat=True)):
        with open(f"{root}/note.jpg", "w") as file:
            file.write("longer than before")
        with recstore.shared(NAME, recstore.sources.folder(root, stat=True)) as y:
            sizes = {record["path"]: record["size"] for record in y}
            assert sizes[f"{root}/note.jpg"] == 18


def test_folders_that_change_between_plan_and_reading_are_an_error(root, tmp_path):
    calls = []

    def grow(path):
        calls.append(path)
        if len(calls) == len(TREE):  # the end of the plan
            planted(tmp_path, ["dog/late.jpg"])
        return "a"

    with pytest.raises(recstore.errors.InputError, match="changed while they were read"):
        recstore.RecordList(recstore.sources.folder(root, class_from=grow))


# ---- Attributes ----


def test_classes_stay_with_views_handles_and_files(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    root = planted(tmp_path / "root")
    x = recstore.RecordList(recstore.sources.folder(root, ".jpg", class_from="first"))
    classes = ["cat", "cat-2", "dog"]
    x.save(tmp_path / "whole.recs"), x[1:3].save(tmp_path / "part.recs")
    with recstore.open(tmp_path / "whole.recs") as whole, recstore.open(tmp_path / "part.recs", verify="full") as part:
        assert part.to_list() == x[1:3].to_list()
        for container in (
            x,
            x[1:],
            x.shuffled(1),
            x.field("label"),
            pickle.loads(pickle.dumps(x[:2])),
            whole,
            part,
            x + whole,
        ):
            assert container.attributes == {"classes": classes} and container.classes == classes
    with RecordList(x.map(dict)) as other:
        assert other.attributes == {} and not hasattr(other, "classes") and not hasattr(other, "class_to_idx")
        for name in ("classes", "class_to_idx"):
            with pytest.raises(
                AttributeError, match=f"no attribute '{name}'; write RecordList\\(recstore.sources.folder"
            ):
                getattr(other, name)
        assert (x + other).attributes == {}
    x.close()
    with pytest.raises(recstore.errors.ClosedError):
        x.attributes


def test_attributes_that_are_too_long_are_refused(tmp_path):
    with pytest.raises(ValueError, match="more than 524,288: keep a long list"):
        attributes.pack({"classes": ["x" * 100] * 10_000})
    root = planted(tmp_path, ["a/1"])
    with pytest.raises(ValueError, match="attributes classes take"):
        recstore.RecordList(
            recstore.sources.folder(root, class_from="first", classes=[f"{i:0100}" for i in range(10_000)] + ["a"])
        )


def test_a_damaged_label_has_no_attributes():
    class Segment:
        def __init__(self, text):
            self.text = text

        def label(self):
            from recstore.shm.named_segments import Label

            return Label(attributes=self.text).pack()

    for text in ("", "[1]", "{", "[" * 100_000, '{"a": 1}'):
        assert attributes.of([Segment(text)]) == ({"a": 1} if "a" in text else {})
