"""The steps that all readers share: options, one build per machine, the choice of records, errors of files."""

import functools
import os
import sys
from contextlib import contextmanager

from recstore import sharing
from recstore._core import native
from recstore.building import build_options, fingerprints, progress, saving, streaming
from recstore.building.feeds import Feed
from recstore.containers import dicts, opening, records
from recstore.containers.field_names import listed
from recstore.errors import EncodeError, InputError
from recstore.sources import encodings, foreign_names, inputs
from recstore.text import an, meant

_MOST_KEYS = 10_000  # of records that an error can name
_SHARING = ("keep", "fingerprint", "dir", "timeout")
_BUILDING = (
    "on_unsupported",
    "compression",
    "arrays",
    "backing",
    "name",
    "workers",
    "progress",
    "index_by",
    "group_by",
    "threads",
)


def store(reader, feed, given, **content):
    """The RecordList of the records of a Feed, or the RecordDict of its pairs. Records of files come from a FileFeed.

    `reader` is the name of the reader's function. `given` has the keyword arguments that all readers take: those of
    RecordList, `save`, and `shared` with `keep`, `fingerprint`, `dir` and `timeout`. With ``shared="name"`` one process
    of the machine reads, and the others attach. With ``save="path"`` the store is built in that file instead of memory,
    and opened. `content` has the arguments of the reader on which the records depend; the fingerprint is derived from
    them and from the files.

    `_taken_by` is for other rooms: a function that is called with the feed in place of a build, and whose result is
    returned.

    Raises TypeError for an unknown keyword argument, and InputError if a file changes while it is read.
    """
    taken_by = given.pop("_taken_by", None)
    known = () if taken_by is not None else (*_BUILDING, *_SHARING, "shared", "save")
    for name in given:
        if name not in known:
            hint = foreign_names.of_argument(reader, name)
            raise TypeError(f"{reader}() got an unexpected keyword argument {name!r}{hint}")
    if taken_by is not None:
        return taken_by(feed)
    name = given.get("shared")
    chosen = {option: given[option] for option in _SHARING if option in given}
    building = {option: given[option] for option in _BUILDING if option in given}
    if name is None:
        if chosen:
            raise TypeError(f"{reader}(): {', '.join(chosen)} belong to shared=, the name to share the store by")
        if given.get("save") is not None:
            return _saved(reader, feed, given["save"], building)
        feed.options = _options(feed, building)
        return _built(feed)
    for option in ("name", "backing", "save"):
        if given.get(option) is not None:
            raise TypeError(f"{reader}(): {option}= and shared= exclude each other; shared= names the store")
    feed.options = _options(feed, building)
    how = {
        option: building[option]
        for option in ("on_unsupported", "compression", "arrays", "index_by", "group_by")
        if option in building
    }
    if chosen.get("fingerprint") is None:
        chosen["fingerprint"] = fingerprint(reader, feed, {**content, **how})
    return sharing.shared(name, lambda: feed, **chosen)


def _options(feed, given):
    """The build_options.Options of a build. A file object of the caller cannot be sent to workers: this process reads
    it."""
    options = build_options.Options(**given)
    if any(isinstance(one, inputs.FileObject) for one in getattr(feed, "files", ())):
        options.workers = 0
    return options


def _built(feed):
    """The store of a feed, built as feed.options say."""
    if feed.pairs:
        return dicts.RecordDict._of_segment(streaming.build_mapping(feed, feed.options))
    return records.RecordList._of_segment(streaming.build_records(feed, feed.options))


def _saved(reader, feed, path, building):
    """The store of a feed, built in a file."""
    for option in ("name", "backing"):
        if building.get(option) is not None:
            raise TypeError(f"{reader}(): {option}= and save= exclude each other; save= says where the store is")
    for one in getattr(feed, "files", ()):
        if one.path is not None and os.path.exists(path) and os.path.samefile(one.path, path):
            raise ValueError(f"{reader}(): save= names {one.name}, which is read; give another path")
    feed.options = _options(feed, building)

    def write(temporary):
        feed.options.target = saving.FileTarget(temporary)
        _built(feed).close()

    saving.publish(path, write)
    return opening.open(path, arrays=feed.options.arrays, allow_pickle=feed.options.on_unsupported == "pickle")


def fingerprint(reader, feed, content):
    """The fingerprint of the records that a reader gives, the same in every process of the machine. Raises TypeError if
    a source has no path or URL."""
    files = getattr(feed, "files", ())
    if not files or None in feed.stamps:
        raise TypeError(
            f"{reader}(): no path says what is shared; give fingerprint=, a text that says which data it is"
        )
    names = [os.path.abspath(one.path) if one.path else one.name for one in files]
    return fingerprints.derive(functools.partial(dict, reader=reader, files=names, stamps=feed.stamps, **content))


class FileFeed(Feed):
    """A feed of files. `files` are their Inputs. It notes their stamps when it is made."""

    def __init__(self, files):
        self.files = files
        self.stamps = [one.stamp() for one in files]

    def check(self):
        for one, stamp in zip(self.files, self.stamps, strict=True):
            if one.stamp() != stamp:
                raise InputError(f"{one.name}: the file changed while it was read; read it again when it is complete")

    @contextmanager
    def named(self, bar):
        """Names the file of a FileBar in the error of a record that cannot be stored. A file that changed meanwhile is
        the reason for bad content."""
        try:
            yield
        except EncodeError as error:
            raise EncodeError(f"{bar.file.name}: {error}") from None
        except native.Refused as error:
            raise native.Refused(f" of {bar.file.name}{error}") from None
        except InputError:
            self.check()
            raise


class FileBar(progress.Bar):
    """The progress bar of a FileFeed, in stored bytes of its files. `options` are those of `fill`."""

    def __init__(self, files, options):
        shown = options is not None and options.progress
        sizes = [one.size for one in files] if shown else []
        super().__init__(shown, None if None in sizes else sum(sizes), "bytes")
        self.left = list(files)
        self.file, self.before, self.steps = None, 0, 0

    def files(self):
        """Yields the files one after another; each is then the file whose position counts."""
        for file in self.left:
            self.file = file
            yield file
            if self.drawn is not None:
                self.before += file.size or 0
                self.to(self.before)

    def step(self):
        """Called for each record. It asks for the file's position now and then."""
        if self.drawn is not None:
            self.steps += 1
            if self.steps % 1024 == 1:
                self.moved()

    def moved(self, share=None):
        """Called after each block of the file that was read. `share` is the part of the file that was read, from 0 to
        1; without it the file's position counts."""
        if self.drawn is not None:
            read = self.file.position if share is None else (self.file.size or 0) * share
            self.to(self.before + read)


def grouped(files, size):
    """The files in lists, in order: a file of at least `size` bytes alone, smaller ones together."""
    found, left = [], 0
    for file in files:
        bytes_ = file.size
        if bytes_ is None or bytes_ >= left:
            found.append([])
            left = 0 if bytes_ is None or bytes_ >= size else size
        found[-1].append(file)
        left -= min(bytes_ or 0, left)
    return found


def divisible(file):
    """Whether parts of the file can be read by themselves, and the whole twice: it is a regular file, not packed, and
    a byte of a line end or bracket is nothing else in it."""
    if file.path is None or file.packed is not None or not os.path.isfile(file.path):
        return False
    return encodings.of_path(file.path) in (None, "utf-8")


def keys_of(columns):
    """The argument `columns` of a reader as a list, or None. Raises TypeError for a str or set, ValueError for a key
    that is there twice."""
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns is a list of names; write columns=[{columns!r}]")
    if isinstance(columns, (set, frozenset)) or not hasattr(type(columns), "__iter__"):
        raise TypeError(f"columns is {an(type(columns).__name__)}; give a list of names, which has an order")
    columns, seen = list(columns), set()
    for key in columns:
        if key in seen:
            raise ValueError(f"columns has {key!r:.80} twice; a record has a key once")
        seen.add(key)
    return columns


class Columns:
    """The keys `names` to store of records that are dicts. It notes which of them no record had so far: records may
    lack a key, but a key that all of them lack is a wrong name."""

    @staticmethod
    def given(columns):
        """The Columns for the argument of a reader, or None for all."""
        names = keys_of(columns)
        return None if names is None else Columns(names)

    def __init__(self, names):
        self.names = names
        self.place = {name: number for number, name in enumerate(names)}
        self.unseen = set(self.place)
        self.there = {}  # the keys of the records, in order, while one of `names` is unseen
        self.count = 0  # of the records

    def see(self, record):
        """Takes note of a record of the file, whether it is stored or not."""
        self.count += 1
        if self.unseen and type(record) is dict:
            self.unseen.difference_update(record)
            if len(self.there) < _MOST_KEYS:
                self.there.update(dict.fromkeys(record))

    def of(self, record):
        """The record with these keys alone."""
        if type(record) is not dict:
            return record
        if len(record) < len(self.names):
            return {key: record[key] for key in sorted(filter(self.place.__contains__, record), key=self.place.get)}
        return {key: record[key] for key in self.names if key in record}

    def report(self):
        """What was seen, for `require`."""
        return (self.count, self.unseen, [*self.there] if self.unseen else []) if self.count else None

    def require(self, reports, files, limit):
        """Raises InputError for a name that no record of the files had, by the reports of all their parts."""
        reports = [report for report in reports if report is not None]
        wrong = set.intersection(*(unseen for _, unseen, _ in reports)) if reports else ()
        for name in self.names:
            if name in wrong:
                place = files[0].name + (f" and {len(files) - 1:,} further files" if len(files) > 1 else "")
                if limit is not None:
                    place += f", first {sum(count for count, _, _ in reports):,} records"
                raise no_column(place, name, [*dict.fromkeys(key for _, _, keys in reports for key in keys)])


def no_column(place, name, names):
    """The InputError for a name in `columns` that is not among the names of a file or table."""
    return InputError(f"{place}: no column {name!r}; there are: {listed(names)}{meant(name, names)}")


def limit_of(limit):
    """The argument `limit` of a reader as an int, or None. Raises TypeError and ValueError."""
    if limit is None:
        return None
    if not hasattr(type(limit), "__index__"):
        raise TypeError(f"limit is {an(type(limit).__name__)}; give an int")
    limit = limit.__index__()
    if limit < 0:
        raise ValueError(f"limit is {limit}; give the most records to store, 0 or more")
    return min(limit, sys.maxsize)


def where_of(where):
    """The argument `where` of a reader: a function or None. Raises TypeError."""
    if where is not None and not callable(where):
        raise TypeError(f"where is {an(type(where).__name__)}; give a function of a record")
    return where


def chosen(rows, columns=None, where=None, limit=None):
    """The records that a reader is asked for, of an iterable of decoded ones: those for which `where(record)` is true,
    of dicts only the keys of `columns`, which are Columns or None, at most `limit` of them."""
    if limit is not None and limit <= 0:
        return
    for record in rows:
        if columns is not None:
            columns.see(record)
        if where is not None and not where(record):
            continue
        yield record if columns is None else columns.of(record)
        if limit is not None:
            limit -= 1
            if limit == 0:
                return
