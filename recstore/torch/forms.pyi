"""Types of Field and Ragged. The stub imports no torch, so tensors and dtypes are Any."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

__all__ = ["Field", "Ragged"]

_Form = Literal["tensor", "jagged", "ragged", "padded", "packed", "text", "bytes", "category", "object"]

class Ragged(NamedTuple):
    values: Any  # a torch.Tensor, or a Ragged
    offsets: Any
    def rows(self) -> list[Any]: ...

class Field:
    form: str
    field: Any
    dtype: str | None
    pad: Any
    length: int | tuple[int | None, int | None] | None
    multiple_of: int
    truncate: bool
    missing: str
    default: Any
    names: tuple[str | int, ...] | None
    split: bool
    row: tuple[int, ...] | None
    def __init__(
        self,
        form: _Form = "tensor",
        field: Any = None,
        *,
        dtype: Any = None,
        pad: complex = 0,
        length: int | tuple[int | None, int | None] | None = None,
        multiple_of: int = 1,
        truncate: bool = False,
        missing: Literal["raise", "mask"] = "raise",
        default: Any = ...,
        names: Iterable[str | int] | None = None,
        split: bool = True,
        row: int | Sequence[int] | None = None,
    ) -> None: ...
    @property
    def has_default(self) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
