"""Writes versions.json, the first page and .nojekyll of the hosted site: `python docs/_ext/versions.py FOLDER`.

Each version of the site is a folder there. The switcher of versions on each page reads versions.json.
"""

import json
import pathlib
import sys

URL = "https://recstore.github.io/recstore"


def entries(folders):
    """What the switcher lists: the development version, then releases, the newest first."""
    releases = sorted((name for name in folders if name[0].isdigit()), key=lambda name: [*map(int, name.split("."))])
    listed = ["dev"] * ("dev" in folders) + releases[::-1]
    newest = releases[-1] if releases else "dev"
    return [
        {
            "version": name,
            "name": f"{name} (stable)" if name == newest else name,
            "url": f"{URL}/{name}/",
            "preferred": name == newest,
        }
        for name in listed
    ]


def write(site):
    folders = {path.name for path in site.iterdir() if (path / "index.html").exists()}
    first = "stable" if "stable" in folders else "dev"
    (site / "versions.json").write_text(json.dumps(entries(folders), indent=1) + "\n")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={first}/">\n')
    (site / ".nojekyll").touch()


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
