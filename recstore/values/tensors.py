"""Stores torch tensors as ext values: an ndarray, and the name of the dtype if numpy does not have it. Only decoding
imports torch."""

import sys

import numpy as np

from recstore.errors import CorruptError, Error
from recstore.text import an
from recstore.values import static_types
from recstore.values.ext_codes import TENSOR

# The item sizes of torch dtypes that numpy does not have. The payload is unsigned integers of that size.
_BITS = {
    "bfloat16": 2,
    "complex32": 4,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}


def describe(value):
    """`(code, EXTRA, payload)` of a plain dense CPU tensor; None for others, for which `refusal` has the reason."""
    if refusal(value) is not None:
        return None
    value = value.resolve_conj().resolve_neg()
    name = str(value.dtype).partition(".")[2]
    if name not in _BITS:
        return TENSOR, None, value.numpy()
    torch = sys.modules["torch"]
    size = _BITS[name]
    bits = value.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[size])
    return TENSOR, name, bits.numpy().view(f"u{size}")


def refusal(value):
    """The advice for a tensor that cannot be stored, code in which it is `x`; None for a tensor that can."""
    torch = sys.modules["torch"]
    kind = type(value)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        return _subclass_remedy(value, kind)
    if static_types.instance_dict(value) and kind is torch.Tensor:
        return "it has attributes of its own; store (x.detach(), vars(x))"
    steps, lost = "", []
    if value.requires_grad or kind is torch.nn.Parameter:
        steps, lost = ".detach()", ["requires_grad" if kind is torch.Tensor else "its class"]
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
    if name not in _BITS:
        try:
            value.resolve_conj().resolve_neg().numpy()
        except (TypeError, RuntimeError):
            return f"its dtype {value.dtype} has no place in the format; store x.view(torch.uint8), without its dtype"
    return None


def _subclass_remedy(value, kind):
    both = "recstore.register its class with encode= and decode="
    if static_types.is_own(kind, "__torch_dispatch__", sys.modules["torch"].Tensor):
        return f"store the tensors that it is made of, or {both}"  # it may have no elements of its own
    return f"store x.as_subclass(torch.Tensor), without its class{static_types.and_attributes(value)}, or {both}"


def check(payload):
    """Checks a payload, for the deep check. The result stands for the tensor: like a tensor it can be a dict key and
    equals nothing else."""
    if type(payload) is not np.ndarray:
        raise CorruptError(f"a tensor made of {an(type(payload).__name__)}")
    return object()


def maker(extra):
    """The function that makes a tensor with its own memory from a payload."""
    if extra is not None and extra not in _BITS:
        raise CorruptError(f"a tensor of dtype {extra!r:.80}")
    import torch

    dtype = None if extra is None else getattr(torch, extra, None)
    if extra is not None and dtype is None:
        raise Error(f"a tensor of dtype {extra} needs a later torch than {torch.__version__}")

    def make(payload):
        check(payload)
        if not payload.flags.writeable:
            payload = payload.copy("K")
        if dtype is None:
            return torch.from_numpy(payload)
        size = _BITS[extra]
        if payload.dtype != np.dtype(f"u{size}"):
            raise CorruptError(f"a tensor of dtype {extra} made of {payload.dtype}")
        return torch.from_numpy(payload.view({1: "u1", 2: "i2", 4: "i4"}[size])).view(dtype)

    return make
