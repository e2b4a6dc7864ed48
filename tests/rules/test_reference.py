"""Every public name stands in the reference: each name of the `__all__` of each module of the package, on one page of
docs/reference/, under the name by which users reach it."""

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

# The last are for the other modules alone: `__all__` of such a module pins what they use of it.
NOT_DOCUMENTED = {"recstore.__version__"}
NOT_DOCUMENTED |= {f"recstore.later.{name}" for name in ("foreign_names", "later", "named_arguments")}
NOT_DOCUMENTED |= {f"recstore.torch.epochs.{name}" for name in ("EpochSampler", "IndexSampler")}
NOT_DOCUMENTED |= {
    f"recstore.shm.segment_list.{name}" for name in ("SegmentInfo", "SegmentTable", "duration", "segments", "unlink")
}


def documented():
    """The names in the tables of the reference, each once."""
    found = []
    for page in sorted(REFERENCE.glob("*.md")):
        for block in re.findall(r"^```\{eval-rst\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            found += re.findall(r"^   (recstore\.[\w.]+)$", block, re.MULTILINE)
    return found


def public():
    """`{full name: where it is defined}` of the names in `__all__` of each module, as the source has them."""
    found = {}
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        later = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id == "_LATER":
                    later = ast.literal_eval(node.value)
                elif node.targets[0].id == "__all__":
                    names = later if isinstance(node.value, ast.Call) else ast.literal_eval(node.value)  # list(_LATER)
                    found.update({f"{module}.{name}": module for name in names})
    return found


def object_of(name):
    """The object of a full name; pytest.skip's reason as a str where its module needs a package that is not here."""
    module, _, last = name.rpartition(".")
    vision.prepare()
    try:
        return getattr(importlib.import_module(module), last)
    except ImportError as error:
        return str(error)


def test_no_public_name_is_missing():
    names = documented()
    objects = [found for found in map(object_of, names) if not isinstance(found, str)]
    missing = [
        name
        for name in public().keys() - set(names) - NOT_DOCUMENTED
        if not isinstance(object_of(name), str) and not any(object_of(name) is one for one in objects)
    ]
    assert sorted(missing) == [], "list each name on a page of docs/reference/"


def test_the_walk_finds_names():
    assert {"recstore.shared", "recstore.torch.Loader", "recstore.integrations.lhotse.CutSet"} <= public().keys()
    assert "recstore.RecordList" in documented() and len(documented()) > 100


def test_each_name_stands_once():
    names = documented()
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


@pytest.mark.parametrize("name", documented())
def test_documented_name_exists(name):
    found = object_of(name)
    if isinstance(found, str):
        assert not re.search(r"No module named '?recstore", found), found
        pytest.skip(found)
    if inspect.isclass(found) or inspect.isroutine(found):
        assert inspect.getdoc(found), f"{name} has no docstring"
