"""Wheels are built for all Pythons that the package names, and the workflows publish only tested files and releases."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/wheels.yml"
if not WORKFLOW.is_file():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

PROJECT = (ROOT / "pyproject.toml").read_text()


def test_a_wheel_for_each_python_that_is_named():
    minors = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', PROJECT)
    wheels = re.search(r'^build = "(.*)"$', PROJECT, flags=re.MULTILINE)[1].split()
    assert [f"cp3{minor}-*" for minor in minors] == [wheel for wheel in wheels if not wheel.endswith("t-*")]
    tested = re.findall(
        r'"([\dt.]+)"', re.search(r"^PYTHONS = (.*)$", (ROOT / "noxfile.py").read_text(), re.MULTILINE)[1]
    )
    assert [version for version in tested if not version.endswith("t")] == [f"3.{minor}" for minor in minors]
    free_threaded = {f"cp{version.replace('.', '')}-*" for version in tested if version.endswith("t")}
    assert {wheel for wheel in wheels if wheel.endswith("t-*")} <= free_threaded
    assert f'requires-python = ">=3.{minors[0]}"' in PROJECT


def test_the_workflow_publishes_what_was_tested():
    text = WORKFLOW.read_text()
    publish = text[text.index("  publish:") :]
    assert "needs: [wheels, checks]" in publish and "github.event_name == 'release'" in publish
    assert text.count("id-token: write") == 1 and "id-token: write" in publish, "only the publishing job gets a token"
    assert "password" not in text.lower().replace("no password", "")


def test_only_releases_publish_the_site_of_a_version():
    workflow = (ROOT / ".github/workflows/site.yml").read_text()
    pattern = re.search(r'tags: \["(.*)"\]', workflow)[1].replace(".", r"\.")
    matches = [bool(re.fullmatch(pattern, tag)) for tag in ("v0.1.0", "v0.10.12", "v0.2.0rc1", "v0.2.0-rc.1", "v1")]
    assert matches == [True, True, False, False, False]
