"""A .pyx file as Python's ast, for tests/support/messages_python.py: what it needs to find messages, and no more.

Each logical line becomes Python by itself: types, casts and C's operators are taken off. A line that still is no Python, such as
an extern block, says nothing about messages and is left out.
"""

import ast
import re

_CAST = re.compile(r"<(?:const )?[A-Za-z_][\w. ]*[* ]*(?:\[[^]]*\])?(?: ?\bconst)?\??>(?=[\s\w(&*\"'])")
_HEAD = re.compile(r"^(?:async )?(?:(?:cdef|cpdef|def)\s+)(?:public |inline |api |extern )*(.*)$", re.DOTALL)
_TYPED = re.compile(r"^cdef (?:public |readonly |inline )*[\w.\[\], *:]+?[ *](\w+) = (.*)$", re.DOTALL)


def logical_lines(text):
    """(line number, indent, text) of each logical line: brackets and triple quotes hold lines together."""
    rows, at = text.split("\n"), 0
    while at < len(rows):
        start, held, depth, quote = at, "", 0, None
        while at < len(rows):
            piece, depth, quote = _scanned(rows[at], depth, quote)
            held += ("\n" if held else "") + piece
            at += 1
            if depth <= 0 and quote is None and not piece.endswith("\\"):
                break
        stripped = held.strip()
        if stripped:
            yield start + 1, len(held) - len(held.lstrip()), stripped


def _scanned(row, depth, quote):
    """The row without its comment, and the brackets and the quote that are open at its end."""
    i = 0
    while i < len(row):
        if quote:
            if row[i] == "\\":
                i += 1
            elif row.startswith(quote, i):
                i += len(quote) - 1
                quote = None
        elif row[i] == "#":
            return row[:i].rstrip(), depth, None
        elif row[i] in "\"'":
            quote = row[i] * 3 if row.startswith(row[i] * 3, i) else row[i]
            i += len(quote) - 1
        elif row[i] in "([{":
            depth += 1
        elif row[i] in ")]}":
            depth -= 1
        i += 1
    return row, depth, quote if quote and len(quote) == 3 else None


def _parsed(text):
    """The statements of a logical line; of the head of a block, those behind its colon and its expression."""
    text = _CAST.sub("", text)
    text = re.sub(r"(?<=[(,=\[ ])&(?=[A-Za-z_])", "", text)
    typed = _TYPED.match(text)
    if typed:
        text = f"{typed[1]} = {typed[2]}"
    if re.match(r"(if|while|for|with|try|else|finally)\b.*:$", text, re.DOTALL):
        text += " pass"
    if re.match(r"(elif|else)\b", text):
        text = re.sub(r"^(elif|else)\b", lambda m: "if" if m[1] == "elif" else "if 1", text)
    if re.match(r"except\b", text):
        text = text.partition(":")[2].strip()
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []


def _function(text, line):
    """The ast.FunctionDef of a head, without a body; None if the line heads no function."""
    head = _HEAD.match(text)
    opening = head[1].find("(") if head else -1
    if opening < 0 or not text.endswith(":") or "=" in head[1][:opening]:
        return None
    name = re.search(r"(\w+)$", head[1][:opening])
    if name is None or head[1].startswith("class "):
        return None
    closing = head[1].rfind(")")
    params = []
    for part in re.split(r",(?![^\[(]*[\])])", _CAST.sub("", head[1][opening + 1 : closing])):
        before, _, default = part.partition("=")
        found = re.search(r"(\w+)(?:\[[^]]*\])*\s*(?:not None\s*)?$", before.strip())
        if found and before.strip()[0] != "*":
            params.append(found[1] + (f"={default.strip()}" if default.strip() not in ("", "*") else ""))
    for kept in (params, [p.partition("=")[0] for p in params]):
        try:
            made = ast.parse(f"def {name[1]}({', '.join(kept)}): pass").body[0]
        except SyntaxError:
            continue
        made.lineno = line
        return made
    return None


def tree(text):
    """The module as an ast.Module of imports, assignments, classes and flat functions."""
    module = ast.Module(body=[], type_ignores=[])
    above = [(-1, module)]
    for line, indent, row in logical_lines(text):
        while above[-1][0] >= indent:
            above.pop()
        within = above[-1][1]
        kind = re.match(r"(?:cdef |cpdef )?(?:public |api )?class (\w+)\s*(?:\((.*?)\))?", row, re.DOTALL)
        made = None
        if kind and row.endswith(":"):
            made = ast.parse(f"class {kind[1]}({kind[2] or ''}): pass").body[0]
        elif row.endswith(":"):
            made = _function(row, line)
        if made is not None:
            made.lineno, made.body = line, []
            within.body.append(made)
            above.append((indent, made))
            continue
        for statement in _parsed(row):
            ast.increment_lineno(statement, line - 1)
            within.body.append(statement)
    return module
