"""An oracle for gathers: it converts the decoded records number by number in plain Python."""

import numpy as np

LIMITS = {name: np.iinfo(name) for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()}
SEQUENCES = (list, tuple)


class Refused(ValueError):
    """The oracle cannot make the batch. The gather must raise KeyError or ValueError."""


def number(value, dtype):
    """A number as an item of a dtype."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if type(value).__name__ == "Tensor" and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biufc":
            raise Refused
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise Refused
    if isinstance(value, complex) and not dtype.startswith("complex"):
        raise Refused
    if dtype == "bool" or dtype in LIMITS:
        low, high = (0, 1) if dtype == "bool" else (LIMITS[dtype].min, LIMITS[dtype].max)
        if value != value or value in (float("inf"), float("-inf")) or int(value) != value or not low <= value <= high:
            raise Refused
        return np.array(int(value), dtype)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value)  # exact: the tests draw only ints that a double holds
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "bfloat16":
            return bfloat16(value)
        if isinstance(value, int) and dtype == "float32":
            return np.array(value, np.uint64 if value >= 2**63 else np.int64).astype(np.float32)
        if dtype == "complex64":
            return np.array(complex(value)).astype(np.complex64)
        return np.array(value if isinstance(value, complex) else float(value)).astype(dtype)


def bfloat16(value):
    single = np.float32(value) if isinstance(value, float) else np.array(value).astype(np.float32)
    bits = int(single.view(np.uint32))
    if value != value:
        return np.array(0x7FC0, np.uint16)
    return np.array((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF, np.uint16)


def items(value):
    """The elements of a sequence."""
    if isinstance(value, SEQUENCES):
        return list(value)
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biufc":
        return list(value)
    raise Refused


def rows(value, row, dtype):
    """A value as an array of shape `row`."""
    if not row:
        if isinstance(value, np.ndarray) and value.ndim:
            raise Refused
        return number(value, dtype)
    inner = items(value)
    if len(inner) != row[0]:
        raise Refused
    return np.array([rows(one, row[1:], dtype) for one in inner]).reshape(row)


class Field:
    """One field of a batch. `values` has the decoded value of each record, or MISSING."""

    MISSING = object()

    def __init__(self, values, form, dtype, row=(), fill=None, missing="raise", cut=False, **options):
        self.cut = cut  # whether truncated numbers may be out of the dtype's range
        self.form, self.dtype, self.row, self.missing = form, dtype, row, missing
        self.options = options
        self.present = [value is not None and value is not Field.MISSING for value in values]
        if missing == "raise" and not all(self.present):
            raise Refused
        self.values = values
        self.fill = fill

    def item(self):
        fill = 0 if self.fill is None else self.fill
        return number(fill, self.dtype)

    def parts(self):
        out = getattr(self, self.form)()
        return [*out, np.array(self.present, bool)] if self.missing == "mask" else out

    def stored_dtype(self):
        return "uint16" if self.dtype == "bfloat16" else self.dtype

    def array(self, parts, shape):
        return np.array(parts, self.stored_dtype()).reshape(shape)

    def lists(self):
        """The rows of each record."""
        return [
            self.rows_of(value, self.kept("length")) if present else []
            for value, present in zip(self.values, self.present)
        ]

    def nests(self):
        outer, inner = self.kept("length"), self.kept("inner_length")
        return [
            [self.rows_of(one, inner if i < outer else 0) for i, one in enumerate(items(value))] if present else []
            for value, present in zip(self.values, self.present)
        ]

    def rows_of(self, value, kept):
        """The rows of a list. Truncated rows must be numbers, but of any dtype."""
        return [rows(one, self.row, self.dtype if i < kept else "complex128") for i, one in enumerate(items(value))]

    def kept(self, length):
        cut = self.cut and self.options.get("truncate") and self.options.get(length)
        return cut or float("inf")

    # ---- Forms ----

    # The method of a form has the form's name, except values_.
    def values_(self):
        n = int(np.prod(self.row, dtype=int))
        empty = [self.item()] * n
        out = [
            rows(value, self.row, self.dtype) if present else np.array(empty).reshape(self.row)
            for value, present in zip(self.values, self.present)
        ]
        return [self.array(out, (len(out), *self.row))]

    def ragged(self):
        lists = self.lists()
        flat = [row for one in lists for row in one]
        return [self.array(flat, (len(flat), *self.row)), offsets(lists)]

    def nested(self):
        nests = self.nests()
        inner = [one for nest in nests for one in nest]
        flat = [row for one in inner for row in one]
        return [self.array(flat, (len(flat), *self.row)), offsets(inner), offsets(nests)]

    def width(self, lists, length):
        multiple = self.options.get("multiple", 1)
        if length == 0:
            return -(-max(map(len, lists), default=0) // multiple) * multiple
        if not self.options.get("truncate") and any(len(one) > length for one in lists):
            raise Refused
        return length

    def padded(self):
        lists = self.lists()
        width = self.width(lists, self.options.get("length", 0))
        return [self.rectangle(lists, width), np.array([min(len(one), width) for one in lists], np.int64)]

    def rectangle(self, lists, width):
        out = np.empty((len(lists), width, *self.row), self.stored_dtype())
        out[...] = self.item()
        for i, one in enumerate(lists):
            for k, row in enumerate(one[:width]):
                out[i, k] = row
        return out

    def padded_nested(self):
        nests = self.nests()
        width = self.width(nests, self.options.get("length", 0))
        inner = self.width([one for nest in nests for one in nest], self.options.get("inner_length", 0))
        out = [self.rectangle((nest + [[]] * width)[:width], inner) for nest in nests]
        lengths = [[min(len(one), inner) for one in (nest + [[]] * width)[:width]] for nest in nests]
        return [
            np.array(out, self.stored_dtype()).reshape((len(nests), width, inner, *self.row)),
            np.array([min(len(nest), width) for nest in nests], np.int64),
            np.array(lengths, np.int64).reshape(len(nests), width),
        ]

    def packed(self):
        length, split = self.options["length"], self.options.get("split", True)
        packed = []  # rows of (token, position, document)
        for document, tokens in enumerate(self.lists()):
            if not split and len(tokens) > length:
                if not self.options.get("truncate"):
                    raise Refused
                tokens = tokens[:length]
            if not split and tokens:
                row = next((row for row in packed if len(row) + len(tokens) <= length), None)
                if row is None:
                    packed.append(row := [])
                row.extend((token, i, document) for i, token in enumerate(tokens))
                continue
            for i, token in enumerate(tokens):
                if not packed or len(packed[-1]) == length:
                    packed.append([])
                packed[-1].append((token, i, document))
        full = [row + [(self.item(), 0, -1)] * (length - len(row)) for row in packed]
        documents = np.array([[one[2] for one in row] for row in full], np.int64).reshape(-1, length)
        starts = [
            i for i, document in enumerate(documents.ravel()) if i % length == 0 or document != documents.ravel()[i - 1]
        ]
        return [
            self.array([[one[0] for one in row] for row in full], (-1, length)),
            np.array([[one[1] for one in row] for row in full], np.int64).reshape(-1, length),
            documents,
            np.array([*starts, documents.size], np.int64),
        ]

    def text(self):
        raw = []
        for value, present in zip(self.values, self.present):
            if present and type(value) not in (str, bytes):
                raise Refused
            try:
                raw.append(b"" if not present else value.encode() if type(value) is str else value)
            except UnicodeEncodeError:
                raise Refused from None
        return [np.frombuffer(b"".join(raw), np.uint8), offsets(raw)]

    def strings(self):
        if not all(type(value) is str for value, present in zip(self.values, self.present) if present):
            raise Refused
        return [[value if present else self.fill for value, present in zip(self.values, self.present)]]

    def codes(self):
        names = {name: i for i, name in enumerate(self.options["names"])}
        out = []
        for value, present in zip(self.values, self.present):
            if present and (type(value) not in (str, int, float, bool) or value not in names):
                raise Refused
            out.append(names[value] if present else -1 if self.fill is None else self.fill)
        return [np.array(out, np.int64)]


def offsets(lists):
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def expected(values, form, dtype, **options):
    """Returns the parts of a field with these decoded values. Raises Refused if the gather must refuse them."""
    field = Field(values, form, dtype, **options)
    if form == "values":
        field.form = "values_"
    return field.parts()
