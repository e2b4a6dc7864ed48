"""The form of a field in a batch: the class Field with its options, and Ragged, rows of different lengths."""

from __future__ import annotations

import functools
import operator
from typing import NamedTuple

import numpy

from recstore.text import an, meant
from recstore.torch.optional import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, TypeAlias

    Form: TypeAlias = Literal["tensor", "jagged", "ragged", "padded", "packed", "text", "bytes", "category", "object"]

__all__ = ["Field", "Ragged"]

# The forms, and the options that each takes besides `field`.
_NUMBERS = {"dtype", "missing", "default", "row"}
FORMS = {
    "tensor": _NUMBERS,
    "jagged": _NUMBERS,
    "ragged": _NUMBERS,
    "padded": _NUMBERS | {"pad", "length", "multiple_of", "truncate"},
    "packed": {"dtype", "missing", "default", "pad", "length", "truncate", "split"},
    "text": {"missing", "default"},
    "bytes": {"missing", "default"},
    "category": {"missing", "default", "names"},
    "object": {"missing", "default"},
}
# The forms of lists, text or bytes of different lengths. Their only default for a record without a value is [].
OF_LENGTHS = ("jagged", "ragged", "padded", "packed", "bytes")

_DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
).split()
# The dtypes of tensors by name. Some releases of torch lack some of them.
TORCH_DTYPES = {name: getattr(torch, name) for name in _DTYPES if hasattr(torch, name)}
FIELD_DTYPES = list(TORCH_DTYPES) or [name for name in _DTYPES if name != "bfloat16"]  # numpy has no bfloat16
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}
UNSET = type("UNSET", (), {"__repr__": lambda self: "..."})()  # no default was given; None is a default
INTEGERS = {name for name in _DTYPES if "int" in name}


class Ragged(NamedTuple):
    """Rows of different lengths: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    ``values`` is a tensor of all rows, concatenated. ``offsets`` is an int64 tensor with one element more than there
    are rows. For lists of lists, ``values`` is a Ragged of the inner lists.

    >>> import torch
    >>> from recstore.torch import Ragged
    >>> boxes = Ragged(torch.tensor([3, 1, 2]), torch.tensor([0, 1, 1, 3]))
    >>> [row.tolist() for row in boxes.rows()]
    [[3], [], [1, 2]]
    """

    values: Any  # a tensor, or a Ragged
    offsets: Any

    def rows(self) -> list[Any]:
        """The rows as a list of tensors, views of ``values``; for lists of lists, a list of lists of tensors."""
        inner = self.values.rows() if isinstance(self.values, Ragged) else self.values
        ends = self.offsets.tolist()
        return [inner[begin:end] for begin, end in zip(ends, ends[1:])]


class Field:
    """The form that a field has in the batches of :class:`Fields`, with its options.

    Args:
        form: "tensor": numbers, or rows of one shape, as a tensor. "jagged": lists of different lengths as a tensor of
            torch's layout ``torch.jagged``. "ragged": lists as :class:`Ragged`. "padded": lists as a padded tensor, and
            a tensor of their lengths. "packed": lists of tokens packed into rows of one length. "text": a list of str.
            "bytes": text or bytes as a Ragged of uint8. "category": the index of each value in `names`. "object":
            a list of the decoded values.
        field: the field of the records, as in ``x.field(field)``. None: the name of the entry in the batch. An empty
            tuple is the whole record. If the records are numbers, lists, arrays or text, any name is the whole record.
        dtype: the dtype of the numbers: a dtype of torch or numpy, or its name. None: int64 for ints, torch's default
            dtype for floats, bool for bools, the dtype of the array for arrays. Arrays of uint16 and uint32 become
            int64, since most functions of torch refuse the two. With ``output="numpy"`` floats are float64, and arrays
            always keep their dtype. A number that an integer dtype cannot hold is an error.
        pad: the number that fills "padded" and "packed" rows.
        length: the length of rows. "packed" requires it. None: "padded" rows are as long as the longest row of the
            batch. "padded" lists of lists take a pair: the most lists of a record and the most rows of a list. Either
            may be None.
        multiple_of: without `length`, "padded" rows are rounded up to a multiple of this.
        truncate: True: lists that are longer than `length` are cut. False: they are an error.
        missing: "raise": a record that lacks the field, or has None there, is an error. "mask": the batch also has
            a tensor of bools, ``<name>_mask``, which is False for such a record.
        default: the value for such records. For lists it must be ``[]``, which "mask" yields too.
        names: the values of a category, in the order of their numbers. None: all values of the field, sorted;
            ``Fields`` reads the field of all records once to find them.
        split: "packed": True: a document continues in the next row when a row is full. False: each document is in one
            row.
        row: the shape of the innermost rows: ``(4,)`` for lists of boxes, ``()`` for lists of numbers, or lists of
            lists of numbers, whose lengths differ. None: as in the records.

    Raises TypeError and ValueError for options that exclude each other. A Field is immutable and thread-safe.

    >>> from recstore.torch import Field
    >>> Field("padded", dtype="int32", pad=-1)
    Field('padded', dtype='int32', pad=-1)
    """

    __slots__ = ("default", "dtype", "field", "form", "length", "missing", "multiple_of", "names", "pad", "row",
                 "split", "truncate")  # fmt: skip

    def __init__(
        self,
        form: Form = "tensor",
        field: Any = None,
        *,
        dtype: Any = None,
        pad: complex = 0,
        length: int | tuple[int | None, int | None] | None = None,
        multiple_of: int = 1,
        truncate: bool = False,
        missing: Literal["raise", "mask"] = "raise",
        default: Any = UNSET,
        names: Iterable[str | int] | None = None,
        split: bool = True,
        row: int | Sequence[int] | None = None,
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"{form!r:.60} is not a form of a field{meant(form, FORMS)}: {', '.join(FORMS)}")
        if missing not in ("raise", "mask"):
            raise ValueError(f"missing must be 'raise' or 'mask', not {missing!r:.60}")
        self.form, self.field, self.missing, self.default = form, field, missing, default
        self.dtype = None if dtype is None else dtype_name(dtype)
        self.pad = _number(pad, "pad")
        self.length = None if length is None else _length(length)
        self.multiple_of = _positive(multiple_of, "multiple_of")
        self.truncate, self.split = bool(truncate), bool(split)
        self.names = None if names is None else category_names(names)
        self.row = None if row is None else _shape(row)
        self._check()

    def _non_defaults(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {option: getattr(self, option) for option in _DEFAULTS}
        return {option: value for option, value in values.items() if value is not _DEFAULTS[option]}

    def _check(self) -> None:
        """Raises for options that the form does not take, and for options that contradict each other."""
        for option in self._non_defaults():
            if option not in FORMS[self.form] and option != "field":
                takers = ", ".join(repr(form) for form, options in FORMS.items() if option in options)
                raise TypeError(f"the form {self.form!r} does not take {option}=, an option of {takers}")
        if self.form == "packed" and self.length is None:
            raise TypeError("the form 'packed' needs a row length: Field('packed', length=2048)")
        if self.truncate and self.length is None:
            raise TypeError("truncate=True needs a row length: give length=")
        if self.truncate and self.form == "packed" and self.split:
            raise TypeError("split=True drops no tokens: leave truncate=True out, or give split=False")
        if type(self.length) is int and self.multiple_of != 1:
            raise TypeError("length fixes the length of rows: leave multiple_of out")
        if type(self.length) is tuple and self.form != "padded":
            raise TypeError(f"a pair of lengths is for 'padded' lists of lists, not for {self.form!r}")
        if self.has_default:
            self._check_default()

    def _check_default(self) -> None:
        if self.form in OF_LENGTHS:
            if not hasattr(self.default, "__len__") or len(self.default):
                raise ValueError(f"the default of the form {self.form!r} must be [], not {self.default!r:.60}")
        elif self.form == "tensor":
            _number(self.default, "default")
        elif self.form == "text" and type(self.default) is not str:
            raise TypeError(f"the default of text must be a str, not {self.default!r:.60}")
        elif self.form == "category":
            category_names([self.default])
            if self.names is not None and self.default not in self.names:
                raise ValueError(f"the default {self.default!r:.60} is not in names")

    @property
    def has_default(self) -> bool:
        """Whether `default` was given."""
        return self.default is not UNSET

    def __repr__(self) -> str:
        return f"Field({', '.join([repr(self.form), *(f'{k}={v!r}' for k, v in self._non_defaults().items())])})"

    def __eq__(self, other: object) -> bool:
        return type(other) is Field and (self.form, self._non_defaults()) == (other.form, other._non_defaults())

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Field, self.form, **self._non_defaults()), ()


_DEFAULTS: dict[str, Any] = {"field": None, **(Field.__init__.__kwdefaults__ or {})}


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch or numpy, or a name itself. Raises TypeError if a field cannot have that dtype."""
    name = _NAMES.get(dtype) if torch is not None and isinstance(dtype, torch.dtype) else dtype
    if name is None:
        raise TypeError(f"{dtype} is not a dtype of a field: {', '.join(FIELD_DTYPES)}")
    if not isinstance(name, str):
        try:
            name = numpy.dtype(dtype).name  # pyright: ignore[reportCallIssue, reportArgumentType]
        except TypeError:
            raise TypeError(f"dtype must be a dtype of torch or numpy, or its name, not {dtype!r:.60}") from None
    name = name.removeprefix("torch.")
    name = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64"}.get(name, name)
    if name not in FIELD_DTYPES:
        raise TypeError(f"{name!r:.60} is not a dtype of a field{meant(name, FIELD_DTYPES)}: {', '.join(FIELD_DTYPES)}")
    return name


def _number(value: Any, option: str) -> Any:
    if not isinstance(value, (bool, int, float, complex)):
        try:
            value = value.item()  # a scalar of numpy or torch
        except (AttributeError, ValueError, RuntimeError):
            raise TypeError(f"{option} must be a number, not {value!r:.60}") from None
    return value


def _positive(value: Any, option: str) -> int:
    try:
        out = operator.index(value)
    except TypeError:
        raise TypeError(f"{option} must be a positive int, not {value!r:.60}") from None
    if not 0 < out < 2**31:
        raise ValueError(f"{option} must be a positive int below 2**31, not {out}")
    return out


def _length(length: Any) -> int | tuple[int | None, int | None]:
    if not isinstance(length, (tuple, list)):
        return _positive(length, "length")
    if len(length) != 2 or tuple(length) == (None, None):
        raise ValueError(f"length must be an int or a pair such as (16, None), not {length!r:.60}")
    most, longest = (None if size is None else _positive(size, "length") for size in length)
    return most, longest


def _shape(row: Any) -> tuple[int, ...]:
    sizes = (row,) if isinstance(row, int) else tuple(row)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"row must be the shape of a row, such as (4,), not {row!r:.60}")
    return sizes


def category_names(names: Iterable[str | int]) -> tuple[str | int, ...]:
    """The values of a category as a tuple. Raises for values that a category cannot have."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names must be a list of values, not {names!r:.60}")
    seen = {}
    for name in names:
        if type(name) not in (str, int, bool):
            raise TypeError(f"names must be str, int or bool, but {name!r:.60} is {an(type(name).__name__)}")
        if type(name) is int and not -(2**63) <= name < 2**63:
            raise ValueError(f"an int in names must fit 64 bits: {name}")
        if name in seen:
            raise ValueError(f"{name!r:.60} is in names twice")
        seen[name] = True
    return tuple(seen)
