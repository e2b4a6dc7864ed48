"""Writes the golden segment with a label beside itself and adds it to the manifest. NEVER REGENERATED, like those of make.py."""

import hashlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden import literals  # noqa: E402
from recstore import _store, naming  # noqa: E402


def main():
    manifest, path = HERE / "manifest.txt", HERE / "v1-label.rec"
    lines = manifest.read_text().splitlines(keepends=True)
    if any(line.split()[1] == path.name for line in lines):
        raise SystemExit("golden segments are never regenerated")
    builder = _store.Builder("file", name=str(path), label=naming.Label(literals.LABEL).pack())
    builder.extend(literals.LABELLED)
    builder.finish().close()
    lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    manifest.write_text("".join(sorted(lines, key=lambda line: line.split()[1])))


if __name__ == "__main__":
    main()
