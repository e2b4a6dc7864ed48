"""Glob patterns over the paths below a folder. A path is given as the names of its folders and the name of the file, so
that a folder is judged once for all its files."""

import re

_ANY_FOLDERS = "**"


class Patterns:
    """The patterns that select files. Each is a glob pattern relative to the folder, with ``/`` and ``**``, or an
    extension such as ``.jpg``, which matches in every folder and in any case.

    Raises ValueError for a pattern that selects nothing, TypeError for a value that is no str.
    """

    def __init__(self, given):
        self.given = (given,) if isinstance(given, str) else tuple(given)
        if not self.given:
            raise ValueError("pattern is an empty list; leave it out for all files")
        extensions, self.globs = [], []
        for pattern in self.given:
            if not isinstance(pattern, str):
                raise TypeError(f"a pattern is a str such as '**/*.jpg' or '.jpg', not {type(pattern).__name__}")
            if re.fullmatch(r"\.[^/*?\[\]]+", pattern):
                extensions.append(pattern.lower())
            else:
                self.globs.append(_Glob(pattern))
        self.extensions = tuple(extensions)

    def __reduce__(self):
        return Patterns, (self.given,)

    def within(self, folders):
        """A function that says of the name of a file in this folder whether the file is selected; None if no file is.
        `folders` are the names that lead to the folder."""
        tests = [glob.name for glob in self.globs if glob.holds(folders)]
        extensions = self.extensions
        if not tests:
            return (lambda name: name.lower().endswith(extensions)) if extensions else None
        if not extensions and len(tests) == 1:
            return tests[0]
        return lambda name: name.lower().endswith(extensions) or any(test(name) for test in tests)

    def leads(self, folders):
        """Whether a selected file may be in this folder or below it."""
        return bool(self.extensions) or any(glob.leads(folders) for glob in self.globs)


class _Glob:
    """One glob pattern. `name` is the test of the name of a file."""

    def __init__(self, pattern):
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if not parts or pattern.startswith("/") or ".." in parts:
            raise ValueError(f"the pattern {pattern!r} is not relative to the folder; write one such as '**/*.jpg'")
        if parts[-1] == _ANY_FOLDERS:
            parts.append("*")
        *folders, last = parts
        self.name = re.compile(_regex(last), re.DOTALL).fullmatch
        steps = ["(?:[^/]+/)*" if part == _ANY_FOLDERS else _regex(part) + "/" for part in folders]
        self.holder = re.compile("".join(steps), re.DOTALL).fullmatch
        # The parts before the first `**`, each of which a folder of that depth has to match.
        self.deep = _ANY_FOLDERS in folders
        fixed = folders[: folders.index(_ANY_FOLDERS)] if self.deep else folders
        self.fixed = [re.compile(_regex(part), re.DOTALL).fullmatch for part in fixed]

    def holds(self, folders):
        return self.holder("".join(f"{name}/" for name in folders)) is not None

    def leads(self, folders):
        if not self.deep and len(folders) > len(self.fixed):
            return False
        return all(test(name) for test, name in zip(self.fixed, folders))


def _regex(part):
    """The regular expression of one part of a glob pattern: ``*``, ``?``, ``[abc]`` and ``[!abc]``, as in fnmatch."""
    out, at = [], 0
    while at < len(part):
        char = part[at]
        at += 1
        end = part.find("]", at + 1 + (part[at : at + 1] == "!")) if char == "[" else -1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif end >= 0:
            inner = part[at:end]
            negated = inner.startswith("!")
            inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner[negated:])
            out.append(f"[{'^' if negated else ''}{inner}]")
            at = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)
