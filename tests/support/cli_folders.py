"""Runs commands in an empty folder and returns their output."""

import json

import pytest

from recstore.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, empty; named stores have their own folder."""
    (tmp_path / "stores").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def run(capfdbinary):
    """Runs a command and returns `(status, out, err)`."""

    def call(*arguments):
        status = main.main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return call


@pytest.fixture
def run_json(run):
    """Runs a command with --json, which must succeed, and returns its result."""

    def call(*arguments):
        status, out, err = run(*arguments, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return call


def write_file(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)
