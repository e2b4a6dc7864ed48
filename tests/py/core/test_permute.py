"""The reference permutation gives the results that tests/c/test_permute.c pins."""

import pathlib
import re

import pytest
from ref import permute

C_TEST = pathlib.Path(__file__).resolve().parents[2] / "c" / "test_permute.c"


def pins():
    text = re.search(r"pins\[\] = \{(.*?)\n    \};", C_TEST.read_text(), re.DOTALL)[1]
    text = re.sub(r"UINT64_C\((\d+)\)", r"\1", text).replace("UINT64_MAX", str((1 << 64) - 1))
    return [tuple(map(int, row.split(","))) for row in re.findall(r"\{([^}]*)\}", text)]


@pytest.mark.parametrize(("n", "seed", "i", "element"), pins())
def test_pin(n, seed, i, element):
    assert permute.at(n, seed, i) == element


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9, 10, 100, 5000])
def test_the_oracle_permutes(n):
    assert sorted(permute.order(n, n + 1)) == list(range(n))
