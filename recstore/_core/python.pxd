# The parts of Python's C API and of threads.h that the core uses, declared here because Cython's cpython.* modules give
# borrowed references other types.
from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t

cdef extern from "Python.h":
    object PyUnicode_EncodeFSDefault(object)  # os.fsencode of a str, also at interpreter exit
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyUnicode_Type, PyFloat_Type, PyLong_Type, PyBytes_Type, PyComplex_Type
    PyTypeObject PyList_Type, PyTuple_Type, PyDict_Type, PyFrozenSet_Type
    PyTypeObject *Py_TYPE(object)
    void Py_DECREF(PyObject *)
    Py_ssize_t Py_REFCNT(PyObject *)

    int PyUnicode_READY(object) except -1
    int PyUnicode_KIND(object)
    void *PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    object PyUnicode_Decode(const char *, Py_ssize_t size, const char *encoding, const char *errors)
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t size, const char *errors)

    double PyFloat_AS_DOUBLE(object)
    double PyOS_string_to_double(const char *, char **end, PyObject *overflow) except? -1
    bint PyLong_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object, int *overflow) except? -1

    char *PyBytes_AS_STRING(object)
    Py_ssize_t PyBytes_GET_SIZE(object)
    object PyBytes_FromStringAndSize(const char *, Py_ssize_t)

    Py_ssize_t PyList_GET_SIZE(object)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    PyObject *tuple_get "PyTuple_GET_ITEM"(PyObject *, Py_ssize_t)
    Py_ssize_t PyDict_GET_SIZE(object)
    Py_ssize_t PySequence_Fast_GET_SIZE(object)
    PyObject **PySequence_Fast_ITEMS(object)
    int PyDict_Next(object, Py_ssize_t *pos, PyObject **key, PyObject **value)

    bint PyIndex_Check(object)
    bint PySlice_Check(object)
    Py_ssize_t PyNumber_AsSsize_t(object, object) except? -1
    # With NULL for the exception, an int that does not fit becomes the largest or smallest Py_ssize_t.
    Py_ssize_t clipped_index "PyNumber_AsSsize_t"(object, void *) except? -1

    bint PyObject_CheckBuffer(object)
    int PyObject_GetBuffer(object, Py_buffer *view, int flags) except -1
    int PyBuffer_FillInfo(Py_buffer *view, object exporter, void *buf, Py_ssize_t n, int readonly, int flags) except -1
    void PyBuffer_Release(Py_buffer *view)
    const char *PyByteArray_AS_STRING(object)
    int PyBUF_SIMPLE, PyBUF_CONTIG, PyBUF_CONTIG_RO, PyBUF_RECORDS_RO, PyBUF_READ, PyBUF_WRITABLE, PyBUF_ANY_CONTIGUOUS
    object PyMemoryView_FromMemory(char *mem, Py_ssize_t size, int flags)

    int PyObject_RichCompareBool(object, object, int) except -1
    int Py_EQ
    int PyErr_CheckSignals() except -1

    bint PyCapsule_IsValid(object, const char *name)
    void *PyCapsule_GetPointer(object, const char *name) except NULL
    int Py_IsInitialized() nogil
    ctypedef void (*PyCapsule_Destructor)(object)
    object PyCapsule_New(void *pointer, const char *name, PyCapsule_Destructor destructor)

    void prefetch "__builtin_prefetch"(const void *)

cdef extern from "threads.h":
    enum:
        FREE_THREADED
    bint flag_of(const bint *) noexcept nogil
    void set_flag(bint *) noexcept nogil
    Py_ssize_t count_up(Py_ssize_t *, Py_ssize_t n) noexcept nogil
    Py_ssize_t count_of(const Py_ssize_t *) noexcept nogil
    void set_count(Py_ssize_t *, Py_ssize_t n) noexcept nogil
    void *pointer_at(void **) noexcept nogil
    void put_pointer(void **, void *) noexcept nogil
