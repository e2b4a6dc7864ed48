"""Finds the mutants of a C source or header: its text with one operator, constant or condition changed.

Only function bodies are changed. Comments, strings, directives, assertions, prefetches, lengths of arrays and arguments
of error messages stay, because no test could or should notice a change there."""

import bisect
import dataclasses
import re

TOKEN = re.compile(
    r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\])*")
    |(?P<char>'(?:\\.|[^'\\])+')
    |(?P<number>\b0[xX][0-9A-Fa-f]+[uUlL]*|\b\d+\.\d*(?:[eE][-+]?\d+)?[fF]?|\b\d+[uUlL]*\b)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^<>=!~?:;,.(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SILENT = {"RS_ASSERT", "RS_STATIC_ASSERT", "_Static_assert", "RS_PREFETCH"}
OTHER_SIGN = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|",
    "+=": "-=", "-=": "+=", "*=": "+=", "|=": "&=", "&=": "|=", "^=": "|=", "<<=": ">>=", ">>=": "<<=",
    "++": "--", "--": "++",
}  # fmt: skip
# clang-format puts spaces around these only when they are binary operators.
SPACED = {"*", "&", "+", "-", "<", ">"}
OTHER_NAME = {"true": "false", "false": "true"}
OPEN, CLOSE = "([{", ")]}"
ENDS_OPERAND = {",", ";", "?", ":", "=", "{", "}", "return"} | {s for s in OTHER_SIGN if s.endswith("=")} - {
    "<=",
    ">=",
    "==",
    "!=",
}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one place: `put` replaces the source from `start` to `end`. `before` and `after` are its
    lines without and with the change, in single spaces. Equal changes of equal lines of a file have equal keys."""

    file: str
    line: int
    before: str
    after: str
    start: int
    end: int
    put: str

    @property
    def key(self):
        return self.file, self.before, self.after


def tokens_of(source):
    tokens = []
    for match in TOKEN.finditer(source):
        if match.lastgroup not in ("comment", "directive"):
            tokens.append(Token(match.lastgroup, match[0], match.start(), match.end()))
    return tokens


def partners_of(tokens):
    """The index of the closing bracket of each opening bracket, and vice versa."""
    partners, open_indices = {}, []
    for i, token in enumerate(tokens):
        if token.text in OPEN:
            open_indices.append(i)
        elif token.text in CLOSE:
            partners[i] = open_indices.pop()
            partners[partners[i]] = i
    return partners


def body_ranges(tokens, partners):
    """Yields the token ranges of function bodies: the outermost braces that follow a parenthesis."""
    i = 0
    while i < len(tokens):
        if tokens[i].text == "{":
            if tokens[i - 1].text == ")":
                yield i + 1, partners[i]
            i = partners[i]
        i += 1


def silent_indices(tokens, partners, begin, end):
    """Returns the indices of tokens that stay: uses of SILENT, and messages with the arguments after them."""
    silent = set()
    for i in range(begin, end):
        if tokens[i].text in SILENT:
            silent.update(range(i, partners[i + 1] + 1))
        elif tokens[i].kind == "text" and " " in tokens[i].text:
            k = i
            while k < end and tokens[k].text not in CLOSE:
                silent.add(k)
                if tokens[k].text in OPEN:
                    silent.update(range(k, partners[k]))
                    k = partners[k]
                k += 1
    return silent


def other_numbers(text):
    if "." in text:
        return []
    digits = text.rstrip("uUlL")
    suffix, hexadecimal = text[len(digits) :], digits[:2] in ("0x", "0X")
    value = int(digits, 16) if hexadecimal else int(digits)
    others = [value + 1] if value == 0 else [value - 1, value + 1]
    return [(hex(other) if hexadecimal else str(other)) + suffix for other in others]


def token_changes(source, tokens, i):
    """The texts that can replace one token."""
    token, before = tokens[i], tokens[i - 1]
    if token.kind == "number":
        # T name[N]: the length of an array
        array = before.text == "[" and tokens[i - 2].kind == "name" and tokens[i - 3].kind == "name"
        return [] if array and tokens[i - 3].text not in ("return", "case", "else") else other_numbers(token.text)
    if token.kind == "char":
        return [f"({token.text} - 1)", f"({token.text} + 1)"]
    if token.kind == "name":
        return [OTHER_NAME[token.text]] if token.text in OTHER_NAME else []
    if token.text == "!":
        return [""]
    if token.text not in OTHER_SIGN:
        return []
    if token.text in SPACED and not (source[token.start - 1].isspace() and source[token.end].isspace()):
        return []
    return [OTHER_SIGN[token.text]]


def operand(tokens, partners, i, step, ends):
    """The index just outside the operand before (step -1) or after (1) token i."""
    k = i + step
    while True:
        text = tokens[k].text
        if text in (OPEN if step < 0 else CLOSE) or text in ends:
            return k
        if text in OPEN or text in CLOSE:
            k = partners[k]
        k += step


def condition_changes(tokens, partners, i):
    """Yields `(first token, last token, text)` of changes that drop a part of a condition, make a condition false or,
    in an `if`, make it true."""
    text = tokens[i].text
    if text in ("&&", "||"):
        ends = ENDS_OPERAND | ({"&&", "||"} if text == "&&" else {"||"})
        neutral = "true" if text == "&&" else "false"
        right = operand(tokens, partners, i, 1, ends)
        left = operand(tokens, partners, i, -1, ends)
        yield i + 1, right - 1, neutral
        if tokens[left].text != text:  # otherwise the preceding operator drops this part
            yield left + 1, i - 1, neutral
    elif text in ("if", "while") and tokens[i + 1].text == "(":
        last = partners[i + 1] - 1
        if not any(token.text in ("&&", "||", "true", "false") for token in tokens[i + 2 : last + 1]):
            yield i + 2, last, "false"
            if text == "if":
                yield i + 2, last, "true"


def mutants_of(file, source):
    """Yields all mutants of a source, in the order of their places."""
    tokens = tokens_of(source)
    partners = partners_of(tokens)
    newlines = [match.start() for match in re.finditer("\n", source)]
    changes = set()
    for begin, end in body_ranges(tokens, partners):
        silent = silent_indices(tokens, partners, begin, end)
        for i in range(begin, end):
            if i in silent:
                continue
            changes.update((tokens[i].start, tokens[i].end, put) for put in token_changes(source, tokens, i))
            for first, last, put in condition_changes(tokens, partners, i):
                changes.add((tokens[first].start, tokens[last].end, put))
    for start, end, put in sorted(changes):
        line = bisect.bisect_left(newlines, start)
        begins = newlines[line - 1] + 1 if line > 0 else 0
        last = bisect.bisect_left(newlines, end)
        ends = newlines[last] if last < len(newlines) else len(source)
        before, after = source[begins:ends], source[begins:start] + put + source[end:ends]
        yield Mutant(file, line + 1, one_spaced(before), one_spaced(after), start, end, put)


def one_spaced(text):
    return " ".join(text.split())


def applied(source, mutant):
    return source[: mutant.start] + mutant.put + source[mutant.end :]
