"""Where the commands of a test run."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """No test sees another's named stores, nor files in its current folder, which this is."""
    (tmp_path / "stores").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"
