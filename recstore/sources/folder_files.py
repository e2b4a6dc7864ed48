"""`sources.folder`: the files below a folder, with the class of each, as image folders have them."""

from __future__ import annotations

import operator
import os
import re
from itertools import chain

from recstore.building import build_options
from recstore.building import progress as bars
from recstore.errors import InputError
from recstore.later import named_arguments
from recstore.sources import folder_walk, inputs, reading
from recstore.sources.patterns import Patterns
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
    """The files below a folder: a dict ``{"path": str, "label": int}`` for each. No list of all paths is ever held.
    Order and numbers of classes are those of torchvision's ImageFolder.

    Args:
        root: the folder, a path.
        pattern: a glob pattern relative to `root`, in which ``**`` stands for any number of folders; an extension such
            as ``".jpg"``, which counts in every folder and in any case; or a list of these.
        class_from: the class of a file. "first": the folder in `root` that leads to it, as ImageFolder has it; files in
            `root` itself are left out. "parent": the folder that holds it. A regular expression, searched in the path
            relative to `root`: its group ``class``, else its first one. A function of that path, which returns the
            name, or None to leave the file out. None: records have no label.
        classes: the names of the classes by number, such as ``train.classes``. None numbers the names found in sorted
            order; except for "first" it walks over the folders twice for that.
        paths: "joined": they begin with `root` as it was given. "relative": to `root`, with ``/``. "absolute".
        stat: add "size" in bytes and "mtime" in seconds since 1970, by a system call for each file.
        as_tuples: records are tuples ``(path, label)``, as in ``ImageFolder.samples``; `stat` appends size and time.
        hidden: also read files and folders whose names begin with a dot.
        follow_symlinks: also enter folders through links. A link to a folder above itself is left out.
        errors: "raise" raises the OSError of a folder that cannot be read and of a link that leads to no file. "skip"
            leaves them out and logs a warning. An unreadable `root` always raises.
        allow_empty: accept class folders without a file, and a result without any.
        threads: the number of threads that list folders; 0 for none.
        where: a function; only records for which it is true are stored.
        n_rows: the most files to store.

    ``x.classes`` and ``x.class_to_idx`` stay with the list, its views and its file. Names that are not UTF-8 have lone
    surrogates, as ``os.fsdecode`` gives them. With ``workers=N`` some folders in `root` are a part. Each process of
    :func:`recstore.shared` walks over the folders, for a fingerprint from inodes and times: of files that come, go or
    are renamed; with `stat` also of files written anew.

    Raises ValueError and TypeError. A build raises OSError, FileNotFoundError if a class folder has no file; InputError
    if a class is not in `classes`, or the folders change while they are read. Safe from several threads at once.

    >>> import pathlib, recstore, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "cat").mkdir(), (root / "cat/1.jpg").touch()
    (None, None)
    >>> x = recstore.RecordList(folder(root, ".jpg", class_from="first", paths="relative"))
    >>> x[0], x.classes, x.close()
    ({'path': 'cat/1.jpg', 'label': 0}, ['cat'], None)
    """
    how = Walking(paths, stat, as_tuples, hidden, follow_symlinks, errors, allow_empty, threads)
    return _source(root, Patterns(pattern), class_from, classes, how, where, n_rows)


def _source(
    given: Path,
    patterns: Patterns,
    class_from: _ClassFrom,
    classes: Iterable[str] | None,
    how: Walking,
    where: Callable[[Any], object] | None,
    n_rows: int | None,
) -> FolderSource:
    if not isinstance(given, (str, bytes, os.PathLike)):
        kind = an(type(given).__name__)
        raise TypeError(f"sources.folder() reads the folder of a path, and root is {kind}: give a path")
    root = os.path.expanduser(os.fsdecode(given))
    classing = _Classing.of(class_from, root)
    if classes is not None and classing is None:
        raise TypeError("classes= needs class_from=, which says how a file gets its class")
    source = FolderSource(root, patterns, how, classing, _checked(classes))
    source.where, source.n_rows = reading.where_of(where), reading.n_rows_of(n_rows)
    rule = (class_from.pattern, class_from.flags) if isinstance(class_from, re.Pattern) else class_from
    source.content = {"root": root, "pattern": patterns.given, "class_from": rule, "classes": source.given}
    source.content |= {"where": where, "n_rows": source.n_rows, **how.content()}
    return source


class Walking:
    """The options of :func:`folder` for the walk and the form of the records."""

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
            raise ValueError(f"threads is a number of threads, 0 for none, not {threads}")

    def content(self) -> dict[str, Any]:
        """The options on which the records depend, as a dict."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "threads"}


def _checked(classes: Iterable[str] | None) -> list[str] | None:
    if classes is None:
        return None
    if isinstance(classes, str) or not hasattr(type(classes), "__iter__"):
        raise TypeError(f"classes is a list of names, not {an(type(classes).__name__)}")
    out = list(classes)
    if not all(isinstance(name, str) for name in out):
        raise TypeError("classes is a list of names, each a str")
    if len(set(out)) != len(out):
        raise ValueError("classes has a name twice")
    return out


# ---- The class of a file ----


class _Classing:
    """The rule by which a file gets the name of its class. `by_folder` says that all files of a folder have one."""

    by_folder = True
    planned = True  # whether the names are known only after a walk

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        """The class of a file, whose name is "" where all files of the folder have one class."""
        raise NotImplementedError

    @staticmethod
    def of(given: _ClassFrom, root: str) -> _Classing | None:
        if given is None:
            return None
        if given == "first":
            return _First()
        if given == "parent":
            return _Parent(os.path.basename(os.path.abspath(root)))
        if isinstance(given, (str, re.Pattern)):
            return _Searched(given)
        if callable(given):
            return _Computed(given)
        raise TypeError(f"class_from is 'first', 'parent', a regular expression or a function, not {given!r:.80}")


class _First(_Classing):
    planned = False

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        return names[0] if names else None


class _Parent(_Classing):
    def __init__(self, root: str) -> None:
        self.root = root

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        return names[-1] if names else self.root


class _Searched(_Classing):
    by_folder = False

    def __init__(self, given: str | re.Pattern[str]) -> None:
        try:
            self.regex = re.compile(given)
        except re.error as error:
            raise ValueError(f"class_from is the regular expression {given!r}, which is wrong: {error}") from None
        if not self.regex.groups:
            raise ValueError(
                f"class_from is 'first', 'parent' or a regular expression with a group, such as '^([^/]+)/', not"
                f" {self.regex.pattern!r}"
            )
        self.group = "class" if "class" in self.regex.groupindex else 1

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        path = "/".join((*names, file))
        found = self.regex.search(path)
        name = found and found[self.group]
        if name is None:
            raise InputError(
                f"{path}: the regular expression {self.regex.pattern!r} of class_from finds no class in it; a narrower"
                " pattern= leaves such files out"
            )
        return name


class _Computed(_Classing):
    by_folder = False

    def __init__(self, function: Callable[[str], str | None]) -> None:
        self.function = function

    def name(self, names: tuple[str, ...], file: str) -> str | None:
        path = "/".join((*names, file))
        name = self.function(path)
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{path}: class_from returned {an(type(name).__name__)}; it returns the name of the class, or None to"
                " leave the file out"
            )
        return name


class _Form:
    """The form of the records."""

    def __init__(self, root: str, how: Walking, labelled: bool) -> None:
        self.root = {"joined": root, "absolute": os.path.abspath(root), "relative": ""}[how.paths]
        self.stat, self.as_tuples, self.labelled = how.stat, how.as_tuples, labelled

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
    """The records of the files of a walk. `starts` has the names that lead to each of the folders where it begins; with
    `flat` it ends there, too."""

    where: Callable[[Any], object] | None = None
    starts: Iterable[tuple[str, ...]] = ((),)
    flat = part = False

    def __init__(
        self, root: str, patterns: Patterns, how: Walking, classing: _Classing | None, classes: list[str] | None
    ) -> None:
        self.walk = folder_walk.Walk(root, patterns, how)
        self.how, self.classing, self.given = how, classing, classes
        self.form = _Form(root, how, classing is not None)
        super().__init__([inputs.LocalFile(root)])

    def _restart(self) -> None:
        self.names = self.given  # of the classes by number; None until they are known
        self.digest: str | None = None  # the text of the Digest of the plan
        self.walked: str | None = None  # that of the folders whose records were appended; None if not of all

    # ---- What is known beforehand ----

    @property
    def attributes(self) -> dict[str, Any] | None:  # type: ignore[override]
        return None if self.classing is None else {"classes": self.class_names()}

    def _stamped(self) -> list[str | None]:
        self.plan()
        return [self.digest]

    def class_names(self) -> list[str]:
        if self.names is None and (self.classing is None or self.classing.planned):
            self.plan()
        if self.names is None:
            self.names = sorted(self.checked(self.walk.list(())).folders)
            if not self.names and not self.how.allow_empty:
                raise FileNotFoundError(f"{self.walk.root} holds no folder, so no class; allow_empty=True accepts that")
        return self.names

    def plan(self) -> None:
        """Walks over all folders once, for the names of the classes and the digest."""
        if self.digest is not None:
            return
        digest, seen = folder_walk.Digest(), _Seen(self)
        for listing in self.walk.listings():
            digest.add(self.checked(listing))
            seen.add(listing)
            if self.classing is not None and not self.classing.by_folder:
                seen.names.update(self.classing.name(listing.names, file) for file, _ in listing.files)
        seen.require_files()
        self.digest = digest.text()
        if self.classing is not None and self.classing.planned and self.names is None:
            self.names = sorted(name for name in seen.names if name is not None)

    # ---- Reading ----

    def _read(self, builder: Any, progress: bool) -> None:
        with bars.Bar(progress, None, "records") as bar:
            builder.extend(reading.chosen(self.records(bar), where=self.where, n_rows=self.n_rows))

    def records(self, bar: bars.Bar) -> Iterator[Any]:
        classing, digest, seen = self.classing, folder_walk.Digest(), _Seen(self)
        skipped: list[OSError] = []
        numbers = {} if classing is None else {name: i for i, name in enumerate(self.class_names())}
        by_file = None if classing is None or classing.by_folder else classing
        begin = (lambda start: [self.walk.list(start)]) if self.flat else self.walk.listings
        for listing in chain.from_iterable(map(begin, self.starts)):
            digest.add(self.checked(listing))
            skipped += listing.errors
            seen.add(listing)
            prefix, number = self.form.prefix(listing.names), None
            if classing is not None and by_file is None and listing.files:
                name = classing.name(listing.names, "")
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
        """The listing. Raises its first error, unless errors are skipped."""
        if listing.errors and (self.how.errors == "raise" or not (listing.names or listing.read)):
            raise listing.errors[0]
        return listing

    def number(self, numbers: dict[str, int], name: str, where: str) -> int:
        number = numbers.get(name)
        if number is None:
            some = ", ".join(list(numbers)[:_NAMED_CLASSES])
            raise InputError(f"{where}: its class is {name!r}, which is none of the {len(numbers)} classes: {some}")
        return number

    def _check(self) -> None:
        if None not in (self.digest, self.walked) and self.digest != self.walked:
            raise InputError(f"{self.walk.root}: the folders changed while they were read; read them again")

    def _parts(self) -> list[FolderSource]:
        if self.classing is None:
            self.plan()  # a part cannot know whether there is no file at all
        else:
            self.class_names()
        top = self.checked(self.walk.list(()))
        out = [self.parted([()], True)] if top.files else []
        folders: list[tuple[str, ...]] = [(name,) for name in sorted(top.folders)]
        # Each part brings the names of all classes.
        size = -(-len(folders) // _MOST_PARTS) or 1
        return out + [self.parted(folders[at : at + size], False) for at in range(0, len(folders), size)]

    def parted(self, starts: list[tuple[str, ...]], flat: bool) -> FolderSource:
        out = FolderSource(self.walk.root, self.walk.patterns, self.how, self.classing, self.names)
        out.where, out.starts, out.flat, out.part = self.where, starts, flat, True
        return out


class _Seen:
    """The classes and files that a walk met."""

    def __init__(self, source: FolderSource) -> None:
        self.source = source
        self.names: set[str | None] = set()  # of classes that have a folder, or a file
        self.filled: set[str | None] = set()
        self.files = 0

    def add(self, listing: folder_walk.Listing) -> None:
        self.files += len(listing.files)
        classing = self.source.classing
        if classing is None or not classing.by_folder:
            return
        if listing.files or listing.is_leaf or not classing.planned:
            name = classing.name(listing.names, "")
            if listing.names or listing.files:
                self.names.add(name)
            if listing.files:
                self.filled.add(name)

    def require_files(self) -> None:
        """Raises FileNotFoundError if a class has a folder and no file, or if there is no file at all."""
        source = self.source
        if source.how.allow_empty or source.n_rows == 0:
            return
        given = ", ".join(source.walk.patterns.given)
        empty = sorted(name for name in self.names - self.filled if name is not None)
        if empty and source.classing is not None and source.classing.by_folder:
            more = f" and {len(empty) - _NAMED_CLASSES} more" if len(empty) > _NAMED_CLASSES else ""
            raise FileNotFoundError(
                f"{source.walk.root}: no file matches {given} in the folders of the classes"
                f" {', '.join(empty[:_NAMED_CLASSES])}{more}; allow_empty=True accepts them"
            )
        if not self.files and not source.part:
            raise FileNotFoundError(f"{source.walk.root}: no file matches {given}; allow_empty=True accepts that")


def _warn(skipped: list[OSError]) -> None:
    if skipped:
        import logging

        some = "; ".join(map(str, skipped[:_NAMED_ERRORS]))
        logging.getLogger("recstore").warning(
            "left out %d files or folders that cannot be read: %s", len(skipped), some
        )
