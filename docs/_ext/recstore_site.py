"""Extensions of Sphinx for the site: tables of links become tables of contents, names in the text link to the
reference, and classes list their members."""

import difflib
import inspect
import pathlib
import re
import shutil

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.autosummary import import_by_name
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

HOME = re.compile(r"https://(?:github\.com/recstore/recstore/blob|raw\.githubusercontent\.com/recstore/recstore)/main/")
MARK = re.compile(r"^<!-- toctree -->$", re.MULTILINE)
DIFFERENCES = re.compile(r"^(\[Before\]\((.+)\) and \[after\]\((.+)\):)\n\n<!-- differences -->$", re.MULTILINE)
NAMES = "docs/reference/names"  # the pages that autosummary writes
SECTIONS = Config(
    napoleon_use_param=False,  # "a, b: both" is one entry of two names
    napoleon_custom_sections=[("Attributes", "params_style")],
)
INHERITED_FROM = ("recstore.",)  # other packages document the members inherited from them


def setup(app):
    app.connect("config-inited", remove_old_names, priority=0)
    app.connect("source-read", add_toctree)
    app.connect("source-read", add_differences)
    app.connect("source-read", link_readme)
    app.connect("html-page-context", hide_edit_button, priority=0)
    app.connect("build-finished", write_redirect)
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("missing-reference", resolve_short_name)
    app.add_post_transform(LinkedNames)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


# ---- Pages ----


def remove_old_names(app, config):
    """Removes the pages of names from an earlier build, because a name may have been removed since. Also gives the
    templates of autosummary the function members_of."""
    shutil.rmtree(pathlib.Path(app.srcdir) / NAMES, ignore_errors=True)
    config.autosummary_context = {"members_of": members_of}


def listed_pages(text):
    """The pages that the tables of a page list: the links at the start of a row. A README gets the title of its row."""
    rows = re.findall(r"^\| \[([^\]]*)\]\(([^)#:]+)\.md\)", text, flags=re.MULTILINE)
    return [f"{title} <{page}>" if page.endswith("README") else page for title, page in rows]


def add_toctree(app, docname, source):
    """Replaces the mark with a table of contents of the listed pages."""
    pages = "\n".join(listed_pages(source[0]))
    source[0] = MARK.sub(lambda mark: f"```{{toctree}}\n:hidden:\n\n{pages}\n```", source[0])


def add_differences(app, docname, source):
    """Replaces the mark after the links to two programs with their differences."""
    folder = pathlib.Path(app.srcdir, docname).parent

    def shown(match):
        head, *names = match.groups()
        before, after = ((folder / name).read_text(encoding="utf-8").splitlines() for name in names)
        return "\n".join([head, "", "```diff", *difflib.unified_diff(before, after, *names, lineterm=""), "```"])

    source[0] = DIFFERENCES.sub(shown, source[0])


def link_readme(app, docname, source):
    """Makes the absolute links of README, for package indexes, lead to pages and pictures of the site."""
    if docname == "README":
        source[0] = HOME.sub("", source[0])


def hide_edit_button(app, docname, template, context, doctree):
    """Leaves the button "Edit on GitHub" out of the pages of names, which the repository does not contain."""
    if docname.startswith(NAMES):
        context["page_source_suffix"] = ""


def write_redirect(app, exception):
    """Redirects from the root of the site to the start page, which is docs/index.html."""
    if exception is None and app.builder.format == "html":
        target = app.builder.get_target_uri(app.config.root_doc)
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
        page += f'<title>recstore</title><a href="{target}">recstore</a>\n'
        (pathlib.Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


# ---- Names in the text ----


class LinkedNames(SphinxPostTransform):
    """Turns code that is a documented name or the path of a page into a link."""

    default_priority = 5

    def run(self):
        if self.env.docname.startswith(NAMES):
            return
        for literal in list(self.document.findall(nodes.literal)):
            if self._may_be_a_link(literal):
                reference = self._reference(literal)
                if reference is not None:
                    literal.replace_self(reference)

    def _may_be_a_link(self, literal):
        ancestor = literal.parent
        while ancestor is not None:
            if isinstance(ancestor, (nodes.reference, nodes.title, addnodes.pending_xref, addnodes.desc_signature)):
                return False
            ancestor = ancestor.parent
        return True

    def _reference(self, literal):
        text = literal.astext()
        page = text.removesuffix(".md")
        if page != text and page in self.env.found_docs and page != self.env.docname:
            return make_refnode(self.app.builder, self.env.docname, page, "", literal.deepcopy())
        name = re.fullmatch(r"([A-Za-z_][\w.]*)(\(\))?", text)
        entry = self._documented(name[1]) if name else None
        if entry is None:
            return None
        return make_refnode(self.app.builder, self.env.docname, entry.docname, entry.node_id, literal.deepcopy())

    def _documented(self, name):
        """The entry of a full name, or of a class in recstore, recstore.errors or recstore.torch; else None."""
        objects = self.env.get_domain("py").objects
        candidates = [name] if name.startswith("recstore.") else []
        if name[:1].isupper():
            candidates = [f"recstore.{part}{name}" for part in ("", "errors.", "torch.")]
        return next((objects[candidate] for candidate in candidates if candidate in objects), None)


def resolve_short_name(app, env, node, content):
    """Resolves `:class:`Fields`` in the summary of another page to the only documented name that ends with it. Names
    directly in recstore or recstore.torch take precedence."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    objects = env.get_domain("py").objects
    names = [name for name in objects if name.endswith(f".{target}")]
    at_top = [name for name in names if name.removesuffix(target) in ("recstore.", "recstore.torch.")]
    names = at_top or names
    if len(names) != 1:
        return None
    entry = objects[names[0]]
    return make_refnode(app.builder, env.docname, entry.docname, entry.node_id, content)


# ---- Members of a class ----


def read_sections(app, what, name, obj, options, lines):
    """Formats the sections of a docstring ("Args:", "Raises:"). The napoleon extension would also read the text before
    a colon in the first line of an attribute as its type; here it is a sentence."""
    if what == "data" and obj.__doc__ == type(obj).__doc__:
        lines[:] = []  # a constant has the docstring of dict or int
    elif what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, SECTIONS, app, what, name, obj, options).lines()


def members_of(fullname):
    """`[(title, directive, names)]` of the documented public members of a class and its bases in recstore."""
    methods, properties = {}, {}
    for cls in inspect.getmro(import_by_name(fullname)[1]):
        if not f"{cls.__module__}.".startswith(INHERITED_FROM):
            continue
        for name, value in vars(cls).items():
            if name.startswith("_") or name in methods or name in properties or not inspect.getdoc(value):
                continue
            if isinstance(value, property) or inspect.isgetsetdescriptor(value) or hasattr(value, "func"):
                properties[name] = value
            elif inspect.isroutine(value) or isinstance(value, (classmethod, staticmethod)):
                methods[name] = value
    return [
        (title, directive, list(members))
        for title, directive, members in (
            ("Methods", "automethod", methods),
            ("Attributes", "autoattribute", properties),
        )
        if members
    ]
