"""Resolves the fields and forms of a Fields to layouts: decides forms, dtypes and shapes, once.

The schema trees of the store describe the values of a field. If they do not suffice (blocks of self-describing values,
or a view of some of the records), a sample of records spread over the container decides.
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
    from recstore.tokens.token_list import TokenList

    # the dict of native.describe_field; descriptions of samples add "sampled", and may add "example" and "differ"
    Description: TypeAlias = dict[str, Any]
    Dtypes: TypeAlias = type["TensorDtypes"] | type["ArrayDtypes"]

SAMPLED = 256  # records of a sample, at most

_ABSENT = object()
_NUMBERS = {"bool", "int", "float", "complex"}
_NOTHING = {"none", "missing"}


def layouts_of(
    records: RecordList[Any], names: tuple[Any, ...], forms: dict[str, Any], dtypes: Dtypes
) -> list[layouts.Layout]:
    """The layouts of the fields `names`, in their default forms, and of `forms`, a dict from names to forms. `dtypes`
    is TensorDtypes or ArrayDtypes. Raises TypeError, ValueError or KeyError for fields that cannot become a batch, with
    the code to write in the message, and ImportError for jagged tensors if this torch lacks them."""
    requested: list[tuple[str, Field | None]] = []
    for name in names:
        if isinstance(name, list):
            raise TypeError(f"each name is its own argument: write Fields(x, {_arguments(name)}), not a list of them")
        if not isinstance(name, str):
            raise TypeError(f"the name of a field must be a str; for {name!r:.60} write name=Field(field={name!r:.60})")
        requested.append((str(name), None))
    for name, form in forms.items():
        if not isinstance(form, (str, Field)):
            raise TypeError(f"{name}= must be a form, such as {name}='padded', or a Field, not {form!r:.60}")
        requested.append((name, form if isinstance(form, Field) else Field(form)))  # type: ignore[arg-type]  # checked
    if not requested:
        raise TypeError(f"name the fields of a batch: Fields(x, {_arguments(_field_names(records) or ['image_id'])})")
    records = records._unwatched()  # resolving inspects the types of values
    have_fields = _have_fields(records)
    out = [_layout(records, name, field, have_fields, dtypes) for name, field in requested]
    _check_names(out)
    return out


def layout_of_tokens(x: TokenList, names: tuple[Any, ...], forms: dict[str, Any], dtypes: Dtypes) -> layouts.Layout:
    """The layout of the only entry of a TokenList. Raises TypeError for another entry than a packed one."""
    [(name, field)] = forms.items() if len(forms) == 1 and not names else [("", None)]
    if (
        not isinstance(field, Field)
        or field.form != "packed"
        or field.field
        or field.has_default
        or field.missing == "mask"
    ):
        raise TypeError(
            "a TokenList has documents without fields: Fields(t, tokens=Field('packed', length=8192)), without field=, "
            "missing= and default="
        )
    return layouts.Packed(name, None, field, field.dtype or dtypes.widest({x.dtype.name}))


def _arguments(names: list[Any]) -> str:
    """The first three of `names`, as the arguments of a call."""
    return ", ".join(f"{name!r:.60}" for name in names[:3]) + ", ..." * (len(names) > 3)


def _field_names(records: RecordList[Any]) -> list[str]:
    """The names of the fields for a message; an empty list if the records are not dicts."""
    names = native.field_names(records)
    if names is None and len(records):
        first = records[0]
        names = list(first) if isinstance(first, Mapping) else []
    return [name for name in names or () if isinstance(name, str)]


def _check_names(resolved: list[layouts.Layout]) -> None:
    owners = {}
    for layout in resolved:
        for entry in layout.entries():
            if entry not in owners:
                owners[entry] = layout.name
            elif owners[entry] == layout.name == entry:
                raise ValueError(f"the field {layout.name!r} is named twice")
            else:
                raise ValueError(f"both {layout.name!r} and {owners[entry]!r} make an entry {entry!r}: rename one")


def _have_fields(records: RecordList[Any]) -> bool:
    """Whether the records have fields: numbers, lists, arrays, text and bytes do not."""
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
        return _FieldResolver(records, name, path, field, dtypes).layout()
    return layouts.BY_FORM[field.form](name, path, field)


class _FieldResolver:
    """Decides the layout of one field."""

    def __init__(self, records: RecordList[Any], name: str, path: Any, field: Field | None, dtypes: Dtypes) -> None:
        self.records, self.name, self.path, self.dtypes = records, name, path, dtypes
        self.field = field or Field()
        if self.field.form == "jagged":
            dtypes.check_jagged(name)
        self.form_given = field is not None
        self.description = native.describe_field(records, path)
        if not _is_clear(self.description):
            sampled = describe(_samples(records, path))
            if sampled["kinds"]:
                self.description = _combined(self.description, sampled)

    # ---- Forms ----

    def layout(self) -> layouts.Layout:
        kinds = self.description["kinds"] - _NOTHING
        if len(self.records) and not kinds and self.description["kinds"]:
            self._refuse_missing()
        if self.field.form == "category":
            return layouts.Category(self.name, self.path, self._with_names())
        if not self.form_given and kinds and kinds <= {"str"}:
            return layouts.Text(self.name, self.path, Field("text"))
        if not self.form_given and kinds and kinds <= {"bytes"}:
            return layouts.Bytes(self.name, self.path, Field("bytes"))
        self._refuse_other(self.description)
        dtype = self.field.dtype or _dtype(self.description, self.dtypes)
        if dtype is None:
            why = "no record has a number there" if len(self.records) else "there are no records"
            raise ValueError(f"the dtype of {self.name!r} is unknown, since {why}: give {self._write(dtype='float32')}")
        if dtype not in self.dtypes.names():
            raise TypeError(f"{self.name!r} has arrays of {dtype}, which {self.dtypes.container} cannot hold: give "
                            f"dtype=, store them as ints, or write {self.name}='object'")  # fmt: skip
        sizes = self._sizes(self.description) if kinds else None
        row, levels = self._fixed(sizes) if self.field.form == "tensor" else self._ragged(sizes)
        return layouts.BY_FORM[self.field.form](self.name, self.path, self.field, dtype, row, levels)

    def _write(self, **options: object) -> str:
        """The keyword argument for this field with further options, for a message: only the options if the name is
        not an identifier."""
        more = "".join(f", {option}={value!r}" for option, value in options.items())
        return f"{self.name}=Field({self.field.form!r}{more})" if self.name.isidentifier() else more[2:]

    def _refuse_missing(self) -> None:
        if self.field.missing == "mask" or self.field.has_default:
            return
        if "none" in self.description["kinds"]:
            raise ValueError(f"{self.name!r} is None in all records: give default=, or missing='mask'")
        raise KeyError(f"the records have no field {self.name!r}{meant(self.path, _field_names(self.records))}")

    def _refuse_other(self, description: Description) -> None:
        """Raises TypeError if all values or elements, or one in a sample, are neither numbers, lists nor arrays."""
        kinds = description["kinds"] - _NOTHING
        other = kinds - _NUMBERS - {"list", "array"}
        if other and (other == kinds or description.get("sampled")):
            kind = min(other)
            example = {"str": "text", "bytes": "bytes"}.get(kind) or description.get("example", "other values")
            remedy = {
                "str": f"write {self.name}='text', 'bytes' or 'category'",
                "bytes": f"write {self.name}='bytes'",
            }.get(kind, f"name a field below it if it has one, such as '{self.name}.id', or write "
                        f"{self.name}='object'")  # fmt: skip
            if other != kinds and description is not self.description:
                place = (*(self.path.split(".") if isinstance(self.path, str) else self.path or ()), 0)
                raise TypeError(f"{self.name!r} has {example} beside numbers in lists: name a place in them, such as "
                                f"Field(field={place}), or write {self.name}='object'")  # fmt: skip
            if other != kinds:
                raise TypeError(f"{self.name!r} has {example} in some records, numbers in others: filter the records, "
                                f"x = x.filter(...), or write {self.name}='object'")  # fmt: skip
            raise TypeError(f"{self.name!r} has {example}, which a tensor cannot hold: {remedy}")
        if description["element"] is not None:
            self._refuse_other(description["element"])

    # ---- Shapes ----

    def _sizes(self, description: Description) -> list[int | None]:
        """The size of each dimension of a value; None if values differ in it."""
        shapes = [list(shape) for shape in description["shapes"] or ()]
        if "array" in description["kinds"] and not shapes:
            shapes.append([None])  # without a record, assume the usual one dimension
        if description["kinds"] & _NUMBERS:
            shapes.append([])
        if "list" in description["kinds"]:
            lengths = description["lengths"]
            size = next(iter(lengths)) if lengths is not None and len(lengths) == 1 else None
            inner = description["element"]
            shapes.append([size, *(self._sizes(inner) if inner is not None else ())])
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError(f"{self.name!r} has numbers and lists, or lists of different depths: write "
                             f"{self.name}='object'")  # fmt: skip
        return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes)]

    def _fixed(self, sizes: list[int | None] | None) -> tuple[tuple[int, ...], int]:
        """`(row, 0)` for values that all have the shape `row`."""
        if self.field.row is not None:
            return self.field.row, 0
        if sizes is None:
            return (), 0
        if None in sizes:
            lengths = sorted(self.description["lengths"] or ())
            examples = f" ({', '.join(map(str, lengths[:3]))}, ...)" if len(lengths) > 1 else ""
            raise ValueError(f"{self.name!r} has lists of different lengths{examples}: write {self.name}='jagged', "
                             "'ragged' or 'padded'")  # fmt: skip
        if 0 in sizes:
            raise ValueError(f"{self.name!r} has empty lists or arrays, of the shape {tuple(sizes)}: write "
                             f"{self.name}='ragged', 'padded' or 'object'")  # fmt: skip
        return tuple(size for size in sizes if size is not None), 0

    def _ragged(self, sizes: list[int | None] | None) -> tuple[tuple[int, ...], int]:
        """`(row, levels)` for lists, nested `levels` deep, of rows of the shape `row`."""
        if sizes is None:
            return self.field.row or (), 1
        if not sizes:
            raise TypeError(f"{self.name!r} has numbers, but {self.field.form!r} is for lists: write "
                            f"{self.name}='tensor'")  # fmt: skip
        if self.field.form == "packed":
            if len(sizes) > 1:
                raise TypeError(f"{self.name!r} has lists of lists, but 'packed' is for lists of tokens")
            return (), 1
        # If all sampled inner lists are empty, the size is open: other records may have elements.
        inner = [None if differ else size or None for size, differ in zip(sizes[1:], self._inner_differ(sizes))]
        if self.field.row is None:
            levels = max((i + 2 for i, size in enumerate(inner) if size is None), default=1)
        else:
            levels = len(sizes) - len(self.field.row)
        # Below the levels of lists all sizes are known.
        row = (
            self.field.row if self.field.row is not None else tuple(size for size in sizes[levels:] if size is not None)
        )
        if levels < 1 or any(size not in (None, row_size) for size, row_size in zip(sizes[levels:], row)):
            raise ValueError(f"row={row} is not the shape of the inner lists of {self.name!r}, which have the sizes "
                             f"{sizes[1:]} (None: different)")  # fmt: skip
        if (
            self.field.form == "padded"
            and self.field.length is not None
            and (levels == 2) != (type(self.field.length) is tuple)
        ):
            raise TypeError(f"{self.name!r} has {'lists of lists, whose length is a pair' if levels == 2 else 'lists'}"
                            f": give length={'(16, None)' if levels == 2 else 16}")  # fmt: skip
        if levels > 2:
            raise TypeError(f"{self.name!r} has lists of different lengths at {levels} depths, but "
                            f"{self.field.form!r} takes two: write {self.name}='object'")  # fmt: skip
        return row, levels

    def _inner_differ(self, sizes: list[int | None]) -> list[bool]:
        """For each inner dimension, whether the trees say that lengths differ, even if the samples have one length."""
        out: list[bool] = []
        description: Description | None = self.description
        while description is not None and len(out) < len(sizes):
            out.append(bool(description.get("differ")))
            description = description["element"]
        return (out + [False] * len(sizes))[1 : len(sizes)]

    # ---- Categories ----

    def _with_names(self) -> Field:
        """The field with the names of its categories: by default, all values in the records."""
        if self.field.names is not None:
            return self.field
        values = self.records if self.path is None else self.records.field(self.path, None)
        try:
            distinct = {value for value in values if value is not None}
        except TypeError as error:
            raise TypeError(f"{self.name!r} cannot be a category: {error}") from None
        if self.field.has_default:
            distinct.add(self.field.default)
        wrong_types = [type(value).__name__ for value in distinct if type(value) not in (str, int, bool)]
        if wrong_types:
            raise TypeError(f"{self.name!r} cannot be a category: names are str, int or bool, not {min(wrong_types)}")
        names = sorted(distinct, key=lambda value: (type(value) is str, value))
        options = {"names": names, "missing": self.field.missing, "field": self.field.field}
        return Field("category", **options, **({"default": self.field.default} if self.field.has_default else {}))


# ---- The dtypes of tensors, and of arrays ----


class TensorDtypes:
    """The default dtypes of tensors."""

    container = "a tensor"

    @staticmethod
    def names() -> Iterable[str]:
        """The names of all dtypes."""
        return TORCH_DTYPES

    @staticmethod
    def check_jagged(name: str) -> None:
        """Raises ImportError if this release of torch has no jagged tensors."""
        if not hasattr(torch.nested, "nested_tensor_from_jagged"):
            raise ImportError(
                f"jagged tensors need PyTorch 2.4, but this is {torch.__version__}: write {name}='ragged'"
            )

    @staticmethod
    def floats() -> str:
        """The dtype of floats."""
        return dtype_name(torch.get_default_dtype())

    @staticmethod
    def widest(dtypes: set[str]) -> str:
        """The dtype that holds the numbers of arrays of these dtypes; if none does, their names joined by "and". torch
        can do little with uint16 and uint32: no embedding, no indexing, no promotion. So they become int64."""
        dtypes = {"int64" if name in ("uint16", "uint32") else name for name in dtypes}
        if dtypes == {"uint64"} or not dtypes <= set(TORCH_DTYPES):
            return " and ".join(sorted(dtypes))
        dtypes = {"int64" if name == "uint64" else name for name in dtypes}
        return dtype_name(functools.reduce(torch.promote_types, [TORCH_DTYPES[name] for name in sorted(dtypes)]))


class ArrayDtypes:
    """The default dtypes of numpy arrays."""

    container = "a numpy array"

    @staticmethod
    def names() -> Iterable[str]:
        """The names of all dtypes."""
        return [name for name in FIELD_DTYPES if name != "bfloat16"]

    @staticmethod
    def check_jagged(name: str) -> None:
        """Raises ValueError: arrays are not jagged."""
        raise ValueError(f"output='numpy' makes arrays, which cannot be jagged: write {name}='ragged'")

    @staticmethod
    def floats() -> str:
        """The dtype of floats."""
        return "float64"

    @staticmethod
    def widest(dtypes: set[str]) -> str:
        """The dtype that holds the numbers of arrays of these dtypes; if none does, their names joined by "and"."""
        if not dtypes <= set(FIELD_DTYPES) or "bfloat16" in dtypes:
            return " and ".join(sorted(dtypes))
        out = numpy.result_type(*dtypes).name
        return "int64" if out == "float64" and dtypes <= INTEGERS else out


# ---- Descriptions ----


def _is_clear(description: Description) -> bool:
    """Whether the description of the trees suffices: only numbers, only text, only bytes, or lists of such values
    with known lengths."""
    kinds = description["kinds"]
    if not description["sure"] or not kinds:
        return False
    if kinds <= _NUMBERS or kinds <= {"str"} or kinds <= {"bytes"}:
        return True
    return kinds == {"list"} and description["lengths"] is not None and _is_clear(description["element"])


def _samples(records: RecordList[Any], path: Any) -> list[Any]:
    """The values of a field in up to SAMPLED records spread over the container."""
    n = len(records)
    positions = range(n) if n <= SAMPLED else [i * (n - 1) // (SAMPLED - 1) for i in range(SAMPLED)]
    if path is None:
        return records.get_many(positions)
    return records.field(path, _ABSENT).get_many(positions)


def describe(values: Iterable[Any]) -> Description:
    """A description of values, in the form of `native.describe_field`."""
    out: Description = {
        "kinds": set(),
        "element": None,
        "lengths": None,
        "dtypes": set(),
        "shapes": set(),
        "sure": True,
        "sampled": True,
    }
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


def _combined(tree: Description, sampled: Description) -> Description:
    """The description of samples, extended by the description of the trees. If all samples are ints, other records may
    have floats; if all sampled lists have one length, others may differ (`differ`)."""
    out = {**sampled}
    if tree["sure"]:
        if sampled["kinds"] & _NUMBERS:
            out["kinds"] = sampled["kinds"] | tree["kinds"] & _NUMBERS
        lengths = tree["lengths"]
        out["differ"] = "list" in tree["kinds"] and (lengths is None or len(lengths) > 1)
        if sampled["dtypes"]:
            out["dtypes"] = sampled["dtypes"] | tree["dtypes"] - {None}
    if sampled["element"] is not None and tree["element"] is not None:
        out["element"] = _combined(tree["element"], sampled["element"])
    return out


def _dtype(description: Description, defaults: Dtypes) -> str | None:
    """The name of the dtype that holds the numbers; None without numbers."""
    dtypes = set(map(str, description["dtypes"]))
    if description["element"] is not None:
        inner = _dtype(description["element"], defaults)
        return inner if not dtypes or inner is None else defaults.widest(dtypes | {inner})
    if dtypes:
        return defaults.widest(dtypes)
    kinds = description["kinds"] & _NUMBERS
    if not kinds:
        return None
    if kinds & {"float", "complex"}:
        float_dtype = defaults.floats()
        if "complex" in kinds:
            return "complex128" if float_dtype == "float64" else "complex64"
        return float_dtype
    return "bool" if kinds == {"bool"} else "int64"
