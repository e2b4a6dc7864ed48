"""Decodes records into Python values and raises the errors of the core.

The hot half is C (decode.h, decode.c). This file has errors, Programs, arrays and makers of ext values. decode.c calls
the functions with the prefix codec_.
"""


# The most makers of ext values that a Program keeps: hostile bytes could name any number of classes.
cdef enum:
    MAKERS = 4096

# The most memory for table entries that one store keeps as Python objects, their arrays of pointers included.
cdef enum:
    KEPT_BYTES = 1 << 20


# ---- Errors ----

cdef int raise_status(rs_error *err, path=None) except -1:
    """Raises the exception for a status of the core. `path` is the file of the failed call, or None."""
    cls = errors.STATUS_CLASSES.get(err.code, errors.Error)
    text = err.message.decode("utf-8", "replace") or rs_status_text(err.code).decode()
    if issubclass(cls, OSError):
        if err.sys_errno:
            text = text.removesuffix(f" (errno {err.sys_errno})")
        if path is not None:
            path = os.fsdecode(path)
            text = text.removesuffix(path).rstrip(" :")  # the exception shows its filename
        if err.sys_errno:
            text += f": {os.strerror(err.sys_errno)}"
        if err.sys_errno == errno.EMFILE:
            text += (f"; this process may have {os.sysconf('SC_OPEN_MAX'):,} files open, and each store is one: raise "
                     "the limit (ulimit -n), close stores, or build one store of all the records")
        number = err.sys_errno
        if err.code == RS_E_SPACE:
            number = errno.ENOSPC
        elif number == 0:
            number = errno.ENOENT if issubclass(cls, FileNotFoundError) else errno.EPERM
        failure = cls(number, text) if path is None else cls(number, text, path)
        failure._cause = err.sys_errno
        raise failure
    where = []
    if err.record != RS_NOWHERE:
        where.append(f"record {err.record}")
    if err.offset != RS_NOWHERE:
        where.append(f"byte {err.offset}")
    where.append(rs_status_name(err.code).decode())
    error = cls(f"{text} ({', '.join(where)})")
    error._status = err.code
    raise errors.of_file(error, None if path is None else os.fsdecode(path))


cdef public int codec_raise(rs_error *err) except -1:
    return raise_status(err)


cdef public int codec_corrupt(const char *what) except -1:
    cdef rs_error err
    rs_error_set(&err, RS_E_FMT_VALUE, RS_NOWHERE, b"%s", what)
    return raise_status(&err)


# ---- Called by decode.c ----

cdef inline PyObject *owned(object value):
    """A new reference, which C code owns."""
    Py_INCREF(value)
    return <PyObject *>value


cdef public PyObject *codec_bigint(const uint8_t *data, uint64_t n) except NULL:
    return owned(int.from_bytes((<const char *>data)[:n], "little", signed=True))


cdef PyObject *make_array(decode_state *c, const rs_array_type *t, bint scalar, uint32_t ndim, const uint64_t *dims,
                          const uint8_t *data, uint64_t size, object dtype) except NULL:
    cdef uint32_t i
    cdef Py_buffer view
    _arrays = hooks.module("arrays")
    memory = PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_READ)
    if dtype is None:
        dtype = _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
    if t.width != 0:
        fortran = (t.flags & RS_FMT_ARRAY_FORTRAN) != 0
        value = _arrays.empty_array(dtype, tuple([dims[i] for i in range(ndim)]), fortran)
        PyObject_GetBuffer(value, &view, PyBUF_WRITABLE | PyBUF_ANY_CONTIGUOUS)
        rs_narrow_read(data, t.width, <unsigned>t.item_bytes, view.len // t.item_bytes, 0, view.len // t.item_bytes,
                       <uint8_t *>view.buf)
        PyBuffer_Release(&view)
        if c.owner != NULL:
            value.flags.writeable = False
    elif scalar:
        value = _arrays.make_scalar(dtype, memory)
    else:
        shared = c.owner != NULL and size >= RS_FMT_ARRAY_INLINE
        if shared:
            memory = lease(<Owner>c.owner, data, <Py_ssize_t>size)
        fortran = (t.flags & RS_FMT_ARRAY_FORTRAN) != 0
        value = _arrays.make_array(dtype, tuple([dims[i] for i in range(ndim)]), fortran, memory, size, not shared)
        if c.owner != NULL and not shared:
            value.flags.writeable = False
    return owned(value)


cdef public PyObject *codec_any_array(decode_state *c) except NULL:
    cdef rs_array_type t
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint32_t ndim = 0
    cdef const uint8_t *data
    check(rs_array_type_take(&c.cursor.in_, &t, &c.err), &c.err)
    cdef uint64_t size = t.item_bytes
    if not (t.flags & RS_FMT_ARRAY_SCALAR):
        check(rs_array_shape_take(&c.cursor.in_, t.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    size = rs_array_data_bytes(t.flags, t.item_bytes, size)
    check(rs_decode_array_data(&c.cursor, size, &data, &c.err), &c.err)
    return make_array(c, &t, (t.flags & RS_FMT_ARRAY_SCALAR) != 0, ndim, dims, data, size, None)


cdef public PyObject *codec_node_array(decode_state *c, const rs_node *node, const uint8_t *body) except NULL:
    cdef rs_array_type t
    cdef rs_slice aux = rs_slice_of(node.aux, node.aux_size_bytes)
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t size = node.item_bytes
    cdef uint32_t ndim = 0
    check(rs_array_type_take(&aux, &t, &c.err), &c.err)
    cdef bint scalar = (t.flags & RS_FMT_ARRAY_SCALAR) != 0
    if node.flags & RS_FMT_FLAG_FIXED:
        check(rs_array_shape_take(&aux, node.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    elif not scalar:
        check(rs_array_shape_take(&c.cursor.in_, node.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    size = rs_array_data_bytes(t.flags, t.item_bytes, size)
    if body == NULL:
        check(rs_decode_array_data(&c.cursor, size, &body, &c.err), &c.err)
    check(rs_decode_spend_shared(&c.cursor, size, &c.err), &c.err)
    return make_array(c, &t, scalar, ndim, dims, body, size, <object>node.slot)


cdef public PyObject *codec_maker(decode_state *c, uint8_t code, const uint8_t *extra, Py_ssize_t size,
                                  void **slot) except NULL:
    return owned((<Program>c.program).maker(code, extra, size, slot))


cdef bint is_nan(object value) except -1:
    """Whether a value is a float, complex or Decimal NaN. Records never share NaNs: dicts and `in` compare identity
    first, so one NaN object in two records would count as equal."""
    if type(value) is float or type(value) is complex:
        return value != value
    # The module may lack the class while another thread imports it. Then no value is of the class.
    decimal = getattr(sys.modules.get("decimal"), "Decimal", None)
    # Not !=, which raises for a signaling NaN.
    return decimal is not None and type(value) is decimal and value.is_nan()


cdef public int codec_keep_const(decode_state *c, const rs_node *node, PyObject *value) except -1:
    if DECODE_IMMUTABLE >> node.aux[1] & 1 or node.aux[1] == RS_FMT_EXT_ENUM and (<Program>c.program).reader.trusted:
        if not is_nan(<object>value):
            (<Program>c.program).remember(<object>value, <void **>&(<rs_node *>node).slot)
    return 0


cdef public int codec_keep_entry(decode_state *c, const rs_table *table, uint32_t local, PyObject *value) except -1:
    if not is_nan(<object>value):
        (<Program>c.program).entries.keep(<rs_table *>table, local, value)
    return 0


# ---- Kept table entries ----

cdef class KeptTable:
    """The decoded entries of one table: for each an owned reference, or NULL."""
    cdef PyObject **values
    cdef uint32_t n

    def __dealloc__(self):
        cdef uint32_t i
        if self.values != NULL:
            for i in range(self.n):
                Py_XDECREF(self.values[i])
            PyMem_Free(self.values)

    @staticmethod
    cdef KeptTable of(uint32_t n):
        cdef KeptTable self = KeptTable.__new__(KeptTable)
        self.values = <PyObject **>PyMem_Calloc(n, sizeof(PyObject *))
        if self.values == NULL:
            raise MemoryError
        self.n = n
        return self


cdef class Entries:
    """The objects that all Programs of one store share: the decoded entries of its tables (the tables' slots point to
    them), the keys and templates of structs, and the cache of the keys of `any` values. The Programs keep it alive; a
    store is not read after they are gone."""

    def __cinit__(self):
        self.tables = []
        self.shapes = {}
        self.max_size = KEPT_BYTES

    def __dealloc__(self):
        cdef int i
        if self.keys != NULL:
            for i in range(DECODE_KEYS):
                Py_XDECREF(self.keys[i])
            PyMem_Free(self.keys)

    cdef PyObject **any_keys(self) except NULL:
        """The cache for decode_state.keys. Runs no Python code."""
        if self.keys == NULL:
            self.keys = <PyObject **>PyMem_Calloc(DECODE_KEYS, sizeof(PyObject *))
            if self.keys == NULL:
                raise MemoryError
        return self.keys

    cdef object shape(self, tuple keys):
        """The slot of a struct: its keys, and a dict to copy."""
        # Only shapes of str keys are shared: 1, 1.0 and True are equal, but each struct must keep its own keys.
        if not all([type(key) is str for key in keys]):
            return keys, dict.fromkeys(keys)
        shape = self.shapes.get(keys)
        if shape is None:
            shape = self.shapes.setdefault(keys, (keys, dict.fromkeys(keys)))
        return shape

    cdef int keep(self, rs_table *table, uint32_t local, PyObject *value) except -1:
        cdef KeptTable kept
        cdef Py_ssize_t size = 0, table_size = table.block.n_records * sizeof(PyObject *)
        if self.size + 64 > self.max_size:
            return 0
        size = sys.getsizeof(<object>value)
        if table.slot == NULL:
            if self.size + table_size + size > self.max_size:
                return 0
            kept = KeptTable.of(table.block.n_records)
            if table.slot == NULL:  # the allocation may have run the garbage collector, whose finalizers may read
                self.tables.append(kept)
                self.size += table_size
                table.slot = <void *>kept.values
        cdef PyObject **values = <PyObject **>table.slot
        if self.size + size <= self.max_size and values[local] == NULL:
            self.size += size
            Py_XINCREF(value)
            values[local] = value
        return 0


# ---- Programs ----

cdef Program program_of(const rs_tree *tree, object reader, list programs, Entries entries=None):
    """The Program of a compiled tree. The first call makes it and appends it to `programs`.

    The owner of the tree keeps `programs` as long as the tree. One list serves all trees of a store, with one
    `reader`. `entries` is for the first Program of a store; None makes new Entries."""
    if FREE_THREADED:
        with cython.critical_section(programs):
            return made_program(tree, reader, programs, entries)
    return made_program(tree, reader, programs, entries)


cdef Program made_program(const rs_tree *tree, object reader, list programs, Entries entries):
    """The part of program_of that only one thread at a time runs, except while it runs Python code."""
    cdef uint32_t i
    if tree.program != NULL:
        return <Program>tree.program
    if tree.n_links != 0:
        prepare_tables(tree, reader, programs, entries)
    cdef Program program = Program.__new__(Program)
    program.tree = tree
    program.begin(reader)
    program.entries = (<Program>programs[0]).entries if programs else Entries() if entries is None else entries
    made = program.prepare()
    programs.append(program)
    program.keep.append(made)
    program.entries = (<Program>programs[0]).entries
    # Another thread may have made the Program first: preparing runs Python code, and the methods of the list suspend
    # our critical section. From here on neither happens.
    if tree.program != NULL:
        return <Program>tree.program
    # Without an interpreter lock, threads cannot share a cache that replaces its objects.
    for i in range(0 if FREE_THREADED else tree.n_nodes):
        if tree.nodes[i].kind == RS_FMT_NODE_ANY:
            program.keys = program.entries.any_keys()
            break
    for i, value in made:
        tree.nodes[i].slot = <void *>value
    put_pointer(&(<rs_tree *>tree).program, <void *>program)
    return program


cdef int prepare_tables(const rs_tree *tree, object reader, list programs, Entries entries) except -1:
    """Makes the Programs for the trees of a tree's tables: decoding and walking need them."""
    cdef const rs_dict_coded *coded
    cdef uint32_t i, k
    for i in range(tree.n_nodes):
        if tree.nodes[i].kind == RS_FMT_NODE_DICT_CODED:
            coded = tree.nodes[i].coded
            for k in range(coded.n_tables):
                program_of(coded.at[k].table.tree, reader, programs, entries)
    return 0


cdef Program plain_program(object reader):
    """A Program without a tree, for single `any` values."""
    cdef Program program = Program.__new__(Program)
    program.begin(reader)
    return program


cdef PyObject *record_at(const rs_store *store, const rs_record *record, PyObject *owner) noexcept:
    """Decodes a record. Its tree must have a Program. Returns a new reference, or NULL with an exception set.

    The caller keeps the bytes mapped. Large arrays point into the bytes of `owner`, or are copied if it is NULL."""
    cdef decode_state c
    c.cursor = rs_store_cursor(store, record)
    c.program = <PyObject *>record.tree.program
    c.owner = owner
    c.work = 0
    c.keys = (<Program>record.tree.program).keys
    return decode_record(&c, record.block)


cdef class Program:
    cdef int begin(self, object reader) except -1:
        self.keep = []
        self.makers = {}
        self.reader = reader
        if reader is None:
            self.reader = trust.Reader()
        return 0

    cdef void start(self, decode_state *c):
        """Initializes `c`, except its cursor."""
        c.program = <PyObject *>self
        c.owner = NULL
        c.work = 0
        c.keys = self.keys

    cdef list prepare(self):
        """The objects for the slots of nodes, as `(node number, object)`. All decoded records share them."""
        cdef uint32_t i
        cdef const rs_node *node
        cdef decode_state c
        made = []
        self.start(&c)
        for i in range(self.tree.n_nodes):
            node = &self.tree.nodes[i]
            if node.kind == RS_FMT_NODE_STRUCT:
                begin_extra(&c, node.aux, node.aux_size_bytes)
                made.append((i, self.entries.shape(prepare_keys(&c, node.n_children))))
            elif node.kind == RS_FMT_NODE_CONST:
                if node.aux[0] in (RS_FMT_TAG_LIST, RS_FMT_TAG_TUPLE, RS_FMT_TAG_DICT, RS_FMT_TAG_NDARRAY,
                                   RS_FMT_TAG_EXT):
                    continue  # mutable, or may hold mutable values, or needs a class that may be missing
                begin_extra(&c, node.aux, node.aux_size_bytes)
                value = decode_any(&c)
                if not is_nan(value):
                    made.append((i, value))
            elif node.kind == RS_FMT_NODE_NDARRAY:
                begin_extra(&c, node.aux, node.aux_size_bytes)
                made.append((i, prepare_dtype(&c)))
        return made

    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot):
        """The function that makes an ext value from its payload. The core has checked the code and EXTRA."""
        cdef decode_state c
        head = bytes([code]) + (<const char *>extra)[:size]
        make = self.makers.get(head)
        if make is None:
            self.start(&c)
            begin_extra(&c, extra, size)
            extended = hooks.module("ext_types")
            make, keep = extended.maker(code, decode_any(&c), self.reader)
            if not keep:
                return make  # not kept, because registering its class changes the maker
            if len(self.makers) >= MAKERS:
                self.makers.clear()
            self.makers[head] = make
        if slot != NULL:
            self.remember(make, slot)
        return make

    cdef int remember(self, object value, void **slot) except -1:
        """Puts an object into a slot and keeps it alive with the Program. The slot is empty or holds an equal
        object."""
        self.keep.append(value)
        put_pointer(slot, <void *>value)
        return 0

    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner):
        """Decodes the value at a place (see rs_path.h) and moves the cursor past it. `owner` as in record_at."""
        cdef decode_state c
        self.start(&c)
        c.cursor = cursor[0]
        if owner is not None:
            c.owner = <PyObject *>owner
        value = value_at(&c, node, body, bits)
        cursor[0] = c.cursor
        return value


cdef void begin_extra(decode_state *c, const uint8_t *bytes_, size_t size):
    """Makes `c` read bytes of a tree, which never refer to the arrays of a block."""
    set_cursor(&c.cursor, bytes_, size, NULL, 0)


# The errors of hash(). numpy's dates raise ValueError without a unit, OverflowError far from 1970 with some units.
NO_HASH = (TypeError, ValueError, OverflowError)


cdef object prepare_keys(decode_state *c, uint32_t n):
    cdef uint32_t _
    keys = []
    for _ in range(n):
        key = decode_any(c)
        keys.append(sys.intern(key) if type(key) is str else key)
    try:
        distinct = len(dict.fromkeys(keys))
    except NO_HASH:
        codec_corrupt(b"a dict key that cannot be hashed")
    if distinct != n:
        codec_corrupt(b"a dict with a repeated key")
    return tuple(keys)


cdef object prepare_dtype(decode_state *c):
    cdef rs_array_type t
    _arrays = hooks.module("arrays")
    check(rs_array_type_take(&c.cursor.in_, &t, &c.err), &c.err)
    return _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
