"""Subclasses of torch.Tensor: share_dataset keeps their class and attributes, also in workers and ranks."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from holders import Plain  # noqa: E402
from mp import tensor_classes as classes  # noqa: E402
from mp.mapped_arrays import Holder  # noqa: E402
from mp.workers import run_worker  # noqa: E402

import recstore  # noqa: E402
from recstore import RecordList, audit, share_dataset  # noqa: E402
from recstore.errors import EncodeError  # noqa: E402


def make_holder():
    return Holder(
        sub=classes.of(classes.Sub, meta={"affine": torch.eye(4).tolist()}, label="x"),
        slotted=classes.of(classes.Slotted, extra=7),
        refusing=classes.of(classes.Refusing),
        plain=classes.of(torch.Tensor, note="y"),
        wrapped=classes.Wrapper(torch.arange(3000.0)),
        many=[classes.of(classes.Sub, 30, i=i) for i in range(200)],
    )


def test_replaced_tensors_keep_their_class(context, sent):
    dataset = make_holder()
    names = ["sub", "slotted", "refusing", "plain"]
    expected = [classes.description(getattr(dataset, name)) for name in names]
    before = dict(vars(dataset))
    report = share_dataset(dataset, 2000, strict=True)
    assert {row.path for row in report.replaced} == {*names, "wrapped.inner", "many"}
    assert [classes.description(getattr(dataset, name)) for name in names] == expected
    assert all(getattr(dataset, name) is not before[name] for name in names) and dataset.wrapped is before["wrapped"]
    last = ("Wrapper", 2999 * 1500.0, ("Sub", 435.0, {"i": 7}, None))
    assert run_worker(context, classes.send_descriptions, dataset) == [*expected, last]
    assert bool(sent) == (context.get_start_method() != "fork") and max(sent, default=0) < 6000, "handles"
    assert report.undo() == 6 and [classes.description(getattr(dataset, name)) for name in names] == expected
    assert type(dataset.many) is list and classes.description(dataset.many[7]) == last[2]


def test_attributes_are_kept_and_reported():
    """The replacing tensor has the same attributes, so their memory is not freed."""
    x = Plain(sub=classes.of(classes.Sub, note=torch.rand(5000), more={"affine": torch.rand(3000), "s": 1}))
    x.plain = classes.of(torch.Tensor, note=[{"i": i} for i in range(300)])
    shared = x.shared = classes.of(classes.Sub, seen=torch.zeros(3000).share_memory_())
    note, seen = x.sub.note, shared.seen
    report = share_dataset(x, 2000)
    assert {row.path for row in report.replaced} == {"sub", "plain", "shared", "sub.more['affine']"}
    assert {row.path for row in report.skipped} == {"sub.note", "plain.note", "shared.seen"}
    assert sum(row.before for row in report.replaced) < 4 * 12_500
    assert x.sub.note is note and len(x.plain.note) == 300 and x.shared.seen is seen and x.shared is not shared


def test_views_share_memory_again():
    whole = classes.of(classes.Sub, note=1)
    x = Plain(whole=whole, part=whole[5:9], plain=torch.Tensor.as_subclass(whole, torch.Tensor), array=whole.numpy())
    share_dataset(x, 2000, strict=True)
    x.plain[5] = -1
    assert float(x.part[0]) == float(x.whole[5]) == x.array[5] == -1 and type(x.part) is classes.Sub


def test_ranks_get_the_class(name):
    def make():
        return Holder(sub=classes.of(classes.Sub, i=1), samples=[{"i": i} for i in range(500)])

    first, second = (share_dataset(make, 2000, shared=name, fingerprint="1") for _ in range(2))
    assert first is not second
    assert classes.description(first.sub) == classes.description(second.sub) == ("Sub", 2999 * 1500.0, {"i": 1}, None)


@pytest.mark.parametrize("cls", [classes.Sub, classes.Slotted, classes.Refusing])
def test_large_tensors_are_counted(cls):
    x = Plain(images=[classes.of(cls, 100_000) for _ in range(10)], one=classes.of(cls, 500_000))
    report = audit(x)
    assert 6_000_000 < report.size < 6_100_000 and report.advice
    report = share_dataset(x, dry_run=True)
    assert 6_000_000 < report.before < 6_100_000 and report.skipped == []


def test_a_tensor_that_cannot_be_replaced_is_reported_with_its_size():
    grad = classes.of(classes.Sub, 500_000)
    grad.requires_grad_()
    x = Plain(grad=grad, wrapped=classes.Wrapper(torch.zeros(500_000, requires_grad=True)))
    report = share_dataset(x)
    assert x.grad is grad and {row.path for row in report.skipped} == {"grad", "wrapped.inner"}
    assert all(2_000_000 <= row.before < 2_000_200 and ".detach()" in row.reason for row in report.skipped)


class TestRecords:
    def test_attributes_are_stored(self, tmp_path):
        value = classes.of(classes.Sub, meta={"a": 1})
        with RecordList([{"image": value}, classes.of(classes.Slotted, extra=(1, 2)), value[:3]]) as x:
            assert classes.description(x[0]["image"]) == classes.description(value)
            assert x[1].extra == (1, 2) and type(x[2]) is classes.Sub
            x.save(tmp_path / "x.rs")

    def test_a_file_needs_the_class(self, tmp_path):
        class Own(torch.Tensor):
            pass

        with RecordList([classes.of(Own, 5, note=1)]) as x:
            x.save(tmp_path / "x.rs")
        with recstore.open(tmp_path / "x.rs") as x:
            assert type(x[0]) is recstore.Record
            recstore.register(Own)
            assert type(x[0]) is Own and x[0].note == 1 and x[0].tolist() == [0, 1, 2, 3, 4]

    def test_a_registered_class(self):
        class Own(torch.Tensor):
            pass

        recstore.register(Own, encode=lambda own: own.sum().item(), decode=lambda total: f"sum {total}")
        with RecordList([classes.of(Own, 5)]) as x:
            assert x[0] == "sum 10.0"

    def test_tensors_that_cannot_be_stored(self):
        with pytest.raises(EncodeError, match=r"function"):
            RecordList([classes.of(classes.Sub, 5, transform=lambda x: x)])
        pytest.raises(EncodeError, lambda: RecordList([classes.Wrapper(torch.zeros(3))])).match("register its class")
