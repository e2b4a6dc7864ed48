"""From the fields of a store and the forms asked for to layouts: decides forms, dtypes and shapes, once.

The schema trees of the store say which values a field has. Where they leave it open (blocks of self-describing values,
or a view of some of the records), some hundred records spread over the container decide.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy

from recstore._core import native
from recstore.text import an, meant
from recstore.torch import layouts
from recstore.torch.forms import FIELD_DTYPES, INTEGERS, TORCH_DTYPES, Field, dtype_name
from recstore.torch.optional import Tensor, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from recstore.containers.records import RecordList

    Found: TypeAlias = dict[
        str, Any
    ]  # {"kinds", "element", "lengths", "dtypes", "shapes", "sure"}: native.describe_field
    Dtypes: TypeAlias = type["TensorDtypes"] | type["ArrayDtypes"]

SAMPLED = 256  # records

_ABSENT = object()
_NUMBERS = {"bool", "int", "float", "complex"}
_NOTHING = {"none", "missing"}


def layouts_of(
    records: RecordList[Any], names: tuple[Any, ...], forms: dict[str, Any], dtypes: Dtypes
) -> list[layouts.Layout]:
    """The layouts of the fields `names`, in their default forms, and of `forms`, a dict from names to forms. `dtypes`
    is TensorDtypes or ArrayDtypes. TypeError and ValueError for what cannot become a batch; the messages say what to
    write."""
    asked: list[tuple[str, Field | None]] = []
    for name in names:
        if isinstance(name, list):
            raise TypeError(f"names are arguments of their own: write Fields(x, {_listed(name)}), not a list of them")
        if not isinstance(name, str):
            raise TypeError(f"a field is named by a str; for {name!r:.60} write name=Field(field={name!r:.60})")
        asked.append((str(name), None))
    for name, form in forms.items():
        if not isinstance(form, (str, Field)):
            raise TypeError(f"{name}= is a form, such as {name}='padded', or a Field, not {form!r:.60}")
        asked.append((name, form if isinstance(form, Field) else Field(form)))  # type: ignore[arg-type]  # it checks it
    if not asked:
        raise TypeError(f"name the fields of a batch: Fields(x, {_some_names(records)})")
    records = records._unwatched()  # the types of values are looked at
    have_fields = _have_fields(records)
    out = [_layout(records, name, field, have_fields, dtypes) for name, field in asked]
    _check_names(out)
    return out


def _some_names(records: RecordList[Any]) -> str:
    return ", ".join(repr(name) for name in (_field_names(records) or ["image_id", "bbox"])[:3])


def _listed(names: list[Any]) -> str:
    """The first of `names` as the arguments of a call."""
    return ", ".join(f"{name!r:.60}" for name in names[:3]) + ", ..." * (len(names) > 3)


def _field_names(records: RecordList[Any]) -> list[str]:
    """The names of fields for a message; an empty list where records are no dicts."""
    names = native.field_names(records)
    if names is None and len(records):
        first = records[0]
        names = list(first) if isinstance(first, Mapping) else []
    return [name for name in names or () if isinstance(name, str)]


def _check_names(found: list[layouts.Layout]) -> None:
    owners = {}
    for layout in found:
        for entry in layout.entries():
            if entry not in owners:
                owners[entry] = layout.name
            elif owners[entry] == layout.name == entry:
                raise ValueError(f"the field {layout.name!r} is named twice")
            else:
                raise ValueError(f"the entry {entry!r} of {layout.name!r} has the name of one of {owners[entry]!r}")


def _have_fields(records: RecordList[Any]) -> bool:
    """Whether a name can be that of a field: numbers, lists, arrays and text have none."""
    if native.field_names(records) or not len(records) or _kind(records[0]) == "other":
        return True
    kinds = describe(_samples(records, None))["kinds"] - _NOTHING
    return not kinds or not kinds <= _NUMBERS | {"list", "array", "str", "bytes"}


def _layout(
    records: RecordList[Any], name: str, field: Field | None, have_fields: bool, dtypes: Dtypes
) -> layouts.Layout:
    path = field.field if field is not None else None
    if path is None and have_fields:
        path = name
    elif isinstance(path, tuple) and not path:
        path = None  # the whole record
    if field is None or field.form not in ("text", "bytes", "object"):
        return _Resolving(records, name, path, field, dtypes).layout()
    return layouts.BY_FORM[field.form](name, path, field)


class _Resolving:
    """The decision about one field."""

    def __init__(self, records: RecordList[Any], name: str, path: Any, field: Field | None, dtypes: Dtypes) -> None:
        self.records, self.name, self.path, self.dtypes = records, name, path, dtypes
        self.field = field or Field()
        if self.field.form == "jagged":
            dtypes.check_jagged(name)
        self.asked = field is not None
        self.found = native.describe_field(records, path)
        if not _is_clear(self.found):
            self.found = self._with_samples(self.found)

    def _with_samples(self, told: Found) -> Found:
        """A description that combines that of the trees with that of sampled records."""
        seen = describe(_samples(self.records, self.path))
        if not seen["kinds"]:
            return told
        return _combined(told, seen)

    # ---- Forms ----

    def layout(self) -> layouts.Layout:
        kinds = self.found["kinds"] - _NOTHING
        if len(self.records) and not kinds and self.found["kinds"]:
            self._refuse_missing()
        if self.field.form == "category":
            return layouts.Category(self.name, self.path, self._with_names())
        if not self.asked and kinds and kinds <= {"str"}:
            return layouts.Text(self.name, self.path, Field("text"))
        if not self.asked and kinds and kinds <= {"bytes"}:
            return layouts.Bytes(self.name, self.path, Field("bytes"))
        self._refuse_other(self.found)
        dtype = self.field.dtype or _dtype(self.found, self.dtypes)
        if dtype is None:
            why = "no record has a number there" if len(self.records) else "there are no records"
            raise ValueError(f"the dtype of {self.name!r} is open, as {why}: give {self._write(dtype='float32')}")
        if dtype not in self.dtypes.names():
            raise TypeError(f"{self.name!r} has arrays of {dtype}, which no {self.dtypes.what} holds: give dtype=, "
                            f"store them as ints, or write {self.name}='object'")  # fmt: skip
        sizes = self._sizes(self.found) if kinds else None
        row, levels = self._fixed(sizes) if self.field.form == "tensor" else self._ragged(sizes)
        return layouts.BY_FORM[self.field.form](self.name, self.path, self.field, dtype, row, levels)

    def _write(self, **options: object) -> str:
        """The keyword for this field with further options, as a user writes it."""
        more = "".join(f", {option}={value!r}" for option, value in options.items())
        return f"{self.name}=Field({self.field.form!r}{more})" if self.name.isidentifier() else more[2:]

    def _refuse_missing(self) -> None:
        if self.field.missing == "mask" or self.field.has_default:
            return
        if "none" in self.found["kinds"]:
            raise ValueError(f"{self.name!r} is None in all records: give default=, or missing='mask'")
        raise KeyError(f"the records have no field {self.name!r}{meant(self.path, _field_names(self.records))}")

    def _refuse_other(self, found: Found) -> None:
        """TypeError for values that are no numbers. Where samples decided, one such value is enough."""
        kinds = found["kinds"] - _NOTHING
        other = kinds - _NUMBERS - {"list", "array"}
        if other and (other == kinds or found.get("sampled")):
            kind = min(other)
            what = {"str": "text", "bytes": "bytes"}.get(kind) or found.get("example", "values that are no numbers")
            write = {
                "str": f"write {self.name}='text', 'bytes' or 'category'",
                "bytes": f"write {self.name}='bytes'",
            }.get(kind, f"name a field below it where it has some, such as '{self.name}.id', or {self.name}='object'")
            if other != kinds:
                raise TypeError(f"{self.name!r} has {what} in some records, numbers in others: filter the records, x = "
                                f"x.filter(...), or write {self.name}='object'")  # fmt: skip
            raise TypeError(f"{self.name!r} has {what}, which no tensor holds: {write}")
        if found["element"] is not None:
            self._refuse_other(found["element"])

    # ---- Shapes ----

    def _sizes(self, found: Found) -> list[int | None]:
        """The size of each dimension of a value; None for one that differs."""
        shapes = [list(shape) for shape in found["shapes"] or ()]
        if "array" in found["kinds"] and not shapes:
            shapes.append([None])  # no record is here; one dimension is what they mostly have
        if found["kinds"] & _NUMBERS:
            shapes.append([])
        if "list" in found["kinds"]:
            lengths = found["lengths"]
            size = next(iter(lengths)) if lengths is not None and len(lengths) == 1 else None
            inner = found["element"]
            shapes.append([size, *(self._sizes(inner) if inner is not None else ())])
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError(f"{self.name!r} has numbers and lists, or lists of several depths: write "
                             f"{self.name}='object'")  # fmt: skip
        return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes)]

    def _fixed(self, sizes: list[int | None] | None) -> tuple[tuple[int, ...], int]:
        """`(row, levels)` of numbers in rows of one shape."""
        if self.field.row is not None:
            return self.field.row, 0
        if sizes is None:
            return (), 0
        if None in sizes:
            lengths = sorted(self.found["lengths"] or ())
            several = f" ({', '.join(map(str, lengths[:3]))}, ...)" if len(lengths) > 1 else ""
            raise ValueError(f"{self.name!r} has lists of several lengths{several}, which are no rectangle: write "
                             f"{self.name}='jagged', 'ragged' or 'padded'")  # fmt: skip
        if 0 in sizes:
            raise ValueError(f"{self.name!r} has lists or arrays without an element, of the shape {tuple(sizes)}, and "
                             f"no rows: write {self.name}='ragged', 'padded' or 'object'")  # fmt: skip
        return tuple(size for size in sizes if size is not None), 0

    def _ragged(self, sizes: list[int | None] | None) -> tuple[tuple[int, ...], int]:
        """`(row, levels)` of lists of rows."""
        if sizes is None:
            return self.field.row or (), 1
        if not sizes:
            raise TypeError(f"{self.name!r} has numbers and no lists, which {self.field.form!r} takes: write "
                            f"{self.name}='tensor'")  # fmt: skip
        if self.field.form == "packed":
            if len(sizes) > 1:
                raise TypeError(f"{self.name!r} has lists of lists, and 'packed' takes lists of tokens")
            return (), 1
        # Inner lists that are all empty tell no size: others may have elements.
        inner = [None if told is None else size or None for size, told in zip(sizes[1:], self._told(sizes))]
        if self.field.row is None:
            levels = max((i + 2 for i, size in enumerate(inner) if size is None), default=1)
        else:
            levels = len(sizes) - len(self.field.row)
        # Below the levels of lists all sizes are known.
        row = (
            self.field.row if self.field.row is not None else tuple(size for size in sizes[levels:] if size is not None)
        )
        if levels < 1 or any(size not in (None, wanted) for size, wanted in zip(sizes[levels:], row)):
            raise ValueError(f"row={row} is not the shape of the inner lists of {self.name!r}, which have the sizes "
                             f"{sizes[1:]} (None: several)")  # fmt: skip
        if (
            self.field.form == "padded"
            and self.field.length is not None
            and (levels == 2) != (type(self.field.length) is tuple)
        ):
            raise TypeError(f"{self.name!r} has {'lists of lists, whose length is a pair' if levels == 2 else 'lists'}"
                            f": give length={'(16, None)' if levels == 2 else 16}")  # fmt: skip
        if levels > 2:
            raise TypeError(f"{self.name!r} has lists of several lengths at {levels} depths, and "
                            f"{self.field.form!r} takes two: write {self.name}='object'")  # fmt: skip
        return row, levels

    def _told(self, sizes: list[int | None]) -> list[int | None]:
        """The sizes of the inner dimensions as the trees tell them: None where these say that lists differ, although
        the samples may be alike."""
        out: list[int | None] = []
        found: Found | None = self.found
        while found is not None and len(out) < len(sizes):
            out.append(None if found.get("differ") else 0)
            found = found["element"]
        return (out + [0] * len(sizes))[1 : len(sizes)]

    # ---- Categories ----

    def _with_names(self) -> Field:
        """The field with its names: those given, else all values that records have."""
        if self.field.names is not None:
            return self.field
        values = self.records if self.path is None else self.records.field(self.path, None)
        try:
            found = {value for value in values if value is not None}
        except TypeError as error:
            raise TypeError(f"{self.name!r} is no category: {error}") from None
        if self.field.has_default:
            found.add(self.field.default)
        wrong = [type(value).__name__ for value in found if type(value) not in (str, int, bool)]
        if wrong:
            raise TypeError(f"{self.name!r} is no category: names are str, int or bool, not {min(wrong)}")
        names = sorted(found, key=lambda value: (type(value) is str, value))
        options = {"names": names, "missing": self.field.missing, "field": self.field.field}
        return Field("category", **options, **({"default": self.field.default} if self.field.has_default else {}))


# ---- The dtypes of tensors, and of arrays ----


class TensorDtypes:
    """The dtypes that tensors have where nobody names one."""

    what = "tensor"

    @staticmethod
    def names() -> Iterable[str]:
        """The names of all dtypes."""
        return TORCH_DTYPES

    @staticmethod
    def check_jagged(name: str) -> None:
        """ImportError where torch has no jagged tensors."""
        if not hasattr(torch.nested, "nested_tensor_from_jagged"):
            raise ImportError(
                f"jagged tensors need PyTorch 2.4, and this is {torch.__version__}: write {name}='ragged'"
            )

    @staticmethod
    def floats() -> str:
        """The dtype of floats."""
        return dtype_name(torch.get_default_dtype())

    @staticmethod
    def widest(dtypes: set[str]) -> str:
        """The dtype that holds the numbers of arrays of these dtypes. torch has little more than storage for uint16 and
        uint32: no embedding, no index, no promotion. So these become int64, which holds all their numbers."""
        dtypes = {"int64" if name in ("uint16", "uint32") else name for name in dtypes}
        if dtypes == {"uint64"} or not dtypes <= set(TORCH_DTYPES):
            return " and ".join(sorted(dtypes))
        dtypes = {"int64" if name == "uint64" else name for name in dtypes}
        return dtype_name(functools.reduce(torch.promote_types, [TORCH_DTYPES[name] for name in sorted(dtypes)]))


class ArrayDtypes:
    """The dtypes that arrays of numpy have where nobody names one."""

    what = "array of numpy"

    @staticmethod
    def names() -> Iterable[str]:
        """The names of all dtypes."""
        return [name for name in FIELD_DTYPES if name != "bfloat16"]

    @staticmethod
    def check_jagged(name: str) -> None:
        """ValueError: no array is jagged."""
        raise ValueError(f"jagged tensors are torch's, and output='numpy' makes arrays: write {name}='ragged'")

    @staticmethod
    def floats() -> str:
        """The dtype of floats."""
        return "float64"

    @staticmethod
    def widest(dtypes: set[str]) -> str:
        """The dtype that holds the numbers of arrays of these dtypes."""
        if not dtypes <= set(FIELD_DTYPES) or "bfloat16" in dtypes:
            return " and ".join(sorted(dtypes))
        out = numpy.result_type(*dtypes).name
        return "int64" if out == "float64" and dtypes <= INTEGERS else out


# ---- Descriptions ----

# {"kinds", "element", "lengths", "dtypes", "shapes", "sure"}, as native.describe_field has them.


def _is_clear(told: Found) -> bool:
    """Whether the trees leave nothing open: numbers or text alone, or lists of them."""
    kinds = told["kinds"]
    if not told["sure"] or not kinds:
        return False
    if kinds <= _NUMBERS or kinds <= {"str"} or kinds <= {"bytes"}:
        return True
    return kinds == {"list"} and told["lengths"] is not None and _is_clear(told["element"])


def _samples(records: RecordList[Any], path: Any) -> list[Any]:
    """The values of a field of some hundred records spread over the container."""
    n = len(records)
    positions = range(n) if n <= SAMPLED else [i * (n - 1) // (SAMPLED - 1) for i in range(SAMPLED)]
    if path is None:
        return records.get_many(positions)
    return records.field(path, _ABSENT).get_many(positions)


def describe(values: Iterable[Any]) -> Found:
    """A description of values, in the form of `native.describe_field`."""
    out: Found = {"kinds": set(), "element": None, "lengths": None, "dtypes": set(), "shapes": set(), "sure": True}
    lengths, elements = set(), []
    for value in values:
        kind = _kind(value)
        out["kinds"].add(kind)
        if kind == "list":
            lengths.add(len(value))
            elements.extend(value)
        elif kind == "array":
            is_tensor = isinstance(value, Tensor)
            out["dtypes"].add(str(value.dtype)[6:] if is_tensor else value.dtype.newbyteorder("=").name)
            out["shapes"].add(tuple(value.shape))
        elif kind == "other":
            out["example"] = an(type(value).__name__)
    if "list" in out["kinds"]:
        out["lengths"], out["element"] = lengths, describe(elements)
    return out


_KINDS = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str", bytes: "bytes", list: "list",
          tuple: "list", type(None): "none"}  # fmt: skip
_SCALARS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}  # kinds of numpy dtypes


def _kind(value: Any) -> str:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if value is _ABSENT:
        return "missing"
    if isinstance(value, numpy.generic):
        return _SCALARS.get(value.dtype.kind, "other")
    return "array" if isinstance(value, numpy.ndarray) or isinstance(value, Tensor) else "other"


def _combined(told: Found, seen: Found) -> Found:
    """The description of samples, with additions from that of the trees. A field of which samples show ints may have
    floats, and lists of one length may differ elsewhere (`differ`)."""
    out = {**seen, "sampled": True}
    if told["sure"]:
        if seen["kinds"] & _NUMBERS:
            out["kinds"] = seen["kinds"] | told["kinds"] & _NUMBERS
        lengths = told["lengths"]
        out["differ"] = "list" in told["kinds"] and (lengths is None or len(lengths) > 1)
        if seen["dtypes"]:
            out["dtypes"] = seen["dtypes"] | told["dtypes"] - {None}
    if seen["element"] is not None and told["element"] is not None:
        out["element"] = _combined(told["element"], seen["element"])
    return out


def _dtype(found: Found, by_default: Dtypes) -> str | None:
    """The name of the dtype that holds the numbers; None where there are none."""
    dtypes = set(map(str, found["dtypes"]))
    if found["element"] is not None:
        inner = _dtype(found["element"], by_default)
        return inner if not dtypes or inner is None else by_default.widest(dtypes | {inner})
    if dtypes:
        return by_default.widest(dtypes)
    kinds = found["kinds"] & _NUMBERS
    if not kinds:
        return None
    if kinds & {"float", "complex"}:
        default = by_default.floats()
        if "complex" in kinds:
            return "complex128" if default == "float64" else "complex64"
        return default
    return "bool" if kinds == {"bool"} else "int64"
