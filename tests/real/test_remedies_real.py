"""The remedies for values of packages that the other tests only imitate, with the packages' own classes."""

import os

import numpy as np
import pytest
import refusals
import waiting
from refusals import apply_remedy, store_and_read

from recstore.errors import EncodeError


def test_graphs_of_torch_geometric():
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    graph = data.Data(x=torch.ones(2, 3), edge_index=torch.zeros(2, 1, dtype=torch.long), name="a")
    got, _ = apply_remedy(graph)
    assert torch.equal(data.Data(**got).edge_index, graph.edge_index) and got["name"] == "a"
    hetero = data.HeteroData()
    hetero["user"].x = torch.ones(2)
    assert torch.equal(apply_remedy(hetero)[0]["user"]["x"], torch.ones(2))


def test_tensors_of_monai():
    torch = pytest.importorskip("torch")
    meta = pytest.importorskip("monai.data").MetaTensor(torch.ones(2, 2), affine=torch.eye(4), meta={"filename": "a"})
    try:
        assert store_and_read(meta).meta["filename"] == "a"
    except EncodeError:
        got, text = apply_remedy(meta)
        assert torch.equal(got, torch.ones(2, 2)) and "_meta" in text


def test_dicts_of_tensors():
    torch = pytest.importorskip("torch")
    values = pytest.importorskip("tensordict").TensorDict({"a": torch.ones(3, 2), "b": {"c": torch.zeros(3)}}, [3])
    got, text = apply_remedy(values)
    assert torch.equal(got["b"]["c"], torch.zeros(3)) and "batch size" in text


def test_configurations_of_omegaconf():
    omegaconf = pytest.importorskip("omegaconf")
    made = omegaconf.OmegaConf.create({"a": [1, {"b": 2}]})
    assert apply_remedy(made)[0] == {"a": [1, {"b": 2}]} and apply_remedy(made.a)[0] == [1, {"b": 2}]


def test_images():
    """Runs in its own process: recstore.integrations.torchvision registers images, and a process remembers what it
    learned about a class."""
    pytest.importorskip("PIL.Image")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import PIL.Image
import refusals
print(refusals.apply_remedy(PIL.Image.new("RGB", (3, 2), (1, 2, 3)), numpy=np)[0].tolist())
"""
    done = waiting.python("-c", code, os.path.dirname(refusals.__file__))
    assert done.stdout == f"{[[[1, 2, 3]] * 3] * 2}\n", done.stderr


def test_numbers_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    assert np.array_equal(apply_remedy(values)[0].view(ml_dtypes.bfloat16), values)
    assert apply_remedy(values[0])[0] == 1.5
