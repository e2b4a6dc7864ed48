from typing import Any

__all__ = ["json_default"]

def json_default(value: object) -> list[Any] | dict[Any, Any]: ...
