"""torch tensors as bytes at an address and a form: dtype, shape, strides, class and attributes. Nothing here runs code
of a tensor's class."""

from __future__ import annotations

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def span_of(tensor: Any) -> int:
    """The number of elements from the first to the last of a non-empty tensor, including gaps."""
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))  # type: ignore[no-any-return]


def extent(tensor: Any) -> tuple[int, int]:
    """The addresses `(first, past the last)` of the bytes of a plain, non-empty tensor."""
    low = tensor.data_ptr()
    return low, low + span_of(tensor) * tensor.element_size()


def bytes_of(tensor: Any) -> Any:
    """The bytes from the first to the last element of a plain tensor, as a numpy array over its memory."""
    import torch

    bits = tensor.conj() if tensor.is_conj() else tensor
    bits = torch._neg_view(bits) if bits.is_neg() else bits  # pyright: ignore[reportPrivateImportUsage]
    return bits.detach().as_strided((span_of(bits),), (1,)).view(torch.uint8).numpy()


class Form:
    """Everything about a tensor except its bytes. Can be pickled. Strides count elements. `flags`: whether it is
    conjugate, is negative, and requires a gradient."""

    __slots__ = ("dtype", "shape", "strides", "flags", "cls", "state")

    def __init__(
        self,
        dtype: Any,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        flags: tuple[bool, bool, bool],
        cls: type,
        state: dict[str, Any],
    ) -> None:
        self.dtype, self.shape, self.strides = dtype, shape, strides
        self.flags, self.cls, self.state = flags, cls, state

    def __reduce__(self) -> tuple[Any, ...]:
        return Form, (self.dtype, self.shape, self.strides, self.flags, self.cls, self.state)

    @staticmethod
    def of(tensor: Any) -> Form:
        from recstore.values import tensors

        bare = tensors.bare(tensor)
        flags = bare.is_conj(), bare.is_neg(), bare.requires_grad
        return Form(bare.dtype, tuple(bare.shape), bare.stride(), flags, type(tensor), tensors.state_of(tensor))

    def over(self, memory: Any, start: int) -> Any:
        """The tensor over the bytes of a mapping or numpy array from `start` on."""
        import numpy as np
        import torch

        from recstore.values import tensors

        span = 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))
        size = span * torch.empty(0, dtype=self.dtype).element_size()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns about read-only arrays
            flat = torch.from_numpy(np.ndarray((size,), np.uint8, memory, start))
        out = flat.view(self.dtype).as_strided(self.shape, self.strides)
        is_conjugate, is_negative, requires_grad = self.flags
        out = out.conj() if is_conjugate else out
        out = torch._neg_view(out) if is_negative else out  # pyright: ignore[reportPrivateImportUsage]
        out = tensors.of_class(out, self.cls, self.state)
        if requires_grad:
            with torch._C.DisableTorchFunctionSubclass():
                out.requires_grad_()
        return out
