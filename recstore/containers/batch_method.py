"""`__getitems__` of a dataset, hidden from wrappers that forward every name, and the check of its argument.

DataLoader, Subset and StackDataset read a batch with one call of `__getitems__` if the dataset has it. A wrapper whose
`__getattr__` forwards every name would forward this one too. The wrapper's own `__getitem__` would then never run, and
training would skip its transform. So the rule is:

    Code that names `__getitems__` finds it. A reader of PyTorch finds it only in the dataset that it reads.

Nothing simpler is safe. The method itself gets the same arguments from a wrapper as from a DataLoader. Without it
a batch of `Fields` would be one read per record. A forwarder gets the name as an argument, so its code does not
contain the name. A proxy written in C has no Python code to inspect, but the reader then holds the proxy, not the
dataset.
tests/py/torch/test_torch_datasets.py ("Wrapped") tests each case.
"""

from __future__ import annotations

import sys
import types

from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_NAME = "__getitems__"
# Packages of objects that keep their dataset in an attribute `dataset`, or several datasets in `datasets`.
_READERS = ("torch.utils.data", "torchdata", "recstore.torch.loader")


def batch_method(function: F) -> F:
    """Decorates `__getitems__`: attribute lookup from a forwarding wrapper raises AttributeError."""
    return _BatchMethod(function)  # type: ignore[return-value]  # type checkers see an ordinary method


class _BatchMethod:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is None:
            return self._function
        frame = sys._getframe().f_back
        while (
            frame is not None
            and not _mentions_name(frame.f_code)
            and next(iter(frame.f_locals.values()), None) is dataset
        ):
            frame = frame.f_back  # a method of the dataset, such as its __getattribute__, acts for its caller
        # A thread that runs a C function has no frame.
        if frame is not None and (not _mentions_name(frame.f_code) or _reads_another(dataset, frame)):
            raise AttributeError(
                f"a wrapper cannot forward {_NAME!r} of {an(type(dataset).__name__)}, because its own __getitem__ "
                "would not run: define it in the wrapper",
                name=_NAME,
                obj=dataset,
            )
        return types.MethodType(self._function, dataset)


def _mentions_name(code: types.CodeType) -> bool:
    return _NAME in code.co_names or _NAME in code.co_consts


def _reads_another(dataset: object, frame: types.FrameType) -> bool:
    """Whether the frame belongs to a reader of PyTorch that holds datasets, but not `dataset`."""
    if not frame.f_globals.get("__name__", "").startswith(_READERS):
        return False
    attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
    datasets = attributes.get("datasets", ())
    read_datasets = list(datasets.values() if isinstance(datasets, dict) else datasets)
    if "dataset" in attributes:
        read_datasets.append(attributes["dataset"])
    return bool(read_datasets) and not any(item is dataset for item in read_datasets)


def refuse_batches(indices: Any) -> None:
    """Raises TypeError for a list of batches of indices. A DataLoader with a batch size passes such a list if its
    sampler yields batches."""
    first = indices[0] if type(indices) is list and indices else None
    if isinstance(first, (list, tuple, range)) or getattr(first, "ndim", 0) > 0:
        raise TypeError(
            "the sampler yields batches of indices, not single indices: give the DataLoader batch_size=None, or pass "
            "the sampler as batch_sampler="
        )
