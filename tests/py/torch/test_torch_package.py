"""The import of recstore.torch, and its names."""

import pytest
import waiting


def run(code, folder):
    out = waiting.python("-c", code, cwd=folder)
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
    assert run(code, tmp_path).split() == ["Batch", "Field", "Fields", "Ragged", "Row"]  # `output="numpy"` needs these


def test_a_star_import_does_not_replace_pytorch(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    code = "import recstore, torch\nprint(recstore.torch.__name__)\nfrom recstore import *\nprint(torch.__name__)"
    assert run(code, tmp_path).split() == ["recstore.torch", "torch"]


def test_every_public_name_exists():
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    import recstore.torch

    assert all(getattr(recstore.torch, name).__name__ == name for name in recstore.torch.__all__)
    assert set(recstore.torch.__all__) <= set(dir(recstore.torch))
    pytest.raises(AttributeError, lambda: recstore.torch.Nothing).match("recstore.torch")
