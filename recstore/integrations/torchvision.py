"""Dataset classes of torchvision over stores: `ImageFolder`, `DatasetFolder`, `CocoDetection` and `CocoCaptions`. One
process of a machine lists the files or parses the annotations. `cached` keeps decoded images in a cache."""

from __future__ import annotations

import copy
import functools
import os

from PIL import Image, JpegImagePlugin, PngImagePlugin
from torchvision import datasets
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader
from torchvision.datasets.vision import StandardTransform

from recstore.building import fingerprints
from recstore.containers import records
from recstore.integrations import parts
from recstore.torch.cached import CachedDataset
from recstore.values.classes import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from typing_extensions import Unpack

    from recstore._types import CacheOptions, Files, Path, SharedOptions
    from recstore.containers.records import RecordView

    _Function: TypeAlias = Callable[[Any], Any] | None
    _Valid: TypeAlias = Callable[[str], bool] | None

__all__ = ["CocoCaptions", "CocoDetection", "DatasetFolder", "ImageFolder", "cached"]

_Vision = datasets.VisionDataset


class DatasetFolder(datasets.DatasetFolder):  # type: ignore[misc]
    """torchvision's DatasetFolder over a store: `samples` is a :class:`recstore.RecordView`, `targets` a view of its
    second field.

    Args:
        root, loader, extensions, transform, target_transform, is_valid_file, allow_empty: as in torchvision.
        options: the options of :class:`recstore.RecordList`; and ``shared="name"`` with `keep`, `fingerprint`, `dir`
            and `timeout` as in :func:`recstore.shared`: one process on the machine lists the files; the others attach.
            The default fingerprint is derived from the path of `root`, the times of `root` and the class folders, and
            the arguments and methods that select files. It does not cover folders below a class folder; if they change,
            give another fingerprint.

    The files, their order, the classes and their numbers are the same as in torchvision. A subclass may override
    `find_classes` and `make_dataset`.

    Raises FileNotFoundError for a folder without classes or a class without files, like torchvision. Reading is
    thread-safe.
    """

    def __init__(
        self,
        root: Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | str | None = None,
        transform: _Function = None,
        target_transform: _Function = None,
        is_valid_file: _Valid = None,
        allow_empty: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None:
        # torchvision's own constructor would make lists of all samples and targets.
        _Vision.__init__(self, root, transform=transform, target_transform=target_transform)
        source = _Folder(self, extensions, is_valid_file, allow_empty)
        lists, rest = parts.of(parts.store(type(self).__name__, source, options))
        self.loader = loader
        self.extensions = extensions
        self.classes: list[str] = rest["classes"]
        self.class_to_idx: dict[str, int] = rest["class_to_idx"]
        self.samples: RecordView[tuple[str, int]] = lists["samples"]
        self.targets = self.samples.field(1)


class ImageFolder(DatasetFolder, datasets.ImageFolder):  # type: ignore[misc]
    """torchvision's ImageFolder whose `samples`, `imgs` and `targets` are views of a store; see :class:`DatasetFolder`.

    >>> import os, tempfile
    >>> root = tempfile.mkdtemp()
    >>> for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
    ...     os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
    ...     open(os.path.join(root, name), "w").close()
    >>> dataset = ImageFolder(root)
    >>> dataset.classes, dataset.targets.to_list(), dataset.samples[2] == (os.path.join(root, "dog", "1.jpg"), 1)
    (['cat', 'dog'], [0, 0, 1], True)
    """

    def __init__(
        self,
        root: Path,
        transform: _Function = None,
        target_transform: _Function = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: _Valid = None,
        allow_empty: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty=allow_empty, **options
        )
        self.imgs = self.samples


class CocoDetection(datasets.CocoDetection):  # type: ignore[misc]
    """torchvision's CocoDetection whose `coco` is :class:`recstore.integrations.pycocotools.COCO`.

    Args:
        root, annFile, transform, target_transform, transforms: as in torchvision.
        options: the options of that class, such as ``shared="name"`` for one copy per machine.

    ``ids`` is a view of the sorted ids of the images. Raises the exceptions of that class. Reading is thread-safe.
    """

    def __init__(
        self,
        root: Path,
        annFile: Files,
        transform: _Function = None,
        target_transform: _Function = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        from recstore.integrations.pycocotools import COCO

        # torchvision's own constructor would parse the file.
        _Vision.__init__(self, root, transforms, transform, target_transform)
        self.coco = COCO(annFile, **options)
        self.ids = _sorted(records.RecordList(self.coco.imgs.keys()))


class CocoCaptions(CocoDetection, datasets.CocoCaptions):  # type: ignore[misc]
    """torchvision's CocoCaptions; see :class:`CocoDetection`."""


def _sorted(ids: records.RecordList[int]) -> records.RecordList[int]:
    """The ids in ascending order. If they are sorted already, as is usual, this is `ids` itself, without an index."""
    previous = None
    for item in ids:
        if previous is not None and item < previous:
            return ids.sorted_by(int)
        previous = item
    return ids


class _Folder(parts.PartsSource):
    """The samples of a folder with its classes."""

    def __init__(
        self, dataset: DatasetFolder, extensions: Sequence[str] | str | None, is_valid_file: _Valid, allow_empty: bool
    ) -> None:
        super().__init__([])
        self.dataset, self.root = dataset, dataset.root
        self.options = {"extensions": extensions, "is_valid_file": is_valid_file}
        self.allow_empty = allow_empty

    def parts(self, bar: Any) -> Iterator[tuple[str, Iterable[Any]]]:
        self.classes, self.class_to_idx = self.dataset.find_classes(self.root)
        yield "samples", self.samples()

    def rest(self) -> dict[str, Any]:
        return {"classes": self.classes, "class_to_idx": self.class_to_idx}

    def samples(self) -> Iterator[tuple[str, int]]:
        make = self.dataset.make_dataset
        if make is not datasets.DatasetFolder.make_dataset:
            yield from make(self.root, class_to_idx=self.class_to_idx, allow_empty=self.allow_empty, **self.options)
            return
        # Class by class, so that only the list of one class is in memory.
        empty = {}
        for name in sorted(self.class_to_idx):
            class_to_idx = {name: self.class_to_idx[name]}
            samples = make(self.root, class_to_idx=class_to_idx, allow_empty=True, **self.options)
            if not samples:
                empty.update(class_to_idx)
            yield from samples
        if not self.class_to_idx or empty and not self.allow_empty:
            make(self.root, class_to_idx=empty, **self.options)  # raises, and names the empty classes

    def _identity(self) -> str:
        root = os.path.abspath(self.root)
        folders = [root, *sorted(entry.path for entry in os.scandir(root) if entry.is_dir())]
        stamps = [_stamp(folder) for folder in folders]
        overridden = [
            getattr(self.dataset, name)
            for name in ("find_classes", "make_dataset")
            if getattr(type(self.dataset), name) is not getattr(datasets.DatasetFolder, name)
        ]
        content = {**self.options, "allow_empty": self.allow_empty, "overridden": overridden, "root": self.root}
        return fingerprints.derive(functools.partial(dict, folders=folders, stamps=stamps, **content))


def _stamp(folder: str) -> str:
    status = os.stat(folder)
    return f"{status.st_mtime_ns} {status.st_ino}"


# ---- Decoded images in a cache ----


def cached(dataset: datasets.VisionDataset, name: str, **options: Unpack[CacheOptions]) -> CachedDataset[Any]:
    """A dataset of torchvision over a cache of its samples before transforms, such as decoded images. The transforms of
    `dataset` run at each access, random or not.

    Args:
        dataset: a VisionDataset whose samples are pairs of an image and a target.
        name: the name of the cache.
        options: `limit`, `dir`, `files`, `fingerprint`, `keep` and `arrays` of
            :class:`recstore.torch.CachedDataset`.

    To cache smaller images, give `dataset` a transform that resizes, and use CachedDataset with ``then=`` instead.

    Raises ValueError for a dataset whose transforms were changed after its construction, and the exceptions of
    CachedDataset.

    >>> import os, tempfile
    >>> root = tempfile.mkdtemp()
    >>> os.mkdir(os.path.join(root, "cat"))
    >>> Image.new("RGB", (8, 6), "red").save(os.path.join(root, "cat", "1.png"))
    >>> dataset = cached(datasets.ImageFolder(root, transform=lambda image: image.size), "doctest", limit="1MB")
    >>> dataset[0], dataset.cache.get(0)[0].getpixel((0, 0)), dataset.classes
    (((8, 6), 0), (255, 0, 0), ['cat'])
    """
    then, own = dataset.transforms, (getattr(dataset, "transform", None), getattr(dataset, "target_transform", None))
    given = (then.transform, then.target_transform) if type(then) is StandardTransform else (None, None)
    if own != given:
        raise ValueError(
            f"the transforms of this {type(dataset).__name__} were changed after its construction, so it is unknown "
            "which ones it applies: pass them to its constructor"
        )
    plain = copy.copy(dataset)
    plain.transforms = plain.transform = plain.target_transform = None
    return CachedDataset(plain, name, then=_Transforms(then), **options)


class _Transforms:
    """Applies the transforms of a dataset to a sample. Unpickling it imports this module, which registers images."""

    def __init__(self, transforms: Callable[[Any, Any], Any] | None) -> None:
        self.transforms = transforms

    def __call__(self, sample: Any) -> Any:
        return sample if self.transforms is None else self.transforms(*sample)


def _parts_of(image: Image.Image) -> tuple[Any, ...]:
    data, palette = image.tobytes(), image.palette
    return image.mode, image.size, data, palette and (palette.mode, bytes(palette.palette)), dict(image.info)


def _image_of(parts: tuple[Any, ...]) -> Image.Image:
    mode, size, data, palette, info = parts
    image = Image.frombytes(mode, size, data)
    if palette is not None:
        image.putpalette(palette[1], palette[0])
    image.info = info
    return image


for _kind in (Image.Image, JpegImagePlugin.JpegImageFile, PngImagePlugin.PngImageFile):
    register(_kind, encode=_parts_of, decode=_image_of)
