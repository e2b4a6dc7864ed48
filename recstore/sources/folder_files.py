"""`sources.folder`: the files below a folder and their classes, as in image folders."""

from __future__ import annotations

import operator
import os
import re
from itertools import chain

from recstore.building import build_options
from recstore.building import progress as bars
from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import folder_walk, inputs, reading
from recstore.sources.globs import Patterns
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, TypeAlias

    from recstore._types import Path
    from recstore.sources import Source

    _ClassFrom: TypeAlias = str | re.Pattern[str] | Callable[[str], str | None] | None

__all__ = ["folder"]

_NAMED_ERRORS = 3
_NAMED_CLASSES = 20
_MOST_PARTS = 64


@named_arguments
def folder(
    root: Path,
    pattern: str | Iterable[str] = "**/*",
    *,
    class_from: _ClassFrom = None,
    classes: Iterable[str] | None = None,
    paths: Literal["joined", "relative", "absolute"] = "joined",
    stat: bool = False,
    as_tuples: bool = False,
    hidden: bool = False,
    follow_symlinks: bool = True,
    errors: Literal["raise", "skip"] = "raise",
    allow_empty: bool = False,
    threads: int = 4,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
) -> Source[Any]:
    """The files below a folder, each a dict ``{"path": str, "label": int}``. The order of the files and the numbers of
    the classes are the same as in torchvision's ImageFolder. Memory holds the files of a few folders at a time.

    Args:
        root: the path of the folder.
        pattern: a glob pattern relative to `root`, where ``**`` matches any number of folders; an extension such as
            ``".jpg"``, which matches in every folder and in any case; or a list of these.
        class_from: how a file gets its class. "first": from the first folder of its path below `root`, as in
            ImageFolder; files directly in `root` are skipped. "parent": from the folder that contains it. A regular
            expression, searched in the path relative to `root`: from its group ``class``, else from its first group. A
            function of that path that returns the name, or None to skip the file. None: records have no label.
        classes: the names of the classes in the order of their numbers, such as ``train.classes``. With None the names
            are numbered in sorted order. Unless `class_from` is "first", this takes two walks over the folders.
        paths: "joined": beginning with `root` as given; "relative": relative to `root`, with ``/``; or "absolute".
        stat: add "size" in bytes and "mtime" in seconds since 1970, which takes a system call per file.
        as_tuples: records are tuples ``(path, label)``, as in ``ImageFolder.samples``; `stat` appends size and mtime.
        hidden: also read files and folders whose names begin with a dot.
        follow_symlinks: also enter folders through links, but never through a link to a folder that contains the link.
        errors: "raise" raises the OSError of an unreadable folder or a broken link; "skip" skips them and logs a
            warning. An unreadable `root` always raises.
        allow_empty: accept class folders without files, and a result without files.
        threads: the number of threads that list folders; 0 for none.
        where: a function; only records for which it is true are stored.
        n_rows: the most files to store.

    The list, its views and its file keep ``x.classes`` and ``x.class_to_idx``. Names that are not UTF-8 have lone
    surrogates, as from ``os.fsdecode``. With ``workers=N`` a worker reads some folders in `root` at a time. A process
    that calls :func:`recstore.shared` walks over the folders; their inodes and times are the fingerprint, so it changes
    when a file is added, removed or renamed; with `stat` also when a file is rewritten.

    Raises ValueError and TypeError. A build raises OSError; FileNotFoundError if no file matches, or none in a class
    folder; InputError for a file whose class is not in `classes`, and if the folders change. Safe from several threads.

    >>> import pathlib, recstore, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "cat").mkdir(), (root / "cat/1.jpg").touch()
    (None, None)
    >>> x = recstore.RecordList(folder(root, ".jpg", class_from="first", paths="relative"))
    >>> x[0], x.classes, x.close()
    ({'path': 'cat/1.jpg', 'label': 0}, ['cat'], None)
    """
    options = Walking(paths, stat, as_tuples, hidden, follow_symlinks, errors, allow_empty, threads)
    return _source(root, Patterns(pattern), class_from, classes, options, where, n_rows)


def _source(
    path: Path,
    patterns: Patterns,
    class_from: _ClassFrom,
    classes: Iterable[str] | None,
    options: Walking,
    where: Callable[[Any], object] | None,
    n_rows: int | None,
) -> FolderSource:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"root must be a path, not {an(type(path).__name__)}")
    root = os.path.expanduser(os.fsdecode(path))
    class_rule = _ClassRule.of(class_from, root)
    if classes is not None and class_rule is None:
        raise TypeError("classes= needs class_from=, which says how a file gets its class")
    source = FolderSource(root, patterns, options, class_rule, _checked(classes))
    source.where, source.n_rows = reading.where_of(where), reading.n_rows_of(n_rows)
    rule = (class_from.pattern, class_from.flags) if isinstance(class_from, re.Pattern) else class_from
    source.content = {"root": root, "pattern": patterns.patterns, "class_from": rule, "classes": source.classes}
    source.content |= {"where": where, "n_rows": source.n_rows, **options.content()}
    return source


class Walking:
    """The options of :func:`folder` for the walk and for the form of the records."""

    __slots__ = ("paths", "stat", "as_tuples", "hidden", "follow_symlinks", "errors", "allow_empty", "threads")

    def __init__(
        self,
        paths: str = "joined",
        stat: bool = False,
        as_tuples: bool = False,
        hidden: bool = False,
        follow_symlinks: bool = True,
        errors: str = "raise",
        allow_empty: bool = False,
        threads: int = 4,
    ) -> None:
        build_options.check_choice("paths", paths, ("joined", "relative", "absolute"))
        build_options.check_choice("errors", errors, ("raise", "skip"))
        self.paths, self.stat, self.as_tuples, self.hidden = paths, bool(stat), bool(as_tuples), bool(hidden)
        self.follow_symlinks, self.errors, self.allow_empty = bool(follow_symlinks), errors, bool(allow_empty)
        self.threads = operator.index(threads)
        if self.threads < 0:
            raise ValueError(f"threads must be 0 or more, not {threads}")

    def content(self) -> dict[str, Any]:
        """The options that determine the records, as a dict."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "threads"}


def _checked(classes: Iterable[str] | None) -> list[str] | None:
    if classes is None:
        return None
    if isinstance(classes, str) or not hasattr(type(classes), "__iter__"):
        raise TypeError(f"classes must be a list of names, not {an(type(classes).__name__)}")
    out = list(classes)
    if not all(isinstance(name, str) for name in out):
        raise TypeError("classes must be a list of names, each a str")
    if len(set(out)) != len(out):
        raise ValueError("classes has a name twice")
    return out


# ---- The class of a file ----


class _ClassRule:
    """How a file gets the name of its class."""

    by_folder = True  # whether all files of a folder have the same class
    planned = True  # whether only a walk can find the names

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        """The class of a file in the folder with the path `names`; None to skip the file. If `by_folder` is true,
        `file` does not matter."""
        raise NotImplementedError

    @staticmethod
    def of(class_from: _ClassFrom, root: str) -> _ClassRule | None:
        if class_from is None:
            return None
        if class_from == "first":
            return _First()
        if class_from == "parent":
            return _Parent(os.path.basename(os.path.abspath(root)))
        if isinstance(class_from, (str, re.Pattern)):
            return _Searched(class_from)
        if callable(class_from):
            return _Computed(class_from)
        choices = "'first', 'parent', a regular expression or a function"
        raise TypeError(f"class_from must be {choices}, not {class_from!r:.80}")


class _First(_ClassRule):
    planned = False

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        return names[0] if names else None


class _Parent(_ClassRule):
    def __init__(self, root: str) -> None:
        self.root = root

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        return names[-1] if names else self.root


class _Searched(_ClassRule):
    by_folder = False

    def __init__(self, pattern: str | re.Pattern[str]) -> None:
        try:
            self.regex = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"class_from is not a valid regular expression: {pattern!r}: {error}") from None
        if not self.regex.groups:
            raise ValueError(
                "class_from must be 'first', 'parent' or a regular expression with a group, such as '^([^/]+)/', not "
                f"{self.regex.pattern!r}"
            )
        self.group = "class" if "class" in self.regex.groupindex else 1

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        path = "/".join((*names, file))
        match = self.regex.search(path)
        name = match and match[self.group]
        if name is None:
            raise InputError(
                f"{path}: the regular expression {self.regex.pattern!r} of class_from finds no class in this path; "
                "skip such files with a narrower pattern="
            )
        return name


class _Computed(_ClassRule):
    by_folder = False

    def __init__(self, function: Callable[[str], str | None]) -> None:
        self.function = function

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        path = "/".join((*names, file))
        name = self.function(path)
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{path}: class_from must return the name of a class, or None to skip the file, not "
                f"{an(type(name).__name__)}"
            )
        return name


class _Form:
    """The form of the records."""

    def __init__(self, root: str, options: Walking, labelled: bool) -> None:
        self.root = {"joined": root, "absolute": os.path.abspath(root), "relative": ""}[options.paths]
        self.stat, self.as_tuples, self.labelled = options.stat, options.as_tuples, labelled

    def prefix(self, names: tuple[str, ...]) -> str:
        """The beginning of the paths of a folder's files."""
        return os.path.join(self.root, *names, "")

    def record(self, path: str, label: int | None, status: os.stat_result | None) -> Any:
        values: tuple[Any, ...] = (path, label) if self.labelled else (path,)
        if status is not None and self.stat:
            values += status.st_size, status.st_mtime
        if self.as_tuples:
            return values
        keys = ("path", "label") if self.labelled else ("path",)
        return dict(zip((*keys, "size", "mtime"), values))


# ---- The records ----


class FolderSource(reading.FileSource):
    """The records of the files of a walk. The walk begins in the folders `starts`, each given by its path from the root
    as a tuple of names. With `flat` it does not enter their subfolders."""

    where: Callable[[Any], object] | None = None
    starts: Iterable[tuple[str, ...]] = ((),)
    flat = part = False

    def __init__(
        self, root: str, patterns: Patterns, options: Walking, class_rule: _ClassRule | None, classes: list[str] | None
    ) -> None:
        self.walk = folder_walk.Walk(root, patterns, options)
        self.options, self.class_rule, self.classes = options, class_rule, classes
        self.form = _Form(root, options, class_rule is not None)
        super().__init__([inputs.LocalFile(root)])

    def _restart(self) -> None:
        self.names = self.classes  # the names of the classes by number; None until they are known
        self.digest: str | None = None  # the text of the Digest of the plan
        self.walked: str | None = None  # the text of the Digest of the build; None unless it read all folders

    # ---- Before the build ----

    @property
    def attributes(self) -> dict[str, Any] | None:  # type: ignore[override]
        return None if self.class_rule is None else {"classes": self.class_names()}

    def _stamped(self) -> list[str | None]:
        self.plan()
        return [self.digest]

    def class_names(self) -> list[str]:
        if self.names is None and (self.class_rule is None or self.class_rule.planned):
            self.plan()
        if self.names is None:
            self.names = sorted(self.checked(self.walk.list(())).folders)
            if not self.names and not self.options.allow_empty:
                raise FileNotFoundError(f"{self.walk.root} has no class folders; allow_empty=True accepts this")
        return self.names

    def plan(self) -> None:
        """Walks over all folders to find the names of the classes and the digest."""
        if self.digest is not None:
            return
        digest, seen = folder_walk.Digest(), _Seen(self)
        for listing in self.walk.listings():
            digest.add(self.checked(listing))
            seen.add(listing)
            if self.class_rule is not None and not self.class_rule.by_folder:
                seen.names.update(self.class_rule.name(listing.names, file) for file, _ in listing.files)
        seen.require_files()
        self.digest = digest.text()
        if self.class_rule is not None and self.class_rule.planned and self.names is None:
            self.names = sorted(name for name in seen.names if name is not None)

    # ---- Reading ----

    def _read(self, builder: Any, progress: bool) -> None:
        with bars.Bar(progress, None, "records") as bar:
            builder.extend(reading.chosen(self.records(bar), where=self.where, n_rows=self.n_rows))

    def records(self, bar: bars.Bar) -> Iterator[Any]:
        rule, digest, seen = self.class_rule, folder_walk.Digest(), _Seen(self)
        skipped: list[OSError] = []
        numbers = {} if rule is None else {name: i for i, name in enumerate(self.class_names())}
        by_file = None if rule is None or rule.by_folder else rule
        begin = (lambda start: [self.walk.list(start)]) if self.flat else self.walk.listings
        for listing in chain.from_iterable(map(begin, self.starts)):
            digest.add(self.checked(listing))
            skipped += listing.errors
            seen.add(listing)
            prefix, number = self.form.prefix(listing.names), None
            if rule is not None and by_file is None and listing.files:
                name = rule.name(listing.names, "")
                if name is None:
                    continue
                number = self.number(numbers, name, prefix)
            for file, status in listing.files:
                if by_file is not None:
                    name = by_file.name(listing.names, file)
                    if name is None:
                        continue
                    number = self.number(numbers, name, prefix + file)
                yield self.form.record(prefix + file, number, status)
            bar.advance(len(listing.files))
        _warn(skipped)
        if not self.flat:
            seen.require_files()
        self.walked = digest.text()

    def checked(self, listing: folder_walk.Listing) -> folder_walk.Listing:
        """The listing. Raises its first error, unless the options skip errors."""
        if listing.errors and (self.options.errors == "raise" or not (listing.names or listing.read)):
            raise listing.errors[0]
        return listing

    def number(self, numbers: dict[str, int], name: str, where: str) -> int:
        number = numbers.get(name)
        if number is None:
            some = ", ".join(list(numbers)[:_NAMED_CLASSES])
            raise InputError(f"{where}: its class {name!r} is not among the {len(numbers)} classes: {some}")
        return number

    def _check(self) -> None:
        if None not in (self.digest, self.walked) and self.digest != self.walked:
            raise InputError(f"{self.walk.root}: the folders changed while they were read; read them again")

    def _parts(self) -> list[FolderSource]:
        if self.class_rule is None:
            self.plan()  # checks that a file exists; a part cannot check this
        else:
            self.class_names()
        top = self.checked(self.walk.list(()))
        out = [self.parted([()], True)] if top.files else []
        folders: list[tuple[str, ...]] = [(name,) for name in sorted(top.folders)]
        # Not one part per folder, because each part carries the names of all classes.
        size = -(-len(folders) // _MOST_PARTS) or 1
        return out + [self.parted(folders[at : at + size], False) for at in range(0, len(folders), size)]

    def parted(self, starts: list[tuple[str, ...]], flat: bool) -> FolderSource:
        out = FolderSource(self.walk.root, self.walk.patterns, self.options, self.class_rule, self.names)
        out.where, out.starts, out.flat, out.part = self.where, starts, flat, True
        return out


class _Seen:
    """The classes and files that a walk has met."""

    def __init__(self, source: FolderSource) -> None:
        self.source = source
        self.names: set[str | None] = set()  # the classes that have a folder or a file
        self.filled: set[str | None] = set()  # the classes that have a file
        self.files = 0

    def add(self, listing: folder_walk.Listing) -> None:
        self.files += len(listing.files)
        rule = self.source.class_rule
        if rule is None or not rule.by_folder:
            return
        if listing.files or listing.is_leaf or not rule.planned:
            name = rule.name(listing.names, "")
            if listing.names or listing.files:
                self.names.add(name)
            if listing.files:
                self.filled.add(name)

    def require_files(self) -> None:
        """Raises FileNotFoundError if a class has a folder but no file, or if the walk met no file."""
        source = self.source
        if source.options.allow_empty or source.n_rows == 0:
            return
        patterns = ", ".join(source.walk.patterns.patterns)
        empty = sorted(name for name in self.names - self.filled if name is not None)
        if empty and source.class_rule is not None and source.class_rule.by_folder:
            more = f" and {len(empty) - _NAMED_CLASSES} more" if len(empty) > _NAMED_CLASSES else ""
            raise FileNotFoundError(
                f"{source.walk.root}: no file matches {patterns} in the folders of the classes "
                f"{', '.join(empty[:_NAMED_CLASSES])}{more}; allow_empty=True accepts them"
            )
        if not self.files and not source.part:
            raise FileNotFoundError(f"{source.walk.root}: no file matches {patterns}; allow_empty=True accepts this")


def _warn(skipped: list[OSError]) -> None:
    if skipped:
        import logging

        some = "; ".join(map(str, skipped[:_NAMED_ERRORS]))
        logging.getLogger("recstore").warning("skipped unreadable files and folders (%d): %s", len(skipped), some)
