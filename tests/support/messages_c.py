"""The error messages of the C core and of the C files of the binding, read from their sources.

`messages(root)` follows the texts to the functions that fill an rs_error: a literal at such a call is a message, and a
parameter there makes its function one that is followed too. What printf fills in is a HOLE, unless it is a literal as well.
"""

import itertools
import re

HOLE = "…"
# The function, and the places of its arguments: status code, text, and the first one that the text's % stand for.
SINKS = {
    "rs_error_set": (1, 3, 4),
    "rs_error_set_errno": (1, 3, 4),
    "codec_corrupt": (None, 0, 1),
    "PyErr_Format": (0, 1, 2),
    "PyErr_SetString": (0, 1, 2),
}
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|->|[^\s\w]')
_PERCENT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z%]")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}


class Parameter:
    """Stands in a text for an argument of the function that the text is in."""

    def __init__(self, place):
        self.place = place


def parts_of(texts):
    """The texts that are worth a message of their own as a part of others: those of three words and more, and parameters.
    If there are none, one HOLE."""
    kept = [t for t in texts if any(isinstance(p, Parameter) or len(p.split()) > 2 for p in t)]
    return kept or [(HOLE,)]


class Function:
    def __init__(self, path, name, static, params, body):
        self.path, self.name, self.static, self.params, self.body = path, name, static, params, body
        self.calls = list(_calls(body))


def _tokens(text):
    """The tokens of C text as (line, token)."""
    found, line, at = [], 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        found.append((line, match[0]))
    return found


def _without_comments(text):
    def blank(match):
        return match[0] if match[0][0] == '"' else "\n" * match[0].count("\n") + " "

    return re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', blank, text, flags=re.DOTALL)


def _end(tokens, at):
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i][1] in "([{":
            depth += 1
        elif tokens[i][1] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return len(tokens) - 1


def _split(tokens, by=","):
    """The runs of tokens between the commas outside of brackets."""
    runs, depth = [[]], 0
    for token in tokens:
        depth += (token[1] in "([{") - (token[1] in ")]}")
        if token[1] == by and depth == 0:
            runs.append([])
        else:
            runs[-1].append(token)
    return runs if runs != [[]] else []


def _calls(body):
    """(line, name, arguments) of each call in these tokens."""
    for i in range(len(body) - 1):
        if body[i + 1][1] == "(" and re.match(r"[A-Za-z_]", body[i][1]) and body[i][1] not in ("if", "while", "for"):
            yield body[i][0], body[i][1], _split(body[i + 2 : _end(body, i + 1)])


def _macros(texts):
    """The macros with a text or a call in them: their parameters (None without any) and tokens."""
    found = {}
    for text in texts:
        for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:.*\\\n)*.*)", text, re.MULTILINE):
            body = _tokens(match[3].replace("\\\n", " "))
            if "__attribute__" in match[3]:
                continue  # a macro that says something about a function
            if match[1] not in SINKS and any(token[0] == '"' or token == "(" for _, token in body) and len(body) < 60:
                params = None if match[2] is None else [p.strip() for p in match[2][1:-1].split(",")]
                found[match[1]] = params, body
    return found


def _expanded(tokens, macros, depth=0):
    out, i = [], 0
    while i < len(tokens):
        line, token = tokens[i]
        params, body = macros.get(token, (0, None))
        if body is None or depth > 4 or (params is not None and tokens[i + 1 : i + 2][0:1] and tokens[i + 1][1] != "("):
            out.append(tokens[i])
        elif params is None:
            out += _expanded([(line, t) for _, t in body], macros, depth + 1)
        else:
            end = _end(tokens, i + 1)
            given = _split(tokens[i + 2 : end])
            named = dict(zip(params, given, strict=False))
            rest = [token for run in given[len(params) - 1 :] for token in (*run, (line, ","))][:-1]
            named |= {"__VA_ARGS__": rest}
            filled = [t for _, t in body for t in named.get(t, [(line, t)])]
            out += _expanded(filled, macros, depth + 1)
            i = end
        i += 1
    return out


def _functions(path, tokens):
    i, start = 0, 0
    while i < len(tokens):
        token = tokens[i][1]
        if token in (";", "}"):
            start = i + 1
        if token == "{":
            end = _end(tokens, i)
            head = tokens[start:i]
            opening = next((k for k, t in enumerate(head) if t[1] == "(" and k and head[k - 1][1] != "RS_PRINTF"), None)
            if opening is not None and head[-1][1] == ")":
                params = [run[-1][1] for run in _split(head[opening + 1 : _end(head, opening)]) if run]
                static = any(t[1] == "static" for t in head)
                yield Function(path, head[opening - 1][1], static, params, tokens[i + 1 : end])
            i = end
            start = i + 1 if opening is not None else start
        i += 1


def _literal(token):
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), token[1:-1])


class Sources:
    def __init__(self, root):
        folders = sorted((root / "csrc").rglob("*.[ch]")) + sorted((root / "recstore" / "_core").glob("*.[ch]"))
        texts = {path: _without_comments(path.read_text()) for path in folders}
        macros = _macros(texts.values())
        self.functions, self.arrays = [], {}
        for path, text in texts.items():
            code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE)
            tokens = _expanded(_tokens(code), macros)
            self.functions += _functions(path, tokens)
            for match in re.finditer(r"\bchar \*(?:const )?(\w+)\[[^]]*\] = \{(.*?)\};", code, re.DOTALL):
                self.arrays[match[1]] = [_literal(t) for _, t in _tokens(match[2]) if t[0] == '"']

    def named(self, name, path):
        """The functions of this name that a call in `path` can mean."""
        found = [f for f in self.functions if f.name == name]
        return [f for f in found if f.path == path] or [f for f in found if not f.static]

    def texts(self, tokens, function, depth=0):
        """The texts that an expression can be: tuples of str and Parameter."""
        names = [t for _, t in tokens]
        if not names or depth > 6:
            return [(HOLE,)]
        if all(t[0] == '"' for t in names):
            return [("".join(map(_literal, names)),)]
        if names[0] == "(" and _end(tokens, 0) == len(tokens) - 1:
            return self.texts(tokens[1:-1], function, depth)
        question = _split(tokens, "?")
        if len(question) > 1:
            rest = tokens[len(question[0]) + 1 :]
            yes = _split(rest, ":")[0] if "?" not in [t for _, t in rest] else _split(rest, ":")[0]
            no = rest[len(yes) + 1 :]
            return self.texts(yes, function, depth + 1) + self.texts(no, function, depth + 1)
        if len(names) == 1 and names[0] in function.params:
            return [(Parameter(function.params.index(names[0])),)]
        if len(names) == 1:
            return self.local(names[0], function, depth)
        if names[0] in self.arrays and names[1] == "[":
            return [(text,) for text in self.arrays[names[0]]]
        if names[1] == "(" and _end(tokens, 1) == len(tokens) - 1:
            return self.returned(names[0], function, depth)
        return [(HOLE,)]

    def local(self, name, function, depth):
        """The texts that a local variable takes."""
        body, found = function.body, []
        for i in range(1, len(body) - 1):
            if body[i][1] == name and body[i + 1][1] == "=" and body[i + 2][1] != "=" and body[i - 1][1] not in "=!<>.":
                found += self.texts(_split(_split(body[i + 2 :], ";")[0])[0], function, depth + 1)
        return [text for text in found if text not in (("NULL",), (HOLE,))] or [(HOLE,)]

    def returned(self, name, function, depth):
        """The texts that a function returns."""
        found = []
        for callee in self.named(name, function.path):
            body = callee.body
            for i in range(len(body)):
                if body[i][1] == "return":
                    found += self.texts(_split(body[i + 1 :], ";")[0], callee, depth + 1)
        kept = [text for text in found if not any(part is HOLE or isinstance(part, Parameter) for part in text)]
        return kept or [(HOLE,)]

    def filled(self, text, given, function):
        """The texts of a printf: `text` is its format, `given` the arguments for its %."""
        if len(text) != 1 or isinstance(text[0], Parameter):
            return [text]
        parts, at, ways = [], 0, iter(given)
        for match in _PERCENT.finditer(text[0]):
            parts.append([(text[0][at : match.start()],)])
            at = match.end()
            if match[0] == "%%":
                parts.append([("%",)])
                continue
            argument = next(ways, [])
            parts.append(parts_of(self.texts(argument, function)) if match[0][-1] == "s" else [(HOLE,)])
        parts.append([(text[0][at:],)])
        return [sum(way, ()) for way in itertools.product(*parts)]


def _code(tokens):
    """The names of the codes that an expression names."""
    return [t for _, t in tokens if re.match(r"(RS_E_|PyExc_)\w+$", t)]


def _followed(sources, function, line, code, text, seen):
    """(code, text, place) of a text with parameters: what the callers of its function give for them."""
    places = [part.place for part in text if isinstance(part, Parameter)]
    code_place = code if isinstance(code, int) else None
    if not places and code_place is None:
        yield code, "".join(text), f"{function.path}:{line}"
        return
    callers = 0
    for caller in sources.functions:
        if function.static and caller.path != function.path and function.path.suffix == ".c":
            continue
        for at, name, given in caller.calls:
            if name != function.name or function not in sources.named(name, caller.path) or caller in seen:
                continue
            callers += 1
            ways = [
                sources.texts(given[part.place], caller) if isinstance(part, Parameter) else [(part,)] for part in text
            ]
            if len(ways) > 1:
                ways = [parts_of(way) if isinstance(part, Parameter) else way for part, way in zip(text, ways)]
            codes = [code] if code_place is None else _codes(given[code_place], caller)
            for way, one in itertools.product(itertools.product(*ways), codes):
                yield from _followed(sources, caller, at, one, sum(way, ()), (*seen, caller))
    if not callers:
        flat = "".join(HOLE if isinstance(part, Parameter) else part for part in text)
        yield (None if code_place is not None else code), flat, f"{function.path}:{line}"


def _codes(tokens, function):
    names = [t for _, t in tokens]
    if len(names) == 1 and names[0] in function.params:
        return [function.params.index(names[0])]
    return _code(tokens) or [None]


def messages(root):
    """(code, text, "path:line") of each message; the code is the name of a status, of a class as PyExc_..., or None."""
    sources = Sources(root)
    for function in sources.functions:
        if function.name in SINKS:
            continue
        for line, name, given in function.calls:
            if name not in SINKS or len(given) <= SINKS[name][1]:
                continue
            code_at, text_at, rest = SINKS[name]
            codes = ["RS_E_FMT_VALUE"] if code_at is None else _codes(given[code_at], function)
            for text in sources.texts(given[text_at], function):
                for whole, code in itertools.product(sources.filled(text, given[rest:], function), codes):
                    yield from _followed(sources, function, line, code, whole, (function,))
