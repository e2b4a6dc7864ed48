"""Record, which decodes a field when it is read, and the projections that read a part of a record.

Only the value at the end of a path is decoded (paths.pyx). A Record does not keep decoded fields: most fields are read
once, a cache would cost every Record a dict, and a list that the caller changed must not come back.
"""


cdef extern from *:
    # `match` tests a type flag. Registering with Mapping sets it for classes of Python code, not for extension types.
    """
    #ifdef Py_TPFLAGS_MAPPING
    static void rs_mark_mapping(PyObject *type) {
        ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_MAPPING;
        PyType_Modified((PyTypeObject *)type);
    }
    #else
    static void rs_mark_mapping(PyObject *type) { (void)type; }
    #endif

    /* Collate functions and device transfer call type(record)(mapping), which must make a plain dict. Cython offers no
       __new__ for an extension type, so tp_new is replaced. */
    static newfunc rs_new_record;
    static PyObject *rs_record_or_dict(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        if (kwargs == NULL && PyTuple_GET_SIZE(args) == 1 &&
                PyObject_HasAttrString(PyTuple_GET_ITEM(args, 0), "keys")) {
            return PyObject_Call((PyObject *)&PyDict_Type, args, NULL);
        }
        return rs_new_record(type, args, kwargs);
    }
    static void rs_make_dicts_of_mappings(PyObject *type) {
        rs_new_record = ((PyTypeObject *)type)->tp_new;
        ((PyTypeObject *)type)->tp_new = rs_record_or_dict;
        ((PyTypeObject *)type)->tp_vectorcall = NULL; /* Cython's vectorcall would bypass tp_new */
        PyType_Modified((PyTypeObject *)type);
    }
    """
    void rs_mark_mapping(object type)
    void rs_make_dicts_of_mappings(object type)


@cython.internal
cdef class MISSING:
    """Marks a missing value. A class, because that is faster to look up here than another object."""


# ---- Finding a record ----

cdef inline rs_store *store_of(Segment segment, int store):
    return segment.numbered(store)


cdef inline Program program_at(Segment segment, rs_record *where):
    return segment.program(where.tree)


cdef inline int find_record(Segment segment, int store, uint64_t index, rs_record *where) except -1:
    cdef rs_error err
    if rs_store_find(store_of(segment, store), index, where, &err) != RS_OK:
        segment.find(store_of(segment, store), index, where)
    # A walk to a field near the end of a record starts at its beginning. In a large store both are cache misses; here
    # they overlap.
    prefetch(where.bytes.ptr)
    prefetch(where.bytes.end - 1)
    prefetch(where.bytes.end - 65)
    return 0


cdef int begin_record(Segment segment, int store, rs_record *where, rs_cursor *cursor, rs_place *place) except -1:
    cdef rs_error err
    cursor[0] = rs_store_cursor(store_of(segment, store), where)
    return check(rs_path_begin(cursor, where.tree.nodes, place, &err), &err)


cdef object missing_field(uint64_t index, path):
    return KeyError(f"record {index} has no field {str(path)!r}")


@cython.freelist(64)
@cython.final
cdef class Record:
    """A read-only mapping that decodes a field when the field is read; ``x.lazy()`` returns Records.

    ``r["bbox"]`` decodes that field and skips the others. Each read returns a fresh value that belongs to the caller;
    nested values are plain. ``dict(r)`` is the plain record. Records are equal if their class names and fields are; a
    plain Record also equals a dict of its fields. A Record keeps its store alive, and after ``close()`` reading it
    raises ClosedError. Pickling or deep-copying a Record gives a Record that holds the decoded fields.

    A value also comes as a Record if the reader may not make its class. Then ``class_name`` is the name of the class;
    for a plain record it is None. ``Record(class_name, fields)`` makes a Record directly, which is hashable if its
    values are. ``type(r)({...})``, which collate functions call, returns a plain dict.

    Several threads may read one Record at the same time.

    >>> import recstore
    >>> x = recstore.RecordList([{"id": 7, "box": [1.0, 2.0]}])
    >>> r = x.lazy()[0]
    >>> r["box"], list(r), dict(r)
    ([1.0, 2.0], ['id', 'box'], {'id': 7, 'box': [1.0, 2.0]})
    >>> r
    <Record: id, box>
    >>> x.close()
    >>> recstore.Record("key_sets.Box", {"x": 1})
    Record(key_sets.Box: {'x': 1})
    """

    def __init__(self, class_name, fields, *, _origin=None):
        self.name = class_name
        self.fields = dict(fields)
        self.origin = _origin

    @staticmethod
    def _of(class_name, fields, origin=None):
        """Makes a Record that holds its fields, without a store."""
        return Record(class_name, fields, _origin=origin)

    # ---- One field ----

    cdef inline int enter(self) except -1:
        if self.segment is None:
            raise errors.SegmentNotFoundError(errno.ENOENT, "the Record is not initialized: make it with "
                                              "Record(class_name, fields)")
        return self.segment.enter()

    cdef int begin(self, rs_cursor *cursor, rs_place *place) except -1:
        """Moves `cursor` and `place` to the mapping of this Record. The caller has entered the segment."""
        begin_record(self.segment, self.store, &self.where, cursor, place)
        if self.base is not None and not self.base.walk(self.program, cursor, place, None):
            raise missing_field(self.index, self.base)
        return 0

    cdef bint go(self, rs_cursor *cursor, rs_place *place, object key) except -1:
        """Goes to a field. Makes the table of all fields at the second read."""
        with cython.critical_section(self):
            children = self.children
        if children is None and self.reads == 1:
            children = children_of(self.program, cursor[0], place[0])
            with cython.critical_section(self):
                self.children = children
        if self.reads < 2:
            self.reads += 1
        if children is None:
            return go(self.program, cursor, place, key)
        return (<Children>children).go(self.program, cursor, place, key)

    cdef object read(self, object key, object default):
        cdef rs_cursor cursor
        cdef rs_place place
        if self.fields is not None:
            return self.fields.get(key, default)
        # Decoding arrays and comparing keys run Python code, which may switch threads or close the store.
        self.enter()
        try:
            self.begin(&cursor, &place)
            if not self.go(&cursor, &place, key):
                return default
            return self.program.decode_place(&cursor, place.node, place.body, place.bits, self.segment.owner())
        except errors.Error as e:
            raise in_record(e, self.segment, self.store, self.index) from None
        finally:
            self.segment.leave()

    def __getitem__(self, key):
        value = self.read(key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value if self.segment is None or not self.segment.strict else self.strictly(key, value)

    def get(self, key, default=None):
        """The value of a field, or `default` if the record lacks it."""
        value = self.read(key, default)
        if value is default or self.segment is None or not self.segment.strict:
            return value
        return self.strictly(key, value)

    cdef object strictly(self, key, value):
        return hooks.module("strict_containers").watched(value, (None, self.index), key)

    # ---- All fields ----

    cdef tuple names(self):
        """The keys in order, without decoding the values."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef PyObject *described = NULL
        cdef rs_error err
        cdef uint64_t n, _
        cdef list keep = []
        if self.fields is not None:
            return tuple(self.fields)
        self.enter()
        try:
            self.begin(&cursor, &place)
            kind = open_place(self.program, &cursor, &place, &described, keep)
            if kind == STRUCT:
                return present_keys(&cursor, &place)
            if kind == NAMED:
                return (<tuple>described)[1]
            if kind == MAP:
                found = map_keys(self.program, &cursor, &place)
                if len(set(found)) != len(found):
                    raise errors.CorruptError("a dict with a repeated key")
                return tuple(found)
            if kind != DICT:
                raise errors.CorruptError("the record has changed under its reader")
            check(rs_path_any_enter(&cursor, 2, &n, &err), &err)
            keys = {}
            for _ in range(n):
                key = self.program.decode_place(&cursor, NULL, NULL, 0, None)
                hash_of_key(key)
                keys[key] = None
                check(rs_path_any_pass(&cursor, &err), &err)
            if <uint64_t>len(keys) != n:
                raise errors.CorruptError("a dict with a repeated key")
            return tuple(keys)
        except errors.Error as e:
            raise in_record(e, self.segment, self.store, self.index) from None
        finally:
            self.segment.leave()

    cdef dict plain(self):
        """The fields as a new dict."""
        if self.fields is not None:
            return dict(self.fields)
        value = self.whole()
        return dict(value) if isinstance(value, dict) else {name: self[name] for name in self.names()}

    cdef object whole(self):
        """The decoded record, as a store returns it."""
        cdef rs_cursor cursor
        cdef rs_place place
        self.enter()
        try:
            self.begin(&cursor, &place)
            return self.program.decode_place(&cursor, place.node, place.body, place.bits, self.segment.owner())
        except errors.Error as e:
            raise in_record(e, self.segment, self.store, self.index) from None
        finally:
            self.segment.leave()

    def __iter__(self):
        return iter(self.names())

    def __len__(self):
        return len(self.fields) if self.fields is not None else len(self.names())

    def __contains__(self, key):
        cdef rs_cursor cursor
        cdef rs_place place
        if self.fields is not None:
            return key in self.fields
        self.enter()
        try:
            self.begin(&cursor, &place)
            return self.go(&cursor, &place, key)
        except errors.Error as e:
            raise in_record(e, self.segment, self.store, self.index) from None
        finally:
            self.segment.leave()

    def keys(self):
        """The field names as a set-like view."""
        return KeysView(self)

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    # ---- The class of the record ----

    cdef object describe_class(self):
        """The result of `names_of` for the record's class; None for a plain record."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef PyObject *described = NULL
        cdef list keep = []
        self.enter()
        try:
            self.begin(&cursor, &place)
            if open_place(self.program, &cursor, &place, &described, keep) != NAMED:
                return None
            return <tuple>described
        except errors.Error as e:
            raise in_record(e, self.segment, self.store, self.index) from None
        finally:
            self.segment.leave()

    @property
    def class_name(self):
        """``module.qualname`` of the class of the stored value; None for a plain record."""
        if self.fields is not None:
            return self.name
        described = self.describe_class()
        return None if described is None else described[0]

    @property
    def _origin(self):
        if self.fields is not None:
            return self.origin
        described = self.describe_class()
        return None if described is None else described[3]

    @property
    def _fields(self):
        return self.plain()

    def _stored(self):
        """The value to store for this Record: the decoded record, the plain dict, or, if its class could not be made,
        the Record itself."""
        return self.whole() if self.fields is None else self if self.name is not None else self.fields

    def __eq__(self, other):
        if type(other) is Record:
            return self.class_name == other.class_name and self.plain() == (<Record>other).plain()
        if isinstance(other, AbstractMapping):
            return self.class_name is None and self.plain() == dict(other)
        if self.fields is None and self.class_name is not None:
            return self.whole() == other
        return NotImplemented

    def __hash__(self):
        return hash((self.class_name, frozenset(self.plain().items())))

    def __repr__(self):
        if self.fields is not None:
            return f"Record({'' if self.name is None else f'{self.name}: '}{self.fields!r})"
        if self.segment is None or self.segment.closed:
            return "<Record: closed>"
        names, name = self.names(), self.class_name
        more = f", and {len(names) - 8} more" if len(names) > 8 else ""
        shown = ", ".join([str(key)[:40] for key in names[:8]]) + more
        return f"<Record{'' if name is None else ' of ' + name}: {shown}>"

    def __copy__(self):
        return self if self.fields is None else Record(self.name, self.fields, _origin=self.origin)

    def __deepcopy__(self, memo):
        if self.fields is None:
            return Record(self.class_name, self.plain(), _origin=self._origin)
        from copy import deepcopy
        return Record(self.name, deepcopy(self.fields, memo), _origin=self.origin)

    def __reduce__(self):
        return record_of, (self.class_name, self.plain(), self._origin)


def record_of(class_name, fields, origin=None):
    """Makes a Record from its pickled state."""
    return Record(class_name, fields, _origin=origin)


AbstractMapping.register(Record)
rs_mark_mapping(Record)
rs_make_dicts_of_mappings(Record)

# ---- Projections ----

cdef class LazyProjection(Projection):
    """Reads mappings and objects with fields as Records, and other records as plain values."""

    def __init__(self, Path path=None, Projection base=None):
        self.path = path
        self.base = base

    cdef object read(self, Segment segment, int store, Py_ssize_t index):
        if self.base is not None:
            value = self.base.read(segment, store, index)
            return Record(None, value) if type(value) is dict else value
        cdef Record out = Record.__new__(Record)
        out.segment = segment
        out.store = store
        out.index = <uint64_t>index
        out.base = self.path
        segment.enter()
        try:
            find_record(segment, store, out.index, &out.where)
            out.program = program_at(segment, &out.where)
            if self.path is None and out.where.tree.nodes.kind == RS_FMT_NODE_STRUCT:
                return out
            return record_or_value(out)
        except errors.Error as e:
            raise in_record(e, segment, store, <uint64_t>index) from None
        finally:
            segment.leave()

    def key(self):
        return self.path, self.base

    def describe(self):
        """A tuple of plain values; `projection_from` makes an equal projection from it."""
        return "lazy", describe_path(self.path), describe_base(self.base)


cdef object record_or_value(Record out):
    """The Record itself if its value has fields, else the decoded value."""
    cdef rs_cursor cursor
    cdef rs_place place
    cdef PyObject *described = NULL
    cdef list keep = []
    out.begin(&cursor, &place)
    kind = open_place(out.program, &cursor, &place, &described, keep)
    if kind == STRUCT or kind == DICT or kind == MAP or kind == NAMED:
        return out
    out.begin(&cursor, &place)
    return out.program.decode_place(&cursor, place.node, place.body, place.bits, out.segment.owner())


cdef class FieldProjection(Projection):
    """Reads one field of each record. For a record without the field it returns the default, or raises KeyError."""

    def __init__(self, Path path, default=MISSING, Projection base=None):
        self.path = path
        self.has_default = default is not MISSING
        self.default = default if self.has_default else None
        self.base = base

    cdef object read(self, Segment segment, int store, Py_ssize_t index):
        cdef rs_record where
        cdef rs_cursor cursor
        cdef rs_place place
        cdef Program program
        if self.base is not None:
            found, _, value = self.path.keys_in(self.base.read(segment, store, index))
            if found:
                return value
        else:
            segment.enter()
            try:
                find_record(segment, store, <uint64_t>index, &where)
                program = program_at(segment, &where)
                begin_record(segment, store, &where, &cursor, &place)
                if self.path.walk(program, &cursor, &place, None):
                    return program.decode_place(&cursor, place.node, place.body, place.bits, segment.owner())
            except errors.Error as e:
                raise in_record(e, segment, store, <uint64_t>index) from None
            finally:
                segment.leave()
        if self.has_default:
            return self.default
        raise missing_field(<uint64_t>index, self.path)

    def __eq__(self, other):
        if type(other) is not FieldProjection:
            return False
        cdef FieldProjection there = <FieldProjection>other
        if self.path != there.path or self.has_default != there.has_default or self.base != there.base:
            return False
        return self.default is there.default or same_bytes(self.default, there.default)

    def __hash__(self):
        return hash((self.path, self.has_default, self.base))

    def describe(self):
        """A tuple of plain values; `projection_from` makes an equal projection from it. Raises EncodeError for a
        default that cannot be stored."""
        default = dump(self.default) if self.has_default else None
        return "field", describe_path(self.path), default, describe_base(self.base)


cdef bint same_bytes(a, b) except -1:
    """Whether two values are stored as the same bytes. `==` would return an array for arrays, and 1 == True."""
    try:
        return dump(a) == dump(b)
    except errors.EncodeError:
        return False


cdef class FieldsProjection(Projection):
    """Reads a dict of the chosen fields of each record, in the order of `paths`. A path through nested dicts gives
    nested dicts. A field that the record lacks is left out."""

    def __init__(self, paths, Path path=None, Projection base=None):
        self.path = path
        self.paths = tuple(paths)
        self.base = base

    cdef object read(self, Segment segment, int store, Py_ssize_t index):
        cdef rs_record where
        cdef rs_cursor cursor, begun_cursor
        cdef rs_place place, begun_place
        cdef Path path
        cdef Program program
        cdef Children children = None
        cdef dict out = {}
        cdef set made = set()
        cdef list keys
        if self.base is not None:
            value = self.base.read(segment, store, index)
            for path in self.paths:
                found, keys, inner = path.keys_in(value)
                if found:
                    put_nested(out, keys, inner, made)
            return out
        segment.enter()
        try:
            find_record(segment, store, <uint64_t>index, &where)
            program = program_at(segment, &where)
            begin_record(segment, store, &where, &begun_cursor, &begun_place)
            if self.path is not None and not self.path.walk(program, &begun_cursor, &begun_place, None):
                raise missing_field(<uint64_t>index, self.path)
            if len(self.paths) > SCANNED:
                children = children_of(program, begun_cursor, begun_place)
            for path in self.paths:
                cursor, place, keys = begun_cursor, begun_place, []
                if children is not None and path.only is not None:
                    found = children.go(program, &cursor, &place, path.only)
                    keys.append(path.only)
                else:
                    found = path.walk(program, &cursor, &place, keys)
                if found:
                    value = program.decode_place(&cursor, place.node, place.body, place.bits, segment.owner())
                    put_nested(out, keys, value, made)
        except errors.Error as e:
            raise in_record(e, segment, store, <uint64_t>index) from None
        finally:
            segment.leave()
        return out

    def key(self):
        return self.paths, self.path, self.base

    def describe(self):
        """A tuple of plain values; `projection_from` makes an equal projection from it."""
        paths = tuple([describe_path(path) for path in self.paths])
        return "fields", paths, describe_path(self.path), describe_base(self.base)


cdef int put_nested(dict out, list keys, value, set made) except -1:
    """Sets out[a][b][c] = value, with new dicts where they are missing; `made` has their ids. Does nothing if a dict on
    the way is itself a chosen field, because it already holds the value."""
    last = keys.pop()
    for key in keys:
        inner = out.get(key, MISSING)
        if inner is MISSING:
            inner = out[key] = {}
            made.add(id(inner))
        elif id(inner) not in made:
            return 0
        out = inner
    out[last] = value
    return 0


# ---- Projections of projections, and their bytes ----

@cython.final
cdef class WholeProjection(Projection):
    """Reads whole records, as no projection does. Projections on it read fields of the decoded records, and columns are
    not read from the stored bytes, which of lines in text files have only their places."""

    def key(self):
        return None

    def describe(self):
        """As LazyProjection.describe."""
        return ("whole",)


WHOLE = WholeProjection()


def in_place(Records records not None):
    """Whether records may be lines of text files."""
    return records.selection is not None and any([segment.in_place for segment in records.segments])


def root_of(Records records not None):
    """The projection of the records, for another projection on it."""
    return WHOLE if records.projection is None and in_place(records) else records.projection


cdef Projection stored_field(Path path, Segment segment):
    """The projection that reads one field of the records of a segment."""
    return FieldProjection(path, base=WHOLE if segment.in_place else None)


def lazy_of(Projection projection):
    """The projection that reads the records of `projection` lazily; for groups, the records of each group."""
    if projection is None:
        return LazyProjection()
    if type(projection) is LazyProjection:
        return projection
    if type(projection) is GroupProjection:
        return projection.over((<GroupProjection>projection).records.lazy())
    if is_plain_field(projection):
        return LazyProjection((<FieldProjection>projection).path)
    return LazyProjection(None, projection)


def field_of(Projection projection, name, *default):
    """The projection that reads one field of the records of `projection`; for groups, of the records of each group."""
    if type(projection) is GroupProjection:
        return projection.over((<GroupProjection>projection).records.field(name, *default))
    prefix, base = rooted(projection)
    return FieldProjection(Path(name) if prefix is None else prefix + Path(name), *default, base=base)


def fields_of(Projection projection, names):
    """The projection that reads some fields of the records of `projection`; for groups, of the records of each
    group."""
    if type(projection) is GroupProjection:
        return projection.over((<GroupProjection>projection).records.fields(*names))
    prefix, base = rooted(projection)
    return FieldsProjection([Path(name) for name in names], prefix, base)


cdef bint is_plain_field(Projection projection):
    """Whether the projection reads a field of stored records without a default, so that its path alone describes it."""
    if type(projection) is not FieldProjection:
        return False
    cdef FieldProjection field = <FieldProjection>projection
    return not field.has_default and field.base is None


cdef rooted(Projection projection):
    """Splits a projection into `(path, base)`, to build another projection on it. The result is `(path, None)` if the
    projection only reads the value at `path` of stored records (None for the whole record), else `(None, base)`: the
    projection without LazyProjections around it."""
    cdef LazyProjection lazy
    if projection is None:
        return None, None
    if type(projection) is LazyProjection:
        lazy = <LazyProjection>projection
        return (lazy.path, None) if lazy.base is None else rooted(lazy.base)
    if is_plain_field(projection):
        return (<FieldProjection>projection).path, None
    return None, projection


cdef object describe_path(Path path):
    return None if path is None else dump(path.names)


cdef object describe_base(Projection base):
    return None if base is None else base.describe()


cdef Path path_from(described):
    if described is None:
        return None
    names = load(described)
    if type(names) is not tuple or not names:
        raise errors.CorruptError("not the names of a path")
    return Path.of_names(names)


def projection_from(description):
    """The Projection for a result of `describe`; None for None. Raises CorruptError for a malformed description."""
    try:
        return make_projection(description, 32)
    except (TypeError, ValueError, IndexError) as e:
        if isinstance(e, errors.Error):
            raise
        raise errors.CorruptError(f"not the description of a projection: {e}") from None


cdef Projection make_projection(description, int depth):
    if description is None:
        return None
    if depth == 0:
        raise errors.CorruptError("a projection of too many levels")
    kind = description[0]
    if kind == "whole":
        return WHOLE
    if kind == "lazy":
        _, path, base = description
        return LazyProjection(path_from(path), make_projection(base, depth - 1))
    if kind == "field":
        _, path, default, base = description
        if path is None:
            raise errors.CorruptError("a field without a name")
        default_value = MISSING if default is None else load(default)
        return FieldProjection(path_from(path), default_value, make_projection(base, depth - 1))
    if kind == "fields":
        _, paths, path, base = description
        chosen = [path_from(described) or Path(()) for described in paths]
        return FieldsProjection(chosen, path_from(path), make_projection(base, depth - 1))
    raise errors.CorruptError(f"not a kind of projection: {kind!r:.60}")
