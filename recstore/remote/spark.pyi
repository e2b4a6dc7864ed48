"""Types of the data source of Spark. The stubs import no Spark, so a session is Any."""

from typing import Any

__all__ = ["register"]

def register(spark: Any) -> None: ...
