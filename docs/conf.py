"""The documentation site: `sphinx-build -W --keep-going -j auto -c docs . build/site`, from the root of a checkout.

The source folder is the root of the checkout, so links between pages are the same in the repository and on the site.
docs/development/releasing.md says how a page is added.
"""

import builtins
import os
import pathlib
import sys

import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

import stand_ins  # noqa: E402 - found through sys.path

stand_ins.install(
    "PIL",
    "datasets",
    "detectron2",
    "lhotse",
    "lightning",
    "mmengine",
    "monai",
    "pycocotools",
    "torchvision",
    "ultralytics",
)

# ---- The project ----

project = "recstore"
author = "the recstore authors"
copyright = "the recstore authors, Apache-2.0"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

# ---- Pages ----

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "bench/experiments/README.md",
    "csrc/FORMAT.md",
    "docs/**.md",
    "docs/reference/names/*.rst",
]
# Also exclude folders: Sphinx walks through all others to look for pages.
exclude_patterns = [".*", "build", "dist", "recstore", "tests", "shared", "bench/results", "docs/README.md"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "recstore_site",
]
nitpicky = True  # a reference in a docstring that leads nowhere is a warning, and a warning fails the build
nitpick_ignore = [(kind, name) for name in dir(builtins) for kind in ("py:class", "py:exc", "py:obj", "py:func")]
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|pandas|plotly|polars|pyarrow|torch|lightning)\..*")
]  # documented on their own sites
templates_path = [str(HERE / "_templates")]  # autosummary resolves a relative path in the source folder

# ---- Markdown ----

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # `page.md#a-heading` is checked
suppress_warnings = ["myst.xref_ambiguous", "config.cache"]

# ---- The reference ----

default_role = "code"  # `name` in a docstring is an argument
add_module_names = False
autosummary_generate = sorted(str(page.relative_to(ROOT)) for page in (HERE / "reference").glob("*.md"))
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types are in the stubs

# ---- The look ----

html_theme = "pydata_sphinx_theme"
html_title = "recstore"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["recstore.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"docs/index": [], "docs/tour": [], "docs/tutorial": []}
# For the button "Edit on GitHub".
html_context = {
    "default_mode": "auto",
    "github_user": "recstore",
    "github_repo": "recstore",
    "github_version": "main",
    "doc_path": "",
}
html_theme_options = {
    "logo": {"text": "recstore"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "use_edit_page_button": True,
    "secondary_sidebar_items": {
        "**": ["page-toc", "edit-this-page"],
        "docs/index": [],
    },
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# The version switcher needs the list of versions, which only .github/workflows/site.yml publishes.
if "SITE_VERSION" in os.environ:
    html_theme_options["navbar_end"].insert(0, "version-switcher")
    html_theme_options["switcher"] = {
        "json_url": "https://recstore.github.io/recstore/versions.json",
        "version_match": os.environ["SITE_VERSION"],
    }
    html_theme_options["check_switcher"] = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
