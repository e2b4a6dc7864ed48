"""Chromium for tests of pages. A test module that imports the fixture `browser` is skipped without playwright or
Chromium."""

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# From --disable-quic on, the flags keep Chromium from contacting servers.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --disable-background-networking "
    "--disable-component-update"
).split()

if PATH is None:
    pytest.skip("needs chromium", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    """A running Chromium; a test opens its own pages."""
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PATH, args=FLAGS)
        yield chromium
        chromium.close()
