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


cdef rs_choices choices_of(object compression) except *:
    """The choices for a level, or for a tuple of a level and the names of nodes to leave out. Raises ValueError for an
    unknown level or name."""
    level, without = compression if isinstance(compression, tuple) else (compression, ())
    if level not in LEVELS:
        raise ValueError(f"compression is one of {', '.join(LEVELS)}, not {level!r}")
    cdef rs_choices choices = rs_choices_of(<rs_level>(<int>LEVELS[level]))
    numbers = {rs_node_name(k).decode(): k for k in range(RS_FMT_NODE_LAST + 1) if rs_node_name(k) != NULL}
    for name in without:
        if name == "any" or name not in numbers:
            raise ValueError(f"a build can leave out {', '.join(forms())}, not {name!r}")
        choices.without |= <uint64_t>1 << <unsigned>numbers[name]
    return choices
