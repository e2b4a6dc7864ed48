"""The levels of `compression=`, and builds without some kinds of nodes."""

import datetime
import hashlib
import math

import numpy as np
import pytest

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.building import build_options, streaming

LEVELS = ["none", "fast", "auto", "small"]
RECORDS = [{
    "id": i * 7919 % 5003, "path": f"train/{i % 20:04}/{i * 31 % 1000:08}.jpg", "label": ("cat", "dog", "cow")[i % 3],
    "score": i % 1000 / 100, "box": [i % 640 / 4, 1.25, i % 77 / 4][: 2 + i % 2],
    "hex": f"sha/{hashlib.sha256(b'%d' % i).hexdigest()}.wav", "flag": i * i % 7 < 3,
    "again": f"{i * 7919 % 5003:05}/{i * 7919 % 5003:05}.jpg", "polygon": [(i * k) % 640 for k in range(i % 7 + 3)],
    "root": math.sqrt(i), "raw": b"%d" % (i * i), "pair": (i * 13 % 2003, i % 2 == 0),
    "day": datetime.date(2020, 1, 1 + i % 28), "vector": np.arange(i % 50, i % 50 + 3, dtype=np.int16),
    "token": hashlib.sha256(b"token %d" % i).hexdigest()[: i % 30 * 2],
    "word": f"{i * 37 % 1009:x}" * (i % 3),
    "text": "the quick brown fox jumps over the lazy dog "[i % 11 :] + f"{i * i}", "same": {"a": None, "b": [1, 2]},
    **({} if i % 4 else {"crowd": True}), **({} if i % 500 else {"note": f"x{i}"}), "odd": None if i % 5 else i,
    "mixed": i if i % 2 else f"n{i * 3}", "run": i // 125 * 7919 % 1013,
    "seen": {f"w{(i + 1) * 7919 * k % 307}": k % 2 == 0 for k in range(1, 4 + i % 4)}, "lot": i // 100 * 37 % 251,
    "shift": f"shift {i // 80 * 11 % 37}", "rare": i * 7919 % 97 if i % 700 else f"none in {i}"
} for i in range(2000)]  # fmt: skip


SHOWN = repr(RECORDS)


def kinds_in(segment):
    """Returns the kinds of all nodes in all trees of a segment."""
    return {native.node_name(node[0]) for tree in segment.trees() for node in tree}


def built_without(*names, compression="auto"):
    options = build_options.Options(compression=compression)
    options.without = names
    return streaming.build_records(RECORDS, options)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_keeps_the_records(level, tmp_path):
    with RecordList(RECORDS, compression=level) as x:
        assert repr(x.to_list()) == SHOWN
        x.save(tmp_path / "x")
    with recstore.open(tmp_path / "x", verify="full") as x:
        assert repr(x.to_list()) == SHOWN
    pairs = {f"k{i}": i % 9 for i in range(500)}
    with RecordDict(pairs, compression=level) as x:
        assert x == pairs


def test_a_higher_level_takes_no_more_bytes():
    sizes = []
    for level in LEVELS:
        with RecordList(RECORDS, compression=level) as x:
            sizes.append(x.nbytes)
    assert sizes == sorted(sizes, reverse=True) and sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("name", native.forms())
def test_a_node_that_is_left_out_is_in_no_tree(name, tmp_path):
    segment = built_without(name)
    with RecordList._of_segment(segment) as x:
        assert name not in kinds_in(segment) and repr(x.to_list()) == SHOWN
        x.save(tmp_path / "x")
    recstore.open(tmp_path / "x", verify="full").close()


def test_the_records_of_these_tests_need_all_nodes():
    segment = built_without()
    missing = set(native.forms()) - kinds_in(segment)
    segment.close()
    assert missing == set()


def test_all_nodes_left_out():
    segment = built_without(*native.forms())
    with RecordList._of_segment(segment) as x:
        assert kinds_in(segment) == {"any"} and repr(x.to_list()) == SHOWN


@pytest.mark.parametrize("word", ["zip", "", "AUTO", None, 1, True, ["auto"]])
@pytest.mark.parametrize("make", [RecordList, RecordDict])
def test_other_words(make, word):
    with pytest.raises(ValueError, match='compression is "none", "fast", "auto" or "small", not'):
        make([], compression=word)


@pytest.mark.parametrize("name", ["any", "zip", "", 3])
def test_other_names_of_nodes(name):
    pytest.raises(ValueError, lambda: built_without(name)).match(r"a build can leave out const, int, .*, not")
