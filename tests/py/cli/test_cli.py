"""The installed command: its version, errors in one line, and closed standard streams."""

import pathlib
import sys
import sysconfig

import pytest
import waiting

import recstore
from recstore import RecordList
from recstore.cli import main, records


@pytest.fixture
def path(tmp_path):
    RecordList({"id": i} for i in range(1234)).save(tmp_path / "x.rec")
    return str(tmp_path / "x.rec")


@pytest.mark.parametrize("command", ["info", "verify"])
def test_errors_are_one_line(path, command, capsys):
    file = pathlib.Path(path)
    whole = bytearray(file.read_bytes())
    whole[128 + 5] ^= 1
    file.write_bytes(whole)
    assert main.main([command, path]) == (command == "verify"), "only verify finds the damage"
    assert ("heap" in capsys.readouterr().err) is (command == "verify")
    file.write_bytes(whole[:500])
    assert main.main([command, path]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"recstore {command}: ") and err.count("\n") == 1 and "TRUNCATED" in err
    assert main.main([command, path + ".gone"]) == 1
    assert ".gone" in capsys.readouterr().err


def test_the_version(capsys):
    raised = pytest.raises(SystemExit, lambda: main.main(["--version"]))
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"recstore {recstore.__version__}\n"


def test_the_installed_command(path):
    command = pathlib.Path(sysconfig.get_path("scripts")) / "recstore"
    if not command.exists():
        pytest.skip("the command is not where this interpreter's scripts are")
    for start in ([str(command)], [sys.executable, "-m", "recstore.cli.main"]):
        done = waiting.run([*start, "verify", path])
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: good, 1,234 records\n", "")


def test_sources(tmp_path):
    (tmp_path / "paths").write_text("a/b.jpg\n\nc d.jpg\r\n")
    (tmp_path / "lines").write_text('{"a": 1}\n\n[2.5, null]\n')
    (tmp_path / "coco").write_text('{"images": [], "annotations": [{"id": 1}]}')
    assert list(records.read("paths", str(tmp_path / "paths"))) == ["a/b.jpg", "", "c d.jpg"]
    assert list(records.read("jsonl", str(tmp_path / "lines"))) == [{"a": 1}, [2.5, None]]
    assert list(records.read("coco", str(tmp_path / "coco"))) == [{"id": 1}]
    first = next(iter(records.read(None, None)))
    assert sorted(first) == ["atime", "ctime", "mode", "mtime", "path", "size", "suffix"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"annotations": 5}', "not json"])
def test_a_file_that_is_not_a_coco_file(tmp_path, text):
    (tmp_path / "coco").write_text(text)
    pytest.raises(records.SourceError, lambda: list(records.read("coco", str(tmp_path / "coco")))).match("coco")


@pytest.mark.parametrize("command", ["cat {path}", "info /no/such", "monitor --quiet -- sh -c 'exit 3'"])
def test_without_standard_streams(path, command):
    """The exit status stays the same, and errors do not go to standard output."""
    line = f"{sys.executable} -m recstore {command.format(path=path)}"
    usual = waiting.run(["bash", "-c", line])
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = waiting.run(["bash", "-c", f"{line} {closed}"])
        assert done.returncode == usual.returncode and "Traceback" not in done.stderr, closed
        assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else usual.stdout), closed


def test_a_folder_is_not_replaced(path, tmp_path, capsys):
    """No option replaces a folder, so the error does not mention --force."""
    for arguments in (["build", str(path), "-o", str(tmp_path)], ["cat", str(path), "--parquet", str(tmp_path)]):
        assert main.main(arguments) == 1
        assert "--force" not in capsys.readouterr().err
