"""Stores torch tensors as ext values: an ndarray, and the name of the dtype if numpy does not have it. Only decoding
imports torch."""

from __future__ import annotations

import sys
from types import MemberDescriptorType

import numpy as np

from recstore.errors import CorruptError, Error
from recstore.text import an
from recstore.values import static_types
from recstore.values.ext_codes import TENSOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The item sizes, in bytes, of torch dtypes that numpy lacks. The payload has unsigned integers of that size.
_ITEM_SIZES = {
    "bfloat16": 2,
    "complex32": 4,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}


def describe(value: Any) -> tuple[int, str | None, Any] | None:
    """`(code, EXTRA, payload)` of a plain dense CPU tensor; None for other tensors, for which `refusal` has the
    reason."""
    if refusal(value) is not None:
        return None
    value = value.resolve_conj().resolve_neg()
    name = str(value.dtype).partition(".")[2]
    if name not in _ITEM_SIZES:
        return TENSOR, None, value.numpy()
    torch = sys.modules["torch"]
    size = _ITEM_SIZES[name]
    bits = value.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[size])
    return TENSOR, name, bits.numpy().view(f"u{size}")


def bare(value: Any) -> Any:
    """A plain torch.Tensor over the memory of a tensor, without running code of its class. None for a class that
    defines `__torch_dispatch__`, because its data may be elsewhere."""
    torch = sys.modules["torch"]
    if type(value) is torch.Tensor:
        return value
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return None
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(value, torch.Tensor)


def gradient_of(value: Any) -> tuple[bool, bool]:
    """`(requires_grad, is_leaf)` of a tensor, without running code of its class."""
    with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
        return value.requires_grad, value.is_leaf


def has_memory(tensor: Any) -> bool:
    """Whether a plain tensor is a nonempty array in main memory."""
    torch = sys.modules["torch"]
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    return not tensor.is_quantized and tensor.numel() > 0


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of a tensor by name, without its data."""
    state = dict(object.__getattribute__(value, "__dict__"))
    for name, member in _members(type(value)).items():
        try:
            state[name] = member.__get__(value)
        except AttributeError:
            continue  # an unset slot
    return state


def of_class(tensor: Any, cls: type, state: dict[str, Any]) -> Any:
    """A tensor of a class over the memory of a plain tensor, with the attributes in `state`. Runs no code of the
    class."""
    torch = sys.modules["torch"]
    if cls is not torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            tensor = tensor.as_subclass(cls)
    members = _members(cls)
    for name, value in state.items():
        if name in members:
            members[name].__set__(tensor, value)
        else:
            object.__getattribute__(tensor, "__dict__")[name] = value
    return tensor


def _members(cls: type) -> dict[str, MemberDescriptorType]:
    return {
        name: member
        for base in cls.__mro__
        if "__slots__" in base.__dict__
        for name, member in base.__dict__.items()
        if type(member) is MemberDescriptorType
    }


def parts(value: Any) -> tuple[Any, dict[str, Any]] | None:
    """`(plain tensor, attributes)` of a tensor of a subclass; None if it cannot be stored."""
    return None if refusal(value) is not None else (bare(value), state_of(value))


def made_of(cls: type, payload: Any) -> Any:
    """The tensor of a subclass from its `parts`."""
    if type(payload) is not tuple or len(payload) != 2 or type(payload[1]) is not dict:
        raise CorruptError(f"a tensor of a class made of {an(type(payload).__name__)}")
    if type(payload[0]) is not sys.modules["torch"].Tensor or not all(type(name) is str for name in payload[1]):
        raise CorruptError("a tensor of a class made of other parts than a tensor and attributes")
    return of_class(payload[0], cls, payload[1])


def refusal(value: Any, keeps_attributes: bool = False, any_dtype: bool = False) -> str | None:
    """The remedy for a tensor that cannot be stored, as code that names it `x`; None if it can be stored.
    With `keeps_attributes`, attributes of a plain tensor are not a reason; with `any_dtype`, its dtype is not."""
    torch = sys.modules["torch"]
    kind = type(value)
    if kind is torch.Tensor and not keeps_attributes and static_types.instance_dict(value):
        return "it has attributes of its own; store (x.detach(), vars(x))"
    value = bare(value)
    if value is None:
        return "store the tensors that it is made of, or recstore.register its class with encode= and decode="
    steps, lost = "", []
    if value.requires_grad or issubclass(kind, torch.nn.Parameter):
        steps, lost = ".detach()", ["its class" if issubclass(kind, torch.nn.Parameter) else "requires_grad"]
    if value.is_nested:
        return f"store list(x{steps}.unbind()), without its class"
    if value.layout is not torch.strided:
        steps, lost = f"{steps}.to_dense()", [*lost, "its layout"]
    if value.is_quantized:
        steps, lost = f"{steps}.dequantize()", [*lost, "its scale and zero point"]
    if value.device.type == "meta":
        return "it has no data: it is on the device meta"
    if value.device.type != "cpu":
        steps, lost = f"{steps}.cpu()", [*lost, "its device"]
    if steps:
        return f"store x{steps}, without {' and '.join(lost)}"
    name = str(value.dtype).partition(".")[2]
    if name not in _ITEM_SIZES:
        try:
            value.resolve_conj().resolve_neg().numpy()
        except (TypeError, RuntimeError):
            if value._is_zerotensor():
                return "store x.clone()"
            if any_dtype:
                return None
            return f"its dtype {value.dtype} has no place in the format; store x.view(torch.uint8), without its dtype"
    return None


def check(payload: Any) -> object:
    """Checks a payload. Returns a placeholder for the tensor: like a tensor, it can be a dict key and equals nothing
    else."""
    if type(payload) is not np.ndarray:
        raise CorruptError(f"a tensor made of {an(type(payload).__name__)}")
    return object()


def maker(extra: Any) -> Callable[[Any], Any]:
    """The function that makes a tensor with its own memory from a payload."""
    if extra is not None and extra not in _ITEM_SIZES:
        raise CorruptError(f"a tensor of dtype {extra!r:.80}")
    import torch

    dtype = None if extra is None else getattr(torch, extra, None)
    if extra is not None and dtype is None:
        raise Error(f"a tensor of dtype {extra} needs a later torch than {torch.__version__}")

    size = 0 if extra is None else _ITEM_SIZES[extra]

    def make(payload: Any) -> Any:
        check(payload)
        if not payload.flags.writeable:
            payload = payload.copy("K")
        if dtype is None:
            return torch.from_numpy(payload)
        if payload.dtype != np.dtype(f"u{size}"):
            raise CorruptError(f"a tensor of dtype {extra} made of {payload.dtype}")
        return torch.from_numpy(payload.view({1: "u1", 2: "i2", 4: "i4"}[size])).view(dtype)

    return make
