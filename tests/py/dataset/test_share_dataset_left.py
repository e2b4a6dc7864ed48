"""The values that share_dataset skips, with the reasons. When it raises, nothing is replaced."""

import collections
import threading

import pytest
from holders import Frozen, Plain, records, row_of, share

import recstore
from recstore import RecordDict, RecordView, share_dataset


class TestSkipping:
    def test_unsupported(self):
        x = Plain(
            good=records(), bad=[{"lock": threading.Lock()} for _ in range(200)], frames=[object() for _ in range(300)]
        )
        bad = x.bad
        report = share(x)
        assert type(x.good) is RecordView and x.bad is bad
        assert "cannot store _thread.lock" in row_of(report, "bad").reason
        assert "cannot store object" in row_of(report, "frames").reason

    @pytest.mark.parametrize("at", [1, 150, 1999])
    def test_one_bad_record(self, at):
        x = Plain(bad=records(2000))
        x.bad[at]["x"] = object()
        report = share(x)
        assert report.store is None and report.after == 0 and type(x.bad) is list and report.undo() == 0
        x = Plain(first=[Frozen([i]) for i in range(500)], bad=records(2000), last={i: str(i) for i in range(500)})
        x.bad[at]["stream"] = threading.Lock()
        bad, last = x.bad, x.last
        report = share(x)
        assert x.bad is bad and "stream" in row_of(report, "bad").reason
        assert x.first[7] == Frozen([7]) and type(x.first) is RecordView
        assert x.last == last and type(x.last) is RecordDict
        assert len(report.store) in (1500, 1500 + at)
        assert report.store.nbytes < 60_000, "the bad list's records were left in"

    @pytest.mark.parametrize("at", [0, 1003])
    def test_strict(self, at):
        x = Plain(good=records(), bad=records(2000))
        x.bad[at]["x"] = object()
        with pytest.raises(recstore.errors.EncodeError, match=r"^bad: \$.x: cannot store object.*nothing was replaced"):
            share(x, strict=True)
        assert type(x.good) is list

    def test_strict_ignores_values_that_were_skipped_on_purpose(self):
        class Dataset:
            shared_by_all = records()

            def __init__(self):
                self.a, self.b = records(), [object() for _ in range(300)]

        x = Dataset()
        share(x, strict=True, skip="b")
        assert type(x.a) is RecordView
        pytest.raises(ValueError, lambda: share(x, strict=True, skip=["b", "c"])).match("no attribute matches 'c'")

    def test_pickled(self):
        x = Plain(bad=[complex] * 300 + [object])
        share(x, 100, on_unsupported="pickle")
        assert type(x.bad) is RecordView and x.bad[-1] is object

    @pytest.mark.parametrize("make, reason", [
        (lambda: set(range(1000)), "skip=['value'] keeps it"),
        (lambda: frozenset(range(1000)), "a frozenset, which has no order"),
        (lambda: tuple(range(1000, 2000)), "make it a list"),
        (lambda: collections.deque(range(1000)), "manages its own data"),
        (lambda: collections.Counter(range(1000)), "a Counter, a subclass of dict"),
        (lambda: collections.defaultdict(lambda: 1, {i: i for i in range(1000)}), "store dict(x)"),
        (lambda: bytearray(5000), "manages its own data"),
    ])  # fmt: skip
    def test_other_types(self, make, reason):
        value = make()
        x = Plain(value=value)
        report = share(x)
        assert x.value is value and reason in row_of(report, "value").reason

    def test_subclass_of_list(self):
        class Odd(list):
            def __len__(self):
                raise AssertionError("asked")

            __iter__ = __getitem__ = __len__

        x = Plain(value=Odd(records()), inside=Odd([records()]))
        report = share(x)
        assert "an Odd, a subclass of list" in row_of(report, "value").reason
        assert type(list.__getitem__(x.inside, 0)) is RecordView
        x = Plain(value=collections.UserList(records()))
        share(x)
        assert type(x.value.data) is RecordView and x.value[3] == records()[3]


class TestErrors:
    def test_in_user_code_while_storing(self):
        class Bad:
            pass

        def encode(bad):
            if bad.n == 1500:
                raise ZeroDivisionError
            return bad.n

        recstore.register(Bad, encode=encode, decode=lambda n: n)
        items = []
        for n in range(2000):
            items.append(Bad())
            items[-1].n = n
        x = Plain(good=records(), bad=items)
        pytest.raises(ZeroDivisionError, lambda: share(x))
        assert type(x.good) is list and x.bad is items

    def test_a_slot_that_fails(self, monkeypatch):
        from recstore.dataset import object_graph

        x = Plain(a=records(), b=records(), c=records())
        before = dict(vars(x))
        put = object_graph.ItemSlot.put

        def failing(slot, value):
            put(slot, value)
            if slot.path == "b" and type(value) is RecordView:
                raise KeyboardInterrupt

        monkeypatch.setattr(object_graph.ItemSlot, "put", failing)
        pytest.raises(KeyboardInterrupt, lambda: share(x))
        assert all(vars(x)[name] is before[name] for name in before)

    def test_assigned_during_the_call(self):
        x = Plain(a=records(), b=[])

        class Meddling:
            pass

        recstore.register(Meddling, encode=lambda m: setattr(x, "a", None) or 1, decode=lambda n: n)
        x.b.extend(Meddling() for _ in range(1000))
        pytest.raises(RuntimeError, lambda: share(x)).match("a was assigned during the call")
        assert x.a is None and type(x.b) is list

    def test_grown_during_the_call(self):
        x = Plain(b=[])

        class Growing:
            pass

        recstore.register(Growing, encode=lambda m: len(x.b) < 5000 and x.b.append(1) or 1, decode=lambda n: n)
        x.b.extend(Growing() for _ in range(1000))
        pytest.raises(RuntimeError, lambda: share(x)).match("changed while it was being stored")
        assert type(x.b) is list

    @pytest.mark.parametrize("error, wrong", [
        (ValueError, ["1 XB", "MiB", "", -1, "-1 kB", "nan", "1e999 GB"]), (TypeError, [None, 1.5, True, [1]])
    ])  # fmt: skip
    def test_bad_thresholds(self, error, wrong):
        for threshold in wrong:
            pytest.raises(error, lambda: share_dataset(Plain(), threshold)).match("a size is a")

    def test_patterns_type(self):
        pytest.raises(TypeError, lambda: share(Plain(), only=[1])).match("only must be a path")
        pytest.raises(TypeError, lambda: share(Plain(), skip=[b"x"])).match("skip must be a path")


def test_a_pattern_that_names_a_small_value_is_used():
    x = Plain(samples=records(), classes=["cat"], name="x")
    assert len(share(x, only=["samples", "classes", "name"], strict=True).replaced) == 1
