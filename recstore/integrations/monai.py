"""`cached`: a dataset of MONAI whose deterministic transforms run once for all ranks and workers of a machine."""

from __future__ import annotations

import enum
import functools
from typing import Any

import torch.utils.data
from monai.data.meta_tensor import MetaTensor
from monai.transforms.compose import Compose
from monai.transforms.traits import RandomizableTrait
from monai.transforms.transform import Transform
from monai.transforms.utils import reset_ops_id
from monai.utils import enums

from recstore.building import fingerprints
from recstore.torch.cached import CachedDataset
from recstore.values.classes import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    import monai.data
    from typing_extensions import Unpack

    from recstore._types import CacheOptions

__all__ = ["cached"]


def cached(dataset: monai.data.Dataset, name: str, **options: Unpack[CacheOptions]) -> CachedDataset[Any]:
    """A dataset over a cache of its samples before the first random transform. That transform and all later
    ones run at each access.

    Args:
        dataset: a ``monai.data.Dataset`` with a ``Compose``.
        name: the name of the cache.
        options: `limit`, `dir`, `files`, `fingerprint`, `keep` and `arrays` of
            :class:`recstore.torch.CachedDataset`. The default fingerprint covers the data list and the cached
            transforms. It does not cover the content of files; if they change, give `files` too.

    MONAI's CacheDataset finds the same first random transform. The samples are the same as from `dataset` itself, and
    so are the random states under MONAI's DataLoader.

    Raises ValueError for a lazy Compose, which cannot be divided, and the exceptions of CachedDataset.

    >>> import torch
    >>> from monai.data import Dataset
    >>> from monai.transforms import Compose, RandFlip, ScaleIntensity
    >>> plain = Dataset([torch.tensor([[2.0, 4.0]])], Compose([ScaleIntensity(0.0, 1.0), RandFlip(prob=1.0)]))
    >>> dataset = cached(plain, "doctest", limit="1MB")
    >>> dataset[0].tolist(), dataset.cache.get(0).tolist()
    ([[1.0, 0.0]], [[0.0, 1.0]])
    """
    transform = dataset.transform
    if transform.lazy is not False:
        raise ValueError("a lazy Compose resamples once for several transforms and cannot be divided: set lazy=False")
    first = transform.get_index_of_first(lambda t: isinstance(t, RandomizableTrait) or not isinstance(t, Transform))
    if options.get("fingerprint") is None:
        transforms = transform.transforms[:first]
        options["fingerprint"] = fingerprints.derive(functools.partial(dict, data=dataset.data, transforms=transforms))
    then = None if first is None else _Rest(transform, first)
    return CachedDataset(_Deterministic(dataset, first), name, then=then, **options)


class _Deterministic(torch.utils.data.Dataset[Any]):
    """The samples of a dataset before its first random transform."""

    def __init__(self, dataset: monai.data.Dataset, first: int | None) -> None:
        self.dataset, self.first = dataset, first

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        sample = self.dataset.transform(self.dataset.data[index], end=self.first)
        reset_ops_id(sample)  # the traces for inverse() name transforms by their address in this process
        return sample

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)


class _Rest:
    """The transforms from the first random one on. MONAI seeds the transforms that it finds in the attributes of a
    dataset. This class has no `__dict__`, so that MONAI seeds them once."""

    __slots__ = ("first", "transform")

    def __init__(self, transform: Compose, first: int) -> None:
        self.transform, self.first = transform, first

    def __call__(self, sample: Any) -> Any:
        return self.transform(sample, start=self.first)


# ---- Values of MONAI in a cache ----


def _parts_of(tensor: MetaTensor) -> tuple[Any, dict[str, Any]]:
    return tensor.as_tensor(), dict(tensor.__dict__)


def _tensor_of(parts: tuple[Any, dict[str, Any]]) -> MetaTensor:
    tensor, attributes = parts
    out: MetaTensor = tensor.as_subclass(MetaTensor)
    out.__dict__.update(attributes)
    return out


register(MetaTensor, encode=_parts_of, decode=_tensor_of)
for _kind in vars(enums).values():
    if isinstance(_kind, type) and issubclass(_kind, enum.Enum) and _kind.__module__ == enums.__name__:
        register(_kind)
