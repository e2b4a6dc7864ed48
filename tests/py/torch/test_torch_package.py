"""The import of recstore.torch, and its names."""

import pytest
import waiting


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
    done = waiting.python("-c", code, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["Batch", "Field", "Fields", "Ragged", "Row"]  # `output="numpy"` needs these


def test_a_star_import_does_not_replace_pytorch():
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    import recstore.torch  # noqa: F401

    names = {}
    exec("import recstore, torch\nfrom recstore import *", names)
    assert names["torch"] is torch and names["recstore"].torch is not torch


def test_every_public_name_exists():
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    import recstore.torch

    assert all(getattr(recstore.torch, name).__name__ == name for name in recstore.torch.__all__)
    assert set(recstore.torch.__all__) <= set(dir(recstore.torch))
    pytest.raises(AttributeError, lambda: recstore.torch.Nothing).match("recstore.torch")
