"""Handles of an earlier build: they describe the same views in the same bytes, and their pickles still load."""

import json
import pathlib
import pickle

import pytest
from golden.handle_views import body_of, views

import recstore
from recstore.shm import view_bytes

GOLDEN = json.loads((pathlib.Path(__file__).parent / "handles.json").read_text())


def test_views_are_described_in_the_same_bytes():
    bodies = {
        name: body_of(container, view_bytes.write_records, view_bytes.write_mapping).hex()
        for name, container in views()
    }
    assert bodies == {name: entry["body"] for name, entry in GOLDEN.items()}


@pytest.mark.parametrize("name", GOLDEN)
def test_pickles_load_detached(name):
    """The process of these handles has ended, but a checkpoint that holds such a pickle must load."""
    x = pickle.loads(bytes.fromhex(GOLDEN[name]["pickle"]))
    assert len(x) == GOLDEN[name]["length"]
    if len(x):
        assert "detached" in repr(x)
        with pytest.raises(recstore.errors.SegmentNotFoundError):
            list(x)
