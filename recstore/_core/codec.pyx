"""Records back to Python values: the only place that makes Python values, and raises what the core reports.

The hot half is C (decode.h, decode.c); here is what is cold: errors, what a tree needs before its first record, arrays,
makers of ext values. The codec_ functions are what decode.c calls.
"""


# Makers of ext values that a program keeps: hostile bytes could name any number of classes.
cdef enum:
    MAKERS = 4096

# Bytes of the entries of tables that one store keeps as objects, arrays of pointers included.
cdef enum:
    KEPT_BYTES = 1 << 20


# ---- Errors ----

cdef int raise_status(rs_error *err, path=None) except -1:
    """Raises the exception that a status of the core means to a Python caller; `path` is the file that the call was
    about."""
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
        number = err.sys_errno
        if err.code == RS_E_SPACE:
            number = errno.ENOSPC
        elif number == 0:
            number = errno.ENOENT if issubclass(cls, FileNotFoundError) else errno.EPERM
        raise cls(number, text) if path is None else cls(number, text, path)
    where = []
    if err.record != RS_NOWHERE:
        where.append(f"record {err.record}")
    if err.offset != RS_NOWHERE:
        where.append(f"byte {err.offset}")
    where.append(rs_status_name(err.code).decode())
    raise errors.of_file(cls(f"{text} ({', '.join(where)})"), None if path is None else os.fsdecode(path))


cdef public int codec_raise(rs_error *err) except -1:
    return raise_status(err)


cdef public int codec_corrupt(const char *what) except -1:
    cdef rs_error err
    rs_error_set(&err, RS_E_FMT_VALUE, RS_NOWHERE, b"%s", what)
    return raise_status(&err)


# ---- What decode.c leaves to Python ----

cdef inline PyObject *given(object value):
    """A new reference for C."""
    Py_INCREF(value)
    return <PyObject *>value


cdef public PyObject *codec_bigint(const uint8_t *data, uint64_t n) except NULL:
    return given(int.from_bytes((<const char *>data)[:n], "little", signed=True))


cdef PyObject *make_array(decode_state *c, const rs_array_type *t, bint scalar, uint32_t ndim, const uint64_t *dims,
                          const uint8_t *data, uint64_t size, object dtype) except NULL:
    cdef uint32_t i
    _arrays = hooks.module("arrays")
    memory = PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_READ)
    if dtype is None:
        dtype = _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
    if scalar:
        value = _arrays.make_scalar(dtype, memory)
    else:
        shared = c.owner != NULL and size >= RS_FMT_ARRAY_INLINE
        if shared:
            memory = lease(<Owner>c.owner, data, <Py_ssize_t>size)
        fortran = (t.flags & RS_FMT_ARRAY_FORTRAN) != 0
        value = _arrays.make_array(dtype, tuple([dims[i] for i in range(ndim)]), fortran, memory, size, not shared)
        if c.owner != NULL:
            value.flags.writeable = False
    return given(value)


cdef public PyObject *codec_any_array(decode_state *c) except NULL:
    cdef rs_array_type t
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t size
    cdef uint32_t ndim = 0
    cdef const uint8_t *data
    check(rs_array_type_take(&c.cursor.in_, &t, &c.err), &c.err)
    size = t.item_bytes
    if not (t.flags & RS_FMT_ARRAY_SCALAR):
        check(rs_array_shape_take(&c.cursor.in_, t.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    check(rs_decode_array_data(&c.cursor, size, &data, &c.err), &c.err)
    return make_array(c, &t, (t.flags & RS_FMT_ARRAY_SCALAR) != 0, ndim, dims, data, size, None)


cdef public PyObject *codec_node_array(decode_state *c, const rs_node *node, const uint8_t *body) except NULL:
    cdef rs_array_type t
    cdef rs_slice aux = rs_slice_of(node.aux, node.aux_size_bytes)
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t size = node.data_bytes
    cdef uint32_t ndim = 0
    cdef bint scalar
    check(rs_array_type_take(&aux, &t, &c.err), &c.err)
    scalar = (t.flags & RS_FMT_ARRAY_SCALAR) != 0
    if node.flags & RS_FMT_FLAG_FIXED:
        check(rs_array_shape_take(&aux, node.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    elif not scalar:
        check(rs_array_shape_take(&c.cursor.in_, node.item_bytes, &ndim, dims, &size, &c.err), &c.err)
    if body == NULL:
        check(rs_decode_array_data(&c.cursor, size, &body, &c.err), &c.err)
    check(rs_decode_spend_shared(&c.cursor, size, &c.err), &c.err)
    return make_array(c, &t, scalar, ndim, dims, body, size, <object>node.slot)


cdef public PyObject *codec_maker(decode_state *c, uint8_t code, const uint8_t *extra, Py_ssize_t size,
                                  void **slot) except NULL:
    return given((<Program>c.program).maker(code, extra, size, slot))


cdef bint is_nan(object value) except -1:
    """Whether it is a NaN of whatever type. Dicts and `in` ask for identity first, so that one object in many places
    would be one key, and would be found: each NaN that is read is an object of its own."""
    if type(value) is float or type(value) is complex:
        return value != value
    decimal = sys.modules.get("decimal")
    return decimal is not None and type(value) is decimal.Decimal and value.is_nan()  # comparing a signaling one raises


cdef public int codec_keep_const(decode_state *c, const rs_node *node, PyObject *value) except -1:
    if DECODE_IMMUTABLE >> node.aux[1] & 1 or node.aux[1] == RS_FMT_EXT_ENUM and (<Program>c.program).reader.trusted:
        if not is_nan(<object>value):
            (<Program>c.program).remember(<object>value, <void **>&(<rs_node *>node).slot)
    return 0


cdef public int codec_keep_entry(decode_state *c, const rs_table *table, uint32_t local, PyObject *value) except -1:
    if not is_nan(<object>value):
        (<Program>c.program).entries.keep(<rs_table *>table, local, value)
    return 0


# ---- Entries of tables that are kept ----

cdef class KeptTable:
    """The values of one table that are kept: an owned reference each, or NULL."""
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
    """What the slots of the tables of one store hold. Lives as long as the programs of its trees, by whom it is shared:
    whoever gives these up no longer reads the store."""

    def __cinit__(self):
        self.tables = []
        self.size = 0

    cdef int keep(self, rs_table *table, uint32_t local, PyObject *value) except -1:
        cdef KeptTable kept
        cdef PyObject **values
        cdef Py_ssize_t size = 0, table_size = table.block.n_records * sizeof(PyObject *)
        if self.size + 64 > KEPT_BYTES:
            return 0
        size = sys.getsizeof(<object>value)
        if table.slot == NULL:
            if self.size + table_size + size > KEPT_BYTES:
                return 0
            kept = KeptTable.of(table.block.n_records)
            if table.slot == NULL:  # a collection may have run code that reads the store
                self.tables.append(kept)
                self.size += table_size
                table.slot = <void *>kept.values
        values = <PyObject **>table.slot
        if self.size + size <= KEPT_BYTES and values[local] == NULL:
            self.size += size
            Py_XINCREF(value)
            values[local] = value
        return 0


# ---- Programs ----

cdef Program program_of(const rs_tree *tree, object reader, list programs):
    """The program of a compiled tree, made when it is first asked for and then held by `programs`, which whoever holds
    the tree keeps as long as it: all trees of one store, and one `reader`."""
    cdef Program program
    cdef uint32_t i
    if tree.program != NULL:
        return <Program>tree.program
    if tree.n_links != 0:
        prepare_tables(tree, reader, programs)
    program = Program.__new__(Program)
    program.tree = tree
    program.begin(reader)
    made = program.prepare()
    # Making the objects may have run Python code, and another thread may have been here meanwhile. From here on none
    # can.
    if tree.program != NULL:
        return <Program>tree.program
    program.entries = (<Program>programs[0]).entries if programs else Entries()
    programs.append(program)
    program.keep.append(made)
    for i, value in made:
        tree.nodes[i].slot = <void *>value
    (<rs_tree *>tree).program = <void *>program
    return program


cdef int prepare_tables(const rs_tree *tree, object reader, list programs) except -1:
    """Programs for the trees of a tree's tables, so that neither a decode nor a walk meets one without."""
    cdef const rs_dict_coded *coded
    cdef uint32_t i, k
    for i in range(tree.n_nodes):
        if tree.nodes[i].kind == RS_FMT_NODE_DICT_CODED:
            coded = tree.nodes[i].coded
            for k in range(coded.n_tables):
                program_of(coded.tables[k].tree, reader, programs)
    return 0


cdef Program plain_program(object reader):
    """One without a tree, for `any` values that stand alone."""
    cdef Program program = Program.__new__(Program)
    program.begin(reader)
    return program


cdef PyObject *record_at(const rs_store *store, const rs_record *record, PyObject *owner) noexcept:
    """A record whose tree has its program: a new reference, or NULL with an exception. The bytes stay mapped meanwhile;
    `owner`, NULL or an Owner, is what large arrays look into."""
    cdef decode_state c
    c.cursor = rs_store_cursor(store, record)
    c.program = <PyObject *>record.tree.program
    c.owner = owner
    c.keys = (<Program>record.tree.program).keys
    return decode_record(&c, record.tree)


cdef class Program:
    def __dealloc__(self):
        cdef int i
        if self.keys != NULL:
            for i in range(DECODE_KEYS):
                Py_XDECREF(self.keys[i])
            PyMem_Free(self.keys)

    cdef int begin(self, object reader) except -1:
        self.keep = []
        self.makers = {}
        self.reader = reader
        if reader is None:
            self.reader = trust.Reader()
        return 0

    cdef void start(self, decode_state *c):
        """Fills everything of `c` but the cursor."""
        c.program = <PyObject *>self
        c.owner = NULL
        c.keys = self.keys

    cdef list prepare(self):
        """What the slots of nodes hold: `(node number, object)`; all records that this process decodes share them."""
        cdef uint32_t i
        cdef const rs_node *node
        cdef decode_state c
        made = []
        self.start(&c)
        for i in range(self.tree.n_nodes):
            node = &self.tree.nodes[i]
            if node.kind == RS_FMT_NODE_STRUCT:
                begin_extra(&c, node.aux, node.aux_size_bytes)
                keys = prepare_keys(&c, node.n_children)
                made.append((i, (keys, dict.fromkeys(keys))))
            elif node.kind == RS_FMT_NODE_CONST:
                if node.aux[0] in (RS_FMT_TAG_LIST, RS_FMT_TAG_TUPLE, RS_FMT_TAG_DICT, RS_FMT_TAG_NDARRAY,
                                   RS_FMT_TAG_EXT):
                    continue  # mutable, or may hold what is, or of a class that may not be there
                begin_extra(&c, node.aux, node.aux_size_bytes)
                value = decode_any(&c)
                if not is_nan(value):
                    made.append((i, value))
            elif node.kind == RS_FMT_NODE_NDARRAY:
                begin_extra(&c, node.aux, node.aux_size_bytes)
                made.append((i, prepare_dtype(&c)))
            elif node.kind == RS_FMT_NODE_ANY and self.keys == NULL:
                self.keys = <PyObject **>PyMem_Calloc(DECODE_KEYS, sizeof(PyObject *))
                if self.keys == NULL:
                    raise MemoryError
        return made

    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot):
        """The function that makes values of a code and an EXTRA, which the core has checked, from their payloads."""
        cdef decode_state c
        head = bytes([code]) + (<const char *>extra)[:size]
        make = self.makers.get(head)
        if make is None:
            self.start(&c)
            begin_extra(&c, extra, size)
            extended = hooks.module("ext_types")
            make, keep = extended.maker(code, decode_any(&c), self.reader)
            if not keep:
                return make  # it depends on what is registered meanwhile
            if len(self.makers) >= MAKERS:
                self.makers.clear()
            self.makers[head] = make
        if slot != NULL:
            self.remember(make, slot)
        return make

    cdef int remember(self, object value, void **slot) except -1:
        """Keeps an object for as long as the program lives, in a slot that is empty or holds an equal one."""
        self.keep.append(value)
        slot[0] = <void *>value
        return 0

    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner):
        """The value at a place, as rs_path.h defines it; `owner` as of decode."""
        cdef decode_state c
        self.start(&c)
        c.cursor = cursor[0]
        if owner is not None:
            c.owner = <PyObject *>owner
        value = value_at(&c, node, body, bits)
        cursor[0] = c.cursor
        return value


cdef void begin_extra(decode_state *c, const uint8_t *bytes_, size_t size):
    """Makes `c` read bytes of a tree, which hold no array outside."""
    c.cursor.in_ = rs_slice_of(bytes_, size)
    c.cursor.arrays = NULL
    c.cursor.arrays_size = 0
    c.cursor.budget.values = c.cursor.budget.bytes = size
    c.cursor.budget.depth = RS_FMT_DEPTH
    c.cursor.shared = False


cdef object prepare_keys(decode_state *c, uint32_t n):
    cdef uint32_t _
    keys = []
    for _ in range(n):
        key = decode_any(c)
        keys.append(sys.intern(key) if type(key) is str else key)
    try:
        distinct = len(dict.fromkeys(keys))
    except (TypeError, ValueError):
        codec_corrupt(b"a dict key that cannot be hashed")
    if distinct != n:
        codec_corrupt(b"a dict with a key that is there twice")
    return tuple(keys)


cdef object prepare_dtype(decode_state *c):
    cdef rs_array_type t
    _arrays = hooks.module("arrays")
    check(rs_array_type_take(&c.cursor.in_, &t, &c.err), &c.err)
    return _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
