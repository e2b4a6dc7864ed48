"""The life of stores shared by name: ends of processes, and keep=."""

import time

import pytest
from mp import sharers
from mp.sharers import Build, count_collected, end, files_after_collecting, files_of, notes, records, start
from waiting import attached

import recstore

# Files of the folder of all tests may be locked by the collections of concurrent tests.
pytestmark = pytest.mark.usefixtures("alone")

# ---- Life -----------------------------------------------------------------------------------------------------------


def test_a_forked_child_that_shares_is_another_user(name, log):
    x = recstore.shared(name, Build(log, 1), fingerprint="1")
    child = start(sharers.call, name, log, {})
    assert child[1].recv() == (sharers.N, True) and len(notes(log)) == 1
    x.close()
    assert len(files_of(name)) == 1
    end(child)
    # The child also inherited the lease of x, and kept it until its end.
    assert files_after_collecting(name) == []


def test_unlinked_while_in_use(name):
    x = recstore.shared(name, lambda: [1], fingerprint="1")
    assert recstore.names.remove(name) == 1
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: recstore.names.remove(name))
    y = recstore.shared(name, lambda: [2], fingerprint="1")
    assert (x[0], y[0]) == (1, 2)
    x.close()  # must not remove the new store
    assert len(files_of(name)) == 1 and recstore.shared(name)[0] == 2
    y.close()


def test_own_name(name):
    x = recstore.RecordList(records(1), name=name)
    for build in (lambda: recstore.RecordList([1], name=name), lambda: recstore.RecordDict({1: 1}, name=name)):
        pytest.raises(recstore.errors.SegmentExistsError, build).match(r"shared\(.*remove\(.*shared\(")
    with recstore.shared(name) as y:
        assert y.to_list() == records(1)
        x.close()
        assert len(files_of(name)) == 1
    with recstore.RecordDict({"a": 1}, name=name) as d, recstore.shared(name) as e:
        assert d == e == {"a": 1}
    with pytest.raises(ValueError, match="anonymous memory has no name"):
        recstore.RecordList([1], name=name, backing="anonymous")
    pytest.raises(recstore.errors.EncodeError, lambda: recstore.RecordList([object()], name=name))


def test_own_name_race(name, monkeypatch):
    """Another store takes the name during the build."""
    others = []

    def stream():
        others.append(recstore.RecordList([2], name=name))
        yield 1

    with pytest.raises(recstore.errors.SegmentExistsError, match="is taken by a store of process"):
        recstore.RecordList(stream(), name=name)
    assert recstore.shared(name)[0] == 2
    others[0].close()


# ---- keep -----------------------------------------------------------------------------------------------------------


def test_keep_for_ever(name):
    with recstore.shared(name, lambda: [1], fingerprint="1", keep=True) as x:
        assert x[0] == 1
    assert count_collected(name) == 0
    attached(name, 0)
    (info,) = recstore.names.list(name)
    assert (info.state, info.keep) == ("kept", "for ever")
    with recstore.shared(name, lambda: [2], fingerprint="1") as x:
        assert x[0] == 1
    assert recstore.names.remove(name) == 1


def test_keep_needs_a_fingerprint(name, tmp_path):
    with pytest.raises(ValueError, match="keep=True needs fingerprint= or files="):
        recstore.shared(name, lambda: [1], keep=True)
    data = tmp_path / "data"
    data.write_text("1")
    recstore.shared(name, lambda: [1], keep=True, files=[data]).close()
    data.write_text("23")
    with recstore.shared(name, lambda: [2], keep=True, files=data) as x:
        assert x[0] == 2
    assert recstore.names.remove(name) == 2


@pytest.mark.parametrize("last", [2.1, -2.1], ids=["later", "after the clock was set back"])
def test_keep_for_a_while(name, monkeypatch, last):
    recstore.shared(name, lambda: [1], keep="2h").close()
    clock = time.time
    for hours, count in ((1.9, 1), (-1.9, 1), (last, 0)):
        monkeypatch.setattr(time, "time", lambda hours=hours: clock() + 3600 * hours)
        recstore.names.collect()
        assert len(files_of(name)) == count


def test_a_clock_that_jumps_removes_nothing_in_use(name, monkeypatch):
    x = recstore.shared(name, lambda: [1], keep="1s", fingerprint="1")
    clock = time.time
    for jump in (1e9, -1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: clock() + jump)
        assert count_collected(name) == 0 and x[0] == 1
        with recstore.shared(name, lambda: [2], fingerprint="1") as y:
            assert y[0] == 1
        assert "in use" in str(recstore.names.list(name))
    x.close()
    recstore.names.remove(name)


@pytest.mark.parametrize(
    "keep",
    ["2 hours", "h", "", "-1h", "0s", "nan", -5, 0.0, 10**400, "1e99d", [], float("nan")],
    ids=lambda keep: repr(keep)[:9],
)
def test_invalid_values_of_keep(name, keep):
    with pytest.raises(ValueError, match='a duration such as "2h"'):
        recstore.shared(name, lambda: [1], fingerprint="1", keep=keep)
