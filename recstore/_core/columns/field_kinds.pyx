"""The kinds of values of a field, from the trees and their tables: no record is decoded."""


ARRAY_DTYPES = (None, "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                "float16", "float32", "float64", "complex64", "complex128")


cdef str kind_of_dtype(str dtype):
    """The kind of a numpy scalar of this dtype."""
    if dtype is None:
        return "other"
    for kind in ("bool", "uint", "int", "float", "complex"):
        if dtype.startswith(kind):
            return "int" if kind == "uint" else kind
    return "other"


cdef class FieldKinds:
    """The kinds of values that a field may have."""

    cdef set kinds, lengths, dtypes, shapes
    cdef FieldKinds element
    cdef bint any_length, any_shape, sure

    def __cinit__(self):
        self.kinds, self.lengths, self.dtypes, self.shapes = set(), set(), set(), set()
        self.sure = True

    cdef dict as_dict(self):
        """The kinds in the form that `describe_field` returns."""
        return {
            "kinds": self.kinds,
            "element": None if self.element is None else self.element.as_dict(),
            "lengths": None if self.any_length else self.lengths,
            "dtypes": self.dtypes,
            "shapes": None if self.any_shape else self.shapes,
            "ndims": None if self.any_shape else {len(shape) for shape in self.shapes},
            "sure": self.sure and (self.element is None or self.element.sure),
        }

    cdef FieldKinds elements(self):
        self.kinds.add("list")
        if self.element is None:
            self.element = FieldKinds()
        return self.element

    cdef int add_length(self, object n) except -1:
        """Adds lists of n elements, or of any length if n is None."""
        if n is None:
            self.any_length = True
        else:
            self.lengths.add(n)
        return 0

    # ---- Values of consts, table entries and defaults ----

    cdef int add_value(self, object value, list steps, Py_ssize_t at) except -1:
        if at < len(steps):
            names = tuple([(key,) if parts is None else key for key, parts in steps[at:]])
            found, _, value = Path.of_names(names).keys_in(value)
            if not found:
                self.kinds.add("missing")
                return 0
        if isinstance(value, (list, tuple)):
            self.add_length(len(value))
            for item in value:
                self.elements().add_value(item, [], 0)
            self.elements()
        elif getattr(value, "dtype", None) is not None and getattr(value, "ndim", 0):
            self.add_array(str(value.dtype).rpartition(".")[2], tuple(value.shape))
        elif getattr(value, "dtype", None) is not None:
            self.kinds.add(kind_of_dtype(str(value.dtype)))
        elif value is None:
            self.kinds.add("none")
        else:
            kind = type(value).__name__
            self.kinds.add(kind if kind in ("bool", "int", "float", "complex", "str", "bytes") else "other")
        return 0

    cdef int add_array(self, str dtype, object shape) except -1:
        """Adds arrays of this dtype and shape. `dtype` is None if it is not numeric, `shape` is None for any shape."""
        self.kinds.add("array")
        self.dtypes.add(dtype)
        if shape is None:
            self.any_shape = True
        else:
            self.shapes.add(shape)
        return 0

    # ---- Nodes ----

    cdef int add(self, Program program, const rs_node *node, list steps, Py_ssize_t at) except -1:
        """Adds the kinds of a node. The path continues at step number `at`."""
        cdef uint32_t i
        cdef unsigned kind = node.kind
        if kind in (RS_FMT_NODE_UNION, RS_FMT_NODE_RISING, RS_FMT_NODE_RUNS, RS_FMT_NODE_EXCEPTIONS):
            for i in range(node.n_children):
                self.add(program, &node.children[i], steps, at)
        elif kind == RS_FMT_NODE_OPTIONAL:
            self.kinds.add("missing" if node.param == 0 or at < len(steps) else "none")
            self.add(program, node.children, steps, at)
        elif kind == RS_FMT_NODE_DICT_CODED:
            for i in range(node.coded.n_tables):
                self.add_table(program, node.coded.at[i].table, steps, at)
        elif kind == RS_FMT_NODE_CONST:
            self.add_value(load_any(node.aux, node.aux_size_bytes), steps, at)
        elif kind == RS_FMT_NODE_ANY or kind == RS_FMT_NODE_EXT and node.param == RS_FMT_EXT_LINE:
            self.sure = False
        elif at < len(steps):
            self.add_below(program, node, steps, at)
        elif kind == RS_FMT_NODE_NDARRAY:
            self.add_array_node(node, None)
        elif kind == RS_FMT_NODE_EXT:
            self.add_ext(node)
        elif kind == RS_FMT_NODE_LIST or kind == RS_FMT_NODE_NUMBERS or kind == RS_FMT_NODE_TUPLE:
            self.add_list(program, node)
        else:
            self.kinds.add(KINDS_OF_NODES.get(kind, "other"))
        return 0

    cdef int add_table(self, Program program, const rs_table *table, list steps, Py_ssize_t at) except -1:
        """Adds the kinds of the entries of a table. Reads the entries if the root of its tree is an any node."""
        cdef const rs_node *root = table.tree.nodes
        cdef rs_slice entry
        cdef rs_error err
        cdef uint32_t i
        if root.kind != RS_FMT_NODE_ANY:
            return self.add(program, root, steps, at)
        for i in range(table.block.n_records):
            check(rs_offsets_locate(table.segment, &table.block, i, &entry, &err), &err)
            self.add_value(load_any(entry.ptr, rs_slice_left(&entry)), steps, at)
        return 0

    cdef int add_list(self, Program program, const rs_node *node) except -1:
        cdef uint32_t i
        if node.kind == RS_FMT_NODE_TUPLE:
            self.add_length(node.n_children)
            self.elements()
            for i in range(node.n_children):
                self.element.add(program, &node.children[i], [], 0)
            return 0
        self.add_length(node.count if node.flags & RS_FMT_FLAG_FIXED else None)
        return self.elements().add(program, node.children, [], 0)

    cdef int add_array_node(self, const rs_node *node, str dtype) except -1:
        """Adds an array or numpy scalar. `dtype` is that of a tensor whose items are stored as integers, else None."""
        cdef rs_array_type stored
        cdef rs_error err
        cdef uint32_t ndim = 0, d
        cdef uint64_t size, dims[RS_FMT_ARRAY_NDIM]
        cdef rs_slice aux = rs_slice_of(node.aux, node.aux_size_bytes)
        check(rs_array_type_take(&aux, &stored, &err), &err)
        if dtype is None and stored.code < len(ARRAY_DTYPES):
            dtype = ARRAY_DTYPES[stored.code]
        if stored.flags & RS_FMT_ARRAY_SCALAR:
            self.kinds.add(kind_of_dtype(dtype))
        elif node.flags & RS_FMT_FLAG_FIXED:
            check(rs_array_shape_take(&aux, stored.item_bytes, &ndim, dims, &size, &err), &err)
            self.add_array(dtype, tuple([dims[d] for d in range(ndim)]))
        else:
            self.add_array(dtype, None)
        return 0

    cdef int add_ext(self, const rs_node *node) except -1:
        cdef const rs_node *payload = node.children
        if node.param == RS_FMT_EXT_COMPLEX:
            self.kinds.add("complex")
        elif node.param == RS_FMT_EXT_TENSOR:
            if payload.kind != RS_FMT_NODE_NDARRAY:
                self.sure = False
                return 0
            self.add_array_node(payload, load_any(node.aux, node.aux_size_bytes))
        else:
            self.kinds.add("other")
        return 0

    cdef int add_below(self, Program program, const rs_node *node, list steps, Py_ssize_t at) except -1:
        """Adds the kinds below a node. The path continues at step number `at`."""
        cdef Py_ssize_t i
        cdef int32_t to
        key, parts = steps[at]
        if node.kind == RS_FMT_NODE_STRUCT:
            i = find_child(program, node, key)
            lacks = i < 0 or (node.children[i].kind == RS_FMT_NODE_OPTIONAL and node.children[i].param == 0)
            if i >= 0:
                self.add(program, &node.children[i], steps, at + 1)
            if lacks and parts is not None:
                self.add(program, node, [(part, None) for part in parts] + steps[at + 1:], 0)
            elif i < 0:
                self.kinds.add("missing")
        elif node.kind == RS_FMT_NODE_EXT:
            to = within_ext(node, key)
            if to == RS_STEP_OPEN:
                self.add(program, node.children, steps, at)
            elif to >= 0 and node.children.kind == RS_FMT_NODE_TUPLE and <uint32_t>to < node.children.n_children:
                self.add(program, &node.children.children[to], steps, at + 1)
            elif to == RS_STEP_NONE:
                self.kinds.add("missing")
            else:
                self.sure = False
        elif node.kind == RS_FMT_NODE_MAP:
            self.sure = False
        elif PyIndex_Check(key) and node.kind == RS_FMT_NODE_TUPLE:
            i = clipped_index(key, NULL)
            if -<Py_ssize_t>node.n_children <= i < <Py_ssize_t>node.n_children:
                self.add(program, &node.children[i % <Py_ssize_t>node.n_children], steps, at + 1)
            else:
                self.kinds.add("missing")
        elif PyIndex_Check(key) and (node.kind == RS_FMT_NODE_LIST or node.kind == RS_FMT_NODE_NUMBERS):
            i = clipped_index(key, NULL)
            within = -<Py_ssize_t>node.count <= i < <Py_ssize_t>node.count
            fixed = node.flags & RS_FMT_FLAG_FIXED
            if within or not fixed:
                self.add(program, node.children, steps, at + 1)
            if not (within and fixed):
                self.kinds.add("missing")
        else:
            self.kinds.add("missing")
        return 0


KINDS_OF_NODES = {
    RS_FMT_NODE_INT: "int", RS_FMT_NODE_BOOL: "bool", RS_FMT_NODE_FLOAT: "float", RS_FMT_NODE_DECIMAL: "float",
    RS_FMT_NODE_STR: "str", RS_FMT_NODE_SYMBOLS: "str", RS_FMT_NODE_CONCAT: "str", RS_FMT_NODE_DIGITS: "str",
    RS_FMT_NODE_HEX: "str", RS_FMT_NODE_ALPHABET: "str", RS_FMT_NODE_BYTES: "bytes",
}


def describe_field(container, path=None):
    """Describes a field by the trees of all blocks of the known leaves. `path` is a name as x.field() takes it; None is
    the whole record.

    Returns a dict:
        kinds: a set of "bool", "int", "float", "complex", "str", "bytes", "list" (tuples too), "array" (tensors too),
            "none", "missing" and "other". A numpy scalar counts as a number.
        element: such a dict for the elements of lists, else None.
        lengths: the set of the lists' lengths; None if a tree does not fix them.
        dtypes: the set of the names of the arrays' dtypes, with None for a dtype that is not numeric.
        shapes, ndims: the sets of the arrays' shapes and numbers of dimensions; None if a tree does not fix them.
        sure: False if a tree leaves a kind open, as `any` nodes and maps do.

    A view may have fewer kinds than its stores. Takes time proportional to the number of blocks, not of records. Raises
    TypeError, KeyError and the errors of reading trees, as Gather does.
    """
    cdef FieldKinds out = FieldKinds()
    cdef Segment segment
    cdef const rs_block *block
    cdef rs_store *store
    cdef uint64_t i
    cdef set seen
    cdef Path stored
    cdef Records records = records_in(container)
    stored, default = stored_path(records.projection, None if path is None else Path(path))
    if default is not MISSING:
        out.add_value(default, [], 0)
    steps = [] if stored is None else stored.steps
    for segment, number in records.selection.known_leaves():
        segment.enter()
        try:
            store, seen = segment.numbered(number), set()
            for i in range(store.n_blocks):
                block = segment.know_block(store, i)
                if block.tree not in seen:
                    seen.add(block.tree)
                    program = <Program>segment.program(&store.trees[block.tree])
                    out.add(program, store.trees[block.tree].nodes, steps, 0)
        except errors.Error as e:
            raise errors.of_file(e, segment.file())
        finally:
            segment.leave()
    return out.as_dict()
