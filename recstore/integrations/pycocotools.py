"""`COCO`, the class of pycocotools over a store: the annotation file is parsed by one process of a machine."""

from collections import defaultdict

from pycocotools.coco import COCO as _COCO

from recstore import records
from recstore.errors import InputError
from recstore.integrations import parts
from recstore.io import inputs, reading

__all__ = ["COCO"]


class COCO(_COCO):
    """The COCO class of pycocotools, with its own methods, over a store instead of lists and dicts.

    Args:
        annotation_file: the path of a JSON file, also of a packed one such as ``.json.gz``, or a URL that fsspec knows.
            None makes an empty object, as pycocotools does.
        options: those of :class:`recstore.RecordList`; and ``shared="name"`` with `keep`, `fingerprint`, `dir` and
            `timeout` as of :func:`recstore.shared`. One process of the machine then parses the file, and the others
            attach. Without `shared` this process has a store of its own, which its workers read without a copy.

    ``dataset`` has a :class:`recstore.RecordView` for each list of the file. ``anns``, ``imgs``, ``cats``,
    ``imgToAnns`` and ``catToImgs`` are :class:`recstore.RecordDict` over the same bytes. Every read gives new objects:
    to change an annotation in one place does not change it in another. `loadRes` gives a plain object of pycocotools
    with the results.

    Raises OSError for a file that cannot be read; InputError for one that holds no COCO document, or that changes while
    it is read; KeyError for an annotation without an id. Safe to read from several threads at once.

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

    def __init__(self, annotation_file=None, **options):
        super().__init__()
        if annotation_file is None:
            if options:
                raise TypeError(f"COCO(): without a file there is nothing for {', '.join(options)}")
            return
        feed = _Document(inputs.resolve(annotation_file))
        lists, rest = parts.of(reading.store("COCO", feed, options))
        # The keys of the document in their order.
        self.dataset = {name: lists[name] if name in lists else value for name, value in rest.items()}
        self.createIndex()

    def createIndex(self):
        """Makes `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs` of `dataset`: over its stores, or, if a caller put
        plain lists there, by the method of pycocotools."""
        present = [self.dataset[name] for name in ("annotations", "images", "categories") if name in self.dataset]
        if not all(isinstance(one, records.RecordList) for one in present):
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


class _Document(parts.PartsFeed):
    """The lists of records in a COCO document. Their names stand in the rest, too, so that it has the order of the
    document."""

    def parts(self, bar):
        if len(self.files) != 1:
            raise InputError(f"COCO reads one file, and {len(self.files)} were given; make one object for each")
        document = _parsed(next(iter(bar.files())))
        self.others = {}
        for name in list(document):
            value = document.pop(name)
            if _is_list_of_records(value) or (name in _LISTS and value == []):
                self.others[name] = None
                yield name, value
                value = None
            else:
                self.others[name] = value

    def rest(self):
        return self.others


_LISTS = ("annotations", "images", "categories")


def _is_list_of_records(value):
    return type(value) is list and value != [] and all(type(one) is dict for one in value)


def _parsed(file):
    import json

    with reading.errors_of(file), file.open() as opened:
        try:
            document = json.load(opened)
        except ValueError as error:
            raise InputError(f"{file.name}: no valid JSON: {error}; fetch or write the file again") from None
    if type(document) is not dict:
        kind = type(document).__name__
        raise InputError(f"{file.name}: the JSON is a {kind}; a COCO file is an object with images and annotations")
    return document
