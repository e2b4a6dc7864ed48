"""The program for the picture in docs/post-mortem.md with few records: both runs under the monitor, and the picture."""

import os
import pathlib
import subprocess

import pytest
import waiting

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples"

if not EXAMPLES.is_dir():
    pytest.skip("docs/examples is missing", allow_module_level=True)
pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs smaps_rollup"),
]


def run(*arguments):
    return waiting.python(*map(str, arguments), stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("kind", ["list", "recordlist"])
def test_the_program(kind):
    done = run("-W", "ignore", EXAMPLES / "growing.py", kind, 1000)
    assert (done.stdout, done.returncode) == ("1,000 boxes\n", 0), done.stderr


def test_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    done = run(EXAMPLES / "growing_picture.py", tmp_path / "growing.png", 1000)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "growing.png").read_bytes().startswith(b"\x89PNG")
    assert "list: at most" in done.stdout and "recordlist: at most" in done.stdout
