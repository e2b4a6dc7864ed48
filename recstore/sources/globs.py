"""Glob patterns for the paths below a folder. They match folders and file names separately, so that a folder is matched
once for all its files."""

from __future__ import annotations

import fnmatch
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

_ANY_FOLDERS = "**"


class Patterns:
    """The patterns that select files. Each is a glob pattern relative to the folder, with ``/`` and ``**``, or an
    extension such as ``.jpg``, which matches in every folder and in any case.

    Raises ValueError for a pattern that cannot select a file, TypeError for a value that is not a str.
    """

    def __init__(self, patterns: str | Iterable[str]) -> None:
        is_list = hasattr(type(patterns), "__iter__") and not isinstance(patterns, str)
        items: Any = patterns if is_list else [patterns]
        self.patterns: tuple[str, ...] = tuple(items)
        if not self.patterns:
            raise ValueError("pattern is an empty list; omit it for all files")
        self.extensions: tuple[str, ...] = ()
        self.globs: list[_Glob] = []
        for pattern in self.patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"a pattern must be a str such as '**/*.jpg' or '.jpg', not {type(pattern).__name__}")
            if re.fullmatch(r"\.[^/*?\[\]]+", pattern):
                self.extensions += (pattern.lower(),)
            else:
                self.globs.append(_Glob(pattern))

    def __reduce__(self) -> tuple[type[Patterns], tuple[tuple[str, ...]]]:
        return Patterns, (self.patterns,)

    def within(self, folders: Sequence[str]) -> Callable[[str], object] | None:
        """A function of a file name that says whether the file is selected, for the folder with the path `folders`.
        None if no file in the folder can be selected."""
        tests = [glob.name for glob in self.globs if glob.n_steps in glob.reached(folders)]
        extensions = self.extensions
        if not tests:
            return (lambda name: name.lower().endswith(extensions)) if extensions else None
        if not extensions and len(tests) == 1:
            return tests[0]
        return lambda name: name.lower().endswith(extensions) or any(test(name) for test in tests)

    def leads(self, folders: Sequence[str]) -> bool:
        """Whether this folder, or one below it, may have a selected file."""
        return bool(self.extensions) or any(glob.reached(folders) for glob in self.globs)


class _Glob:
    """One glob pattern. `name` tests the name of a file. `steps` has a test for each folder; `n_steps` counts them."""

    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if not parts or pattern.startswith("/") or ".." in parts:
            raise ValueError(f"the pattern {pattern!r} is not relative to the folder; write one such as '**/*.jpg'")
        if parts[-1] == _ANY_FOLDERS:
            parts.append("*")
        tests = [re.compile(fnmatch.translate(part)).match for part in parts]
        self.name = tests.pop()
        # None matches any number of folders.
        self.steps = [None if part == _ANY_FOLDERS else test for part, test in zip(parts, tests)]
        self.n_steps = len(self.steps)

    def reached(self, folders: Iterable[str]) -> set[int]:
        """The steps that may come next after these folders. Follows all matches at once, so that many `**` need no
        backtracking."""
        at = self.with_skipped([0])
        for name in folders:
            steps = ((i, self.steps[i]) for i in at if i < self.n_steps)
            at = self.with_skipped(i + (step is not None) for i, step in steps if step is None or step(name))
        return at

    def with_skipped(self, at: Iterable[int]) -> set[int]:
        """These steps, and the steps reached from them by letting `**` match no folder."""
        out = set()
        for i in at:
            out.add(i)
            while i < self.n_steps and self.steps[i] is None:
                i += 1
                out.add(i)
        return out
