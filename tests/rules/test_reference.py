"""The reference has every public name: each name in the `__all__` of each module is on one page of docs/reference/,
under the name that users write."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest
import vision

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
MODULES = sorted((ROOT / "recstore").rglob("*.py"))

if not REFERENCE.is_dir():
    pytest.skip("the documents are not here", allow_module_level=True)

# Names for other modules of the package; their `__all__` pins which names the other modules use.
NOT_DOCUMENTED = {"recstore.__version__"}
NOT_DOCUMENTED |= {f"recstore.lazy_names.{name}" for name in ("foreign_names", "later", "named_arguments")}
NOT_DOCUMENTED |= {f"recstore.torch.sampler_base.{name}" for name in ("EpochSampler", "IndexSampler", "ItemSampler")}
NOT_DOCUMENTED |= {
    f"recstore.shm.segment_list.{name}" for name in ("SegmentInfo", "SegmentTable", "duration", "segments", "unlink")
}


def documented_names():
    """The names in the tables of the reference."""
    names = []
    for page in sorted(REFERENCE.glob("*.md")):
        for block in re.findall(r"^```\{eval-rst\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            names += re.findall(r"^   (recstore\.[\w.]+)$", block, re.MULTILINE)
    return names


def exported_names():
    """The full name of each name in the `__all__` of each module, read from the source."""
    full_names = set()
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        later = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id == "_LATER":
                    later = ast.literal_eval(node.value)
                elif node.targets[0].id == "__all__":
                    names = later if isinstance(node.value, ast.Call) else ast.literal_eval(node.value)  # list(_LATER)
                    full_names.update(f"{module}.{name}" for name in names)
    return full_names


def object_of(name):
    """The object of a full name, or the error as a str if its module needs a package that is not installed."""
    module, _, last = name.rpartition(".")
    vision.prepare()
    try:
        return getattr(importlib.import_module(module), last)
    except ImportError as error:
        return str(error)


def test_no_public_name_is_missing():
    names = documented_names()
    objects = [value for value in map(object_of, names) if not isinstance(value, str)]
    missing = [
        name
        for name in exported_names() - set(names) - NOT_DOCUMENTED
        if not isinstance(object_of(name), str) and not any(object_of(name) is value for value in objects)
    ]
    assert sorted(missing) == [], "list each name on a page of docs/reference/"


def test_the_walk_finds_names():
    assert {"recstore.shared", "recstore.torch.Loader", "recstore.integrations.lhotse.CutSet"} <= exported_names()
    assert "recstore.RecordList" in documented_names() and len(documented_names()) > 100


def test_no_name_is_listed_twice():
    names = documented_names()
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_documented_names_exist():
    values = {name: object_of(name) for name in documented_names()}
    absent = {value for value in values.values() if isinstance(value, str)}
    assert [text for text in absent if re.search(r"No module named '?recstore", text)] == []
    documented = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    assert [name for name, value in documented.items() if not inspect.getdoc(value)] == []
    if absent:
        pytest.skip("checked but for " + ", ".join(sorted(absent)))
