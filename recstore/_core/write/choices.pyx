"""The `compression` of a build as options of the C core (rs_choices.h)."""

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
    """Records the encodings that a Builder's planner compares for the field at `keys` (csrc/plan/rs_plan_log.h). Each
    key is a dict key; lists and tuples on the way are skipped."""

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
        """A list of `(run, keys, depth, position, kind of the values, form, chosen, values, fits, bits)`, the fields of
        rs_weighed. The builder must have finished or aborted. Raises MemoryError if entries are missing."""
        cdef uint32_t i
        cdef rs_weighed *entry
        if self.log.cut:
            raise MemoryError("the plan log has no memory for all entries")
        out = []
        for i in range(self.log.n):
            entry = &self.log.at[i]
            form = node_name(entry.kind) + (f" of {node_name(entry.child)}" if entry.child else "")
            out.append((entry.run, entry.n_keys, entry.depth, entry.position, node_name(entry.of), form, entry.chosen,
                        entry.values, entry.fits, entry.bits))
        return out


cdef rs_choices choices_of(object compression) except *:
    """The choices for a level, or for a tuple of a level, the names of nodes to leave out and, optionally, a PlanLog,
    which must outlive the builder. Raises ValueError for an unknown level or name."""
    cdef PlanLog log
    level, without, *logs = compression if isinstance(compression, tuple) else (compression, ())
    if level not in LEVELS:
        raise ValueError(f"compression is one of {', '.join(LEVELS)}, not {level!r}")
    cdef rs_choices choices = rs_choices_of(<rs_level>(<int>LEVELS[level]))
    if logs:
        log = logs[0]
        choices.log = &log.log
    numbers = {rs_node_name(k).decode(): k for k in range(RS_FMT_NODE_LAST + 1) if rs_node_name(k) != NULL}
    for name in without:
        if name == "any" or name not in numbers:
            raise ValueError(f"a build can leave out {', '.join(forms())}, not {name!r}")
        choices.without |= <uint64_t>1 << <unsigned>numbers[name]
    return choices
