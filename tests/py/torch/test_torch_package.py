"""recstore.torch: what importing it needs and loads, and its names."""

import subprocess
import sys

import pytest


def run(code, folder):
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    return out.stdout.strip()


def test_without_torch_the_error_names_the_extra(tmp_path):
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import recstore
import recstore.torch
for name in recstore.torch.__all__:
    try:
        getattr(recstore.torch, name)
    except ImportError as error:
        assert str(error) == (
            f"recstore.torch.{name} needs PyTorch, which is not installed: pip install recstore[torch]"
        )
    else:
        print(name)
"""
    assert run(code, tmp_path).split() == ["Batch", "Field", "Fields", "Ragged"]  # what `output="numpy"` needs


def test_import_recstore_loads_no_torch(tmp_path):
    code = "import recstore, sys; print([name for name in ('torch', 'recstore.torch') if name in sys.modules])"
    assert run(code, tmp_path) == "[]"


def test_a_star_import_leaves_pytorch_alone(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    assert run("import torch\nfrom recstore import *\nprint(torch.__name__)", tmp_path) == "torch"


def test_it_is_an_attribute_of_the_package(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    assert run("import recstore; print(recstore.torch.__name__)", tmp_path) == "recstore.torch"


def test_every_public_name_is_there():
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    import recstore.torch

    assert all(getattr(recstore.torch, name).__name__ == name for name in recstore.torch.__all__)
    assert set(recstore.torch.__all__) <= set(dir(recstore.torch))
    with pytest.raises(AttributeError, match="recstore.torch"):
        recstore.torch.Nothing
