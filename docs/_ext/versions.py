"""Completes the hosted site: `python docs/_ext/versions.py FOLDER`.

Each version of the site is a folder in FOLDER, dev or X.Y. The program adds stable/ (a copy of the newest release),
versions.json (which the version switcher on each page reads), index.html and .nojekyll.
"""

import json
import pathlib
import shutil
import sys

URL = "https://recstore.github.io/recstore"


def releases_of(site):
    """The names of the folders of releases, the oldest first."""
    names = (path.parent.name for path in site.glob("[0-9]*.*/index.html"))
    return sorted(names, key=lambda name: [*map(int, name.split("."))])


def entries(versions, newest):
    """The entries of the version switcher."""
    return [
        {
            "version": name,
            "name": f"{name} (stable)" if name == newest else name,
            "url": f"{URL}/{name}/",
            "preferred": name == newest,
        }
        for name in versions
    ]


def write(site):
    releases = releases_of(site)
    newest, start = (releases[-1], "stable") if releases else ("dev", "dev")
    if releases:
        shutil.rmtree(site / "stable", ignore_errors=True)
        shutil.copytree(site / newest, site / "stable")
    versions = ["dev"] * (site / "dev").exists() + releases[::-1]
    (site / "versions.json").write_text(json.dumps(entries(versions, newest), indent=1) + "\n")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={start}/">\n')
    (site / ".nojekyll").touch()


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
