"""Paths into a record, and the walk down a compiled tree to the value of a path (csrc/read/rs_path.h).

The walk skips other values by their width or length. In a small struct it first looks for the key by identity, because
str keys are interned; it compares a str with the keys of an `any` dict as bytes. Programs cache lookups; the
interpreter lock guards the caches.
"""


cdef extern from "read/rs_map.h" nogil:
    ctypedef struct rs_map:
        uint64_t n
    rs_status rs_map_begin(rs_map *self, rs_cursor *cursor, const rs_node *node, rs_error *err)
    rs_status rs_map_key(rs_map *self, const rs_cursor *cursor, uint64_t i, rs_cursor *at, rs_place *out, rs_error *err)
    void rs_map_value(const rs_map *self, uint64_t i, rs_place *out)
    rs_status rs_map_pass_value(const rs_map *self, rs_cursor *cursor, uint64_t i, rs_error *err)
    rs_status rs_path_settle(rs_cursor *cursor, rs_place *place, rs_error *err)


# ---- Steps of a walk ----

cdef enum:
    SCANNED = 16  # keys of a struct; with more keys, searching a dict is faster


# For values in a handle, which are as trusted as its sender. They hold no pickles.
HANDLE_READER = trust.Reader()
HANDLE_READER.allow_pickle = False
FOREIGN_READER = trust.Reader(trusted=False)  # for values with a Record of a class that must not be imported


cdef object load_any(const uint8_t *data, size_t size):
    """Decodes one `any` value, such as the EXTRA of an ext value. It must not refer to the arrays of a block."""
    return decode_whole(plain_program(trust.CHECKING), data, size, NULL, 0)


cdef object decode_whole(Program program, const uint8_t *data, size_t size, const uint8_t *arrays, size_t arrays_size):
    """Decodes the `any` value that fills `size` bytes."""
    cdef rs_cursor cursor
    set_cursor(&cursor, data, size, arrays, arrays_size)
    value = program.decode_place(&cursor, NULL, NULL, 0, None)
    if cursor.in_.ptr != cursor.in_.end:
        raise errors.CorruptError("bytes are left over after a value")
    return value


cdef bint is_dict_like(unsigned code):
    return code == RS_FMT_EXT_ORDEREDDICT or code == RS_FMT_EXT_COUNTER or code == RS_FMT_EXT_DEFAULTDICT


cdef object names_of(unsigned code, const uint8_t *extra, size_t size):
    """The fields of an ext value: `(full class name, field names, whether it is a namedtuple, (code, EXTRA))`. None for
    an ext value without fields or from an `encode` function."""
    if not RS_FMT_EXT_NAMEDTUPLE <= code <= RS_FMT_EXT_OBJECT:
        return None
    described = load_any(extra, size)
    if (type(described) is not tuple or len(described) != 3 or type(described[0]) is not str
            or type(described[1]) is not str):
        raise errors.CorruptError("the description of a class is not module, name and fields")
    names = described[2]
    if names is None:
        return None
    if type(names) is not tuple or not all([type(name) is str for name in names]) or len(set(names)) != len(names):
        raise errors.CorruptError("the field names of a class are not distinct strings")
    return f"{described[0]}.{described[1]}", names, code == RS_FMT_EXT_NAMEDTUPLE, (code, described)


cdef int open_place(Program program, rs_cursor *cursor, rs_place *place, PyObject **described, list keep) except -1:
    """Opens a place down to the container of its children, and returns the kind of the container. For NAMED, sets
    *described to the result of `names_of`, borrowed from `keep`."""
    cdef const rs_node *node
    cdef const uint8_t *p
    cdef rs_slice head
    cdef rs_error err
    cdef uint8_t tag
    while True:
        node = place.node
        if node == NULL:
            check(rs_decode_take(cursor, 1, &p, &err), &err)
            tag = p[0]
            if tag == RS_FMT_TAG_DICT:
                return DICT
            if tag == RS_FMT_TAG_LIST or tag == RS_FMT_TAG_TUPLE:
                cursor.in_.ptr = p
                return SEQUENCE
            if tag != RS_FMT_TAG_EXT:
                return LEAF
            check(rs_any_ext_head(&cursor.in_, &head, &err), &err)
            if is_dict_like(head.ptr[0]) or head.ptr[0] == RS_FMT_EXT_DEQUE:
                continue
            names = names_of(head.ptr[0], head.ptr + 1, head.end - head.ptr - 1)
            if names is None:
                return LEAF
            keep.append(names)
            described[0] = <PyObject *>names
            return NAMED
        if node.kind == RS_FMT_NODE_STRUCT:
            return STRUCT
        if node.kind == RS_FMT_NODE_MAP:
            return MAP
        if node.kind == RS_FMT_NODE_LIST or node.kind == RS_FMT_NODE_TUPLE or node.kind == RS_FMT_NODE_NUMBERS:
            return SEQUENCE
        if node.kind == RS_FMT_NODE_EXT:
            check(rs_path_open(cursor, place, &err), &err)
            if is_dict_like(node.param) or node.param == RS_FMT_EXT_DEQUE:
                continue
            if program.lookups is None:
                program.lookups = {}
            names = program.lookups.get(<size_t>node, MISSING)
            if names is MISSING:
                names = program.lookups[<size_t>node] = names_of(node.param, node.aux, node.aux_size_bytes)
            if names is None:
                return LEAF
            keep.append(names)  # without a GIL, another thread may replace `lookups`
            described[0] = <PyObject *>names
            return NAMED
        if node.kind != RS_FMT_NODE_CONST:
            return LEAF
        check(rs_path_open(cursor, place, &err), &err)


cdef Py_ssize_t find_child(Program program, const rs_node *node, object key) except -2:
    """The number of a struct's child with this key; -1 if there is none."""
    cdef object keys = struct_keys(node)
    cdef uint32_t i, n = node.n_children
    if n <= SCANNED:
        for i in range(n):
            if tuple_get(<PyObject *>keys, i) == <PyObject *>key:
                return i
    if program.lookups is None:
        program.lookups = {}
    table = program.lookups.get(<size_t>node)
    if table is None:
        table = program.lookups[<size_t>node] = {k: i for i, k in enumerate(keys)}
    return table.get(key, -1)


cdef tuple present_keys(rs_cursor *cursor, rs_place *place):
    """The keys of a struct's value, in order. The place cannot be used afterwards."""
    cdef const rs_node *node = place.node
    cdef const rs_node *child
    cdef const uint8_t *head = place.body
    cdef rs_rare_group room
    cdef rs_slice group
    cdef rs_error err
    cdef uint32_t i
    keys = struct_keys(node)
    if not node.partial:
        return keys
    check(rs_decode_row(cursor, node, place.bits, &head, &group, &room, &err), &err)
    present = []
    for i in range(node.n_children):
        child = &node.children[i]
        if (child.kind != RS_FMT_NODE_OPTIONAL or child.param != 0 or
                rs_decode_bits_unchecked(&group, child.bit_off, 1) != 0):
            present.append(keys[i])
    return tuple(present)


cdef bint same_str(object key, const uint8_t *units, uint64_t n, unsigned unit):
    """Whether a str has exactly these code units, which are `unit` bytes wide."""
    cdef Py_ssize_t i
    cdef unsigned kind = PyUnicode_KIND(key)
    cdef const uint8_t *mine = <const uint8_t *>PyUnicode_DATA(key)
    if <uint64_t>PyUnicode_GET_LENGTH(key) != n:
        return False
    if kind == unit:
        return memcmp(mine, units, n * unit) == 0
    # Only other writers store text in wider units than it needs.
    for i in range(<Py_ssize_t>n):
        if <uint32_t>ord(key[i]) != wide_unit(units, i, unit):
            return False
    return True


cdef inline uint32_t wide_unit(const uint8_t *units, Py_ssize_t i, unsigned unit):
    if unit == 1:
        return units[i]
    if unit == 2:
        return units[2 * i] | <uint32_t>units[2 * i + 1] << 8
    return rs_load_u32(units + 4 * i)


cdef bint is_key(Program program, rs_cursor *cursor, object key) except -1:
    """Reads a key of an `any` dict and compares it with `key` as a dict would."""
    cdef const uint8_t *p
    cdef uint64_t n
    cdef unsigned unit
    cdef rs_error err
    if type(key) is str and cursor.in_.ptr != cursor.in_.end:
        unit = cursor.in_.ptr[0]
        if RS_FMT_TAG_STR1 <= unit <= RS_FMT_TAG_STR4:
            unit = 1u << (unit - RS_FMT_TAG_STR1)
            cursor.in_.ptr += 1
            check(rs_decode_varint(cursor, &n, &err), &err)
            check(rs_decode_units(cursor, n, unit, &p, &err), &err)
            return same_str(key, p, n, unit)
        if unit < RS_FMT_TAG_NDARRAY or rs_tag_is_small(<uint8_t>unit):
            check(rs_path_any_pass(cursor, &err), &err)  # a str equals no None, number, bytes or tuple
            return False
    other = program.decode_place(cursor, NULL, NULL, 0, None)
    return hash_of_key(other) == hash(key) and (other is key or other == key)


cdef object hash_of_key(object key):
    try:
        return hash(key)
    except NO_HASH:
        raise errors.CorruptError("a dict key that cannot be hashed") from None


cdef bint find_in_dict(Program program, rs_cursor *cursor, rs_place *place, object key) except -1:
    cdef uint64_t n, _
    cdef rs_error err
    hash(key)
    check(rs_path_any_enter(cursor, 2, &n, &err), &err)
    for _ in range(n):
        if is_key(program, cursor, key):
            place.node = NULL
            return True
        check(rs_path_any_pass(cursor, &err), &err)
    return False


cdef object map_key(Program program, rs_map *entries, rs_cursor *cursor, uint64_t i):
    """Key number `i` of a map."""
    cdef rs_cursor at
    cdef rs_place place
    cdef rs_error err
    check(rs_map_key(entries, cursor, i, &at, &place, &err), &err)
    key = program.decode_place(&at, place.node, place.body, place.bits, None)
    cursor.budget = at.budget
    hash_of_key(key)
    return key


cdef list map_keys(Program program, rs_cursor *cursor, rs_place *place):
    """The keys of the map at a place. The place cannot be used afterwards."""
    cdef rs_map entries
    cdef rs_error err
    cdef uint64_t i
    check(rs_map_begin(&entries, cursor, place.node, &err), &err)
    return [map_key(program, &entries, cursor, i) for i in range(entries.n)]


cdef bint find_in_map(Program program, rs_cursor *cursor, rs_place *place, object key) except -1:
    """Like find_in_dict, for a map."""
    cdef rs_map entries
    cdef rs_error err
    cdef uint64_t i
    hash(key)
    check(rs_map_begin(&entries, cursor, place.node, &err), &err)
    for i in range(entries.n):
        other = map_key(program, &entries, cursor, i)
        if hash(other) == hash(key) and (other is key or other == key):
            rs_map_value(&entries, i, place)
            check(rs_path_settle(cursor, place, &err), &err)
            return True
        check(rs_map_pass_value(&entries, cursor, i, &err), &err)
    return False


cdef bint find_element(rs_cursor *cursor, rs_place *place, object key) except -1:
    cdef rs_error err
    cdef rs_bool found = False
    if not PyIndex_Check(key):
        return False
    i = clipped_index(key, NULL)
    check(rs_path_open(cursor, place, &err), &err)
    check(rs_path_element(cursor, place, i, &found, &err), &err)
    return found


cdef bint find_named(rs_cursor *cursor, rs_place *place, tuple described, object key) except -1:
    """Goes to a field by its name; for a namedtuple also by its number."""
    hash(key)
    if type(key) is str:
        if key not in described[1]:
            return False
        key = described[1].index(key)
    elif not described[2]:
        return False
    return find_element(cursor, place, key)


cdef bint go(Program program, rs_cursor *cursor, rs_place *place, object key) except -1:
    """Goes to the child with this key. If there is none, returns False, and the place cannot be used afterwards."""
    cdef PyObject *described = NULL
    cdef rs_error err
    cdef Py_ssize_t i
    cdef int kind
    cdef list keep = None
    if place.node != NULL and place.node.kind == RS_FMT_NODE_STRUCT:
        kind = STRUCT
    else:
        keep = []
        kind = open_place(program, cursor, place, &described, keep)
    if kind == STRUCT:
        i = find_child(program, place.node, key)
        if i < 0:
            return False
        check(rs_path_child(cursor, place, <uint32_t>i, &err), &err)
        return place.node == NULL or place.node.kind != RS_FMT_NODE_OPTIONAL
    if kind == DICT:
        return find_in_dict(program, cursor, place, key)
    if kind == MAP:
        return find_in_map(program, cursor, place, key)
    if kind == SEQUENCE:
        return find_element(cursor, place, key)
    return find_named(cursor, place, <tuple>described, key) if kind == NAMED else False


# ---- Paths ----

def is_integer(name):
    """Whether the name of a field is an integer of Python or numpy, but not a bool or an array with dimensions."""
    return PyIndex_Check(name) and type(name) is not bool and not getattr(name, "ndim", 0)


cdef class Path:
    """A path into a record: a sequence of dict keys, field names and sequence indices.

    A tuple has the keys as they are; a str or an int is one key. A str with dots is one key if the value has that key,
    else its dots separate keys.
    """

    def __init__(self, name):
        if type(name) is str:
            names = ((name,),) if "." not in name else (name,)
        elif isinstance(name, tuple) and name:
            names = tuple([(key,) for key in name])
        elif isinstance(name, str):
            names = ((str(name),),) if "." not in name else (str(name),)
        elif is_integer(name):
            names = ((operator.index(name),),)
        else:
            raise TypeError("a field is a str, an int, or a tuple of keys that is not empty, "
                            f"not {type(name).__name__} {name!r:.60}")
        self.prepare(names)

    def prepare(self, tuple names):
        self.names = names
        self.only = names[0][0] if len(names) == 1 and type(names[0]) is tuple else None
        self.steps = [(name[0], None) if type(name) is tuple else (name, tuple(name.split("."))) for name in names]
        for key, _ in self.steps:
            hash(key)
        return self

    @staticmethod
    def of_names(tuple names):
        """The Path with these `names`. Raises CorruptError for a malformed name."""
        for name in names:
            if not (type(name) is str and "." in name or type(name) is tuple and len(name) == 1):
                raise errors.CorruptError("not the names of a path")
        return (<Path>Path.__new__(Path)).prepare(names)

    def __add__(Path self, Path other):
        return Path.of_names(self.names + other.names)

    def __eq__(self, other):
        return type(other) is Path and self.names == (<Path>other).names

    def __hash__(self):
        return hash(self.names)

    def field(self):
        """A field name that makes an equal Path, if there is such a name. For a sum of paths, the tuple of the keys."""
        if len(self.names) == 1:
            name = self.names[0]
            plain = type(name) is tuple and (type(name[0]) is int or type(name[0]) is str and "." not in name[0])
            return name[0] if plain else name
        return tuple([name if type(name) is str else name[0] for name in self.names])

    def __str__(self):
        return ".".join([name if type(name) is str else str(name[0]) for name in self.names])

    def __repr__(self):
        return f"Path({str(self)!r})"

    cdef bint walk(self, Program program, rs_cursor *cursor, rs_place *place, list taken) except -1:
        """Goes to the value of the path. Returns False if the record has none. Appends the keys on the way to `taken`
        unless that is None."""
        cdef rs_cursor cursor_before
        cdef rs_place place_before
        if self.only is not None and taken is None:
            return go(program, cursor, place, self.only)
        for key, parts in self.steps:
            if parts is None:
                if not go(program, cursor, place, key):
                    return False
                if taken is not None:
                    taken.append(key)
                continue
            cursor_before = cursor[0]
            place_before = place[0]
            if go(program, cursor, place, key):
                if taken is not None:
                    taken.append(key)
                continue
            cursor[0] = cursor_before
            place[0] = place_before
            for part in parts:
                if not go(program, cursor, place, part):
                    return False
            if taken is not None:
                taken.extend(parts)
        return True

    def keys_in(self, value):
        """Walks the path through a plain value. Returns `(whether the path exists, keys on the way, its value)`."""
        keys = []
        for key, parts in self.steps:
            found, inner = pick(value, key)
            if found or parts is None:
                if not found:
                    return False, keys, None
                keys.append(key)
                value = inner
                continue
            for part in parts:
                found, value = pick(value, part)
                if not found:
                    return False, keys, None
                keys.append(part)
        return True, keys, value


def pick(value, key):
    """`(True, child)` of a plain value, or `(False, None)`, by the rules of `go` for stored values."""
    hash(key)
    if isinstance(value, (dict, AbstractMapping)) and type(value).__name__ != "ChainMap":
        return (True, value[key]) if key in value else (False, None)
    names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    if names is not None and type(key) is str:
        return (True, value[names.index(key)]) if key in names else (False, None)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        if PyIndex_Check(key) and -len(value) <= clipped_index(key, NULL) < len(value):
            return True, value[key]
        return False, None
    cls = type(value)
    if type(key) is str and (hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__attrs_attrs__") or
                             (key in getattr(value, "__dict__", ()) and not hasattr(cls, "_member_map_"))):
        inner = getattr(value, key, MISSING)
        return (False, None) if inner is MISSING else (True, inner)
    return False, None


# ---- Values in a handle ----

cpdef object dump(value, writer=None):
    """A value as bytes: `(any value, arrays)`, or `(any value, arrays, True)` if it holds a Record of a class. `load`
    never unpickles anything. `writer` is a trust.Writer; None for the defaults."""
    cdef rs_buffer raw, arrays
    writer = trust.Writer() if writer is None else writer
    memset(&raw, 0, sizeof(rs_buffer))
    memset(&arrays, 0, sizeof(rs_buffer))
    try:
        encode_value(&raw, &arrays, value, writer)
        array_bytes = (<const char *>arrays.data)[:arrays.size_bytes] if arrays.size_bytes else b""
        out = (<const char *>raw.data)[:raw.size_bytes], array_bytes
        return (*out, True) if writer.foreign else out
    finally:
        rs_buffer_clear(&raw)
        rs_buffer_clear(&arrays)


cpdef object load(dumped):
    """The value for a result of `dump`. Raises CorruptError for malformed bytes."""
    cdef bytes raw, arrays
    raw, arrays = dumped[:2]
    program = plain_program(HANDLE_READER if len(dumped) == 2 else FOREIGN_READER)
    return decode_whole(program, <const uint8_t *><const char *>raw, len(raw),
                        <const uint8_t *><const char *>arrays, len(arrays))
