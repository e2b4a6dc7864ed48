"""Packed rows of tokens that lie in memory, as Gather.read returns those of records."""


TOKEN_CODES = {"b": 2, "h": 3, "i": 4, "l": 5, "q": 5, "B": 6, "H": 7, "I": 8, "L": 9, "Q": 9}  # as in FORMAT.md


def gather_rows(GatherSpec spec not None, tokens, starts, counts, ends, allocate):
    """The parts of a packed field, as Gather.read returns them, from tokens that lie one after another in memory:
    `counts` tokens of each document, from its token `starts` on. If `ends` is None, whole documents are packed here;
    else it has the ends of the rows, as in Gather.read. `tokens` is a contiguous buffer of ints. Raises ValueError for
    a token that the dtype of the spec cannot hold, and for a document that is too long for its row."""
    cdef Span values = Span.of(tokens, memoryview(tokens).itemsize), sizes = Span.of(counts, 8), buffer
    cdef Py_ssize_t i, n = sizes.n
    cdef GivenRows given = None if ends is None else GivenRows(n, starts, counts, ends, True)
    cdef uint64_t size = 0, at = 0
    cdef rs_gather core
    cdef rs_run run
    cdef rs_error err
    cdef rs_status status = RS_OK
    memset(&run, 0, sizeof(run))
    run.kind, run.code = RS_RUN_ITEMS, TOKEN_CODES[memoryview(tokens).format]
    check(rs_gather_open(&core, &spec.core, 1, &err), &err)
    try:
        check(rs_gather_begin(&core, n, &err), &err)
        if given is not None:
            rs_gather_give(&core, &given.core)
        for i in range(n):
            run.n = sizes.ints[i]
            if run.n > <uint64_t>values.n - at:
                raise ValueError(f"the rows have more tokens than the {values.n} that were read")
            run.data = <const uint8_t *>values.view.buf + at * values.view.itemsize
            run.at, at = run.n * values.view.itemsize, at + run.n
            check(rs_gather_add_run(core.fields, &run, &err), &err)
        check(rs_gather_layout(&core, &size, &err), &err)
        if core.stop.why != RS_GATHER_DONE:
            raise ValueError(f"a document of {core.stop.number} tokens is longer than a row of {spec.core.length}: "
                             "truncate=True cuts it")
        buffer = Span.of(allocate(size), 1, True)
        with nogil:
            status = rs_gather_fill(&core, <uint8_t *>buffer.view.buf, &err)
        check(status, &err)
        if core.stop.why != RS_GATHER_DONE:
            raise ValueError(f"a token does not fit {DTYPE_NAMES[spec.core.dtype]}: give the field another dtype=")
        return tuple(arrays_of(core.fields))
    finally:
        rs_gather_close(&core)
