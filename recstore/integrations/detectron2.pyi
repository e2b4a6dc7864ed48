"""Types of the dataset dicts of detectron2 over a store."""

from collections.abc import Callable, Iterable
from typing import Any

from recstore._types import Path
from recstore.containers.records import RecordList, RecordView

__all__ = ["get", "get_detection_dataset_dicts", "serializer"]

def get_detection_dataset_dicts(
    names: str | Iterable[str],
    filter_empty: bool = True,
    min_keypoints: int = 0,
    proposal_files: list[str] | None = None,
    check_consistency: bool = True,
    *,
    shared: str | None = None,
    keep: bool | str | float = False,
    fingerprint: str | None = None,
    dir: Path | None = None,
    timeout: float | None = None,
) -> RecordView[dict[str, Any]]: ...
def get(
    name: str,
    *,
    shared: str | None = None,
    keep: bool | str | float = False,
    fingerprint: str | None = None,
    dir: Path | None = None,
    timeout: float | None = None,
) -> RecordView[dict[str, Any]]: ...
def serializer(
    shared: str | None = None,
    *,
    keep: bool | str | float = False,
    dir: Path | None = None,
    timeout: float | None = None,
) -> Callable[[Iterable[dict[str, Any]]], RecordList[dict[str, Any]]]: ...
