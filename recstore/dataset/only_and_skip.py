"""The arguments `only` and `skip` of share_dataset."""

from __future__ import annotations

from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Patterns:
    """The arguments `only` and `skip`: paths, or patterns of fnmatch. A path includes everything below it."""

    def __init__(self, only: str | Iterable[str] | None, skip: str | Iterable[str] | None) -> None:
        self.only, self.skip = _patterns(only, "only"), _patterns(skip, "skip")
        self.used: set[str] = set()

    def _match(self, path: str, patterns: Iterable[str] | None) -> bool:
        matches = False
        for pattern in patterns or ():
            if (
                path == pattern
                or fnmatchcase(path, pattern)
                or (path.startswith(pattern) and path[len(pattern)] in ".[")
            ):
                self.used.add(pattern)
                matches = True
        return matches

    def skips(self, path: str) -> bool:
        return self._match(path, self.skip)

    def wants(self, path: str) -> bool:
        return self.only is None or self._match(path, self.only)

    def names_class(self, path: str) -> bool:
        """Whether `only` names an attribute of a class, by a pattern with "__class__"."""
        return self._match(path, [p for p in self.only or () if "__class__" in p])

    def names(self, path: str) -> bool:
        """Whether `only` has exactly this path. Then even a placeholder is shared."""
        return path in (self.only or ())

    def unused(self) -> list[str]:
        return [p for p in (*(self.only or ()), *(self.skip or ())) if p not in self.used]


def _patterns(patterns: str | Iterable[str] | None, name: str) -> list[str] | None:
    if patterns is None:
        return None
    out = [patterns] if isinstance(patterns, str) else list(patterns)
    if not all(isinstance(pattern, str) for pattern in out):
        raise TypeError(
            f"{name} must be a path such as 'dataset.samples', a pattern such as '*.samples', or a list of them"
        )
    return out
