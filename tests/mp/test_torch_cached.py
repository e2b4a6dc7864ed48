"""CachedDataset in the workers of DataLoaders."""

import os
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from mp import cached_images  # noqa: E402
from mp.cached_images import Images, Then  # noqa: E402

from recstore.torch import CachedDataset  # noqa: E402


def left(folder):
    return [file for file in os.listdir(folder) if file.endswith(".cache")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(alone, tmp_path, method):
    cached_images.render(tmp_path, 40)
    plain = Then(Images(tmp_path, 40), cached_images.augmented)
    cached = CachedDataset(Images(tmp_path, 40), "workers", limit="8MB", then=cached_images.augmented)

    def epochs(dataset, method):
        loader = torch.utils.data.DataLoader(
            dataset, 6, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(7),
            multiprocessing_context=method
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while True:
                yield [cached_images.digest(batch) for batch in loader]

    expected, got = epochs(plain, "fork"), epochs(cached, method)
    first, second = next(expected), next(expected)
    assert next(got) == first != second
    assert len(cached.cache) == 40 and len(left(os.environ["RECSTORE_DIR"])) == 1
    for i in range(40):
        os.unlink(tmp_path / f"{i}.ppm")
    assert next(got) == second, "no file is read again"
    got.close()
    cached.cache.close()
    assert left(os.environ["RECSTORE_DIR"]) == []
