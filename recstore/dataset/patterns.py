"""The arguments `only` and `skip` of share_dataset."""

from __future__ import annotations

from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Patterns:
    """The arguments `only` and `skip`: paths, or patterns as of fnmatch. Each stands for a value and everything below
    it."""

    def __init__(self, only: str | Iterable[str] | None, skip: str | Iterable[str] | None) -> None:
        self.only, self.skip = _patterns(only, "only"), _patterns(skip, "skip")
        self.used: set[str] = set()

    def _match(self, path: str, patterns: Iterable[str] | None) -> bool:
        hit = False
        for pattern in patterns or ():
            if (
                path == pattern
                or fnmatchcase(path, pattern)
                or (path.startswith(pattern) and path[len(pattern)] in ".[")
            ):
                self.used.add(pattern)
                hit = True
        return hit

    def skips(self, path: str) -> bool:
        return self._match(path, self.skip)

    def wants(self, path: str) -> bool:
        return self.only is None or self._match(path, self.only)

    def names_class(self, path: str) -> bool:
        """Whether `only` asks for an attribute of a class, by a pattern that says so."""
        return self._match(path, [p for p in self.only or () if "__class__" in p])

    def names(self, path: str) -> bool:
        """Whether `only` has exactly this path. Then even a value that waits to be filled is shared."""
        return path in (self.only or ())

    def unused(self) -> list[str]:
        return [p for p in (*(self.only or ()), *(self.skip or ())) if p not in self.used]


def _patterns(given: str | Iterable[str] | None, name: str) -> list[str] | None:
    if given is None:
        return None
    out = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(pattern, str) for pattern in out):
        raise TypeError(f"{name} is a path such as 'dataset.samples', a pattern such as '*.samples', or a list of them")
    return out
