"""Programs without a fingerprint: equal programs share, programs that read other data do not."""

import subprocess
import sys

import pytest
from mp.sharers import wait_until_gone
from waiting import attached

import recstore

PROGRAM = """
import argparse
import sys
import recstore

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--split", default="train")
parser.add_argument("--lr", type=float, default=1.0)
args = parser.parse_args()


def read():
    return [{"split": args.split, "i": i} for i in range(10)]


def build():
    print("building", flush=True)
    return read()


x = recstore.shared(args.name, build)
print(x[0]["split"], flush=True)
input()
"""


@pytest.fixture
def train(tmp_path):
    """A function that starts the program as a shell does."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "train.py", *arguments], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    recstore.names.collect()


def test_two_shells(name, train):
    first = train(name)
    assert [first.stdout.readline().strip() for _ in range(2)] == ["building", "train"]
    second = train(name, "--lr", "2")
    assert second.stdout.readline().strip() == "train"
    attached(name, 2)
    (info,) = recstore.names.list(name)
    assert (info.records, info.state) == (10, "in use")
    other = train(name, "--split", "val")
    assert [other.stdout.readline().strip() for _ in range(2)] == ["building", "val"]
    attached(name, 1, 2)
    for process in (first, second, other):
        process.communicate("\n")
        assert process.returncode == 0
    wait_until_gone(name)
