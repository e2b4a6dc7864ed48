"""The lower bound for the benchmarks: makes the objects of a record without decoding bytes. Nothing else uses it."""

cdef extern from "Python.h":
    # The new_ functions return owned references as plain pointers, which Cython does not count.
    PyObject *new_unicode "PyUnicode_New"(Py_ssize_t n, uint32_t widest)
    void *unicode_data "PyUnicode_DATA"(PyObject *)
    PyObject *new_long "PyLong_FromLongLong"(long long)
    PyObject *new_float "PyFloat_FromDouble"(double)
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t)
    PyObject *new_list "PyList_New"(Py_ssize_t)
    PyObject *new_tuple "PyTuple_New"(Py_ssize_t)
    PyObject *new_dict "PyDict_New"()
    int dict_set "PyDict_SetItem"(PyObject *, PyObject *, PyObject *) except -1
    void list_put "PyList_SET_ITEM"(PyObject *, Py_ssize_t, PyObject *)
    void tuple_put "PyTuple_SET_ITEM"(PyObject *, Py_ssize_t, PyObject *)


def rebuild(object value):
    """A deep copy of a value made of str, bytes, float, int, list, tuple and dict. Shares dict keys and other values.

    >>> rebuild({"a": [1, 2.5, "x"]})
    {'a': [1, 2.5, 'x']}
    """
    cdef PyObject *copy = copy_value(value, 1000)
    out = <object>copy
    Py_DECREF(copy)
    return out


cdef PyObject *copy_value(object value, int depth) except NULL:
    cdef PyTypeObject *t = Py_TYPE(value)
    cdef PyObject *out, *item, *key, *original
    cdef Py_ssize_t n, i, pos = 0
    cdef int overflow = 0
    cdef long long number
    if depth == 0:
        raise RecursionError("a value nested too deep to copy")
    if t == &PyFloat_Type:
        return new_float(PyFloat_AS_DOUBLE(value))
    if t == &PyUnicode_Type:
        n = PyUnicode_GET_LENGTH(value)
        if n == 0 or (n == 1 and PyUnicode_KIND(value) == 1):
            Py_INCREF(value)
            return <PyObject *>value
        out = new_unicode(n, 127 if value.isascii() else 255 if PyUnicode_KIND(value) == 1
                          else 0xFFFF if PyUnicode_KIND(value) == 2 else 0x10FFFF)
        if out == NULL:
            return NULL
        memcpy(unicode_data(out), PyUnicode_DATA(value), n * PyUnicode_KIND(value))
        return out
    if t == &PyLong_Type:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            return new_long(number)
    elif t == &PyList_Type:
        n = PyList_GET_SIZE(value)
        out = new_list(n)
        for i in range(n):
            list_put(out, i, copy_value(<object>PyList_GET_ITEM(value, i), depth - 1))
        return out
    elif t == &PyTuple_Type:
        n = PyTuple_GET_SIZE(value)
        out = new_tuple(n)
        for i in range(n):
            tuple_put(out, i, copy_value(<object>PyTuple_GET_ITEM(value, i), depth - 1))
        return out
    elif t == &PyDict_Type:
        out = new_dict()
        while PyDict_Next(value, &pos, &key, &original):
            item = copy_value(<object>original, depth - 1)
            dict_set(out, key, item)
            Py_DECREF(item)
        return out
    elif t == &PyBytes_Type:
        return new_bytes(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    Py_INCREF(value)
    return <PyObject *>value
