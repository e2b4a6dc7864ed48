"""The promises of a release: one version number, readable files of every earlier release, and public names that
change only on purpose."""

import hashlib
import pathlib
import re

import public_names
import pytest
from ref import mapping, reader

import recstore
from recstore import RecordDict, RecordList

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

PROJECT = (ROOT / "pyproject.toml").read_text()
VERSION = re.search(r'^version = "(.+)"$', PROJECT, flags=re.MULTILINE)[1]
RELEASED = sorted((GOLDEN / "released").glob("*.txt"))


def files_of(manifest):
    return [line.split("  ") for line in manifest.read_text().splitlines()]


def test_the_version_is_in_one_place():
    assert recstore.__version__ == VERSION, "install again: the package was built from another version"
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1]
    assert first == VERSION, "the first section of CHANGELOG.md must be for the version in pyproject.toml"
    sources = [*(ROOT / "recstore").rglob("*.py"), *(ROOT / "csrc").rglob("*.[ch]"), *(ROOT / "docs").rglob("*.py")]
    named = [path for path in sources if path.name != "_version.py" and f'"{VERSION}"' in path.read_text()]
    assert named == [] and VERSION not in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("manifest", RELEASED, ids=lambda path: path.stem)
def test_files_of_a_release_are_as_they_were(manifest):
    """A released version wrote or read these files. After a format change, add files; do not regenerate these."""
    assert files_of(manifest), manifest
    for digest, name in files_of(manifest):
        actual = hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest()
        assert actual == digest, f"{name} belongs to release {manifest.stem}: restore it"


# tests/golden compares the records with literals; this test reads every file of a release.
@pytest.mark.parametrize("manifest", RELEASED, ids=lambda path: path.stem)
def test_files_of_a_release_are_read(manifest):
    for _, name in files_of(manifest):
        if not name.endswith(".rec"):
            continue  # tests/golden/test_handles.py reads the handles
        data = (GOLDEN / name).read_bytes()
        is_mapping = data[64:68] == reader.MAPPING.to_bytes(4, "little")
        plain = (mapping if is_mapping else reader).check(data)
        with recstore.open(GOLDEN / name, verify="full", allow_pickle=False) as x:
            assert len(x) == len(plain), name
            assert isinstance(x, RecordDict if is_mapping else RecordList)


def test_public_names_change_on_purpose():
    assert public_names.LISTED.read_text() == public_names.listing(), (
        "public names or arguments changed: run python tests/support/public_names.py, check its diff, and write CHANGELOG.md"
    )


def test_an_argument_has_one_name():
    """No function outside recstore.integrations has an argument with a name that the last column of the table in
    CONTRIBUTING.md rules out, except `limit` for a cache."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (`.*`) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    others = {other: name for name, cell in rows for other in re.findall(r"`(\w+)`", cell)}
    assert len(others) > 20
    for line in public_names.LISTED.read_text().splitlines():
        name, _, arguments = line.partition("(")
        if not name.startswith("recstore.integrations."):
            words = set(re.findall(r"\*{0,2}(\w+)", arguments))
            assert not words & others.keys() - {"limit"}, f"{name}: {[others[word] for word in words & others.keys()]}"
            assert "limit" not in words or "cache" in words or "cache" in name.lower(), name
