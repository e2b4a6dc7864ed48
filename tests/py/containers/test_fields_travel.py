"""Pickled fields keep their keys and defaults of any storable type."""

import datetime
import decimal
import pickle
import signal
import sys

import pytest

import recstore
from recstore import RecordList

DAY = datetime.date(2020, 1, 1)


@pytest.fixture(autouse=True)
def allow_handles(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


def test_keys_and_defaults_of_many_types():
    with RecordList([{"a": {DAY: 1, (1, DAY): 2}}, {DAY: 1}]) as x:
        views = [x.field(("a", DAY), default=None), x.field(("a", (1, DAY)), default=...), x.fields(("a", DAY))]
        defaults = DAY, decimal.Decimal("1.50"), {1, 2}, 1j, (DAY, 1j), signal.SIGINT
        for view in (*views, x.field((DAY,), default=None), *(x.field("a", default=value) for value in defaults)):
            assert pickle.loads(pickle.dumps(view)).to_list() == view.to_list()


def test_unpickling_a_default_that_names_a_class_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    record = recstore.Record("planted_module.Evil", {"x": 1}, _origin=(25, ("planted_module", "Evil", ("x",))))
    with RecordList([{"a": 1}]) as x:
        for default in (record, [record], {1: (record,)}):
            assert pickle.loads(pickle.dumps(x.field("b", default=default)))[0] == default
        assert "planted_module" not in sys.modules
