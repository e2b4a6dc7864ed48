"""Glob patterns over the paths below a folder. A path is given as the names of its folders and the name of the file, so
that a folder is judged once for all its files."""

import fnmatch
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
        self.name = _test(last)
        # The test of each folder; None stands for any number of folders.
        self.steps = [None if part == _ANY_FOLDERS else _test(part) for part in folders]

    def reached(self, folders):
        """The steps before which the pattern may be behind these folders, as a set of numbers. All ways through the
        pattern are followed at once, so that many `**` take no longer than few."""
        at = self.with_skipped([0])
        for name in folders:
            passed = [i if self.steps[i] is None else i + 1 for i in at if self.passes(i, name)]
            at = self.with_skipped(passed)
        return at

    def passes(self, i, name):
        return i < len(self.steps) and (self.steps[i] is None or self.steps[i](name) is not None)

    def with_skipped(self, at):
        out = set()
        for i in at:
            out.add(i)
            while i < len(self.steps) and self.steps[i] is None:
                i += 1
                out.add(i)
        return out

    def holds(self, folders):
        return len(self.steps) in self.reached(folders)

    def leads(self, folders):
        return bool(self.reached(folders))


def _test(part):
    """The test of a name by one part of a glob pattern."""
    return re.compile(fnmatch.translate(part)).match
