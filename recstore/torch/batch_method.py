"""BatchMethod: `__getitems__` of a dataset, which its wrappers do not find; refuse_batches, which checks its argument.

DataLoader, Subset and StackDataset read a batch by one call of `__getitems__` if a dataset has this method, and ask for
it with hasattr or getattr. A wrapper that forwards unknown attributes would forward this question too, and its own
`__getitem__` would never run. So the dataset answers the question only for itself.
"""

import sys
import types

from recstore.text import an

# Packages whose objects keep the dataset that they read in an attribute `dataset` or `datasets`.
_READERS = ("torch.utils.data", "torchdata", "recstore.torch.loader")


class BatchMethod:
    """A descriptor for the method `__getitems__`. The lookup fails with AttributeError if an object asks on behalf of a
    wrapper around the dataset. Two signs tell so, both in the frames of the callers: a function that was given the
    method's name, as `__getattr__` is; or a reader of PyTorch whose dataset is another object."""

    def __init__(self, function):
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, dataset, owner=None):
        if dataset is None:
            return self._function
        if self._asked_for_another(dataset, sys._getframe().f_back):
            raise AttributeError(
                f"a wrapper cannot forward {self._name!r} of {an(type(dataset).__name__)}, for its own __getitem__ "
                "would not run: define it in the wrapper",
                name=self._name,
                obj=dataset,
            )
        return types.MethodType(self._function, dataset)

    def _asked_for_another(self, dataset, frame):
        while frame is not None and self._knows_name(frame):
            first = frame.f_code.co_varnames[:1] if frame.f_code.co_argcount else ()
            if not any(frame.f_locals.get(name) is dataset for name in first):
                return True
            frame = frame.f_back  # a __getattribute__ of the dataset's own class, or a helper of a wrapper
        return frame is not None and _reads_another(dataset, frame)

    def _knows_name(self, frame):
        """Whether a function got the method's name: as an argument, in its closure, or in a loop of a comprehension.
        Other variables do not count: pytest keeps parts of an assert in variables of the test."""
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount] + code.co_freevars
        if code.co_varnames[:1] == (".0",):
            names = code.co_varnames + code.co_freevars
        found = frame.f_locals
        return any(type(found.get(name)) is str and found[name] == self._name for name in names)


def refuse_batches(indices):
    """TypeError for a list of batches of indices. A DataLoader with a batch size asks for one where its sampler gives
    batches."""
    first = indices[0] if type(indices) is list and indices else None
    if isinstance(first, (list, tuple, range)) or getattr(first, "ndim", 0):
        raise TypeError(
            "the sampler gives batches of indices and not single ones: give the DataLoader batch_size=None, or give "
            "it the sampler as batch_sampler="
        )


def _reads_another(dataset, frame):
    """Whether a frame is a method of a reader of PyTorch that reads datasets, and `dataset` is none of them."""
    if not frame.f_globals.get("__name__", "").startswith(_READERS):
        return False
    attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
    several = attributes.get("datasets", ())
    read = list(several.values() if isinstance(several, dict) else several)
    if "dataset" in attributes:
        read.append(attributes["dataset"])
    return bool(read) and not any(one is dataset for one in read)
