"""The site of docs/, built with warnings as errors and opened page by page in chromium, wide and narrow: no page is
wider than its window, no link is dead, and the search works. RECSTORE_SCREENSHOTS=FOLDER saves screenshots of some
pages."""

import functools
import html.parser
import http.server
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse

import pytest
from chromium import browser  # noqa: F401

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("pydata_sphinx_theme")

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = {"wide": 1400, "narrow": 400}
SCREENSHOTS = os.environ.get("RECSTORE_SCREENSHOTS")
SCREENSHOT_PAGES = (
    "docs/index.html",
    "docs/tutorial.html",
    "docs/how-to/worker-exited-unexpectedly.html",
    "docs/list-and-dict/saving.html",
    "docs/measurements.html",
    "docs/reference/names/recstore.torch.Fields.html",
    "csrc/FORMAT.html",
)
# Search words, and a page that must be among the results.
SEARCHES = {
    "docker": "docs/how-to/docker.html",
    "exited unexpectedly": "docs/how-to/worker-exited-unexpectedly.html",
    "annotations": "docs/how-to/a-dict-of-annotations.html",
    "share_dataset": "docs/share_dataset.html",
    "LengthBatchSampler": "docs/reference/names/recstore.torch.LengthBatchSampler.html",
    "OutOfSpaceError": "docs/reference/names/recstore.errors.OutOfSpaceError.html",
    "checkpoint": "docs/list-and-dict/saving.html",
}

if not (ROOT / "docs/conf.py").exists():
    pytest.skip("the documents are not here", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site: that of `nox -s real`, or a new one."""
    if "RECSTORE_SITE" in os.environ:
        return pathlib.Path(os.environ["RECSTORE_SITE"])
    folder = tmp_path_factory.mktemp("site")
    # -P, because `python -m` would import the sources of recstore, which are not built.
    sphinx = sys.executable, "-P", "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"
    command = (*sphinx, "-d", folder / "doctrees", ".", folder / "html")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def window(browser):
    """A page of the browser, with the error messages of its console."""
    page = browser.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    yield page
    page.close()


def pages_of(site):
    """All pages except the entrance, which redirects."""
    entrance = site / "index.html"
    return sorted(
        str(path.relative_to(site)) for path in site.rglob("*.html") if "_static" not in path.parts and path != entrance
    )


# Elements that extend beyond the window, except in boxes that scroll or clip.
OVERFLOWING = """() => {
  const wide = document.documentElement.clientWidth;
  const clips = element => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (style.overflowX !== "visible" || style.position === "fixed") return true;
    }
    return false;
  };
  const found = [];
  if (document.documentElement.scrollWidth > wide) found.push("the page: " + document.documentElement.scrollWidth);
  for (const element of document.querySelectorAll("main *")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > wide + 1 && !clips(element)) found.push(element.outerHTML.slice(0, 120));
  }
  return found;
}"""


def test_no_page_overflows(site, address, window):
    """Each page has a visible heading. The screenshots are for whoever changes the style."""
    too_wide = {}
    for name in pages_of(site):
        window.goto(f"{address}/{name}", wait_until="load")
        assert window.locator("main h1").first.is_visible(), name
        for kind, width in WIDTHS.items():
            window.set_viewport_size({"width": width, "height": 900})
            elements = window.evaluate(OVERFLOWING)
            if elements:
                too_wide[name, kind] = elements[:3]
            if SCREENSHOTS and name in SCREENSHOT_PAGES:
                window.screenshot(path=os.path.join(SCREENSHOTS, f"{name.replace('/', '-')}-{kind}.png"))
    assert too_wide == {} and window.errors == []


def test_the_check_sees_what_overflows(window):
    window.set_content("<main><p style='width: 3000px'>wide</p></main>")
    assert len(window.evaluate(OVERFLOWING)) == 2
    window.set_content("<main><div style='overflow-x: auto'><p style='width: 3000px'>wide</p></div></main>")
    assert window.evaluate(OVERFLOWING) == []


class Links(html.parser.HTMLParser):
    """The targets of the links and pictures of a page, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.targets += [values[name] for name in ("href", "src") if values.get(name) is not None]


def dead_links(site):
    """`(page, target)` of each dead link, and the number of links. Checks the file and anchor of internal links, and
    the form of the others."""
    links_of = {name: Links((site / name).read_text(encoding="utf-8")) for name in [*pages_of(site), "index.html"]}
    dead, number = [], 0
    for page, links in links_of.items():
        number += len(links.targets)
        for target in links.targets:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                alive = parts.scheme in ("https", "http") and "." in parts.netloc or parts.scheme in ("mailto", "data")
            else:
                path = os.path.normpath(os.path.join(os.path.dirname(page), urllib.parse.unquote(parts.path)))
                path = path if parts.path else page
                alive = (site / path).is_file()
                if alive and parts.fragment and path in links_of:
                    alive = urllib.parse.unquote(parts.fragment) in links_of[path].anchors
            if not alive:
                dead.append((page, target))
    return dead, number


def test_no_link_is_dead(site):
    dead, number = dead_links(site)
    assert dead == [] and number > 1000


def test_the_check_sees_dead_links(tmp_path):
    (tmp_path / "index.html").write_text('<a href="a.html#x"></a><a href="b.html"></a><a href="a.html"></a>')
    (tmp_path / "a.html").write_text('<p id="y"></p><a href="#y"></a><a href="http:///x"></a>')
    assert dead_links(tmp_path)[0] == [("a.html", "http:///x"), ("index.html", "a.html#x"), ("index.html", "b.html")]


@pytest.mark.parametrize("words", SEARCHES)
def test_search_finds(words, address, browser):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{address}/search.html?q={urllib.parse.quote(words)}")
    page.wait_for_function("document.querySelector('#search-results p.search-summary, #search-results h2') !== null")
    page.wait_for_selector("#search-results ul.search li a")
    link = f"a[href*='{SEARCHES[words]}']"
    page.wait_for_selector(f"#search-results {link}", state="attached", timeout=20_000)
    order = page.eval_on_selector_all(
        "#search-results ul.search li > a", "all => all.map(one => one.href.replace(/[?#].*/, ''))"
    )
    page.close()
    assert any(url.endswith(SEARCHES[words]) for url in order[:30]), order[:30]


def test_search_without_results(address, browser):
    page = browser.new_page()
    page.goto(f"{address}/search.html?q=xyzzyquux")
    page.wait_for_function("/did not match|no results/i.test(document.querySelector('#search-results').innerText)")
    page.close()


def test_the_entrance_leads_to_the_start(address, browser):
    page = browser.new_page()
    page.goto(address)
    page.wait_for_url(f"{address}/docs/index.html")
    assert page.title()
    page.close()
