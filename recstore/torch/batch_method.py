"""batch_method: `__getitems__` of a dataset, which its wrappers do not find; refuse_batches, which checks its argument.

DataLoader, Subset and StackDataset read a batch by one call of `__getitems__` where a dataset has it. A wrapper whose
`__getattr__` forwards every name would forward this one too. Its own `__getitem__` would then never run, and a program
would train on other samples than it made. So the rule is:

    Code finds `__getitems__` if it names it, and a reader of PyTorch only in the dataset that it reads.

Nothing simpler is safe. The method itself gets the same arguments from a wrapper as from a DataLoader. Without it
a batch of `Fields` would be as many reads as it has records. A forwarder is handed the name, so it does not name it;
a proxy written in C has no code to look at, but is what the reader reads. tests/py/torch/test_torch_datasets.py
("Wrapped") has a test of each.
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
# Packages whose objects keep the dataset that they read in an attribute `dataset`, or several in `datasets`.
_READERS = ("torch.utils.data", "torchdata", "recstore.torch.loader")


def batch_method(function: F) -> F:
    """A decorator of the method."""
    return _BatchMethod(function)  # type: ignore[return-value]  # for a checker it is a method as others


class _BatchMethod:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is None:
            return self._function
        frame = sys._getframe().f_back
        while (
            frame is not None and not _names_it(frame.f_code) and next(iter(frame.f_locals.values()), None) is dataset
        ):
            frame = frame.f_back  # a method of the dataset, such as a __getattribute__, asks for its caller
        # A thread that runs a function in C has no frame.
        if frame is not None and (not _names_it(frame.f_code) or _reads_another(dataset, frame)):
            raise AttributeError(
                f"a wrapper cannot forward {_NAME!r} of {an(type(dataset).__name__)}, for its own __getitem__ would "
                "not run: define it in the wrapper",
                name=_NAME,
                obj=dataset,
            )
        return types.MethodType(self._function, dataset)


def _names_it(code: types.CodeType) -> bool:
    return _NAME in code.co_names or _NAME in code.co_consts


def _reads_another(dataset: object, frame: types.FrameType) -> bool:
    """Whether a frame is a method of a reader of PyTorch that reads datasets, and `dataset` is none of them."""
    if not frame.f_globals.get("__name__", "").startswith(_READERS):
        return False
    attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
    several = attributes.get("datasets", ())
    read = list(several.values() if isinstance(several, dict) else several)
    if "dataset" in attributes:
        read.append(attributes["dataset"])
    return bool(read) and not any(one is dataset for one in read)


def refuse_batches(indices: Any) -> None:
    """TypeError for a list of batches of indices. A DataLoader with a batch size asks for one where its sampler gives
    batches."""
    first = indices[0] if type(indices) is list and indices else None
    if isinstance(first, (list, tuple, range)) or getattr(first, "ndim", 0) > 0:
        raise TypeError(
            "the sampler gives batches of indices and not single ones: give the DataLoader batch_size=None, or give "
            "it the sampler as batch_sampler="
        )
