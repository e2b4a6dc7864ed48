"""Writes the golden segment with a label beside itself and adds it to the manifest. NEVER REGENERATED, like those of
make.py."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals, make  # noqa: E402

from recstore._core import native  # noqa: E402
from recstore.shm import named_segments  # noqa: E402


def main():
    path = HERE / "label.tmp"
    builder = native.Builder("file", name=str(path), label=named_segments.Label(literals.LABEL).pack())
    builder.extend(literals.LABELLED)
    builder.finish().close()
    data = path.read_bytes()
    path.unlink()
    make.add({"label": data}, {})


if __name__ == "__main__":
    main()
