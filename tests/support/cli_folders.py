"""Where the commands of a test run, the files that they read, and what they say."""

import pytest

from recstore.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """No test sees another's named stores, nor files in its current folder, which this is."""
    (tmp_path / "stores").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def run(capfdbinary):
    """Runs a command; `(status, out, err)`."""

    def call(*arguments):
        status = main.main([str(one) for one in arguments])
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return call


def wrote(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)
