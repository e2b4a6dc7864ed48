"""Types of torchvision's datasets over stores. The stubs import no torchvision, so its attributes stand here too."""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Unpack

from recstore._types import Files, Path, SharedOptions
from recstore.containers.fields import FieldView
from recstore.containers.records import RecordList, RecordView
from recstore.integrations.pycocotools import COCO

__all__ = ["CocoCaptions", "CocoDetection", "DatasetFolder", "ImageFolder"]

_Function = Callable[[Any], Any]

class _VisionDataset:
    root: Any
    transform: _Function | None
    target_transform: _Function | None
    transforms: Callable[[Any, Any], Any] | None
    def __getitem__(self, index: int) -> tuple[Any, Any]: ...
    def __len__(self) -> int: ...

class DatasetFolder(_VisionDataset):
    loader: Callable[[str], Any]
    extensions: Sequence[str] | None
    classes: list[str]
    class_to_idx: dict[str, int]
    samples: RecordView[tuple[str, int]]
    targets: FieldView[int]
    def __init__(
        self,
        root: Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | str | None = None,
        transform: _Function | None = None,
        target_transform: _Function | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None: ...

class ImageFolder(DatasetFolder):
    imgs: RecordView[tuple[str, int]]
    def __init__(
        self,
        root: Path,
        transform: _Function | None = None,
        target_transform: _Function | None = None,
        loader: Callable[[str], Any] = ...,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None: ...

class CocoDetection(_VisionDataset):
    coco: COCO
    ids: RecordList[int]
    def __init__(
        self,
        root: Path,
        annFile: Files,
        transform: _Function | None = None,
        target_transform: _Function | None = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        **options: Unpack[SharedOptions],
    ) -> None: ...

class CocoCaptions(CocoDetection): ...
