"""Types of the ways out to libraries of tables."""

from collections.abc import Iterable
from typing import Any

__all__ = ["TableExports"]

class TableExports:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    # A pyarrow.Table or Array, a polars.DataFrame or Series, a pandas.DataFrame: none of these packages is needed to
    # use this one, or to check code that does.
    def to_arrow(self, *, names: Iterable[str] | None = None) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_pandas(self) -> Any: ...
