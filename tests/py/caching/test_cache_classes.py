"""Objects in a cache: a process stores and reads instances of registered classes only."""

import pytest
from alike import alike
from kinds import Color, Pair, Plain

import recstore
from recstore._core import trust
from recstore.errors import EncodeError, UntrustedError


@pytest.fixture
def cache(name):
    with recstore.cache(name, limit="1MB") as cache:
        yield cache


def test_a_class_that_other_processes_do_not_know(cache, monkeypatch):
    monkeypatch.setattr(trust, "registered", {})
    for value in (Color.RED, Pair("a", 1), Plain(1)):
        with pytest.raises(EncodeError, match=r"^\$\[0\]: .*recstore\.register"):
            cache.put("key", [value])
        recstore.register(type(value))
        assert cache.put(type(value).__name__, [value])
        assert alike(cache.get(type(value).__name__), [value])


def test_a_class_that_this_process_does_not_know(cache, monkeypatch):
    """Instances of an unregistered class are never read as another class."""
    monkeypatch.setattr(trust, "registered", {})
    recstore.register(Plain)
    cache.put("a", Plain(1))
    monkeypatch.setattr(trust, "registered", {})
    with recstore.cache(cache.name) as other:
        with pytest.raises(UntrustedError, match=r"Plain is not registered.*call recstore\.register"):
            other.get("a")
        with pytest.warns(RuntimeWarning, match="are made at each use: the class .*Plain is not registered") as caught:
            assert [other.get_or_make("a", Plain, 2) for _ in range(3)] == [Plain(2)] * 3
        assert len(caught) == 1


def test_a_record_of_a_class_that_no_process_knows(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "registered", {})
    recstore.RecordList([Plain(1)]).save(tmp_path / "points")
    with recstore.open(tmp_path / "points") as points, pytest.warns(RuntimeWarning, match="at each use"):
        assert [cache.get_or_make("a", points.__getitem__, 0) for _ in range(3)] == [points[0]] * 3
