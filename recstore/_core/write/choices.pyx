"""The `compression` of a build as the C core takes it: rs_choices.h."""

LEVELS = {"none": RS_LEVEL_NONE, "fast": RS_LEVEL_FAST, "auto": RS_LEVEL_AUTO, "small": RS_LEVEL_SMALL}


def forms():
    """The names of the nodes that a build can leave out, in the order of FORMAT.md: all but `any`.

    >>> forms()[:2]
    ['const', 'int']
    """
    return [
        rs_node_name(kind).decode()
        for kind in range(RS_FMT_NODE_LAST + 1)
        if kind != RS_FMT_NODE_ANY and rs_node_name(kind) != NULL
    ]


cdef class PlanLog:
    """Keeps what the planner of a Builder weighs for the field that `keys` lead to (csrc/plan/rs_plan_log.h). Each key
    is a key of dicts; lists and tuples on the way are passed."""

    cdef rs_plan_log log
    cdef rs_buffer bytes_
    cdef rs_slice *keys

    def __cinit__(self, keys):
        cdef list ends = [0]
        cdef Py_ssize_t i
        for key in keys:
            encode_value(&self.bytes_, NULL, key)
            ends.append(self.bytes_.size_bytes)
        self.keys = <rs_slice *>PyMem_Calloc(len(ends), sizeof(rs_slice))
        if self.keys == NULL:
            raise MemoryError
        for i in range(len(ends) - 1):
            self.keys[i] = rs_slice_of(self.bytes_.data + <size_t>ends[i], <size_t>(ends[i + 1] - ends[i]))
        self.log.keys = self.keys
        self.log.n_keys = <uint32_t>(len(ends) - 1)

    def __dealloc__(self):
        rs_plan_log_clear(&self.log)
        rs_buffer_clear(&self.bytes_)
        PyMem_Free(self.keys)

    def entries(self):
        """A list of `(run, keys, depth, position, kind of the values, form, chosen, values, fits, bits)`, as
        rs_weighed has them. The builder must have finished or aborted. Raises MemoryError if entries are missing."""
        cdef uint32_t i
        cdef rs_weighed *one
        if self.log.cut:
            raise MemoryError("no memory for all that was weighed")
        out = []
        for i in range(self.log.n):
            one = &self.log.at[i]
            form = node_name(one.kind) + (f" of {node_name(one.child)}" if one.child else "")
            out.append((one.run, one.n_keys, one.depth, one.position, node_name(one.of), form, one.chosen,
                        one.values, one.fits, one.bits))
        return out


cdef rs_choices choices_of(object given) except *:
    """The choices for a word of LEVELS, or for a tuple of a word, the names of nodes that no tree may have and, maybe,
    a PlanLog, which must outlive the builder. Raises ValueError for other words and names."""
    cdef PlanLog log
    word, without, *logs = given if isinstance(given, tuple) else (given, ())
    if word not in LEVELS:
        raise ValueError(f"compression is one of {', '.join(LEVELS)}, not {word!r}")
    cdef rs_choices choices = rs_choices_of(<rs_level>(<int>LEVELS[word]))
    if logs:
        log = logs[0]
        choices.log = &log.log
    numbers = {rs_node_name(k).decode(): k for k in range(RS_FMT_NODE_LAST + 1) if rs_node_name(k) != NULL}
    for name in without:
        if name == "any" or name not in numbers:
            raise ValueError(f"a build can leave out {', '.join(forms())}, not {name!r}")
        choices.without |= <uint64_t>1 << <unsigned>numbers[name]
    return choices
