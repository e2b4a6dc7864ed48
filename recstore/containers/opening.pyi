"""Types of `open`."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from typing_extensions import TypeVar

from recstore._types import Arrays
from recstore.containers.dicts import RecordDict
from recstore.containers.records import RecordList

__all__ = ["open"]

# What a file holds is known when it is opened: with an annotation the store is what it says, without one a checker lets
# both `[0]` and `.keys()` pass.
_Store = TypeVar("_Store", bound=RecordList[Any] | RecordDict[Any, Any], default=Any)

def open(
    path: str | os.PathLike[str],
    *,
    verify: Literal["header", "full"] = "header",
    copy: bool = False,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    limits: Iterable[int] | None = None,
    arrays: Arrays = "copy",
    cache: str | os.PathLike[str] | None = None,
    limit: int | str | None = None,
    lazy: bool = False,
    options: dict[str, Any] | None = None,
) -> _Store: ...  # type: ignore[type-var]
