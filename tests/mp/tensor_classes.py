"""Subclasses of torch.Tensor, and the processes that read such tensors."""

import torch


class Sub(torch.Tensor):
    """Has attributes, like MONAI's MetaTensor."""


class Slotted(torch.Tensor):
    __slots__ = ("extra",)


class Refusing(torch.Tensor):
    """A tensor class on which no torch function may run."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} ran")


class Wrapper(torch.Tensor):
    """A wrapper whose elements are in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} ran")

    def __reduce_ex__(self, protocol):
        return Wrapper, (self.inner,)


def of(cls, n=3000, **state):
    """A tensor of a class, with attributes."""
    with torch._C.DisableTorchFunctionSubclass():
        out = torch.arange(float(n)).as_subclass(cls)
        for name, value in state.items():
            setattr(out, name, value)
    return out


def description(value):
    with torch._C.DisableTorchFunctionSubclass():
        bare = torch.Tensor.as_subclass(value, torch.Tensor)
        return type(value).__name__, bare.sum().item(), dict(vars(value)), getattr(value, "extra", None)


def send_descriptions(connection, dataset):
    connection.send(
        [description(value) for name, value in vars(dataset).items() if name not in ("wrapped", "many")]
        + [(type(dataset.wrapped).__name__, dataset.wrapped.inner.sum().item(), description(dataset.many[7]))]
    )
