"""share_dataset over lists and dicts: finding them, their replacements, `only` and `skip`, the report, undo."""

import collections
import gc
import threading
import types
import weakref

import pytest
from holders import (
    Delegating,
    Frozen,
    FrozenSlots,
    Guarded,
    Named,
    Plain,
    Proxy,
    Slotted,
    SlottedChild,
    records,
    row_of,
    share,
)

import recstore
from recstore import RecordDict, RecordView, share_dataset


class TestFinding:
    def test_lists_and_dicts(self):
        """They are replaced in place, share one segment, and undo() gives the same objects as before."""
        ordered = collections.OrderedDict((str(i), i) for i in range(300))
        groups = collections.defaultdict(list, {i: [i] for i in range(300)})
        x = Plain(
            samples=records(), small=[1, 2], d={f"key {i}": i for i in range(300)}, ordered=ordered, groups=groups,
            pair=Named(records(100), 1), box=Named(Plain(samples=records(150)), 1)
        )  # fmt: skip
        expected = dict(x.d)
        report = share(x)
        replaced = ["box.samples.samples", "d", "groups", "ordered", "samples"]
        assert sorted(row.path for row in report.replaced) == replaced
        assert type(x.samples) is type(x.box.samples.samples) is RecordView and x.samples == records()
        assert type(x.d) is RecordDict and x.d == expected and list(x.d) == list(expected)
        assert x.ordered == dict(ordered) and x.groups[7] == [7] and x.groups["none"] == []
        assert x.small == [1, 2] and type(x.small) is list and row_of(report, "samples").records == 200
        assert type(x.pair.samples) is list and "Named, which is a tuple" in row_of(report, "pair.samples").reason
        assert x.samples.segments == x.d.segments == list(report.store.segments)
        view = x.samples
        assert share(x).replaced == [] and x.samples is view
        assert report.undo() == 5
        assert type(x.ordered) is collections.OrderedDict and x.ordered == ordered
        assert type(x.groups) is collections.defaultdict and x.groups == groups and x.groups.default_factory is list
        assert type(x.samples) is list and type(x.d) is dict and (x.samples, x.d) == (records(), expected)
        x.samples.append(1)
        assert report.undo() == 0

    def test_nested_objects(self):
        x = Plain(
            inner=Plain(inner=Slotted(records())),
            others=[Plain(samples=records()), {"deep": (Plain(samples=records()),)}],
        )
        report = share(x)
        paths = {"inner.inner.samples", "others[0].samples", "others[1]['deep'][0].samples"}
        assert {row.path for row in report.replaced} == paths
        assert x.inner.inner.samples[3] == x.others[0].samples[3] == x.others[1]["deep"][0].samples[3] == records()[3]

    def test_slots(self):
        x = SlottedChild(records())
        report = share(x)
        (row,) = report.replaced
        assert len(row.aliases) == 2
        assert type(x.samples) is RecordView
        assert x.samples is Slotted.samples.__get__(x) is x._SlottedChild__private

    def test_no_code_of_the_object_runs(self):
        x = Guarded(records())
        share(x)
        assert type(x.__dict__["samples"]) is RecordView
        x = Plain(proxy=Proxy(records()), delegating=Delegating(Delegating(Plain(samples=records(100)))))
        share(x)
        assert type(object.__getattribute__(x.proxy, "inner")) is type(x.delegating.samples) is RecordView

    def test_frozen_dataclasses(self):
        for kind in (Frozen, FrozenSlots):
            x = kind(records())
            share(x)
            assert type(x.samples) is RecordView
            assert x == kind(records())

    def test_plain_tuples_are_replaced(self):
        x = Plain(pair=(records(), "a", (records(100), 1)))
        x.same = x.pair
        report = share(x)
        assert type(x.pair[0]) is type(x.pair[2][0]) is RecordView and x.pair[1] == "a"
        assert x.same is x.pair
        assert report.undo() == 2
        assert x.pair == (records(), "a", (records(100), 1)) and type(x.pair[2][0]) is list and x.same is x.pair

    def test_a_dict_of_few_lists_is_not_replaced(self):
        x = Plain(splits={"train": records(), "test": records(100)})
        share(x)
        assert type(x.splits) is dict
        assert type(x.splits["train"]) is type(x.splits["test"]) is RecordView

    def test_list_of_datasets(self):
        x = [Plain(samples=records()), Plain(samples=records())]
        report = share(x)
        assert [row.path for row in report.replaced] == ["[0].samples", "[1].samples"]

    def test_the_object_itself(self):
        report = share(records())
        assert "x = recstore.RecordList(x)" in report.skipped[0].reason
        assert "(the object itself)" in str(report)

    def test_class_attributes(self):
        class Dataset:
            samples = records()

        original = Dataset.samples
        report = share(Dataset())
        assert Dataset.samples is original
        assert "only='__class__.samples'" in row_of(report, "__class__.samples").reason
        report = share(Dataset(), only="__class__.samples")
        assert type(Dataset.samples) is RecordView
        assert report.undo() == 1 and Dataset.samples == original

    def test_stores_are_left(self):
        store = recstore.RecordList(records())
        x = Plain(store=store, view=store[:10], keys=RecordDict({"a": 1}).keys())
        report = share(x, 0)
        assert x.store is store and report.rows == []
        assert "shared already: store, view, keys" in str(report)

    def test_standard_library_is_not_walked(self):
        import logging

        logger = logging.getLogger("recstore.test")
        logger.extra = records()
        try:
            x = Plain(
                logger=logger, lock=threading.Lock(), generator=(i for i in range(3)), function=records, module=types
            )
            x.weak = weakref.ref(x)
            assert share(x).rows == []
            assert type(logger.extra) is list
        finally:
            del logger.extra

    def test_deep_chains(self):
        x = first = Plain(samples=records())
        for _ in range(3000):
            x = Plain(next=x)
        report = share(x)
        assert "nested too deeply" in str(report) and type(first.samples) is list


class TestAliases:
    def test_cycles(self):
        x = Plain(samples=records(), items=[])
        x.me = x
        x.items += [x.items, x, x.samples]
        x.child = Plain(parent=x, same=x.samples)
        report = share(x)
        assert type(x.samples) is RecordView and x.items[0] is x.items
        assert x.samples is x.child.same is x.items[2]
        assert sorted(row_of(report, "samples").aliases) == ["items[1].child.same", "items[2]"]
        assert report.undo() == 3
        assert type(x.samples) is list and x.samples is x.child.same is x.items[2]

    def test_records_of_two_containers_are_stored_once(self):
        samples = records(2000)
        x = Plain(samples=samples, by_name={s["name"]: s for s in reversed(samples)}, some=samples[100:1500:2])
        expected = dict(x.by_name), list(x.some)
        report = share(x)
        assert x.by_name == expected[0] and x.some == expected[1]
        assert len(report.store) == 4000  # the records and the keys
        report.undo()
        assert x.by_name["record 7"] is x.samples[7] and x.some[0] is x.samples[100]
        assert (x.by_name, x.some) == expected

    def test_tuples_of_values_that_attributes_hold(self):
        samples, others = records(), records(100)
        x = Plain(samples=samples, others=others)
        x.pair = x.same = samples, others
        x.box = Plain(pair=x.pair)
        report = share(x)
        assert x.pair is x.same is x.box.pair
        assert x.pair[0] is x.samples and x.pair[1] is x.others and type(x.samples) is RecordView
        assert report.skipped == []

    def test_held_by_a_tuple_that_stays(self):
        samples = records()
        x = Plain(samples=samples, pair=Named(samples, 1))
        report = share(x)
        assert x.samples is samples is x.pair.samples
        assert "at pair.samples" in row_of(report, "samples").reason


class TestChoosing:
    def make(self):
        return Plain(a=records(), b=records(), inner=Plain(a=records(), c=records()), parts=[Plain(samples=records())])

    def replaced(self, **options):
        return {row.path for row in share(self.make(), **options).replaced}

    def test_only(self):
        assert self.replaced(only="a") == {"a"}
        assert self.replaced(only=["a", "inner.c"]) == {"a", "inner.c"}
        assert self.replaced(only="*a") == {"a", "inner.a"}
        assert self.replaced(only="inner") == {"inner.a", "inner.c"}
        assert self.replaced(only="parts[0].samples") == {"parts[0].samples"}
        assert self.replaced(only="*.samples") == {"parts[0].samples"}

    def test_skip(self):
        assert self.replaced(skip="inner") == {"a", "b", "parts[0].samples"}
        assert self.replaced(skip="*a") == {"b", "inner.c", "parts[0].samples"}
        assert self.replaced(only="inner", skip=("inner.a",)) == {"inner.c"}

    def test_the_report_names_unused_patterns(self):
        assert "no attribute matches 'sampels'" in str(share(self.make(), only="sampels"))

    def test_part_of_a_dict(self):
        x = Plain(d={str(i): records(40) for i in range(20)})
        share(x, only="d['7']")
        assert type(x.d) is dict and type(x.d["7"]) is RecordView and type(x.d["8"]) is list

    def test_threshold(self):
        # About 2.2 MiB, 0.5 MiB and 6 KiB; the dicts of Python 3.10 are a tenth larger.
        x = Plain(big=records(8000), middle=records(2000), small=records(20))

        def shared():
            return [name for name, value in vars(x).items() if type(value) is RecordView]

        share_dataset(x, "100 MB")
        assert shared() == []
        share_dataset(x)
        assert shared() == ["big"]
        share_dataset(x, "400 kB")
        assert shared() == ["big", "middle"]
        share_dataset(x, 0)
        assert shared() == ["big", "middle", "small"]

    def test_dry_run(self):
        x = self.make()
        x.bad = [object() for _ in range(300)]
        before = dict(vars(x))
        report = share(x, dry_run=True)
        assert vars(x) == before and all(vars(x)[name] is before[name] for name in before)
        assert report.dry_run and report.store is None and report.undo() == 0
        assert {row.action for row in report.rows} == {"would be replaced", "skipped"}
        done = share(x)
        assert [row.path for row in report.replaced] == [row.path for row in done.replaced]
        for guess, real in zip(report.replaced, done.replaced):
            assert real.after / 2 <= guess.after <= real.after * 2


class TestReport:
    def test_prints(self):
        x = Plain(samples=records(2000), bad=[object() for _ in range(300)], small=[1])
        x.same = x.samples
        text = str(share(x))
        assert text.startswith("1 replaced, 1 skipped; ")
        for part in (
            "samples", "= same", "2,000", "replaced by a RecordView", "skipped: $: cannot store object",
            "left alone: 1 list"
        ):  # fmt: skip
            assert part in text
        assert all(line == line.rstrip() for line in text.splitlines())

    def test_bytes(self):
        x = Plain(samples=records(5000))
        report = share(x)
        assert report.after == report.store.nbytes
        assert row_of(report, "samples").after <= report.after < report.before / 5

    def test_the_old_data_is_freed(self):
        class Sample:
            def __init__(self, i):
                self.i = i

        recstore.register(Sample)
        x = Plain(samples=[Sample(i) for i in range(1000)], pair=([Sample(i) for i in range(1000)], 1))
        watched = weakref.ref(x.samples[5]), weakref.ref(x.pair[0][5])
        report = share(x)
        gc.collect()
        assert watched[0]() is None and watched[1]() is None
        assert x.samples[5].i == x.pair[0][5].i == 5
        report.undo()
        assert x.samples[5] is x.samples[5] and x.samples[5].i == 5


class TestUndo:
    def test_an_attribute_assigned_since_stays(self):
        x = Plain(a=records(), b=records())
        report = share(x)
        x.a = "other"
        assert report.undo() == 1
        assert x.a == "other" and type(x.b) is list

    def test_closed(self):
        x = Plain(a=records(), b=records())
        report = share(x)
        report.store.close()
        pytest.raises(recstore.errors.ClosedError, lambda: report.undo())
        assert type(x.a) is type(x.b) is RecordView


def test_names_of_the_package():
    assert recstore.share_dataset is share_dataset
    assert {"share_dataset", "audit"} <= set(dir(recstore)) & set(recstore.__all__)
    pytest.raises(AttributeError, lambda: recstore.nothing).match("has no attribute 'nothing'")
