"""A kind of node that a reader forgets does not compile: the readers switch over all kinds, without `default`."""

import os
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CORE = ROOT / "csrc"
ROW = '    X(MAP,        30, "map", '
MADE_UP = '    X(MADE_UP, 31, "made up", NONE, NONE, 0, 0, 0, 0, 0, NONE, NONE, NONE) \\\n'
READERS = {
    "csrc/format/rs_schema.c": 1,
    "csrc/read/rs_path.c": 2,  # skipping a value, and steps to the node of a value
    "csrc/read/rs_node_sizes.c": 1,
    "csrc/read/rs_text.c": 1,
    "csrc/read/rs_utf8.c": 1,
    "csrc/verify/rs_check.c": 1,
    "csrc/columns/rs_column.h": 1,  # column reads and gathers
    "csrc/columns/rs_compiled_path.c": 1,
    "csrc/arrow/rs_arrow_program.c": 1,
    "csrc/arrow/rs_arrow_walk.c": 1,
    "recstore/_core/decode.c": 2,
}


@pytest.fixture(scope="module")
def includes(tmp_path_factory):
    """A folder whose rs_format.h has one more kind of node, to be searched before csrc/."""
    folder = tmp_path_factory.mktemp("made_up")
    text = (CORE / "format/rs_format.h").read_text()
    assert text.count(ROW) == 1
    (folder / "format").mkdir()
    (folder / "format/rs_format.h").write_text(text.replace(ROW, MADE_UP + ROW))
    return folder


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_without_a_kind_does_not_compile(includes, reader):
    folders = [includes, CORE, ROOT / "recstore/_core", sysconfig.get_path("include")]
    command = [
        "cc",
        "-std=c11",
        "-fsyntax-only",
        "-Wswitch",
        *(f"-I{folder}" for folder in folders),
        str(ROOT / reader),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    lines = [line for line in done.stderr.splitlines() if line.startswith(str(ROOT / reader)) and "MADE_UP" in line]
    assert len(lines) == READERS[reader], done.stderr
