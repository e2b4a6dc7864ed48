"""`COCO`, the class of pycocotools over stores. One process of a machine parses the annotation file."""

from __future__ import annotations

from collections import defaultdict

from pycocotools.coco import COCO as _COCO

from recstore.containers import records
from recstore.errors import InputError
from recstore.integrations import parts
from recstore.sources import inputs, json_document
from recstore.sources.json_files import JsonSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from typing_extensions import Unpack

    from recstore._types import Files, SharedOptions

__all__ = ["COCO"]


class COCO(_COCO):  # type: ignore[misc]
    """The COCO class of pycocotools, with its own methods, over stores instead of lists and dicts.

    Args:
        annotation_file: the path of a JSON file, which may be compressed, such as ``.json.gz``, or a URL of fsspec.
            None makes an empty object, as in pycocotools.
        options: the options of :class:`recstore.RecordList` except `name`, `index_by` and `group_by`; and
            ``shared="name"`` with `keep`, `fingerprint`, `dir` and `timeout` as in :func:`recstore.shared`. One process
            on the machine then parses the file and makes the indexes. The others attach to its stores, named "name",
            "name.images" and "name.rest". Without `shared` this process makes its own stores, which its workers read
            without a copy.

    ``dataset`` has a :class:`recstore.RecordList` for each list of the file. ``anns``, ``imgs``, ``cats``,
    ``imgToAnns`` and ``catToImgs`` are :class:`recstore.RecordDict` over the same bytes. Every read makes new objects,
    so a change to one does not show in another. `loadRes` returns a plain object of pycocotools with the results.

    Raises OSError for a file that cannot be read, InputError for a file that is not a COCO document or changes while it
    is read, and KeyError for an annotation without an id. Reading is thread-safe.

    >>> import json, os, tempfile
    >>> document = {"images": [{"id": 7}], "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "area": 2.5}],
    ...             "categories": [{"id": 3, "name": "cat"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "instances.json")
    ...     with open(path, "w") as file: json.dump(document, file)
    ...     coco = COCO(path)
    >>> coco.getAnnIds(imgIds=[7]), coco.loadAnns(1)[0]["area"], coco.imgToAnns[8]
    ([1], 2.5, [])
    """

    dataset: dict[str, Any]
    anns: Any
    imgs: Any
    cats: Any
    imgToAnns: Any
    catToImgs: Any

    def __init__(self, annotation_file: Files | None = None, **options: Unpack[SharedOptions]) -> None:
        super().__init__()
        if annotation_file is None:
            if options:
                raise TypeError(f"COCO(): {', '.join(options)} need an annotation_file")
            return
        for name in ("name", "save", "index_by", "group_by"):
            if name in options:
                raise TypeError(f"COCO() got an unexpected keyword argument {name!r}")
        files = inputs.resolve(annotation_file)
        # Note the files' stamps before the first build, so that a change between two builds is an error too.
        sources = {name: JsonSource(files, (name,))._begun() for name in _SUFFIXES}
        lists, rest = parts.of(parts.store("COCO", _Document(files), _shared_as(options, ".rest")))
        for name in rest["apart"]:
            indexes: dict[str, Any] = {"index_by": "id"}
            if name == "annotations":
                indexes["group_by"] = ["image_id", *["category_id"] * ("categories" in rest["order"])]
            lists[name] = parts.store("COCO", sources[name], {**_shared_as(options, _SUFFIXES[name]), **indexes})
        values = rest["values"]
        whole = {name: values[name] if name in values else lists[name] for name in rest["order"]}
        self.dataset = whole  # pyright: ignore[reportIncompatibleVariableOverride]
        self.createIndex()

    def __repr__(self) -> str:
        counts = [
            f"{len(value):,} {name}"
            for name, value in self.dataset.items()
            if isinstance(value, (list, records.RecordList))
        ]
        return f"<COCO: {', '.join(counts) or 'no annotations'}>"

    def createIndex(self) -> None:
        """Makes `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs` over the stores in `dataset`. If a caller put plain
        lists there, the method of pycocotools makes them."""
        lists = [self.dataset[name] for name in ("annotations", "images", "categories") if name in self.dataset]
        if not all(isinstance(value, records.RecordList) for value in lists):
            super().createIndex()
            return
        self.anns, self.imgs, self.cats = {}, {}, {}
        self.imgToAnns, self.catToImgs = defaultdict(list), defaultdict(list)
        if "annotations" in self.dataset:
            annotations = self.dataset["annotations"]
            self.anns = annotations.index_by("id")
            self.imgToAnns = annotations.group_by("image_id", default_factory=list)
            if "categories" in self.dataset:
                self.catToImgs = annotations.group_by("category_id", default_factory=list).field("image_id")
        if "images" in self.dataset:
            self.imgs = self.dataset["images"].index_by("id")
        if "categories" in self.dataset:
            self.cats = self.dataset["categories"].index_by("id")


# array with its own store and saved indexes -> the suffix of the store's name
_SUFFIXES = {"annotations": "", "images": ".images"}


def _shared_as(options: Any, suffix: str) -> dict[str, Any]:
    name = options.get("shared")
    return {**options, "shared": name + suffix} if isinstance(name, str) else options


class _Document(parts.PartsSource):
    """The other arrays of a COCO document, read in pieces. The rest has the order of the keys, the names of the arrays
    in separate stores, and the other values."""

    def parts(self, bar: Any) -> Iterator[tuple[str, Iterable[Any]]]:
        if len(self.inputs) != 1:
            raise InputError(f"COCO reads one file, not {len(self.inputs)}; make one object for each")
        file = next(bar.files())
        self.order: dict[str, None] = {}
        self.separate: dict[str, None] = {}
        self.values: dict[str, Any] = {}
        with inputs.damage_of(file), file.open() as stream:
            document = json_document.Document(stream, file.name)
            document.begin()
            if document.need() != ord("{"):
                raise InputError(f"{file.name}: a COCO file must be a JSON object with images and annotations")
            for name in document.members():
                self.order[name] = None
                is_array = document.need() == ord("[")
                if is_array:
                    self.values.pop(name, None)  # the last value of a repeated key counts
                if is_array and name in _SUFFIXES:
                    self.separate[name] = None
                    document.skip((name,))
                    bar.moved()
                elif is_array:
                    yield name, self.elements(document, name, bar)
                elif document.need() == ord("{"):
                    members = self.elements(document, name, bar)
                    self.values[name] = {key: value for member in members for key, value in member.items()}
                else:
                    self.values[name] = document.scalar()
            if document.peek() is not None:
                raise document.wrong("text follows the document")

    def elements(self, document: Any, name: str, bar: Any) -> Iterator[Any]:
        """The elements of the array that begins here, or the members of the object as dicts."""
        source = JsonSource(list(self.inputs), (name,), document.open())
        for piece in source.pieces_in(self.inputs[0], document, bar, 0):
            yield from piece.values()

    def rest(self) -> dict[str, Any]:
        separate = [name for name in self.separate if name not in self.values]
        return {"order": list(self.order), "apart": separate, "values": self.values}
